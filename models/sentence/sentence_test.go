package sentence_test

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/sentence"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// recorded is the output of testdata/sentence.py. Tensors are represented by the first bytes of
// their SHA-256, in the order of the parameters.
type recorded struct {
	Texts    []string
	Rows     []row
	Encoders []encoder
	Losses   []lossCase
	Runs     []run

	SimilarityEvaluator map[string]float64 `json:"similarity_evaluator"`
	TripletEvaluator    map[string]float64 `json:"triplet_evaluator"`
	RetrievalEvaluator  map[string]float64 `json:"retrieval_evaluator"`

	values *golden.File
}

type row struct {
	Texts []string
	Score float32
	Label float32
}

type encoder struct {
	Name                string
	Config, Tokenizer   map[string]any
	TokenizerConfig     map[string]any `json:"tokenizer_config"`
	Parameters, Initial []string
	Cases               []struct{ Name string }
}

type lossCase struct {
	Name, Label string
	Texts       int
	Grads       []string
	Norms       []float64
	Generator   string
}

type run struct {
	Encoder, Loss, Label, Generator string
	Pooling                         []sentence.PoolingMode
	Dense, Normalize                bool
	ExcludePrompt                   bool `json:"exclude_prompt"`
	Texts, Accumulate               int
	Prompts                         []string
	Losses                          []string
	GradNorms                       []string `json:"grad_norms"`
	Parameters, Final               []string
}

func load(t *testing.T) *recorded {
	t.Helper()
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	text, err := os.ReadFile("testdata/sentence.json")
	require.NoError(t, err)
	var r recorded
	require.NoError(t, json.Unmarshal(text, &r))
	r.values = golden.Load(t, "testdata/sentence.safetensors")
	return &r
}

// folder returns the folder of an encoder without weights.
func (r *recorded) folder(t *testing.T, name string) string {
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
	return dir
}

// model makes a model whose encoder is drawn with the seed 42.
func (r *recorded) model(t *testing.T, name string, p sentence.Pooling,
	modules ...sentence.Module) *sentence.Transformer {
	t.Helper()
	torch.ManualSeed(42)
	e, err := auto.Encoder(t.Context(), r.folder(t, name), auto.Options{FromConfig: true, Warnings: io.Discard})
	require.NoError(t, err)
	m, err := sentence.New(e, p, modules...)
	require.NoError(t, err)
	return m
}

func dense(t *testing.T, seed uint64, in, out int64, o sentence.DenseOptions) *sentence.Dense {
	t.Helper()
	torch.ManualSeed(seed)
	d, err := sentence.NewDense(in, out, o)
	require.NoError(t, err)
	return d
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

// sameEmbeddings compares rows with a recorded matrix.
func (r *recorded) sameEmbeddings(t *testing.T, name string, got [][]float32) {
	t.Helper()
	want := r.values.Tensor(name)
	golden.Recorded(t, name, torch.From(slices.Concat(got...), int64(len(got)), int64(len(got[0]))), want)
}

func TestEncodersAreThoseOfAutoModel(t *testing.T) {
	r := load(t)
	for _, e := range r.Encoders {
		t.Run(e.Name, func(t *testing.T) {
			m := r.model(t, e.Name, sentence.Pooling{})
			assert.Equal(t, e.Name+"Model", m.Architecture())
			var names []string
			for _, p := range nn.Params(m) {
				names = append(names, p.Name)
			}
			require.Equal(t, e.Parameters, names)
			sameSums(t, m, "initial weight", e.Initial, itself)
		})
	}
}

func TestEncodeHasTheBitsOfSentenceTransformers(t *testing.T) {
	r := load(t)
	for _, e := range r.Encoders {
		for _, c := range e.Cases {
			t.Run(e.Name+", "+c.Name, func(t *testing.T) {
				goldencount.Start(t, "sentence", e.Name+", "+c.Name)
				o := sentence.EncodeOptions{BatchSize: 4}
				var m *sentence.Transformer
				switch mode, without := strings.CutSuffix(c.Name, " without prompt"); {
				case c.Name == "modules" || c.Name == "cut":
					m = r.model(t, e.Name, sentence.Pooling{Modes: []sentence.PoolingMode{sentence.Mean, sentence.CLS, sentence.Max}},
						dense(t, 3, 96, 16, sentence.DenseOptions{}), sentence.Normalize{},
						dense(t, 4, 16, 16, sentence.DenseOptions{Activation: sentence.GELU, Residual: true}))
					assert.Equal(t, 16, m.EmbeddingDimension())
					if c.Name == "cut" {
						m.MaxSeqLength = 6
						o.TruncateDim, o.Normalize, o.Prompt = 7, true, new("w10 ")
					}
				default:
					m = r.model(t, e.Name, sentence.Pooling{Modes: []sentence.PoolingMode{sentence.PoolingMode(mode)},
						ExcludePrompt: without})
					if without {
						o.Prompt = new("w7 w8 w9 ")
					}
				}
				got, err := m.Encode(t.Context(), r.Texts, o)
				require.NoError(t, err)
				r.sameEmbeddings(t, e.Name+", "+c.Name, got)
			})
		}
	}
}

func TestSimilarities(t *testing.T) {
	r := load(t)
	m := r.model(t, "Bert", sentence.Pooling{})
	all := slices.Collect(slices.Chunk(torch.Values[float32](r.values.Tensor("Bert, mean")), 32))
	for _, f := range []sentence.SimilarityFunction{"cosine", "dot", "euclidean", "manhattan"} {
		t.Run(string(f), func(t *testing.T) {
			goldencount.Start(t, "sentence", string(f))
			m.SimilarityFn = f
			got, err := m.Similarity(all[:4], all[4:])
			require.NoError(t, err)
			r.sameEmbeddings(t, "similarity."+string(f), got)
			pairs, err := m.SimilarityPairwise(all[:4], all[4:8])
			require.NoError(t, err)
			golden.Recorded(t, "pairwise", torch.From(pairs, 4), r.values.Tensor("pairwise."+string(f)))
		})
	}
}

var lossesByName = map[string]sentence.Loss{
	"MultipleNegativesRankingLoss":             sentence.MultipleNegativesRankingLoss{},
	"MultipleNegativesRankingLoss of triplets": sentence.MultipleNegativesRankingLoss{},
	"MultipleNegativesRankingLoss of n-tuples": sentence.MultipleNegativesRankingLoss{Scale: 7.5},
	"MultipleNegativesRankingLoss, dot":        sentence.MultipleNegativesRankingLoss{Scale: 1, Similarity: sentence.Dot},
	"MultipleNegativesRankingLoss, manhattan": sentence.MultipleNegativesRankingLoss{Scale: 1,
		Similarity: sentence.Manhattan},
	"MultipleNegativesRankingLoss, symmetric": sentence.MultipleNegativesRankingLoss{
		Directions: []sentence.Direction{sentence.QueryToDoc, sentence.DocToQuery}, PerDirection: true},
	"MultipleNegativesRankingLoss, all directions": sentence.MultipleNegativesRankingLoss{
		Directions: []sentence.Direction{sentence.QueryToDoc, sentence.QueryToQuery, sentence.DocToQuery, sentence.DocToDoc}},
	"CosineSimilarityLoss":   sentence.CosineSimilarityLoss{},
	"CoSENTLoss":             sentence.CoSENTLoss{},
	"CoSENTLoss with ties":   sentence.CoSENTLoss{Scale: 5, Similarity: sentence.Dot},
	"CoSENTLoss, euclidean":  sentence.CoSENTLoss{Scale: 1, Similarity: sentence.Euclidean},
	"TripletLoss":            sentence.TripletLoss{},
	"TripletLoss, cosine":    sentence.TripletLoss{Distance: sentence.CosineDistance, Margin: new(0.3)},
	"TripletLoss, manhattan": sentence.TripletLoss{Distance: sentence.ManhattanDistance, Margin: new(1.0)},
	"ContrastiveLoss":        sentence.ContrastiveLoss{},
	"ContrastiveLoss, euclidean": sentence.ContrastiveLoss{Distance: sentence.EuclideanDistance, Margin: new(2.0),
		Sum: true},
	"ContrastiveLoss, manhattan": sentence.ContrastiveLoss{Distance: sentence.ManhattanDistance, Margin: new(20.0)},
	"MSELoss":                    sentence.MSELoss{},
	"MatryoshkaLoss": sentence.MatryoshkaLoss{Loss: sentence.MultipleNegativesRankingLoss{}, Dims: []int{8, 32, 16},
		Weights: []float64{0.5, 1, 2}},
	"MatryoshkaLoss of CoSENTLoss": sentence.MatryoshkaLoss{Loss: sentence.CoSENTLoss{}, Dims: []int{32, 8}},
	"MatryoshkaLoss of MSELoss":    sentence.MatryoshkaLoss{Loss: sentence.MSELoss{}, Dims: []int{32, 8}},
}

// samples returns the first texts of each row, with their label.
func (r *recorded) samples(t *testing.T, m *sentence.Transformer, texts int, label string,
	prompts []string) (all []sentence.Sample) {
	t.Helper()
	targets := slices.Collect(slices.Chunk(torch.Values[float32](r.values.Tensor("targets")), 32))
	for i, row := range r.Rows {
		s, err := m.Sample(row.Texts[:texts]...)
		require.NoError(t, err)
		for i, prompt := range prompts {
			s.Texts[i], err = m.Text(prompt, row.Texts[i])
			require.NoError(t, err)
		}
		switch label {
		case "score":
			s.Score = row.Score
		case "tied":
			s.Score = map[bool]float32{true: 0.5}[row.Score >= 0.25 && row.Score <= 0.75]
			if row.Score > 0.75 {
				s.Score = 1
			}
		case "label":
			s.Score = row.Label
		case "target":
			s.Target = targets[i]
		}
		all = append(all, s)
	}
	return all
}

func TestLossesAndGradientsHaveTheBitsOfSentenceTransformers(t *testing.T) {
	r := load(t)
	require.Len(t, r.Losses, len(lossesByName))
	for _, c := range r.Losses {
		t.Run(c.Name, func(t *testing.T) {
			goldencount.Start(t, "sentence", c.Name)
			m := r.model(t, "Bert", sentence.Pooling{})
			task, err := sentence.NewTask(m, sentence.TaskOptions{Loss: lossesByName[c.Name]})
			require.NoError(t, err)
			batch, err := task.Collate(r.samples(t, m, c.Texts, c.Label, nil)[:6])
			require.NoError(t, err)
			torch.ManualSeed(7)
			loss := task.Loss(engine.ForwardPass{}, batch).Value
			loss.Backward()
			stands(t, c.Generator)
			golden.Recorded(t, "loss", loss.Detach(), r.values.Tensor("loss."+c.Name))
			// Compared with it, a bias that moves all embeddings equally has only rounding errors
			// as its gradient.
			largest := slices.Max(c.Norms)
			for i, p := range nn.Params(m) {
				if g := p.Tensor.Grad(); g.Defined() {
					norm := g.ToDType(torch.Float64).Norm(2).Item()
					assert.InDelta(t, c.Norms[i], norm, 1e-6*(1+largest)+1e-3*c.Norms[i], p.Name)
				}
			}
			sameSums(t, m, "gradient", c.Grads, torch.Tensor.Grad)
		})
	}
}

func TestTwentyUpdatesHaveTheBitsOfSentenceTransformerTrainer(t *testing.T) {
	r := load(t)
	for _, c := range r.Runs {
		t.Run(c.Encoder+", "+c.Loss, func(t *testing.T) {
			goldencount.Start(t, "sentence", c.Encoder+", "+c.Loss+", run")
			var modules []sentence.Module
			if c.Dense {
				modules = append(modules, dense(t, 3, 64, 32, sentence.DenseOptions{}))
			}
			if c.Normalize {
				modules = append(modules, sentence.Normalize{})
			}
			m := r.model(t, c.Encoder, sentence.Pooling{Modes: c.Pooling, ExcludePrompt: c.ExcludePrompt}, modules...)
			task, err := sentence.NewTask(m, sentence.TaskOptions{Loss: lossesByName[c.Loss]})
			require.NoError(t, err)
			require.Len(t, c.Losses, 20)
			modeltest.Train(t, task, r.samples(t, m, c.Texts, c.Label, c.Prompts), c.Accumulate, c.Losses, c.GradNorms)
			stands(t, c.Generator)
			sameSums(t, m, "final weight", c.Final, itself)
		})
	}
}

func TestEvaluatorsMeasureWhatThoseOfSentenceTransformersDo(t *testing.T) {
	r := load(t)
	m := r.model(t, "Bert", sentence.Pooling{})
	var texts [3][]string
	var scores []float64
	for _, row := range r.Rows {
		for i := range texts {
			texts[i] = append(texts[i], row.Texts[i])
		}
		scores = append(scores, float64(row.Score))
	}
	all := []sentence.SimilarityFunction{sentence.Cosine, sentence.Dot, sentence.Euclidean, sentence.Manhattan}
	compare := func(t *testing.T, e sentence.Evaluator, want map[string]float64) {
		t.Helper()
		goldencount.Start(t, "sentence", t.Name())
		got, err := e.Evaluate(t.Context(), m)
		require.NoError(t, err)
		keys := slices.Sorted(maps.Keys(want))
		require.Equal(t, keys, slices.Sorted(maps.Keys(got)))
		for _, key := range keys {
			assert.InDelta(t, want[key], got[key], 1e-6, key)
		}
	}
	t.Run("similarity", func(t *testing.T) {
		compare(t, sentence.EmbeddingSimilarityEvaluator{Sentences1: texts[0], Sentences2: texts[1], Scores: scores,
			EvaluatorOptions: sentence.EvaluatorOptions{Name: "dev", SimilarityFns: all}}, r.SimilarityEvaluator)
	})
	m.Prompts = map[string]string{"query": "w20 w21 ", "document": "w22 "}
	t.Run("triplets", func(t *testing.T) {
		compare(t, sentence.TripletEvaluator{Anchors: texts[0], Positives: texts[1], Negatives: texts[2],
			Margin:           map[sentence.SimilarityFunction]float64{sentence.Cosine: 0.01},
			EvaluatorOptions: sentence.EvaluatorOptions{SimilarityFns: all}}, r.TripletEvaluator)
	})
}

func TestRetrievalIsThatOfSentenceTransformers(t *testing.T) {
	r := load(t)
	m := r.model(t, "Bert", sentence.Pooling{})
	m.Prompts = map[string]string{"query": "w20 w21 ", "document": "w22 "}
	e := sentence.InformationRetrievalEvaluator{Relevant: map[string][]string{}, Metrics: metrics.Retrieval{
		MRRAt: []int{3, 10}, AccuracyAt: []int{1, 5}, PrecisionRecallAt: []int{1, 5}, MAPAt: []int{20}},
		EvaluatorOptions: sentence.EvaluatorOptions{
			SimilarityFns: []sentence.SimilarityFunction{sentence.Cosine, sentence.Dot, sentence.Euclidean, sentence.Manhattan}}}
	for i, row := range r.Rows {
		e.Corpus = append(e.Corpus, sentence.Document{ID: fmt.Sprintf("d%d", i), Text: row.Texts[1]})
		if i < 12 {
			e.Queries = append(e.Queries, sentence.Document{ID: fmt.Sprintf("q%d", i), Text: row.Texts[0]})
		}
		if i < 11 {
			all := []string{fmt.Sprintf("d%d", i), fmt.Sprintf("d%d", 7*i%48), fmt.Sprintf("d%d", (5*i+3)%48)}
			slices.Sort(all)
			e.Relevant[fmt.Sprintf("q%d", i)] = slices.Compact(all)
		}
	}
	want := r.RetrievalEvaluator
	for _, chunk := range []int{0, 7} {
		e.CorpusChunkSize = chunk
		goldencount.Start(t, "sentence", t.Name())
		got, err := e.Evaluate(t.Context(), m)
		require.NoError(t, err)
		assert.InDeltaMapValues(t, want, got, 1e-9)
	}
}
