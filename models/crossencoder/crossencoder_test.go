package crossencoder_test

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/crossencoder"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// family is the name under which golden comparisons are counted.
const family = "crossencoder"

// recorded is the output of testdata/crossencoder.py. Tensors are represented by the first bytes of
// their SHA-256, in the order of the parameters.
type recorded struct {
	Pairs      [][2]string
	Rows       []row
	Encoders   []encoder
	Losses     []lossCase
	Runs       []run
	Samples    []crossencoder.RerankingSample
	Evaluators map[string]map[string]float64
	Ranking    []struct {
		CorpusID int `json:"corpus_id"`
		Score    float64
		Text     string
	}

	values *golden.File
}

type row struct {
	Query       string
	Documents   []string
	Labels      []float32
	Score       float32
	Label, Kind int
}

type encoder struct {
	Name                string
	Config, Tokenizer   map[string]any
	TokenizerConfig     map[string]any `json:"tokenizer_config"`
	Parameters, Initial []string
	Generator           string // after the head was drawn
}

// samples says which part of a row a loss gets.
type samples struct {
	Documents int // the first ones; 0: a list of all
	Label     string
	Labels    int // of the model
}

type lossCase struct {
	samples
	Name      string
	Grads     []string
	Norms     []float64
	Generator string
}

type run struct {
	samples
	Encoder, Loss, Prompt, Generator string
	Accumulate                       int
	Losses                           []string
	GradNorms                        []string `json:"grad_norms"`
	Final                            []string
}

func load(t *testing.T) *recorded {
	t.Helper()
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	text, err := os.ReadFile("testdata/crossencoder.json")
	require.NoError(t, err)
	var r recorded
	require.NoError(t, json.Unmarshal(text, &r))
	r.values = golden.Load(t, "testdata/crossencoder.safetensors")
	return &r
}

// base returns the folder of an encoder that was drawn with the seed 42.
func (r *recorded) base(t *testing.T, name string) string {
	t.Helper()
	i := slices.IndexFunc(r.Encoders, func(e encoder) bool { return e.Name == name })
	require.GreaterOrEqual(t, i, 0, name)
	e := r.Encoders[i]
	dir := modeltest.ConfigFolder(t, e.Config)
	for name, content := range map[string]any{"tokenizer.json": e.Tokenizer, "tokenizer_config.json": e.TokenizerConfig} {
		text, err := json.Marshal(content)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o666))
	}
	torch.ManualSeed(42)
	saved := t.TempDir()
	if name == "Llama" {
		m, err := auto.CausalLM(t.Context(), dir, auto.Options{FromConfig: true, Warnings: io.Discard})
		require.NoError(t, err)
		require.NoError(t, m.Save(saved))
		rewrite(t, filepath.Join(saved, "config.json"), `{"architectures": ["LlamaModel"]}`)
		return saved
	}
	m, err := auto.Encoder(t.Context(), dir, auto.Options{FromConfig: true, Warnings: io.Discard})
	require.NoError(t, err)
	require.NoError(t, m.Save(saved))
	return saved
}

// model makes a model whose head is drawn with the seed 1.
func (r *recorded) model(t *testing.T, name string, labels int) *crossencoder.CrossEncoder {
	t.Helper()
	dir := r.base(t, name)
	o := auto.Options{Warnings: io.Discard}
	if labels > 1 {
		o.ID2Label = []string{"entailment", "neutral", "contradiction"}[:labels]
	}
	torch.ManualSeed(1)
	m, err := crossencoder.Load(t.Context(), dir, o)
	require.NoError(t, err)
	assert.Equal(t, labels, m.NumLabels())
	return m
}

func sum(t torch.Tensor) string {
	if !t.Defined() {
		return ""
	}
	return modeltest.Sum(t.Bytes())[:8]
}

// sameSums compares tensors that of returns for each parameter, bit for bit on machines that
// compute the same numbers.
func sameSums(t *testing.T, m any, what string, want []string, of func(torch.Tensor) torch.Tensor) {
	t.Helper()
	params := nn.Params(m)
	require.Len(t, params, len(want))
	for i, p := range params {
		x := of(p.Tensor)
		assert.Equal(t, want[i] == "", !x.Defined(), "%s of %s", what, p.Name)
		if testenv.SameBits() {
			assert.Equal(t, want[i], sum(x), "%s of %s", what, p.Name)
		}
	}
}

func itself(t torch.Tensor) torch.Tensor { return t }

func stands(t *testing.T, want string) {
	t.Helper()
	if testenv.SameBits() {
		assert.Equal(t, want, modeltest.Generator()[:8], "the generator has another state")
	}
}

// samePredictions compares scores with recorded ones.
func (r *recorded) samePredictions(t *testing.T, name string, got [][]float32) {
	t.Helper()
	want := r.values.Tensor(name)
	golden.Recorded(t, name, torch.From(slices.Concat(got...), want.Shape()...), want)
}

func TestHeadsAndPredictionsHaveTheBitsOfSentenceTransformers(t *testing.T) {
	r := load(t)
	for _, e := range r.Encoders {
		t.Run(e.Name, func(t *testing.T) {
			goldencount.Start(t, family, e.Name)
			m := r.model(t, e.Name, 1)
			stands(t, e.Generator)
			assert.Equal(t, e.Name+"ForSequenceClassification", m.Architecture())
			var names []string
			for _, p := range nn.Params(m) {
				names = append(names, p.Name)
			}
			require.Equal(t, e.Parameters, names)
			sameSums(t, m, "initial weight", e.Initial, itself)

			classes := r.model(t, e.Name, 3)
			for name, c := range map[string]struct {
				m *crossencoder.CrossEncoder
				o crossencoder.PredictOptions
			}{
				"":          {m: m},
				", logits":  {m, crossencoder.PredictOptions{ActivationFn: crossencoder.Identity}},
				", prompt":  {m, crossencoder.PredictOptions{Prompt: new("w7 w8 ")}},
				", classes": {m: classes},
				", softmax": {classes, crossencoder.PredictOptions{ApplySoftmax: true}},
			} {
				c.o.BatchSize = 4
				got, err := c.m.Predict(t.Context(), r.Pairs, c.o)
				require.NoError(t, err)
				r.samePredictions(t, e.Name+name, got)
			}
			m.MaxLength = 9
			got, err := m.Predict(t.Context(), r.Pairs, crossencoder.PredictOptions{BatchSize: 4})
			require.NoError(t, err)
			r.samePredictions(t, e.Name+", cut", got)
		})
	}
}

var lossesByName = map[string]crossencoder.Loss{
	"BinaryCrossEntropyLoss": crossencoder.BinaryCrossEntropyLoss{},
	"BinaryCrossEntropyLoss, weighted": crossencoder.BinaryCrossEntropyLoss{ActivationFn: crossencoder.Tanh,
		PosWeight: 4},
	"CrossEntropyLoss":           crossencoder.CrossEntropyLoss{},
	"MSELoss":                    crossencoder.MSELoss{},
	"MSELoss, sigmoid":           crossencoder.MSELoss{ActivationFn: crossencoder.Sigmoid},
	"MarginMSELoss":              crossencoder.MarginMSELoss{},
	"MarginMSELoss, differences": crossencoder.MarginMSELoss{},
	"MarginMSELoss, scores":      crossencoder.MarginMSELoss{ActivationFn: crossencoder.Sigmoid},

	"MultipleNegativesRankingLoss": crossencoder.MultipleNegativesRankingLoss{},
	"MultipleNegativesRankingLoss of n-tuples": crossencoder.MultipleNegativesRankingLoss{NumNegatives: 3,
		Scale: 7.5},
	"MultipleNegativesRankingLoss, all negatives": &crossencoder.MultipleNegativesRankingLoss{NumNegatives: -1,
		ActivationFn: crossencoder.Identity},
	"bf16": crossencoder.MSELoss{ActivationFn: crossencoder.Sigmoid},

	"CachedMultipleNegativesRankingLoss": crossencoder.CachedMultipleNegativesRankingLoss{MiniBatchSize: 4},
	"CachedMultipleNegativesRankingLoss of n-tuples": &crossencoder.CachedMultipleNegativesRankingLoss{
		MultipleNegativesRankingLoss: crossencoder.MultipleNegativesRankingLoss{NumNegatives: 3, Scale: 7.5},
		MiniBatchSize:                5},

	"ListNetLoss":                 crossencoder.ListNetLoss{},
	"ListNetLoss, tanh":           crossencoder.ListNetLoss{ActivationFn: crossencoder.Tanh, MiniBatchSize: 5},
	"LambdaLoss":                  crossencoder.LambdaLoss{},
	"LambdaLoss, NDCGLoss1Scheme": crossencoder.LambdaLoss{Weighting: crossencoder.NDCGLoss1Scheme, K: 2},
	"LambdaLoss, NDCGLoss2Scheme": crossencoder.LambdaLoss{Weighting: crossencoder.NDCGLoss2Scheme, Sigma: 0.7,
		MiniBatchSize: -1},
	"LambdaLoss, LambdaRankScheme": crossencoder.LambdaLoss{Weighting: crossencoder.LambdaRankScheme, K: 3,
		NaturalLog: true},
	"LambdaLoss, sigmoid": crossencoder.LambdaLoss{Mu: 5, ActivationFn: crossencoder.Sigmoid},
	"RankNetLoss":         crossencoder.RankNetLoss{},
}

// samples returns what a loss gets of each row.
func (r *recorded) samples(s samples) (all []crossencoder.Sample) {
	for _, row := range r.Rows {
		one := crossencoder.Sample{Query: row.Query, Documents: row.Documents}
		if s.Documents > 0 {
			one.Documents = row.Documents[:s.Documents]
		}
		switch s.Label {
		case "score":
			one.Labels = []float32{row.Score}
		case "label":
			one.Labels = []float32{float32(row.Label)}
		case "kind":
			one.Class = int64(row.Kind)
		case "labels":
			one.Labels = row.Labels
		case "labels[1:]":
			one.Labels = row.Labels[1:3]
		case "labels[:3]":
			one.Labels = row.Labels[:3]
		}
		all = append(all, one)
	}
	return all
}

func TestLossesAndGradientsHaveTheBitsOfSentenceTransformers(t *testing.T) {
	r := load(t)
	require.Len(t, r.Losses, len(lossesByName))
	for _, c := range r.Losses {
		t.Run(c.Name, func(t *testing.T) {
			goldencount.Start(t, family, c.Name)
			m := r.model(t, "Bert", c.Labels)
			o := crossencoder.TaskOptions{Loss: lossesByName[c.Name]}
			precision, computed, share := amp.FP32, torch.Float32, 1e-3
			if c.Name == "bf16" {
				o.Prompt = "w9 "
				precision, computed, share = amp.BF16, torch.BFloat16, 3e-2
			}
			task, err := crossencoder.NewTask(m, o)
			require.NoError(t, err)
			batch, err := task.Collate(r.samples(c.samples)[:6])
			require.NoError(t, err)
			nn.SetTraining(m, true)
			torch.ManualSeed(7)
			var loss torch.Tensor
			amp.Autocast(torch.CPU, precision, func() { loss = task.Loss(engine.ForwardPass{}, batch).Value })
			loss.Backward()
			stands(t, c.Generator)
			golden.RecordedIn(t, "loss", loss.Detach(), r.values.Tensor("loss."+c.Name), computed)
			largest := slices.Max(c.Norms)
			for i, p := range nn.Params(m) {
				if g := p.Tensor.Grad(); g.Defined() {
					norm := g.ToDType(torch.Float64).Norm(2).Item()
					assert.InDelta(t, c.Norms[i], norm, 1e-3*share*(1+largest)+share*c.Norms[i], p.Name)
				}
			}
			sameSums(t, m, "gradient", c.Grads, torch.Tensor.Grad)
		})
	}
}

func TestTwentyUpdatesHaveTheBitsOfCrossEncoderTrainer(t *testing.T) {
	r := load(t)
	for _, c := range r.Runs {
		t.Run(c.Encoder+", "+c.Loss, func(t *testing.T) {
			goldencount.Start(t, family, c.Encoder+", "+c.Loss+", run")
			m := r.model(t, c.Encoder, c.Labels)
			task, err := crossencoder.NewTask(m, crossencoder.TaskOptions{Loss: lossesByName[c.Loss], Prompt: c.Prompt})
			require.NoError(t, err)
			require.Len(t, c.Losses, 20)
			modeltest.Train(t, task, r.samples(c.samples), c.Accumulate, c.Losses, c.GradNorms)
			stands(t, c.Generator)
			sameSums(t, m, "final weight", c.Final, itself)
		})
	}
}

// spread is a model whose scores are far apart.
func (r *recorded) spread(t *testing.T, labels int) *crossencoder.CrossEncoder {
	t.Helper()
	m := r.model(t, "Bert", labels)
	torch.NoGrad(func() {
		for _, p := range nn.Params(m) {
			p.Tensor.MulScalar_(4)
		}
	})
	return m
}

func TestEvaluatorsMeasureWhatThoseOfSentenceTransformersDo(t *testing.T) {
	r := load(t)
	m, classes := r.spread(t, 1), r.spread(t, 3)
	binary := crossencoder.CrossEncoderClassificationEvaluator{
		EvaluatorOptions: crossencoder.EvaluatorOptions{Name: "dev", BatchSize: 7}}
	kinds := crossencoder.CrossEncoderClassificationEvaluator{}
	var correlation crossencoder.CrossEncoderCorrelationEvaluator
	for _, row := range r.Rows {
		first := [2]string{row.Query, row.Documents[0]}
		binary.Pairs, binary.Labels = append(binary.Pairs, first), append(binary.Labels, row.Label)
		kinds.Labels = append(kinds.Labels, row.Kind)
		correlation.Scores = append(correlation.Scores, float64(row.Score))
	}
	kinds.Pairs, correlation.Pairs = binary.Pairs, binary.Pairs
	ranked := slices.DeleteFunc(slices.Clone(r.Samples), func(s crossencoder.RerankingSample) bool {
		return s.Negative != nil
	})
	for name, c := range map[string]struct {
		crossencoder.Evaluator
		m *crossencoder.CrossEncoder
	}{
		"binary":      {binary, m},
		"classes":     {kinds, classes},
		"correlation": {correlation, m},
		"reranking":   {crossencoder.CrossEncoderRerankingEvaluator{Samples: r.Samples}, m},
		"reranking of documents": {crossencoder.CrossEncoderRerankingEvaluator{Samples: ranked, AtK: 3, DocumentsOnly: true,
			EvaluatorOptions: crossencoder.EvaluatorOptions{Name: "dev"}}, m},
	} {
		t.Run(name, func(t *testing.T) {
			goldencount.Start(t, family, name)
			got, err := c.Evaluate(t.Context(), c.m)
			require.NoError(t, err)
			near := 1e-4 // the large weights of the model enlarge differences
			if testenv.SameBits() {
				near = 1e-6 // sentence-transformers takes some means in float32
			}
			assert.InDeltaMapValues(t, r.Evaluators[name], got, near)
		})
	}
}

func TestRankSortsDocuments(t *testing.T) {
	r := load(t)
	m := r.spread(t, 1)
	var documents []string
	for _, row := range r.Rows {
		documents = append(documents, row.Documents[0])
	}
	got, err := m.Rank(t.Context(), r.Rows[0].Query, documents, crossencoder.RankOptions{TopK: 5})
	require.NoError(t, err)
	require.Len(t, got, len(r.Ranking))
	for i, want := range r.Ranking {
		assert.Equal(t, want.CorpusID, got[i].CorpusID)
		assert.Equal(t, want.Text, got[i].Text)
		assert.InDelta(t, want.Score, got[i].Score, 1e-5)
	}
	all, err := m.Rank(t.Context(), r.Rows[0].Query, documents, crossencoder.RankOptions{})
	require.NoError(t, err)
	assert.Equal(t, got, all[:5])
	assert.Len(t, all, len(documents))
	same, err := m.Rank(t.Context(), "w7", []string{"w8", "w9", "w8", "w8"}, crossencoder.RankOptions{})
	require.NoError(t, err)
	var order []string
	for _, d := range same {
		order = append(order, strings.Repeat("=", d.CorpusID%2)+d.Text)
	}
	assert.Contains(t, strings.Join(order, " "), "w8 w8 =w8", "documents with the same score keep their order")
	none, err := m.Rank(t.Context(), "w7", nil, crossencoder.RankOptions{TopK: 3})
	require.NoError(t, err)
	assert.Empty(t, none)
}
