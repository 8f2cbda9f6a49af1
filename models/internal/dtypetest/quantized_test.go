package dtypetest_test

import (
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
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
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/quantized"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// packed is the output of testdata/quantized.py for one model.
type packed struct {
	Name, DType    string
	Config         map[string]any
	Quantization   quantized.Config
	Initial, State map[string]string
	Updated        map[string]string // with an adapter
	After          string
	Grads          map[string]string
	Norms          map[string]float64
	Losses         []string
	GradNorms      []string `json:"grad_norms"`
	Final, Merged  map[string]string
}

func loadPacked(t *testing.T) ([]packed, *golden.File) {
	t.Helper()
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	text, err := os.ReadFile("testdata/quantized.json")
	require.NoError(t, err)
	var f struct{ Models []packed }
	require.NoError(t, json.Unmarshal(text, &f))
	require.Len(t, f.Models, 7, "models")
	return f.Models, golden.Load(t, "testdata/quantized.safetensors")
}

// as returns the model in the form of a recorded model that is not quantized.
func (p packed) as() recorded {
	return recorded{Name: p.Name, Architecture: p.Config["architectures"].([]any)[0].(string), DType: p.DType}
}

// fresh makes the model in float32 with the seed 42, saves it and loads it with 4-bit weights.
func (p packed) fresh(t *testing.T) *auto.Model {
	t.Helper()
	torch.ManualSeed(42)
	r := p.as()
	whole, err := r.open(t, modeltest.ConfigFolder(t, p.Config), auto.Options{FromConfig: true})
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, whole.Save(dir))
	dtype := torch.Float32
	if p.DType == "bfloat16" {
		dtype = torch.BFloat16
	}
	m, err := r.open(t, dir, auto.Options{DType: dtype, Quantize: &p.Quantization})
	require.NoError(t, err)
	return m
}

// adapted returns the model with its adapter, drawn with the seed 43.
func (p packed) adapted(t *testing.T) *auto.Model {
	t.Helper()
	m := p.fresh(t)
	torch.ManualSeed(43)
	c := lora.Config{R: 4, Alpha: 8, UseDoRA: p.Name == "llama dora"}
	if p.Name == "llama nf4" || p.Name == "llama skipped" {
		c.Dropout, c.TargetModules = 0.1, []string{lora.AllLinear}
	}
	require.NoError(t, m.AddLoRA(c))
	nn.SetTraining(m, true)
	return m
}

// sums returns hashes of tensors by their names in files.
func sums(tensors []torch.Named) map[string]string {
	s := map[string]string{}
	for _, n := range tensors {
		if !strings.Contains(n.Name, "quant_state") {
			s[n.Name] = modeltest.Sum(n.Tensor.Bytes())
		}
	}
	return s
}

// sameState compares what files contain, on machines that draw the same numbers.
func sameState(t *testing.T, want map[string]string, m any) {
	t.Helper()
	got := sums(nn.StateDict(m))
	require.Equal(t, slices.Sorted(maps.Keys(want)), slices.Sorted(maps.Keys(got)))
	for name := range want {
		if testenv.SameBits() {
			assert.Equal(t, want[name], got[name], name)
		}
	}
}

func TestWeightsArePackedAsInTransformers(t *testing.T) {
	models, _ := loadPacked(t)
	for _, p := range models {
		t.Run(p.Name, func(t *testing.T) {
			m := p.fresh(t)
			sameState(t, p.State, m)
			all, trained := nn.CountParams(m)
			whole, err := p.as().open(t, modeltest.ConfigFolder(t, p.Config), auto.Options{FromConfig: true})
			require.NoError(t, err)
			want, _ := nn.CountParams(whole)
			assert.Equal(t, want, all)
			assert.Zero(t, trained, "nothing is trained without an adapter")

			dir := t.TempDir()
			require.NoError(t, m.Save(dir))
			again, err := p.as().open(t, dir, auto.Options{KeepDType: true})
			require.NoError(t, err)
			assert.Empty(t, again.Report.Missing)
			assert.Empty(t, again.Report.Unexpected)
			sameState(t, p.State, again)
			assert.Equal(t, nn.QuantizedLayers(m), nn.QuantizedLayers(again))
			saved, err := json.Marshal(readJSON(t, dir)["quantization_config"])
			require.NoError(t, err)
			wanted, err := json.Marshal(p.Quantization)
			require.NoError(t, err)
			assert.JSONEq(t, string(wanted), string(saved))
		})
	}
}

// TestPackedModelOfTransformersIsLoaded loads a model written by save_pretrained, and saves it
// again.
func TestPackedModelOfTransformersIsLoaded(t *testing.T) {
	models, _ := loadPacked(t)
	m, err := auto.CausalLM(t.Context(), "testdata/packed", auto.Options{KeepDType: true, Warnings: io.Discard})
	require.NoError(t, err)
	assert.Equal(t, torch.BFloat16, m.InputEmbeddings().Weight.DType())
	got := sums(nn.StateDict(m))
	if testenv.SameBits() {
		assert.Equal(t, models[0].State, got)
	}
	dir := t.TempDir()
	require.NoError(t, m.Save(dir))
	theirs, ours := readJSON(t, "testdata/packed"), readJSON(t, dir)
	assert.Equal(t, theirs["quantization_config"], ours["quantization_config"])
	again, err := auto.CausalLM(t.Context(), dir, auto.Options{KeepDType: true, Warnings: io.Discard})
	require.NoError(t, err)
	assert.Equal(t, got, sums(nn.StateDict(again)))
}

func TestAdaptersOfPackedModelsHaveTheBitsOfPeft(t *testing.T) {
	models, file := loadPacked(t)
	for _, p := range models {
		t.Run(p.Name, func(t *testing.T) {
			goldencount.Start(t, "models", p.Name+" with updates")
			torch.Scope(func() { p.compare(t, file) })
		})
	}
}

func (p packed) compare(t *testing.T, file *golden.File) {
	m := p.adapted(t)
	modeltest.SameWeights(t, m, p.Updated)
	dtype := m.InputEmbeddings().Weight.DType()
	forward := func() torch.Tensor {
		ids, mask := file.Tensor("padded"), file.Tensor("mask")
		if strings.HasPrefix(p.Name, "t5") {
			pair := &auto.Seq2SeqLanguageModel{Model: m}
			return pair.ForwardPair(ids, mask, ids.Narrow(1, 0, 3).Contiguous())
		}
		return m.Forward(ids, mask, torch.Tensor{})
	}
	torch.ManualSeed(7)
	logits := forward()
	logits.ToDType(torch.Float32).Square().Mean(torch.DefaultDType).Backward()
	golden.RecordedIn(t, "logits", logits.Detach(), file.Tensor(p.Name+".logits"), dtype)
	if testenv.SameBits() {
		assert.Equal(t, p.After, modeltest.Generator(), "the generator has another state")
	}
	modeltest.SameGrads(t, m, p.Grads, p.Norms, 2e-2)
	nn.SetTraining(m, false)
	torch.NoGrad(func() {
		golden.RecordedIn(t, "logits in evaluation mode", forward(), file.Tensor(p.Name+".eval"), dtype)
	})
}

// TestRunsOverPackedModelsHaveTheBitsOfPeft compares runs of QLoRA, and the merged weights.
func TestRunsOverPackedModelsHaveTheBitsOfPeft(t *testing.T) {
	models, file := loadPacked(t)
	for _, p := range models {
		if len(p.Losses) == 0 {
			continue
		}
		t.Run(p.Name, func(t *testing.T) {
			goldencount.Start(t, "models", p.Name+" with updates, run")
			m := p.adapted(t)
			task, err := causallm.NewTask(m, causallm.TaskOptions{CountFirstToken: strings.HasPrefix(p.Name, "gpt2")})
			require.NoError(t, err)
			modeltest.TrainIn(t, torch.BFloat16, task, modeltest.CausalRows(file), 1, p.Losses, p.GradNorms)
			// Bitsandbytes converts them to the dtype of products, which does not change their
			// values.
			for _, b := range nn.Params(m) {
				if strings.HasSuffix(b.Name, ".bias") && p.Name == "llama skipped" {
					b.Tensor.SetData_(b.Tensor.Detach().ToDType(torch.Float32).Keep())
				}
			}
			modeltest.SameWeights(t, m, p.Final)
			dir := filepath.Join(t.TempDir(), "adapter")
			require.NoError(t, m.Save(dir))
			require.NoError(t, m.MergeLoRA())
			sameState(t, p.Merged, m)
			_, trained := nn.CountParams(m)
			assert.Zero(t, trained)
		})
	}
}

// TestPackedRunsContinueBitForBit: checkpoints contain only the adapter, and the base model is
// quantized again.
func TestPackedRunsContinueBitForBit(t *testing.T) {
	models, file := loadPacked(t)
	p := models[0]
	out := filepath.Join(t.TempDir(), "run")
	fit := func(o trainer.Options) *auto.Model {
		m := p.adapted(t)
		task, err := causallm.NewTask(m, causallm.TaskOptions{})
		require.NoError(t, err)
		step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 1e-3}})
		require.NoError(t, err)
		o.MaxSteps, o.BatchSize, o.Save, o.Progress = 4, 4, trainer.Every(2, trainer.Update), io.Discard
		tr, err := trainer.New(step, o)
		require.NoError(t, err)
		_, err = tr.Fit(t.Context(), data.Slice[causallm.Sample](modeltest.CausalRows(file)), nil)
		require.NoError(t, err)
		return m
	}
	whole := fit(trainer.Options{OutputDir: out})
	assert.NoFileExists(t, filepath.Join(out, "checkpoint-2", "model.safetensors"))
	continued := fit(trainer.Options{OutputDir: out + "-2", ResumeFrom: filepath.Join(out, "checkpoint-2")})
	for i, q := range nn.Params(continued) {
		assert.True(t, q.Tensor.Equal(nn.Params(whole)[i].Tensor), q.Name)
	}
}

// TestAdapterIsLoadedOverAPackedModel: the adapter's folder names the base model, which is
// quantized while loading, or the adapter is merged into the original weights.
func TestAdapterIsLoadedOverAPackedModel(t *testing.T) {
	models, file := loadPacked(t)
	p := models[0]
	base := t.TempDir()
	torch.ManualSeed(42)
	whole, err := auto.CausalLM(t.Context(), modeltest.ConfigFolder(t, p.Config), auto.Options{FromConfig: true})
	require.NoError(t, err)
	require.NoError(t, whole.Save(base))
	o := auto.Options{DType: torch.BFloat16, Quantize: &p.Quantization, Warnings: io.Discard}
	m, err := auto.CausalLM(t.Context(), base, o)
	require.NoError(t, err)
	require.NoError(t, m.AddLoRA(lora.Config{R: 2, Init: lora.InitRandom}))
	dir := t.TempDir()
	require.NoError(t, m.Save(dir))

	again, err := auto.CausalLM(t.Context(), dir, o)
	require.NoError(t, err)
	logits := func(m *auto.CausalLanguageModel) (out torch.Tensor) {
		nn.Evaluating(m, func() {
			torch.NoGrad(func() { out = m.Forward(file.Tensor("padded"), file.Tensor("mask"), torch.Tensor{}) })
		})
		return out
	}
	assert.True(t, logits(again).Equal(logits(m)))
	ids, err := again.GenerateIDs(t.Context(), []int64{3, 14, 15}, auto.Generation{EOSTokenIDs: []int64{}})
	require.NoError(t, err)
	assert.Len(t, ids, 20)

	numbers, err := auto.CausalLM(t.Context(), dir, auto.Options{Warnings: io.Discard})
	require.NoError(t, err)
	require.NoError(t, numbers.MergeLoRA())
	assert.Empty(t, nn.QuantizedLayers(numbers))
	_, trained := nn.CountParams(numbers)
	assert.NotZero(t, trained)
}

func TestModelsThatCannotBePackedAreRefused(t *testing.T) {
	models, _ := loadPacked(t)
	nf4 := &quantized.Config{Type: quantized.NF4}
	llama := modeltest.ConfigFolder(t, models[0].Config)
	torch.ManualSeed(42)
	drawn, err := auto.CausalLM(t.Context(), llama, auto.Options{FromConfig: true, Quantize: nf4})
	require.NoError(t, err)
	assert.Len(t, nn.QuantizedLayers(drawn), 14)
	require.NoError(t, drawn.AddLoRA(lora.Config{}))
	_, trained := nn.CountParams(drawn)
	assert.NotZero(t, trained)
	dir := t.TempDir()
	require.NoError(t, drawn.MergeLoRA())
	require.NoError(t, drawn.Save(dir))
	gone := t.TempDir()
	plain, err := auto.CausalLM(t.Context(), llama, auto.Options{FromConfig: true})
	require.NoError(t, err)
	require.NoError(t, plain.Save(gone))
	config := readJSON(t, dir)
	writeJSON(t, gone, config) // declares that the unquantized weights are quantized
	config = maps.Clone(config)
	config["quantization_config"] = map[string]any{"quant_method": "awq"}
	awq := modeltest.ConfigFolder(t, config)
	for want, f := range map[string]func() (*auto.CausalLanguageModel, error){
		"the weights in " + dir + " are quantized": func() (*auto.CausalLanguageModel, error) {
			return auto.CausalLM(t.Context(), dir, auto.Options{Quantize: nf4})
		},
		"says that weights are quantized, and none is": func() (*auto.CausalLanguageModel, error) {
			return auto.CausalLM(t.Context(), gone, auto.Options{})
		},
		`quant_method is "awq"; only`: func() (*auto.CausalLanguageModel, error) {
			return auto.CausalLM(t.Context(), awq, auto.Options{})
		},
		"no layer of the model is left to quantize": func() (*auto.CausalLanguageModel, error) {
			return auto.CausalLM(t.Context(), llama, auto.Options{FromConfig: true,
				Quantize: &quantized.Config{SkipModules: []string{"model"}}})
		},
		`Config.Type is "nf5"`: func() (*auto.CausalLanguageModel, error) {
			return auto.CausalLM(t.Context(), llama, auto.Options{FromConfig: true, Quantize: &quantized.Config{Type: "nf5"}})
		},
	} {
		_, err := f()
		assert.ErrorContains(t, err, want)
	}
	bert, err := auto.SequenceClassification(t.Context(), modeltest.ConfigFolder(t, models[4].Config),
		auto.Options{FromConfig: true, Quantize: nf4})
	require.NoError(t, err)
	assert.ErrorContains(t, bert.FuseQKVProjections(true), "cannot be fused")
}
