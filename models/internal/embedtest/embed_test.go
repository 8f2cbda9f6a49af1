package embedtest_test

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

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/models/sentence"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// recorded is the output of testdata/embed.py. Tensors are represented by the first bytes of their
// SHA-256, in the order of the parameters.
type recorded struct {
	Texts []string
	Rows  []struct {
		Texts []string
		Score float32
	}
	Encoders []encoder
	Losses   []struct {
		Encoder, Loss string
		Texts         int
		Grads         []string
		Norms         []float64
		Generator     string
	}
	Runs []run

	values *golden.File
}

type encoder struct {
	Name, Architecture  string
	Attention           transformer.Attention
	Config, Tokenizer   map[string]any
	TokenizerConfig     map[string]any `json:"tokenizer_config"`
	Parameters, Initial []string
	Cases               []string
}

type run struct {
	Encoder, Loss, Generator string
	Texts, Accumulate        int
	Checkpointing, Adapter   bool
	Prompts                  []string
	Losses                   []string
	GradNorms                []string `json:"grad_norms"`
	Final                    []string
}

func load(t *testing.T) *recorded {
	t.Helper()
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	content, err := os.ReadFile("testdata/embed.json")
	require.NoError(t, err)
	var r recorded
	require.NoError(t, json.Unmarshal(content, &r))
	r.values = golden.Load(t, "testdata/embed.safetensors")
	return &r
}

// model makes a model whose decoder is drawn with the seed 42.
func (r *recorded) model(t *testing.T, name string, p sentence.Pooling,
	modules ...sentence.Module) *sentence.Transformer {
	t.Helper()
	e := r.Encoders[slices.IndexFunc(r.Encoders, func(e encoder) bool { return e.Name == name })]
	dir := modeltest.ConfigFolder(t, e.Config)
	for name, content := range map[string]any{"tokenizer.json": e.Tokenizer, "tokenizer_config.json": e.TokenizerConfig} {
		text, err := json.Marshal(content)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	torch.ManualSeed(42)
	decoder, err := auto.Encoder(t.Context(), dir, auto.Options{FromConfig: true, Attention: e.Attention,
		Warnings: io.Discard})
	require.NoError(t, err)
	assert.True(t, decoder.IsDecoder())
	m, err := sentence.New(decoder, p, modules...)
	require.NoError(t, err)
	return m
}

// inBF16 saves a model and loads it with weights of bf16.
func inBF16(t *testing.T, m *sentence.Transformer, a transformer.Attention) *sentence.Transformer {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, m.Save(dir))
	m, err := sentence.Load(t.Context(), dir, auto.Options{DType: torch.BFloat16, Attention: a, Warnings: quiet{t}})
	require.NoError(t, err)
	return m
}

var lastToken = sentence.Pooling{Modes: []sentence.PoolingMode{sentence.LastToken}}

// trained makes the model of a loss or a run: a Gemma 3 has the modules of EmbeddingGemma.
func (r *recorded) trained(t *testing.T, name string, modules ...sentence.Module) *sentence.Transformer {
	t.Helper()
	if name != "gemma3" {
		return r.model(t, name, lastToken, modules...)
	}
	return r.model(t, name, sentence.Pooling{}, dense(t, 3, 32, 48), dense(t, 4, 48, 24),
		sentence.Normalize{})
}

func dense(t *testing.T, seed uint64, in, out int64) *sentence.Dense {
	t.Helper()
	torch.ManualSeed(seed)
	d, err := sentence.NewDense(in, out, sentence.DenseOptions{NoBias: true, Activation: sentence.Identity})
	require.NoError(t, err)
	return d
}

func sum(x torch.Tensor) string {
	if !x.Defined() {
		return ""
	}
	return modeltest.Sum(x.Bytes())[:8]
}

// sameSums compares tensors that of returns for each parameter, bit for bit on machines that
// compute the same numbers.
func sameSums(t *testing.T, params []torch.Named, what string, want []string, of func(torch.Tensor) torch.Tensor) {
	t.Helper()
	require.Len(t, params, len(want))
	for i, p := range params {
		x := of(p.Tensor)
		assert.Equal(t, want[i] == "", !x.Defined(), "%s of %s", what, p.Name)
		if testenv.SameBits() {
			assert.Equal(t, want[i], sum(x), "%s of %s", what, p.Name)
		}
	}
}

func itself(x torch.Tensor) torch.Tensor { return x }

func stands(t *testing.T, want string) {
	t.Helper()
	if testenv.SameBits() {
		assert.Equal(t, want, modeltest.Generator()[:8], "the generator has another state")
	}
}

func matrix(rows [][]float32) torch.Tensor {
	return torch.From(slices.Concat(rows...), int64(len(rows)), int64(len(rows[0])))
}

// near compares embeddings with a recorded matrix, number by number.
func near(t *testing.T, want torch.Tensor, got [][]float32, within float64) {
	t.Helper()
	assert.InDelta(t, 0, matrix(got).Sub(want).Abs().Max().Item(), within)
}

func TestDecodersAreThoseOfAutoModel(t *testing.T) {
	r := load(t)
	for _, e := range r.Encoders {
		t.Run(e.Name, func(t *testing.T) {
			m := r.model(t, e.Name, sentence.Pooling{})
			assert.Equal(t, e.Architecture, m.Architecture())
			params := nn.Params(m)
			if e.Name != "mixtral" { // whose experts have other names in files
				var names []string
				for _, p := range params {
					names = append(names, p.Name)
				}
				require.Equal(t, e.Parameters, names)
			}
			sameSums(t, params, "initial weight", e.Initial, itself)
		})
	}
}

// TestEncodeHasTheBitsOfSentenceTransformers, which pads on the right; with padding on the left, as
// the files of Qwen3-Embedding ask for, positions are rounded differently.
func TestEncodeHasTheBitsOfSentenceTransformers(t *testing.T) {
	r := load(t)
	for _, e := range r.Encoders {
		for _, c := range e.Cases {
			t.Run(e.Name+", "+c, func(t *testing.T) {
				o := sentence.EncodeOptions{BatchSize: 4}
				left, name := strings.HasPrefix(c, "left"), strings.TrimPrefix(c, "left, ")
				mode, without := strings.CutSuffix(name, "without prompt")
				p := sentence.Pooling{Modes: []sentence.PoolingMode{sentence.PoolingMode(strings.TrimSpace(mode))},
					ExcludePrompt: without}
				if slices.Contains([]string{"left", "", "bf16", "cut"}, strings.TrimSpace(mode)) {
					p.Modes = lastToken.Modes
				}
				if without {
					o.Prompt = new("w7 w8 w9 ")
				}
				m := r.model(t, e.Name, p)
				if name == "bf16" {
					m = inBF16(t, m, e.Attention)
				}
				if name == "cut" {
					m.MaxSeqLength, o.TruncateDim, o.Normalize, o.Prompt = 6, 7, true, new("w10 ")
					cut, err := m.Text("", r.Texts[0]+" w5 w5 w5 w5 w5 w5")
					require.NoError(t, err)
					whole, err := m.Text("", "w5")
					require.NoError(t, err)
					require.Len(t, cut.InputIDs, 6)
					assert.Equal(t, whole.InputIDs[len(whole.InputIDs)-1], cut.InputIDs[5], "the token that ends texts")
				}
				want := r.values.Tensor(e.Name + ", " + c)
				if !left || without { // these were recorded with padding on the right
					goldencount.Start(t, "sentence", "decoder "+e.Name+", "+c)
					got, err := m.Encode(t.Context(), r.Texts, o)
					require.NoError(t, err)
					computed := torch.Float32
					if name == "bf16" {
						computed = torch.BFloat16
					}
					golden.RecordedIn(t, c, matrix(got), want, computed)
					return
				}
				got, err := m.Encode(t.Context(), r.Texts, o)
				require.NoError(t, err)
				if e.Name == "gpt2" { // whose positions are absolute: padding on the left moves texts to other ones
					assert.Greater(t, matrix(got).Sub(want).Abs().Max().Item(), 1e-2)
					return
				}
				near(t, want, got, 1e-5)
			})
		}
	}
}

var losses = map[string]sentence.Loss{
	"MultipleNegativesRankingLoss":       sentence.MultipleNegativesRankingLoss{},
	"CoSENTLoss":                         sentence.CoSENTLoss{},
	"CachedMultipleNegativesRankingLoss": sentence.CachedMultipleNegativesRankingLoss{MiniBatchSize: 2},
}

// samples returns the first texts of each row, with its score.
func (r *recorded) samples(t *testing.T, m *sentence.Transformer, texts int, prompts []string) (all []sentence.Sample) {
	t.Helper()
	for _, row := range r.Rows {
		s, err := m.Sample(row.Texts[:texts]...)
		require.NoError(t, err)
		for i, prompt := range prompts {
			s.Texts[i], err = m.Text(prompt, row.Texts[i])
			require.NoError(t, err)
		}
		s.Score = row.Score
		all = append(all, s)
	}
	return all
}

func TestLossesAndGradientsHaveTheBitsOfSentenceTransformers(t *testing.T) {
	r := load(t)
	require.Len(t, r.Losses, 9)
	for _, c := range r.Losses {
		t.Run(c.Encoder+", "+c.Loss, func(t *testing.T) {
			goldencount.Start(t, "sentence", "decoder "+c.Encoder+", "+c.Loss)
			m := r.trained(t, c.Encoder)
			task, err := sentence.NewTask(m, sentence.TaskOptions{Loss: losses[c.Loss]})
			require.NoError(t, err)
			batch, err := task.Collate(r.samples(t, m, c.Texts, nil)[:6])
			require.NoError(t, err)
			nn.SetTraining(m, true)
			torch.ManualSeed(7)
			loss := task.Loss(engine.ForwardPass{}, batch).Value
			loss.Backward()
			stands(t, c.Generator)
			golden.Recorded(t, "loss", loss.Detach(), r.values.Tensor("loss."+c.Encoder+", "+c.Loss))
			params, largest := nn.Params(m), slices.Max(c.Norms)
			for i, p := range params {
				if g := p.Tensor.Grad(); g.Defined() {
					norm := g.ToDType(torch.Float64).Norm(2).Item()
					assert.InDelta(t, c.Norms[i], norm, 1e-6*(1+largest)+1e-3*c.Norms[i], p.Name)
				}
			}
			sameSums(t, params, "gradient", c.Grads, torch.Tensor.Grad)
		})
	}
}

func TestTwentyUpdatesHaveTheBitsOfSentenceTransformerTrainer(t *testing.T) {
	r := load(t)
	require.Len(t, r.Runs, 7)
	for _, c := range r.Runs {
		name := c.Encoder + ", " + c.Loss + map[bool]string{true: ", adapter"}[c.Adapter]
		t.Run(name, func(t *testing.T) {
			goldencount.Start(t, "sentence", "decoder "+name+", run")
			var modules []sentence.Module
			if c.Encoder == "qwen3" {
				modules = append(modules, sentence.Normalize{})
			}
			m := r.trained(t, c.Encoder, modules...)
			if c.Adapter {
				torch.ManualSeed(9)
				require.NoError(t, m.AddLoRA(lora.Config{R: 4, Alpha: 8}))
			}
			m.SetGradientCheckpointing(c.Checkpointing)
			task, err := sentence.NewTask(m, sentence.TaskOptions{Loss: losses[c.Loss]})
			require.NoError(t, err)
			require.Len(t, c.Losses, 20)
			modeltest.Train(t, task, r.samples(t, m, c.Texts, c.Prompts), c.Accumulate, c.Losses, c.GradNorms)
			stands(t, c.Generator)
			params := slices.DeleteFunc(nn.Params(m), func(p torch.Named) bool { return !p.Tensor.NeedsGrad() })
			sameSums(t, params, "final weight", c.Final, itself)
		})
	}
}
