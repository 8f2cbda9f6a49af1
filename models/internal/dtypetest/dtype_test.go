package dtypetest_test

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/causallm"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/models/maskedlm"
	"github.com/gotrainer/gotrainer/models/question"
	"github.com/gotrainer/gotrainer/models/seq2seq"
	"github.com/gotrainer/gotrainer/models/tokenclass"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// recorded is the output of testdata/dtype.py for one model.
type recorded struct {
	Name, Architecture, DType string
	Attention                 transformer.Attention
	Pad                       int
	LoRA                      bool
	Config                    map[string]any
	Initial, Final            map[string]string
	Generator                 string // after the model was made
	After                     string // after the pass
	Grads                     map[string]string
	Norms                     map[string]float64
	Losses                    []string
	GradNorms                 []string `json:"grad_norms"`
}

func load(t *testing.T) ([]recorded, *golden.File) {
	t.Helper()
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	text, err := os.ReadFile("testdata/dtype.json")
	require.NoError(t, err)
	var f struct{ Models []recorded }
	require.NoError(t, json.Unmarshal(text, &f))
	require.Len(t, f.Models, 16, "models")
	return f.Models, golden.Load(t, "testdata/dtype.safetensors")
}

// dtype returns the dtype of the weights.
func (r recorded) dtype() torch.DType {
	return map[string]torch.DType{"bfloat16": torch.BFloat16, "float16": torch.Float16}[r.DType]
}

// open loads the model in a folder for its task.
func (r recorded) open(t *testing.T, dir string, o auto.Options) (*auto.Model, error) {
	t.Helper()
	o.Warnings = io.Discard
	switch {
	case strings.HasPrefix(r.Architecture, "T5"):
		m, err := auto.Seq2SeqLM(t.Context(), dir, o)
		return modelOf(m, err, func() *auto.Model { return m.Model })
	case strings.HasSuffix(r.Architecture, "SequenceClassification"):
		m, err := auto.SequenceClassification(t.Context(), dir, o)
		return modelOf(m, err, func() *auto.Model { return m.Model })
	case strings.HasSuffix(r.Architecture, "TokenClassification"):
		m, err := auto.TokenClassification(t.Context(), dir, o)
		return modelOf(m, err, func() *auto.Model { return m.Model })
	case strings.HasSuffix(r.Architecture, "QuestionAnswering"):
		m, err := auto.QuestionAnswering(t.Context(), dir, o)
		return modelOf(m, err, func() *auto.Model { return m.Model })
	case strings.HasSuffix(r.Architecture, "MaskedLM"):
		m, err := auto.MaskedLM(t.Context(), dir, o)
		return modelOf(m, err, func() *auto.Model { return m.Model })
	}
	m, err := auto.CausalLM(t.Context(), dir, o)
	return modelOf(m, err, func() *auto.Model { return m.Model })
}

func modelOf[M any](_ M, err error, model func() *auto.Model) (*auto.Model, error) {
	if err != nil {
		return nil, err
	}
	return model(), nil
}

// fresh makes the model with the seed 42.
func (r recorded) fresh(t *testing.T) *auto.Model {
	t.Helper()
	torch.ManualSeed(42)
	m, err := r.open(t, modeltest.ConfigFolder(t, r.Config), auto.Options{FromConfig: true, DType: r.dtype(),
		Attention: r.Attention})
	require.NoError(t, err)
	if r.LoRA {
		require.NoError(t, m.AddLoRA(lora.Config{R: 4, Alpha: 8, Dropout: 0.1, TargetModules: []string{lora.AllLinear},
			ModulesToSave: []string{"lm_head"}}))
	}
	return m
}

func (r recorded) rows(t *testing.T) []modeltest.EncoderRow {
	t.Helper()
	return modeltest.NamedRows(golden.Load(t, "../../auto/testdata/auto.safetensors"), r.Pad, false)
}

func textOf(r modeltest.EncoderRow) inputs.Text { return r.Text }

func continued(r modeltest.EncoderRow) causallm.Sample { return causallm.Sample{Text: r.Text} }

func TestSameSeedGivesTransformersWeights(t *testing.T) {
	models, _ := load(t)
	for _, r := range models {
		t.Run(r.Name, func(t *testing.T) {
			m := r.fresh(t)
			require.Equal(t, r.Architecture, m.Architecture())
			if testenv.SameBits() {
				assert.Equal(t, r.Generator, modeltest.Generator(), "the generator has another state")
			}
			modeltest.SameWeights(t, m, r.Initial)
			for _, p := range nn.Params(m) {
				want := r.dtype()
				if strings.Contains(p.Name, "lora_") {
					want = torch.Float32
				}
				assert.Equal(t, want, p.Tensor.DType(), p.Name)
			}
		})
	}
}

func TestForwardAndBackwardHaveTransformersBits(t *testing.T) {
	models, file := load(t)
	for _, r := range models {
		t.Run(r.Name, func(t *testing.T) {
			goldencount.Start(t, "models", r.Name)
			torch.Scope(func() { r.compare(t, file) })
		})
	}
}

func (r recorded) compare(t *testing.T, file *golden.File) {
	m := r.fresh(t)
	texts := modeltest.RowsAs(r.rows(t)[:4], textOf)
	b, err := m.Limits().Collate("test", texts, data.Padding{})
	require.NoError(t, err)
	forward := func() torch.Tensor {
		ids, mask, types := b.Tensors()
		if strings.HasPrefix(r.Architecture, "T5") {
			pair := &auto.Seq2SeqLanguageModel{Model: m}
			return pair.ForwardPair(ids, mask, ids.Narrow(1, 0, 3).Contiguous())
		}
		return m.Forward(ids, mask, types)
	}
	torch.ManualSeed(7)
	logits := forward()
	logits.ToDType(torch.Float32).Square().Mean(torch.DefaultDType).Backward()
	golden.RecordedIn(t, "logits", logits.Detach(), file.Tensor(r.Name+".logits"), r.dtype())
	if testenv.SameBits() {
		assert.Equal(t, r.After, modeltest.Generator(), "the generator has another state")
	}
	modeltest.SameGrads(t, m, r.Grads, r.Norms, 2e-2)
	nn.SetTraining(m, false)
	torch.NoGrad(func() {
		golden.RecordedIn(t, "logits in evaluation mode", forward(), file.Tensor(r.Name+".eval"), r.dtype())
	})
}

// TestRunsHaveTransformersBits compares a shuffled run of Trainer with AdamW on 16-bit weights.
func TestRunsHaveTransformersBits(t *testing.T) {
	models, _ := load(t)
	for _, r := range models {
		if len(r.Losses) == 0 {
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			goldencount.Start(t, "models", r.Name+", run")
			m := r.fresh(t)
			r.train(t, m)
			modeltest.SameWeights(t, m, r.Final)
		})
	}
}

func (r recorded) train(t *testing.T, m *auto.Model) {
	t.Helper()
	rows := r.rows(t)
	switch {
	case strings.HasPrefix(r.Architecture, "T5"):
		task, err := seq2seq.NewTask(&auto.Seq2SeqLanguageModel{Model: m}, seq2seq.TaskOptions{})
		require.NoError(t, err)
		modeltest.TrainIn(t, r.dtype(), task, modeltest.RowsAs(rows, func(r modeltest.EncoderRow) seq2seq.Sample {
			return seq2seq.Sample{Text: r.Text, Labels: r.Text.InputIDs[1:]}
		}), 1, r.Losses, r.GradNorms)
	case strings.HasSuffix(r.Architecture, "SequenceClassification"):
		task, err := classify.NewTask(m, classify.TaskOptions{})
		require.NoError(t, err)
		modeltest.TrainIn(t, r.dtype(), task, modeltest.RowsAs(rows, modeltest.EncoderRow.Sequence), 1, r.Losses,
			r.GradNorms)
	case strings.HasSuffix(r.Architecture, "TokenClassification"):
		task, err := tokenclass.NewTask(m, tokenclass.TaskOptions{})
		require.NoError(t, err)
		modeltest.TrainIn(t, r.dtype(), task, modeltest.RowsAs(rows, modeltest.EncoderRow.Token), 1, r.Losses,
			r.GradNorms)
	case strings.HasSuffix(r.Architecture, "QuestionAnswering"):
		task, err := question.NewTask(m, question.TaskOptions{})
		require.NoError(t, err)
		modeltest.TrainIn(t, r.dtype(), task, modeltest.RowsAs(rows, modeltest.EncoderRow.Question), 1, r.Losses,
			r.GradNorms)
	case strings.HasSuffix(r.Architecture, "MaskedLM"):
		task, err := maskedlm.NewTask(m, maskedlm.TaskOptions{Masking: maskedlm.Masking{Seed: 11}, MaskTokenID: 4})
		require.NoError(t, err)
		modeltest.TrainIn(t, r.dtype(), task, modeltest.RowsAs(rows, modeltest.EncoderRow.Masked), 1, r.Losses,
			r.GradNorms)
	default:
		task, err := causallm.NewTask(m, causallm.TaskOptions{CountFirstToken: strings.HasPrefix(r.Architecture, "GPT2")})
		require.NoError(t, err)
		modeltest.TrainIn(t, r.dtype(), task, modeltest.RowsAs(rows, continued), 1, r.Losses, r.GradNorms)
	}
}

// TestWeightsKeepTheirTypeInFiles: a 16-bit model is saved in its dtype, and KeepDType loads it in
// that dtype, or in the dtype named in a config.json of an older transformers.
func TestWeightsKeepTheirTypeInFiles(t *testing.T) {
	models, _ := load(t)
	for _, r := range models {
		if r.LoRA {
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			m := r.fresh(t)
			dir := t.TempDir()
			require.NoError(t, m.Save(dir))
			config := readJSON(t, dir)
			assert.Equal(t, r.DType, config["dtype"])
			wide, err := r.open(t, dir, auto.Options{})
			require.NoError(t, err)
			assert.Equal(t, torch.Float32, wide.InputEmbeddings().Weight.DType(), "float32 is the default")
			for _, edit := range []func(){
				func() {},
				func() { config["torch_dtype"] = config["dtype"]; delete(config, "dtype") },
				func() { delete(config, "torch_dtype") },
			} {
				edit()
				writeJSON(t, dir, config)
				again, err := r.open(t, dir, auto.Options{KeepDType: true})
				require.NoError(t, err)
				modeltest.SameWeights(t, again, r.Initial)
				assert.Equal(t, r.dtype(), again.InputEmbeddings().Weight.DType())
			}
		})
	}
}

func TestTypesThatCannotBeAreRefused(t *testing.T) {
	models, _ := load(t)
	for want, o := range map[string]auto.Options{
		"Options.DType and KeepDType are both set":                       {DType: torch.BFloat16, KeepDType: true},
		`the weights are to be int64; want one of ["bfloat16" "float16"`: {DType: torch.Int64},
		"a T5 overflows in float16":                                      {DType: torch.Float16},
	} {
		for _, r := range models {
			if r.Name != "T5ForConditionalGeneration bfloat16 sdpa" {
				continue
			}
			o.FromConfig = true
			_, err := r.open(t, modeltest.ConfigFolder(t, r.Config), o)
			assert.ErrorContains(t, err, want)
		}
	}
	dir := modeltest.ConfigFolder(t, map[string]any{"model_type": "gpt2", "dtype": "float8_e4m3fn"})
	_, err := auto.CausalLM(t.Context(), dir, auto.Options{FromConfig: true, KeepDType: true})
	assert.ErrorContains(t, err, `dtype of config.json is "float8_e4m3fn"; want one of`)
}

// TestModelsOf16BitsWrite: the first tokens are the most probable ones according to a pass over the
// whole text; later ones may differ because of rounding.
func TestModelsOf16BitsWrite(t *testing.T) {
	models, _ := load(t)
	for _, r := range models {
		if !strings.HasSuffix(r.Architecture, "CausalLM") && !strings.HasSuffix(r.Architecture, "LMHeadModel") {
			continue
		}
		m := &auto.CausalLanguageModel{Model: r.fresh(t)}
		torch.NoGrad(func() { m.InputEmbeddings().Weight.MulScalar_(20) }) // makes the logits of tokens differ more
		prompt := []int64{3, 14, 15}
		for _, g := range []auto.Generation{{EOSTokenIDs: []int64{}}, {EOSTokenIDs: []int64{}, NumBeams: 2},
			{EOSTokenIDs: []int64{}, Sample: true}} {
			got, err := m.GenerateIDs(t.Context(), prompt, g)
			require.NoError(t, err)
			require.Len(t, got, 20)
			if g.Sample || g.NumBeams > 0 {
				continue
			}
			ids := append(prompt, got...)
			nn.Evaluating(m, func() {
				torch.NoGrad(func() {
					logits := m.Forward(torch.From(ids, 1, int64(len(ids))), torch.Tensor{}, torch.Tensor{})
					best := torch.Values[int64](logits.ArgMax(-1, false))
					assert.Equal(t, got[:3], best[len(prompt)-1:len(prompt)+2], r.Name)
				})
			})
		}
	}
}

func readJSON(t *testing.T, dir string) (values map[string]any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "config.json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &values))
	return values
}

func writeJSON(t *testing.T, dir string, values map[string]any) {
	t.Helper()
	text, err := json.Marshal(values)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.json"), text, 0o600))
}

// TestRunsContinueBitForBit: checkpoints contain weights and optimizer states without conversion.
func TestRunsContinueBitForBit(t *testing.T) {
	models, _ := load(t)
	for _, r := range models {
		if r.Architecture != "LlamaForCausalLM" || len(r.Losses) == 0 {
			continue
		}
		t.Run(r.Name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "run")
			fit := func(o trainer.Options) *auto.Model {
				m := r.fresh(t)
				task, err := causallm.NewTask(m, causallm.TaskOptions{})
				require.NoError(t, err)
				step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 1e-3}})
				require.NoError(t, err)
				o.MaxSteps, o.BatchSize, o.Save, o.Progress = 4, 4, trainer.Every(2, trainer.Update), io.Discard
				tr, err := trainer.New(step, o)
				require.NoError(t, err)
				rows := modeltest.RowsAs(r.rows(t), continued)
				_, err = tr.Fit(t.Context(), data.Slice[causallm.Sample](rows), nil)
				require.NoError(t, err)
				return m
			}
			whole := fit(trainer.Options{OutputDir: out})
			continued := fit(trainer.Options{OutputDir: out + "-2", ResumeFrom: filepath.Join(out, "checkpoint-2")})
			for i, p := range nn.Params(continued) {
				assert.True(t, p.Tensor.Equal(nn.Params(whole)[i].Tensor), p.Name)
			}
		})
	}
}
