package tokenclass_test

import (
	"context"
	"fmt"
	"io"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/tokenclass"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

func TestMain(m *testing.M) { os.Exit(testenv.Run(m)) }

var labels = []string{"O", "B-LOC", "I-LOC", "B-PER"}

// tagger is the smallest model that classifies tokens: the token with the id 10+c has the class c.
type tagger struct {
	Embedding *nn.Embedding `module:"embedding"`
}

func newTagger() *tagger {
	m := &tagger{nn.NewEmbedding(20, 4, nil)}
	torch.NoGrad(func() {
		m.Embedding.Weight.Zero_()
		for c := range int64(4) {
			m.Embedding.Weight.Select(0, 10+c).Select(0, c).Fill_(1)
		}
	})
	return m
}

func (m *tagger) Forward(ids, _, _ torch.Tensor) torch.Tensor { return m.Embedding.Forward(ids) }
func (m *tagger) Head() classify.Head                         { return classify.Head{NumLabels: 4, ID2Label: labels} }
func (m *tagger) Limits() inputs.Limits                       { return inputs.Limits{VocabSize: 20, MaxLength: 8} }
func (m *tagger) WriteConfig(string) error                    { return nil }

func TestLabelsOfWordsBecomeThoseOfTokens(t *testing.T) {
	tok, err := text.NewBert(map[string]int64{"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "new": 5,
		"##s": 6,
		"##y": 7, "york": 8, "in": 9}, text.BertOptions{})
	require.NoError(t, err)
	e, err := tok.EncodeInput(text.Input{Words: []string{"in", "newsy", "yorks"}}, nil) // in new ##s ##y york ##s
	require.NoError(t, err)
	const no = tokenclass.Ignored
	for _, c := range []struct {
		name   string
		pieces tokenclass.Pieces
		words  []int64
		want   []int64
	}{
		{"the first piece alone", tokenclass.FirstPiece, []int64{0, 1, 2}, []int64{no, 0, 1, no, no, 2, no, no}},
		{"every piece, I- behind B-", tokenclass.EveryPiece, []int64{0, 1, 2}, []int64{no, 0, 1, 2, 2, 2, 2, no}},
		{"a B- without its I- stays", tokenclass.EveryPiece, []int64{0, 3, 0}, []int64{no, 0, 3, 3, 3, 0, 0, no}},
	} {
		got, err := tokenclass.Align(e, c.words, c.pieces, labels)
		require.NoError(t, err, c.name)
		assert.Equal(t, c.want, got, c.name)
	}
	_, err = tokenclass.Align(e, []int64{0}, tokenclass.FirstPiece, nil)
	require.ErrorContains(t, err, "token 2 is part of word 1, but there are labels for 1 words")
	_, err = tokenclass.Align(e, nil, 7, nil)
	require.ErrorContains(t, err, "there is no way 7")
}

func newTask(t *testing.T) *tokenclass.Task {
	t.Helper()
	task, err := tokenclass.NewTask(newTagger(), tokenclass.TaskOptions{})
	require.NoError(t, err)
	return task
}

func sample(ids []int64, labels ...int64) tokenclass.Sample {
	return tokenclass.Sample{Text: inputs.Text{InputIDs: ids}, Labels: labels}
}

func TestBatchesArePaddedWithIgnoredLabels(t *testing.T) {
	testenv.RequireTorch(t)
	task := newTask(t)
	b, err := task.Collate([]tokenclass.Sample{sample([]int64{2, 11, 3}, -100, 1, -100), sample([]int64{2}, 0)})
	require.NoError(t, err)
	assert.Equal(t, []int64{2, 11, 3, 2, 0, 0}, b.InputIDs.Values)
	assert.Equal(t, []int64{1, 1, 1, 1, 0, 0}, b.AttentionMask.Values)
	assert.Equal(t, []int64{-100, 1, -100, 0, -100, -100}, b.Labels.Values)
	for want, s := range map[string][]tokenclass.Sample{
		"Labels has 1 classes for 2 tokens":   {sample([]int64{2, 3}, 1)},
		"Labels of token 0 is 4; want 0 to 3": {sample([]int64{2}, 4)},
		"some samples of the batch have":      {sample([]int64{2}, 1), sample([]int64{2})},
		"has 9 tokens":                        {sample(make([]int64, 9))},
		"InputIDs is empty":                   {sample(nil)},
	} {
		_, err := task.Collate(s)
		require.ErrorContains(t, err, "tokenclass: sample ")
		require.ErrorContains(t, err, want)
	}
	_, err = tokenclass.NewTask(newTagger(), tokenclass.TaskOptions{Padding: data.Padding{Length: 9}})
	require.ErrorContains(t, err, "tokenclass: TaskOptions.Padding.Length is 9")
}

// narrow is a step with memory for a limited number of texts at a time.
type narrow struct {
	*engine.Step[tokenclass.Sample, tokenclass.Batch]
	room int
}

func (n narrow) Train(ctx context.Context, b tokenclass.Batch, w trainer.Window) error {
	if b.InputIDs.Rows > n.room {
		return torch.ErrOutOfMemory
	}
	return n.Step.Train(ctx, b, w)
}

// A batch has the gradient of its labelled tokens, however it is divided; texts without labelled
// tokens contribute nothing.
func TestABatchInPartsHasTheGradientOfItsTokens(t *testing.T) {
	testenv.RequireTorch(t)
	texts := data.Slice[tokenclass.Sample]{
		sample([]int64{2, 11, 12, 3}, 0, 1, 2, 3), sample([]int64{11}, -100), sample([]int64{10, 13}, 3, -100),
		sample([]int64{3, 12, 10}, 1, 0, 2), sample([]int64{2}, -100), sample([]int64{12, 2}, 0, 1),
		sample([]int64{10}, 2), sample([]int64{13, 11}, -100, 0),
	}
	for _, sumWindow := range []bool{false, true} {
		train := func(room int) []float32 {
			m := newTagger()
			task, err := tokenclass.NewTask(m, tokenclass.TaskOptions{SumWindow: sumWindow})
			require.NoError(t, err)
			s, err := engine.New(task, engine.Options{Optimizer: optim.SGD{LR: 1}, MaxGradNorm: -1})
			require.NoError(t, err)
			fit, err := trainer.New(trainer.Step[tokenclass.Sample, tokenclass.Batch](narrow{s, room}),
				trainer.Options{BatchSize: 4, Accumulate: 2, Epochs: 1, LearningRate: 1, Schedule: lr.Constant{},
					Order: data.Sequential{}, DivideOnOutOfMemory: true, Progress: io.Discard})
			require.NoError(t, err)
			_, err = fit.Fit(t.Context(), texts, nil)
			require.NoError(t, err)
			return torch.Values[float32](m.Embedding.Weight.Detach())
		}
		whole := train(4)
		for _, room := range []int{2, 1} {
			assert.InDeltaSlice(t, whole, train(room), 1e-6, "room for %d, sum %t", room, sumWindow)
		}
	}
}

// TestEvaluationCountsWholeEntities evaluates in one process and shared between processes.
func TestEvaluationCountsWholeEntities(t *testing.T) {
	testenv.RequireTorch(t)
	for _, shared := range []bool{false, true} {
		t.Run(fmt.Sprint("shared ", shared), func(t *testing.T) {
			torch.Scope(func() {
				task := newTask(t)
				for _, s := range [][]tokenclass.Sample{
					{sample([]int64{2, 11, 12, 10, 3}, -100, 1, 2, 0, -100), sample([]int64{11, 10}, 1, 2)},
					{sample([]int64{13, 10, 13}, 3, 0, -100)},
				} {
					b, err := task.Collate(s)
					require.NoError(t, err)
					task.Observe(b, task.Predict(engine.ForwardPass{}, b))
					if shared {
						part, err := task.TakeObserved(len(s))
						require.NoError(t, err)
						require.NoError(t, task.AddObserved(part))
					}
				}
				got := task.Metrics()
				// Found: LOC, LOC (too short), PER. Expected: LOC, LOC, PER.
				assert.InDelta(t, 2.0/3, got["precision"], 1e-12)
				assert.InDelta(t, 2.0/3, got["recall"], 1e-12)
				assert.InDelta(t, 6.0/7, got["accuracy"], 1e-12)
				assert.Zero(t, task.Metrics()["f1"], "an evaluation starts without samples")
			})
		})
	}
}

func TestLossLeavesIgnoredTokensOut(t *testing.T) {
	testenv.RequireTorch(t)
	torch.Scope(func() {
		task := newTask(t)
		loss := func(s ...tokenclass.Sample) float64 {
			b, err := task.Collate(s)
			require.NoError(t, err)
			return task.Loss(engine.ForwardPass{}, b).Value.Item()
		}
		assert.Equal(t, loss(sample([]int64{11}, 1)), loss(sample([]int64{11, 13, 5}, 1, -100, -100)))
		b, err := task.Collate([]tokenclass.Sample{sample([]int64{11})})
		require.NoError(t, err)
		assert.False(t, task.Loss(engine.ForwardPass{}, b).Value.Defined(), "there is no loss without labels")
	})
}
