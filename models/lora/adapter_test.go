package lora_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/causallm"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// named returns the recorded model with the given name.
func named(t *testing.T, name string) recorded {
	t.Helper()
	models, _ := load(t)
	for _, r := range models {
		if r.Name == name {
			return r
		}
	}
	t.Fatalf("there is no model %q", name)
	return recorded{}
}

// saved returns a folder with the model without an adapter.
func (r recorded) saved(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	require.NoError(t, r.base(t).Save(dir))
	return dir
}

func quiet() auto.Options { return auto.Options{Warnings: io.Discard} }

// TestAnAdapterOfPeftIsLoaded loads an adapter that peft has trained and saved.
func TestAnAdapterOfPeftIsLoaded(t *testing.T) {
	_, file := load(t)
	base := named(t, "gpt2").saved(t)
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/adapter")))

	_, err := auto.CausalLM(t.Context(), dir, quiet())
	require.ErrorContains(t, err, "does not say which model the adapter is for")
	o := quiet()
	o.BaseModel = base
	m, err := auto.CausalLM(t.Context(), dir, o)
	require.NoError(t, err)
	torch.NoGrad(func() { near(t, "logits", forward(m.Model, file), file.Tensor("gpt2.trained")) })

	path := filepath.Join(dir, lora.ConfigName)
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	text = bytes.Replace(text, []byte(`"base_model_name_or_path": null`), []byte(`"base_model_name_or_path": "`+base+`"`), 1)
	require.NoError(t, os.WriteFile(path, text, 0o600))
	m, err = auto.CausalLM(t.Context(), dir, quiet())
	require.NoError(t, err)
	torch.NoGrad(func() { near(t, "logits", forward(m.Model, file), file.Tensor("gpt2.trained")) })
}

// TestASavedAdapterIsLoaded checks that the labels of the head are loaded, too, which neither the
// base model nor peft's files contain.
func TestASavedAdapterIsLoaded(t *testing.T) {
	models, file := load(t)
	for _, r := range models {
		t.Run(r.Name, func(t *testing.T) {
			base := r.saved(t)
			load := func(dir string, o auto.Options) (*auto.Model, error) {
				if strings.HasPrefix(r.Name, "bert") {
					m, err := auto.SequenceClassification(t.Context(), dir, o)
					if err != nil {
						return nil, err
					}
					return m.Model, nil
				}
				m, err := auto.CausalLM(t.Context(), dir, o)
				if err != nil {
					return nil, err
				}
				return m.Model, nil
			}
			o := quiet()
			if strings.HasPrefix(r.Name, "bert") {
				o.ID2Label, o.InitMismatched = []string{"a", "b", "c", "d"}, true
			}
			m, err := load(base, o)
			require.NoError(t, err)
			c := r.Config
			c.Init = lora.InitRandom
			require.NoError(t, m.AddLoRA(c))
			first, second := t.TempDir(), t.TempDir()
			require.NoError(t, m.Save(first))
			again, err := load(first, quiet())
			require.NoError(t, err)
			assert.Empty(t, again.Report.Initialized)
			assert.Equal(t, m.Head(), again.Head())
			assert.Equal(t, m.LoRA().Config(), again.LoRA().Config())
			torch.NoGrad(func() {
				assert.True(t, forward(again, file).Equal(forward(m, file)))
				require.NoError(t, again.Save(second))
				for _, name := range []string{lora.ConfigName, lora.WeightsName} {
					a, err := os.ReadFile(filepath.Join(first, name))
					require.NoError(t, err)
					b, err := os.ReadFile(filepath.Join(second, name))
					require.NoError(t, err)
					assert.Equal(t, string(a), string(b), name)
				}
				before := forward(m, file)
				m.LoRA().SetEnabled(false)
				assert.False(t, forward(m, file).Equal(before))
				m.LoRA().SetEnabled(true)
				require.NoError(t, m.MergeLoRA())
				assert.True(t, forward(m, file).AllClose(before, 1e-4, 1e-5, false), "merging changes results only by rounding")
			})
			require.Error(t, m.MergeLoRA(), "twice")
			for _, p := range nn.Params(m) {
				assert.True(t, p.Tensor.NeedsGrad(), p.Name)
			}
			third := t.TempDir()
			require.NoError(t, m.Save(third))
			whole, err := load(third, quiet())
			require.NoError(t, err)
			assert.Nil(t, whole.LoRA())
		})
	}
}

// run trains a model with an adapter for some updates.
func run(t *testing.T, r recorded, o trainer.Options, eo engine.Options, rows []causallm.Sample) *auto.Model {
	t.Helper()
	m, err := auto.CausalLM(t.Context(), o.OutputDir+"-base", quiet())
	require.NoError(t, err)
	torch.ManualSeed(3)
	require.NoError(t, m.AddLoRA(r.Config))
	step, err := engine.New(m.Task(), eo)
	require.NoError(t, err)
	o.BatchSize, o.LearningRate, o.Progress, o.Save = 4, 1e-2, io.Discard, trainer.Every(2, trainer.Update)
	fit, err := trainer.New(step, o)
	require.NoError(t, err)
	_, err = fit.Fit(t.Context(), data.Slice[causallm.Sample](rows), data.Slice[causallm.Sample](rows[:4]))
	require.NoError(t, err)
	return m.Model
}

// TestACheckpointHoldsTheAdapterAlone also checks that a run continues from it bit for bit.
func TestACheckpointHoldsTheAdapterAlone(t *testing.T) {
	_, file := load(t)
	r := named(t, "gpt2")
	for name, eo := range map[string]engine.Options{
		"plain": {}, "average": {EMA: engine.EMA{Decay: 0.5}}, "saved average": {EMA: engine.EMA{Decay: 0.5, Save: true}},
	} {
		t.Run(name, func(t *testing.T) {
			out := filepath.Join(t.TempDir(), "run")
			require.NoError(t, r.base(t).Save(out+"-base"))
			rows := modeltest.CausalRows(file)
			whole := run(t, r, trainer.Options{OutputDir: out, MaxSteps: 6, LoadBestAtEnd: true}, eo, rows)

			for _, checkpoint := range []string{"checkpoint-2", "checkpoint-4"} {
				dir := filepath.Join(out, checkpoint)
				assert.NoFileExists(t, filepath.Join(dir, "model.safetensors"))
				assert.NoFileExists(t, filepath.Join(dir, "config.json"))
				assert.FileExists(t, filepath.Join(dir, lora.ConfigName))
				f, err := safetensors.Open(filepath.Join(dir, lora.WeightsName))
				require.NoError(t, err)
				assert.Len(t, f.Tensors(), len(r.Saved))
				require.NoError(t, f.Close())
				loaded, err := auto.CausalLM(t.Context(), dir, quiet())
				require.NoError(t, err, "a checkpoint is an adapter that can be loaded")
				assert.NotNil(t, loaded.LoRA())
			}
			other := filepath.Join(t.TempDir(), "run")
			require.NoError(t, os.CopyFS(other+"-base", os.DirFS(out+"-base")))
			continued := run(t, r, trainer.Options{OutputDir: other, MaxSteps: 6, LoadBestAtEnd: true,
				ResumeFrom: filepath.Join(out, "checkpoint-2")}, eo, rows)
			for i, p := range nn.Params(continued) {
				assert.True(t, p.Tensor.Equal(nn.Params(whole)[i].Tensor), p.Name)
			}
		})
	}
}

func TestLayersAreComputedTogether(t *testing.T) {
	_, file := load(t)
	r := named(t, "bert, all layers")
	r.Config.Init = lora.InitRandom
	m := r.fresh(t)
	nn.SetTraining(m, false)
	torch.NoGrad(func() {
		want := forward(m, file)
		require.NoError(t, m.FuseQKVProjections(true))
		assert.True(t, forward(m, file).AllClose(want, 1e-5, 1e-6, false))
	})
}

// TestAModelOfOnesOwn uses a model that package auto does not know.
func TestAModelOfOnesOwn(t *testing.T) {
	testenv.RequireTorch(t)
	build := func() nn.Sequential {
		torch.ManualSeed(1)
		return nn.Sequential{nn.NewLinear(4, 8, nil), nn.ReLU{}, nn.NewBatchNorm1d(8, nil), nn.NewLinear(8, 3, nil)}
	}
	x := torch.Randn(5, 4)
	model := build()
	before := model.Forward(x)
	a, err := lora.Add(model, lora.Config{TargetModules: []string{"0"}, R: 2, ModulesToSave: []string{"2", "3"}})
	require.NoError(t, err)
	assert.Equal(t, []string{"0"}, a.Layers())
	all, trained := nn.CountParams(model)
	assert.EqualValues(t, 4*8+8+2*8+8*3+3+2*(4+8), all)
	assert.EqualValues(t, 2*8+8*3+3+2*(4+8), trained)
	model = build() // the statistics of batch normalisation depend on the passes so far
	require.True(t, model.Forward(x).Equal(before), "B is zero at first")

	a, err = lora.Add(model, lora.Config{TargetPattern: "0", R: 2, ModulesToSave: []string{"2", "3"},
		Init: lora.InitRandom})
	require.NoError(t, err)
	model.Forward(x)
	dir := t.TempDir()
	require.NoError(t, a.Save(dir))
	c, err := lora.ReadConfig(dir)
	require.NoError(t, err)
	assert.Equal(t, a.Config(), c)
	other := build()
	b, err := lora.Add(other, c)
	require.NoError(t, err)
	require.NoError(t, b.Load(dir))
	nn.SetTraining(model, false)
	nn.SetTraining(other, false)
	assert.True(t, other.Forward(x).Equal(model.Forward(x)), "buffers of ModulesToSave are saved too")

	require.NoError(t, b.Remove())
	for _, err := range []error{b.Remove(), b.Merge(), b.Save(dir), b.Load(dir)} {
		require.ErrorContains(t, err, "merged or removed")
	}
	assert.Empty(t, nn.Children(other[0]))
}

func TestWhatDoesNotFitIsRefused(t *testing.T) {
	testenv.RequireTorch(t)
	tied := nn.NewLinear(4, 4, nil)
	for want, c := range map[string]lora.Config{
		"Config.R is -1":                           {R: -1, TargetModules: []string{"0"}},
		"Config.Dropout is 1":                      {Dropout: 1, TargetModules: []string{"0"}},
		`Config.Bias is "some"`:                    {Bias: "some", TargetModules: []string{"0"}},
		`Config.Init is "pissa"`:                   {Init: "pissa", TargetModules: []string{"0"}},
		"want either Config.TargetModules or":      {},
		"the pattern \"(\"":                        {TargetPattern: "("},
		`Config.RankPattern["0"] is 0`:             {TargetModules: []string{"0"}, RankPattern: map[string]int64{"0": 0}},
		"1, which Config.TargetModules [\"1\"]":    {TargetModules: []string{"1"}},
		"no layer of the model fits Config.Target": {TargetModules: []string{"query"}},
		"the linear ones are called 0, 2, 3":       {TargetPattern: "query"},
		`the model has no module "head"`:           {TargetModules: []string{"0"}, ModulesToSave: []string{"head"}},
		"the weight of 2 is also 3.weight":         {TargetModules: []string{"2"}},
		"whose weight is also 3.weight":            {TargetModules: []string{"0"}, ModulesToSave: []string{"2"}},
		"\"all-linear\" and others; it stands":     {TargetModules: []string{"0", lora.AllLinear}},
		"Config.ExcludeModules and Config.Exclude": {TargetModules: []string{"0"}, ExcludeModules: []string{"1"},
			ExcludePattern: "2"},
	} {
		model := nn.Sequential{nn.NewLinear(4, 4, nil), nn.ReLU{}, tied, &nn.Linear{Weight: tied.Weight}}
		_, err := lora.Add(model, c)
		require.ErrorContains(t, err, want, "%+v", c)
		for _, p := range nn.Params(model) {
			assert.True(t, p.Tensor.NeedsGrad(), "the model is unchanged")
		}
		assert.Empty(t, nn.Children(model[0]))
	}
	model := nn.Sequential{nn.NewLinear(4, 4, nil)}
	a, err := lora.Add(model, lora.Config{TargetModules: []string{"0"}})
	require.NoError(t, err)
	_, err = lora.Add(model, lora.Config{TargetModules: []string{"0"}})
	require.ErrorContains(t, err, "0 has an adapter already")
	require.ErrorIs(t, a.Load(t.TempDir()), os.ErrNotExist)
	model[0].(*nn.Linear).SetPart(&nn.LinearPart{Name: "part 0 of 2"})
	require.NoError(t, a.Remove())
	_, err = lora.Add(model, lora.Config{TargetModules: []string{"0"}})
	require.ErrorContains(t, err, "only parts of the model are here")

	wrong := nn.Sequential{nn.NewLinear(4, 4, nil)}
	four, err := lora.Add(wrong, lora.Config{TargetModules: []string{"0"}, R: 4})
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, four.Save(dir))
	two, err := lora.Add(nn.Sequential{nn.NewLinear(4, 4, nil)}, lora.Config{TargetModules: []string{"0"}, R: 2})
	require.NoError(t, err)
	require.ErrorContains(t, two.Load(dir), "base_model.model.0.lora_A.weight")
}

// TestConfigurationsThatAreNotSupportedAreRefused checks settings that would change what a layer
// computes.
func TestConfigurationsThatAreNotSupportedAreRefused(t *testing.T) {
	for text, want := range map[string]string{
		`{"peft_type": "IA3"}`:                                     `peft_type is "IA3"; only LORA`,
		`{"peft_type": "LORA", "use_qalora": true}`:                "use_qalora is true",
		`{"peft_type": "LORA", "lora_bias": true}`:                 "lora_bias is true",
		`{"peft_type": "LORA", "init_lora_weights": "pissa"}`:      "init_lora_weights is pissa",
		`{"peft_type": "LORA", "trainable_token_indices": [1]}`:    "trainable_token_indices is [1]",
		`{"peft_type": "LORA", "layers_to_transform": {"a": "b"}}`: "cannot unmarshal",
		`{"peft_type": "LORA", "r": "x"}`:                          "cannot unmarshal",
		`[]`:                                                       "cannot unmarshal",
	} {
		dir := t.TempDir()
		require.NoError(t, os.WriteFile(filepath.Join(dir, lora.ConfigName), []byte(text), 0o600))
		_, err := lora.ReadConfig(dir)
		require.ErrorContains(t, err, want)
		require.ErrorContains(t, err, lora.ConfigName)
	}
}

// FuzzConfig checks that a configuration can be written and read again with the same result.
func FuzzConfig(f *testing.F) {
	text, err := os.ReadFile("testdata/adapter/adapter_config.json")
	require.NoError(f, err)
	f.Add(string(text))
	f.Add(`{"peft_type": "LORA", "target_modules": "all-linear", "layers_to_transform": 1, "layers_pattern": "h"}`)
	f.Add(`{"peft_type": "LORA", "target_modules": ".*q", "exclude_modules": "x", "init_lora_weights": false}`)
	f.Fuzz(func(t *testing.T, text string) {
		var c, again lora.Config
		if json.Unmarshal([]byte(text), &c) != nil {
			return
		}
		written, err := json.Marshal(c)
		require.NoError(t, err)
		require.NoError(t, json.Unmarshal(written, &again), "%s", written)
		second, err := json.Marshal(again)
		require.NoError(t, err)
		assert.Equal(t, string(written), string(second))
	})
}

// TestLayersAreUnits checks that a model with sharded layers computes the same as before, with or
// without frozen weights.
func TestLayersAreUnits(t *testing.T) {
	models, _ := load(t)
	for _, r := range append(models[:2], named(t, "llama, dora")) {
		modeltest.LayersAreUnits(t, 2, func() (inputs.Model, error) {
			m, err := auto.CausalLM(t.Context(), r.folder(t), auto.Options{FromConfig: true, Warnings: io.Discard})
			if err != nil {
				return nil, err
			}
			c := r.Config
			c.Init = lora.InitRandom
			return m, m.AddLoRA(c)
		})
	}
}
