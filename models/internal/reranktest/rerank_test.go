package reranktest_test

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
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
	"github.com/gotrainer/gotrainer/models/lora"
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

// recorded is the output of testdata/rerank.py. Tensors are represented by the first bytes of their
// SHA-256, in the order of the parameters.
type recorded struct {
	Equal, Ragged [][2]string // pairs of the same number of tokens, and of different ones
	Rows, Uneven  []row
	Templates     map[string]string
	Decoders      []decoder
	Cases         []predictCase
	Losses        []lossCase
	Runs          []run
	Judge         judge

	values *golden.File
}

type row struct {
	Query     string
	Documents []string
	Labels    []float32
	Score     float32
	Label     int
}

type decoder struct {
	Name                string
	Config, Tokenizer   map[string]any
	TokenizerConfig     map[string]any `json:"tokenizer_config"`
	Parameters, Initial []string
}

type predictCase struct {
	Name, Decoder, Template, Prompt string
	Equal, Identity, BF16, Single   bool
	Left                            bool // the classifier's tokenizer pads on the left
	MaxLength                       int  `json:"max_length"`
	Chat                            map[string]any
	IDs                             [][]int64
}

// judge is a model whose tokens are bytes and parts of words, and whose template is like that of
// Qwen3-Reranker.
type judge struct {
	decoder
	Template string
	Score    struct {
		TrueTokenID  int64 `json:"true_token_id"`
		FalseTokenID int64 `json:"false_token_id"`
	}
	Pairs [][2]string
	Cases []struct {
		Prompt    string
		MaxLength int `json:"max_length"`
		IDs       [][]int64
	}
}

// trained is what a loss gets.
type trained struct {
	Decoder, Template, Prompt, Loss string
	Documents                       int // the first ones; 0: a list of all
	Label                           string
	Generator                       string
}

type lossCase struct {
	trained
	Name         string
	BF16, Uneven bool
	Grads        []string
	Norms        []float64
}

type run struct {
	trained
	Accumulate             int
	Checkpointing, Adapter bool
	Losses                 []string
	GradNorms              []string `json:"grad_norms"`
	Final                  []string
}

func load(t *testing.T) *recorded {
	t.Helper()
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	content, err := os.ReadFile("testdata/rerank.json")
	require.NoError(t, err)
	var r recorded
	require.NoError(t, json.Unmarshal(content, &r))
	r.values = golden.Load(t, "testdata/rerank.safetensors")
	return &r
}

func (r *recorded) decoder(name string) decoder {
	return r.Decoders[slices.IndexFunc(r.Decoders, func(d decoder) bool { return d.Name == name })]
}

// folder returns a folder with all files of a model but the weights.
func (r *recorded) folder(t *testing.T, name, template string) string {
	t.Helper()
	return folder(t, r.decoder(name), r.Templates[template])
}

func folder(t *testing.T, d decoder, template string) string {
	t.Helper()
	dir := modeltest.ConfigFolder(t, d.Config)
	for name, content := range map[string]any{"tokenizer.json": d.Tokenizer, "tokenizer_config.json": d.TokenizerConfig} {
		text, err := json.Marshal(content)
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	if template != "" {
		require.NoError(t, os.WriteFile(filepath.Join(dir, "chat_template.jinja"), []byte(template), 0o600))
	}
	return dir
}

// model makes a model whose weights are drawn with the seed 42.
func (r *recorded) model(t *testing.T, name, template string) *crossencoder.CrossEncoder {
	t.Helper()
	torch.ManualSeed(42)
	m, err := crossencoder.Load(t.Context(), r.folder(t, name, template), auto.Options{FromConfig: true,
		Warnings: io.Discard})
	require.NoError(t, err)
	assert.Equal(t, 1, m.NumLabels())
	return m
}

// inBF16 saves a model and loads it with weights of bf16.
func inBF16(t *testing.T, m *crossencoder.CrossEncoder) *crossencoder.CrossEncoder {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, m.Save(dir))
	m, err := crossencoder.Load(t.Context(), dir, auto.Options{DType: torch.BFloat16, Warnings: quiet{t}})
	require.NoError(t, err)
	return m
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

func stands(t *testing.T, want string) {
	t.Helper()
	if testenv.SameBits() {
		assert.Equal(t, want, modeltest.Generator()[:8], "the generator has another state")
	}
}

func column(scores [][]float32) torch.Tensor {
	return torch.From(slices.Concat(scores...), int64(len(scores)))
}

func TestModelsAreThoseOfTransformers(t *testing.T) {
	r := load(t)
	for _, d := range r.Decoders {
		t.Run(d.Name, func(t *testing.T) {
			m := r.model(t, d.Name, "")
			params := nn.Params(m)
			var names []string
			for _, p := range params {
				names = append(names, p.Name)
			}
			require.Equal(t, d.Parameters, names)
			sameSums(t, params, "initial weight", d.Initial, func(x torch.Tensor) torch.Tensor { return x })
			if d.Name == "classifier" {
				assert.Nil(t, m.LogitScore)
				return
			}
			assert.Equal(t, &crossencoder.LogitScore{TrueTokenID: 4, FalseTokenID: new(int64(5))}, m.LogitScore)
			assert.Equal(t, crossencoder.Sigmoid, m.ActivationFn)
		})
	}
}

// prepared makes the model of a case.
func (r *recorded) prepared(t *testing.T, c predictCase) *crossencoder.CrossEncoder {
	t.Helper()
	m := r.model(t, c.Decoder, c.Template)
	if c.Left {
		dir := t.TempDir()
		require.NoError(t, m.Save(dir))
		rewrite(t, filepath.Join(dir, "tokenizer_config.json"), `{"padding_side": "left"}`)
		m = loaded(t, dir)
	}
	if c.Single {
		lm := &auto.CausalLanguageModel{Model: m.Model}
		score, err := crossencoder.LogitScoreOf(lm, "yes", "")
		require.NoError(t, err)
		m, err = crossencoder.NewWithLogitScore(lm, score)
		require.NoError(t, err)
	}
	for name, value := range c.Chat {
		if name == "add_generation_prompt" {
			m.Messages.AddGenerationPrompt = true
		} else {
			m.Messages.Variables = map[string]any{name: int(value.(float64))}
		}
	}
	m.MaxLength = c.MaxLength
	if c.BF16 {
		m = inBF16(t, m)
	}
	return m
}

// TestScoresHaveTheBitsOfSentenceTransformers if the pairs of a batch have as many tokens as each
// other. With padding, which is on the left there, positions are rounded differently.
func TestScoresHaveTheBitsOfSentenceTransformers(t *testing.T) {
	r := load(t)
	require.Len(t, r.Cases, 57)
	for _, c := range r.Cases {
		t.Run(c.Name, func(t *testing.T) {
			m := r.prepared(t, c)
			pairs := r.Ragged
			if c.Equal {
				pairs = r.Equal
			}
			o := crossencoder.PredictOptions{Prompt: &c.Prompt, BatchSize: 4}
			if c.Identity {
				o.ActivationFn = crossencoder.Identity
			}
			want := r.values.Tensor(c.Name)
			// A classifier is padded on the right, if its tokenizer does not say otherwise.
			same := c.Equal || c.Decoder == "classifier" && !c.Left
			if same {
				goldencount.Start(t, family, c.Name)
			}
			got, err := m.Predict(t.Context(), pairs, o)
			require.NoError(t, err)
			if !same {
				assert.InDelta(t, 0, column(got).Sub(want).Abs().Max().Item(), 1e-5)
				return
			}
			computed := torch.Float32
			if c.BF16 {
				computed = torch.BFloat16
			}
			golden.RecordedIn(t, c.Name, column(got), want, computed)
		})
	}
}

// TestPairsBecomeTheTokensOfSentenceTransformers, whatever the weights.
func TestPairsBecomeTheTokensOfSentenceTransformers(t *testing.T) {
	r := load(t)
	for _, c := range r.Cases {
		t.Run(c.Name, func(t *testing.T) {
			m := r.prepared(t, c)
			task, err := crossencoder.NewTask(m, crossencoder.TaskOptions{Prompt: c.Prompt})
			require.NoError(t, err)
			pairs := r.Ragged
			if c.Equal {
				pairs = r.Equal
			}
			for i, pair := range pairs {
				b, err := task.Collate([]crossencoder.Sample{{Query: pair[0], Documents: pair[1:], Labels: []float32{1}}})
				require.NoError(t, err)
				assert.Equal(t, c.IDs[i], b.Passes[0].InputIDs.Values, pair)
			}
		})
	}
}

// TestTemplateLikeThatOfQwen3Reranker has lines and special tokens, and is cut, too.
func TestTemplateLikeThatOfQwen3Reranker(t *testing.T) {
	j := load(t).Judge
	m, err := crossencoder.Load(t.Context(), folder(t, j.decoder, j.Template), auto.Options{FromConfig: true,
		Warnings: io.Discard})
	require.NoError(t, err)
	assert.Equal(t, &crossencoder.LogitScore{TrueTokenID: j.Score.TrueTokenID, FalseTokenID: &j.Score.FalseTokenID},
		m.LogitScore)
	for _, c := range j.Cases {
		m.MaxLength = c.MaxLength
		task, err := crossencoder.NewTask(m, crossencoder.TaskOptions{Prompt: c.Prompt})
		require.NoError(t, err)
		for i, pair := range j.Pairs {
			b, err := task.Collate([]crossencoder.Sample{{Query: pair[0], Documents: pair[1:], Labels: []float32{1}}})
			require.NoError(t, err)
			assert.Equal(t, c.IDs[i], b.Passes[0].InputIDs.Values, "%q, at most %d tokens", pair, c.MaxLength)
		}
	}
}

var losses = map[string]crossencoder.Loss{
	"BinaryCrossEntropyLoss":             crossencoder.BinaryCrossEntropyLoss{},
	"MSELoss":                            crossencoder.MSELoss{ActivationFn: crossencoder.Sigmoid},
	"MultipleNegativesRankingLoss":       crossencoder.MultipleNegativesRankingLoss{},
	"CachedMultipleNegativesRankingLoss": crossencoder.CachedMultipleNegativesRankingLoss{MiniBatchSize: 4},
	"ListNetLoss":                        crossencoder.ListNetLoss{},
	"LambdaLoss":                         crossencoder.LambdaLoss{},
	"RankNetLoss":                        crossencoder.RankNetLoss{},
}

// samples returns what a loss gets of each row.
func samples(rows []row, c trained) (all []crossencoder.Sample) {
	for _, row := range rows {
		one := crossencoder.Sample{Query: row.Query, Documents: row.Documents}
		if c.Documents > 0 {
			one.Documents = row.Documents[:c.Documents]
		}
		switch c.Label {
		case "score":
			one.Labels = []float32{row.Score}
		case "label":
			one.Labels = []float32{float32(row.Label)}
		case "labels":
			one.Labels = row.Labels
		}
		all = append(all, one)
	}
	return all
}

func TestLossesAndGradientsHaveTheBitsOfSentenceTransformers(t *testing.T) {
	r := load(t)
	require.Len(t, r.Losses, 11)
	for _, c := range r.Losses {
		t.Run(c.Name, func(t *testing.T) {
			rows, precision, computed, share := r.Rows[:6], amp.FP32, torch.Float32, 1e-3
			if c.BF16 {
				precision, computed, share = amp.BF16, torch.BFloat16, 3e-2
			}
			if c.Uneven {
				rows = r.Uneven // padded on the left in the original
			} else {
				goldencount.Start(t, family, c.Name)
			}
			m := r.model(t, c.Decoder, c.Template)
			task, err := crossencoder.NewTask(m, crossencoder.TaskOptions{Loss: losses[c.Loss], Prompt: c.Prompt})
			require.NoError(t, err)
			batch, err := task.Collate(samples(rows, c.trained))
			require.NoError(t, err)
			nn.SetTraining(m, true)
			torch.ManualSeed(7)
			var loss torch.Tensor
			amp.Autocast(torch.CPU, precision, func() { loss = task.Loss(engine.ForwardPass{}, batch).Value })
			loss.Backward()
			params, largest := nn.Params(m), slices.Max(c.Norms)
			for i, p := range params {
				if g := p.Tensor.Grad(); g.Defined() {
					norm := g.ToDType(torch.Float64).Norm(2).Item()
					assert.InDelta(t, c.Norms[i], norm, 1e-3*share*(1+largest)+share*c.Norms[i], p.Name)
				}
			}
			want := r.values.Tensor("loss." + c.Name)
			if c.Uneven {
				assert.InDelta(t, want.Item(), loss.Item(), 1e-5)
				return
			}
			stands(t, c.Generator)
			golden.RecordedIn(t, "loss", loss.Detach(), want, computed)
			sameSums(t, params, "gradient", c.Grads, torch.Tensor.Grad)
		})
	}
}

func TestTwentyUpdatesHaveTheBitsOfCrossEncoderTrainer(t *testing.T) {
	r := load(t)
	require.Len(t, r.Runs, 4)
	for _, c := range r.Runs {
		name := c.Decoder + ", " + c.Loss
		t.Run(name, func(t *testing.T) {
			goldencount.Start(t, family, name+", run")
			m := r.model(t, c.Decoder, c.Template)
			if c.Adapter {
				torch.ManualSeed(9)
				require.NoError(t, m.AddLoRA(lora.Config{R: 4, Alpha: 8}))
			}
			m.SetGradientCheckpointing(c.Checkpointing)
			task, err := crossencoder.NewTask(m, crossencoder.TaskOptions{Loss: losses[c.Loss], Prompt: c.Prompt})
			require.NoError(t, err)
			require.Len(t, c.Losses, 20)
			modeltest.Train(t, task, samples(r.Rows, c.trained), c.Accumulate, c.Losses, c.GradNorms)
			stands(t, c.Generator)
			params := slices.DeleteFunc(nn.Params(m), func(p torch.Named) bool { return !p.Tensor.NeedsGrad() })
			sameSums(t, params, "final weight", c.Final, func(x torch.Tensor) torch.Tensor { return x })
		})
	}
}
