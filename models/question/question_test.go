package question_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/question"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

func TestMain(m *testing.M) { os.Exit(testenv.Run(m)) }

var limits = inputs.Limits{VocabSize: 100, TypeVocabSize: 2, MaxLength: 64}

// questionFile is the output of testdata/question.py.
type questionFile struct {
	MaxLength int `json:"max_length"`
	Stride    int
	Examples  []struct {
		ID, Question, Context string
		Answers               struct {
			Text  []string
			Start []int `json:"answer_start"`
		}
	}
	Features []struct {
		Example int
		IDs     []int64 `json:"input_ids"`
		Types   []int64 `json:"token_type_ids"`
		Start   int64
		End     int64
		Offsets []*[2]int
	}
	Start, End [][]float32
	Answers    []struct {
		Settings struct {
			Best      int     `json:"n_best_size"`
			MaxLength int     `json:"max_answer_length"`
			NoAnswers bool    `json:"version_2_with_negative"`
			Threshold float64 `json:"null_score_diff_threshold"`
		}
		Best []string
		All  [][]struct {
			Text        string
			Probability float64
			Start       float32 `json:"start_logit"`
			End         float32 `json:"end_logit"`
		}
	}
}

// read returns the file and the samples of all examples, in order.
func read(t *testing.T) (f questionFile, samples []question.Sample) {
	t.Helper()
	file, err := os.ReadFile("testdata/question.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(file, &f))
	tok, err := text.LoadTokenizer("testdata/tokenizer.json")
	require.NoError(t, err)
	for _, e := range f.Examples {
		x := question.Example{ID: e.ID, Question: e.Question, Context: e.Context}
		for i, a := range e.Answers.Text {
			x.Answers = append(x.Answers, question.Answer{Text: a, Start: e.Answers.Start[i]})
		}
		made, err := question.Features(tok, x, limits, 2, question.FeatureOptions{MaxLength: f.MaxLength,
			Stride: f.Stride})
		require.NoError(t, err)
		samples = append(samples, made...)
	}
	return f, samples
}

func TestFeaturesAreThoseOfRunQA(t *testing.T) {
	f, samples := read(t)
	require.Len(t, samples, len(f.Features))
	answered := 0
	for i, want := range f.Features {
		got, name := samples[i], fmt.Sprintf("sample %d", i)
		assert.Equal(t, want.IDs, got.InputIDs, name)
		assert.Equal(t, want.Types, got.TokenTypeIDs, name)
		// run_qa takes [SEP] if the answer ends with the last token of a part.
		if want.Start > want.End {
			want.Start--
		}
		assert.Equal(t, [2]int64{want.Start, want.End}, [2]int64{got.Start, got.End}, name)
		for k, o := range want.Offsets {
			span := text.Span{Start: -1, End: -1}
			if o != nil {
				span = text.Span{Start: o[0], End: o[1]}
			}
			assert.Equal(t, span, got.Offsets[k], "%s, token %d", name, k)
		}
		if want.End > 0 {
			answered++
		}
	}
	require.Greater(t, answered, 5, "samples with an answer")
	require.Greater(t, len(samples), len(f.Examples), "some texts are split")
}

func TestAnswersAreThoseOfRunQA(t *testing.T) {
	f, samples := read(t)
	scores := make([][]question.Scores, len(f.Examples))
	for i, s := range samples {
		at := f.Features[i].Example
		scores[at] = append(scores[at], question.Scores{Sample: s, Start: f.Start[i], End: f.End[i]})
	}
	for _, c := range f.Answers {
		o := question.AnswerOptions{NoAnswers: c.Settings.NoAnswers, Best: c.Settings.Best,
			MaxLength:     c.Settings.MaxLength,
			NullThreshold: c.Settings.Threshold}
		t.Run(fmt.Sprintf("%+v", o), func(t *testing.T) {
			for i, want := range c.Best {
				got := question.Answers(scores[i], o)
				assert.Equal(t, want, got[0].Text, "example %d", i)
				require.Len(t, got, len(c.All[i]), "example %d", i)
				for _, w := range c.All[i] {
					assert.Contains(t, got, question.Predicted{Text: w.Text, Start: w.Start, End: w.End,
						Probability: nearest(got, w.Probability)}, "example %d", i)
				}
			}
		})
	}
}

// nearest returns the probability among the answers that equals p except for rounding errors of
// float32, or p.
func nearest(answers []question.Predicted, p float64) float64 {
	for _, a := range answers {
		if d := a.Probability - p; d < 1e-6 && d > -1e-6 {
			return a.Probability
		}
	}
	return p
}

// spans is the smallest model that finds answers.
type spans struct {
	Embedding *nn.Embedding `module:"embedding"`
}

func (s *spans) Forward(ids, _, _ torch.Tensor) torch.Tensor { return s.Embedding.Forward(ids) }
func (s *spans) Head() classify.Head                         { return classify.Head{} }
func (s *spans) Limits() inputs.Limits                       { return limits }
func (s *spans) WriteConfig(string) error                    { return nil }

// TestEvaluationPutsSamplesTogether checks that a model that knows the right starts and ends
// answers every question, although texts are divided into samples, batches and processes.
func TestEvaluationPutsSamplesTogether(t *testing.T) {
	testenv.RequireTorch(t)
	f, samples := read(t)
	var known []question.Sample
	for i, s := range samples {
		if f.Features[i].End == 0 {
			continue
		}
		// If an answer starts or ends within a token, the whole token is found. SQuAD's metric
		// removes punctuation, so an answer that consists only of punctuation is empty.
		a := s.Example.Answers[0]
		end := a.Start + utf8.RuneCountInString(a.Text)
		if s.Offsets[s.Start].Start == a.Start && s.Offsets[s.End].End == end && strings.ContainsFunc(a.Text,
			unicode.IsLetter) {
			known = append(known, s)
		}
	}
	require.Greater(t, len(known), 5)
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprint("shared ", shared), func(t *testing.T) {
			torch.Scope(func() {
				task, err := question.NewTask(&spans{nn.NewEmbedding(100, 2, nil)}, question.TaskOptions{})
				require.NoError(t, err)
				for first := 0; first < len(known); first += 3 {
					b, err := task.Collate(known[first:min(first+3, len(known))])
					require.NoError(t, err)
					o := task.Predict(engine.ForwardPass{}, b)
					for i, labels := range [][]int64{b.Start, b.End} {
						o.Logits[i] = torch.From(labels,
							int64(len(labels))).OneHot(o.Logits[i].Size(1)).ToDType(torch.Float32)
					}
					task.Observe(b, o)
					if shared {
						part, err := task.TakeObserved(b.InputIDs.Rows)
						require.NoError(t, err)
						require.NoError(t, task.AddObserved(part))
					}
				}
				assert.Equal(t, map[string]float64{"exact_match": 100, "f1": 100}, task.Metrics())
				assert.Equal(t, map[string]float64{"exact_match": 0, "f1": 0}, task.Metrics(),
					"an evaluation starts without samples")
			})
		})
	}
}

// TestSamplesWithoutAnExampleHaveNoMetrics: programs may train with token positions only.
func TestSamplesWithoutAnExampleHaveNoMetrics(t *testing.T) {
	testenv.RequireTorch(t)
	task, err := question.NewTask(&spans{nn.NewEmbedding(100, 2, nil)}, question.TaskOptions{})
	require.NoError(t, err)
	plain := question.Sample{Text: inputs.Text{InputIDs: []int64{2, 7, 3}}, Start: 1, End: 1}
	known := plain
	known.Example = &question.Example{Context: "x", Answers: []question.Answer{{Text: "x"}}}
	known.Offsets = []text.Span{{Start: -1, End: -1}, {Start: 0, End: 1}, {Start: -1, End: -1}}
	evaluate := func(samples ...question.Sample) (m map[string]float64) {
		torch.Scope(func() {
			b, err := task.Collate(samples)
			require.NoError(t, err)
			task.Observe(b, task.Predict(engine.ForwardPass{}, b))
			m = task.Metrics()
		})
		return m
	}
	assert.Empty(t, evaluate(plain, plain))
	assert.Equal(t, map[string]float64{"exact_match": 100, "f1": 100}, evaluate(plain, known, plain))
	assert.Empty(t, question.Answers([]question.Scores{{Sample: plain, Start: []float32{1}, End: []float32{1}}},
		question.AnswerOptions{}))

	known.Offsets = known.Offsets[1:]
	_, err = task.Collate([]question.Sample{plain, known})
	require.ErrorContains(t, err, "there are 2 Offsets for 3 tokens")
}

func TestMistakesAreNamed(t *testing.T) {
	testenv.RequireTorch(t)
	tok, err := text.LoadTokenizer("testdata/tokenizer.json")
	require.NoError(t, err)
	_, err = question.Features(tok, question.Example{}, limits, 2, question.FeatureOptions{MaxLength: 65})
	require.ErrorContains(t, err, "want a length up to 64")
	_, err = question.Features(tok, question.Example{ID: "7", Question: "who won the game super bowl", Context: "x"},
		limits, 2,
		question.FeatureOptions{MaxLength: 6, Stride: 2})
	require.ErrorContains(t, err, `example "7"`)
	for answer, want := range map[question.Answer]string{
		{Text: "one", Start: 6}:  `Answers[0] is "one", but from character 6 on the text is " on"`,
		{Text: "one", Start: -1}: `Answers[0] is "one" from character -1 on; the text has 10 characters`,
		{Text: "one", Start: 8}:  "Answers[0] is \"one\" from character 8 on",
		{Text: "one", Start: 7}:  "",
	} {
		_, err = question.Features(tok, question.Example{Question: "who", Context: "née àà one",
			Answers: []question.Answer{answer}}, limits, 2, question.FeatureOptions{})
		if want == "" {
			require.NoError(t, err)
			continue
		}
		require.ErrorContains(t, err, want)
	}
	m := &spans{nn.NewEmbedding(100, 2, nil)}
	_, err = question.NewTask(m, question.TaskOptions{Answers: question.AnswerOptions{Best: -1}})
	require.ErrorContains(t, err, "Best -1")
	task, err := question.NewTask(m, question.TaskOptions{})
	require.NoError(t, err)
	_, err = engine.New(task, engine.Options{LabelSmoothing: 0.1})
	require.ErrorContains(t, err, "question: Options.LabelSmoothing is 0.1; want 0")
	_, err = task.Collate([]question.Sample{{Text: inputs.Text{InputIDs: []int64{1}}, Start: -1}})
	require.ErrorContains(t, err, "Start is -1")
}
