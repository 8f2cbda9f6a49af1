package llava_test

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

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/causallm"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// recorded is the output of testdata/llava.py for one model.
type recorded struct {
	Name              string
	Config, Written   map[string]any
	Parameters, Saved []string
	Initial, Final    map[string]string
	Generator         string
	Samples           []struct {
		IDs, Labels []int64
		Images      int
	}
	Cases []struct {
		modeltest.CausalCase
		Rows   [2]int
		Frozen bool
	}
	Losses    []string
	GradNorms []string `json:"grad_norms"`
	EvalLoss  string   `json:"eval_loss"`
	Texts     []struct {
		Rows  []int
		Added [][]int64 // padded after their end
	}
	Adapter struct {
		Saved, Grads map[string]string
		Norms        map[string]float64
	}
}

// end is the token that ends a text.
const end = 60

func load(t *testing.T) ([]recorded, *golden.File) {
	t.Helper()
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	var f struct{ Models []recorded }
	text, err := os.ReadFile("testdata/llava.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &f))
	require.Len(t, f.Models, 3)
	return f.Models, golden.Load(t, "testdata/llava.safetensors")
}

// fresh makes the model with the seed 42.
func (r recorded) fresh(t *testing.T, o auto.Options) *auto.ImageTextToTextModel {
	t.Helper()
	o.FromConfig, o.Warnings = true, io.Discard
	torch.ManualSeed(42)
	m, err := auto.ImageTextToText(t.Context(), modeltest.ConfigFolder(t, r.Config), o)
	require.NoError(t, err)
	return m
}

// samples returns the texts of the golden file with their images.
func (r recorded) samples(m *auto.ImageTextToTextModel, file *golden.File) (samples []causallm.ImageSample) {
	images := modeltest.EncoderImages(file, m.ImageLimits())
	for _, s := range r.Samples {
		sample := causallm.ImageSample{Sample: causallm.Sample{Text: inputs.Text{InputIDs: s.IDs}, Labels: s.Labels}}
		for _, im := range images[:s.Images] {
			sample.Images = append(sample.Images, inputs.Image{Pixels: im.Pixels, Shape: im.Shape})
		}
		samples, images = append(samples, sample), images[s.Images:]
	}
	return samples
}

func TestSameSeedGivesTransformersWeights(t *testing.T) {
	models, _ := load(t)
	for _, r := range models {
		t.Run(r.Name, func(t *testing.T) {
			m := r.fresh(t, auto.Options{})
			modeltest.SameFresh(t, m, r.Generator, r.Parameters, r.Initial)
			var names []string
			for _, s := range nn.StateDict(m) {
				if !slices.Contains(m.TiedWeights(), s.Name) {
					names = append(names, s.Name)
				}
			}
			slices.Sort(names)
			assert.Equal(t, r.Saved, names)
		})
	}
}

func TestForwardAndBackwardHaveTransformersBits(t *testing.T) {
	models, file := load(t)
	for _, r := range models {
		for _, c := range r.Cases {
			t.Run(c.Name, func(t *testing.T) {
				goldencount.Start(t, "models", c.Name)
				torch.Scope(func() {
					m := r.fresh(t, auto.Options{Attention: c.Attention})
					m.SetGradientCheckpointing(c.Checkpointing)
					if c.Frozen {
						require.NoError(t, m.FreezeVisionTower())
					}
					task := m.Task()
					b, err := task.Collate(r.samples(m, file)[c.Rows[0]:c.Rows[1]])
					require.NoError(t, err)
					c.Pass(t, m, file, func() engine.Outputs { return task.Predict(engine.ForwardPass{}, b) },
						func(o engine.Outputs) torch.Tensor { return task.LossOf(engine.ForwardPass{}, o).Value })
				})
			})
		}
	}
}

// ways are the settings of testdata/llava.py.
func ways() []auto.Generation {
	return []auto.Generation{{MaxNewTokens: 10},
		{MaxNewTokens: 10, Sample: true, Temperature: 0.7, TopK: 20, TopP: 0.9},
		{NumBeams: 4, LengthPenalty: new(2.0), NoRepeatNGramSize: 3, MaxNewTokens: 9, EarlyStopping: auto.EarlyStoppingTrue},
		{MaxNewTokens: 6, NumBeams: 3, NumReturnSequences: 3}}
}

// TestRunsHaveTransformersBits compares a run of Trainer and its evaluation, then what the model
// adds to prompts with images.
func TestRunsHaveTransformersBits(t *testing.T) {
	models, file := load(t)
	for _, r := range models {
		t.Run(r.Name, func(t *testing.T) {
			goldencount.Start(t, "models", r.Name+", run")
			m := r.fresh(t, auto.Options{})
			samples := r.samples(m, file)
			fit := modeltest.Train(t, m.Task(), samples, 1, r.Losses, r.GradNorms)
			modeltest.SameWeights(t, m, r.Final)
			evaluated, err := fit.Evaluate(t.Context(), data.Slice[causallm.ImageSample](samples[:4]))
			require.NoError(t, err)
			modeltest.SameNumber(t, "eval_loss", evaluated["loss"], r.EvalLoss)
			torch.NoGrad(func() {
				for _, p := range nn.Params(m) {
					if p.Tensor.Dim() == 2 {
						p.Tensor.MulScalar_(6)
					}
				}
			})
			for i, g := range ways() {
				var prompts []auto.ImagePromptIDs
				for _, row := range r.Texts[i].Rows {
					s := samples[row]
					from, _ := s.Answer()
					prompts = append(prompts, auto.ImagePromptIDs{InputIDs: s.InputIDs[:from], Images: s.Images})
				}
				torch.ManualSeed(3)
				got, err := m.GenerateIDs(t.Context(), prompts, g)
				require.NoError(t, err)
				require.Len(t, got, len(r.Texts[i].Added))
				for k, ids := range r.Texts[i].Added {
					if at := slices.Index(ids, end); at >= 0 {
						ids = ids[:at+1]
					}
					if testenv.SameBits() {
						assert.Equal(t, ids, got[k], "text %d, %+v", k, g)
					}
				}
			}
		})
	}
}

// TestAdaptersHavePeftsBits compares a pass with updates of the language model's queries and
// values, and the adapter's names and weights in files.
func TestAdaptersHavePeftsBits(t *testing.T) {
	models, file := load(t)
	for _, r := range models {
		t.Run(r.Name, func(t *testing.T) {
			goldencount.Start(t, "models", r.Name+", adapter")
			m := r.fresh(t, auto.Options{})
			require.NoError(t, m.AddLoRA(lora.Config{R: 4, Dropout: 0.1, Init: lora.InitRandom}))
			task := m.Task()
			b, err := task.Collate(r.samples(m, file)[:4])
			require.NoError(t, err)
			torch.ManualSeed(7)
			o := task.Predict(engine.ForwardPass{}, b)
			task.LossOf(engine.ForwardPass{}, o).Value.Backward()
			golden.Recorded(t, "logits", o.Logits[0].Detach(), file.Tensor(r.Name+", adapter.logits"))
			modeltest.SameGrads(t, m, r.Adapter.Grads, r.Adapter.Norms, 1e-4)
			var trained []string
			for _, p := range nn.Params(m) {
				if p.Tensor.NeedsGrad() {
					trained = append(trained, p.Name)
				}
			}
			modeltest.SameAdapter(t, m.Model, trained, r.Adapter.Saved)
		})
	}
}

// TestFilesLoad: what Save writes, and files with the names of other releases of transformers.
func TestFilesLoad(t *testing.T) {
	models, _ := load(t)
	loaded := func(dir string) (*auto.ImageTextToTextModel, *pretrained.Report, error) {
		m, err := auto.ImageTextToText(t.Context(), dir, auto.Options{Warnings: io.Discard})
		if err != nil {
			return nil, nil, err
		}
		return m, m.Report, nil
	}
	for _, r := range models {
		m := r.fresh(t, auto.Options{})
		modeltest.SavedModelLoads(t, m, loaded)
		older := func(name string) string {
			return strings.Replace(name, "vision_tower.", "vision_tower.vision_model.", 1)
		}
		for _, rename := range []func(string) string{m.AdapterName, older,
			func(name string) string { return older(m.AdapterName(name)) }} {
			var tensors []torch.Named
			for _, s := range nn.StateDict(m) {
				tensors = append(tensors, torch.Named{Name: rename(s.Name), Tensor: s.Tensor})
			}
			dir := modeltest.ConfigFolder(t, r.Config)
			require.NoError(t, nn.SaveTensors(filepath.Join(dir, pretrained.SafetensorsName), tensors, nil))
			again, report, err := loaded(dir)
			require.NoError(t, err)
			assert.Empty(t, report.Unexpected)
			wanted := nn.Params(m)
			for i, p := range nn.Params(again) {
				golden.Bits(t, p.Name, p.Tensor, wanted[i].Tensor)
			}
		}
	}
}

// TestConfigsAreWrittenAsTransformersDoes compares every setting of config.json.
func TestConfigsAreWrittenAsTransformersDoes(t *testing.T) {
	models, _ := load(t)
	for _, r := range models {
		m := r.fresh(t, auto.Options{})
		dir := t.TempDir()
		require.NoError(t, m.WriteConfig(dir))
		content, err := os.ReadFile(filepath.Join(dir, "config.json"))
		require.NoError(t, err)
		var got map[string]any
		require.NoError(t, json.Unmarshal(content, &got))
		for _, key := range []string{"transformers_version", "image_seq_length"} {
			delete(r.Written, key)
			delete(got, key)
		}
		for key, want := range r.Written {
			own, nested := want.(map[string]any)
			if !nested {
				assert.Equal(t, want, got[key], "%s: %s", r.Name, key)
				continue
			}
			part, _ := got[key].(map[string]any)
			for name, value := range own {
				// settings without effect that transformers adds, and those of token ids that are not given
				if _, given := part[name]; given {
					assert.Equal(t, value, part[name], "%s: %s of %s", r.Name, name, key)
				}
			}
			assert.Equal(t, own["model_type"], part["model_type"])
		}
	}
}

// TestSettingsThatAreNotSupportedAreRefused checks parts of other kinds, by name, and settings that
// would change what the model computes.
func TestSettingsThatAreNotSupportedAreRefused(t *testing.T) {
	for want, c := range map[string]struct {
		part, key string
		value     any
	}{
		`vision_config: model_type is "siglip_vision_model"; only`:    {"vision_config", "model_type", "siglip_vision_model"},
		`text_config: model_type is "gemma"; only "llama" or`:         {"text_config", "model_type", "gemma"},
		`text_config: model_type is "mixtral"; only "llama" or`:       {"text_config", "model_type", "mixtral"},
		"image_token_index is 61; want an id below vocab_size":        {"", "image_token_index", 61},
		"vision_feature_layer has -5; the vision tower has":           {"", "vision_feature_layer", []int{-2, -5}},
		"vision_feature_layer is []: want a number":                   {"", "vision_feature_layer", []int{}},
		`vision_feature_select_strategy is "cls"; want "default"`:     {"", "vision_feature_select_strategy", "cls"},
		`projector_hidden_act: there is no activation "mish"`:         {"", "projector_hidden_act", "mish"},
		"vision_config: HiddenSize is 16, which is no multiple of":    {"vision_config", "num_attention_heads", 3},
		"text_config: HiddenSize is 24, which is no multiple of the ": {"text_config", "num_attention_heads", 5},
		"ignore_index is 0; only -100":                                {"", "ignore_index", 0},
	} {
		models, _ := load(t)
		config := models[0].Config
		if c.part != "" {
			config = config[c.part].(map[string]any)
		}
		config[c.key] = c.value
		_, err := auto.ImageTextToText(t.Context(), modeltest.ConfigFolder(t, models[0].Config),
			auto.Options{FromConfig: true, Warnings: io.Discard})
		require.ErrorContains(t, err, want, want)
		require.ErrorContains(t, err, "config.json")
	}
}

// TestMismatchedImagesAreRefused: a batch says which sample is wrong, the model how many are.
func TestMismatchedImagesAreRefused(t *testing.T) {
	models, file := load(t)
	m := models[0].fresh(t, auto.Options{})
	samples := models[0].samples(m, file)
	samples[3].Images = nil
	_, err := m.Task().Collate(samples[:4])
	require.ErrorContains(t, err, "causallm: sample 3 of the batch: the text has 4 image tokens (id 58), and 0 images "+
		"need 0")
	samples[3].Images = []inputs.Image{{Pixels: make([]float32, 3), Shape: []int64{3, 1, 1}}}
	_, err = m.Task().Collate(samples[:4])
	require.ErrorContains(t, err, "image 0: Shape is [3 1 1]; the model takes pictures of [3 8 8]")
	_, err = m.GenerateIDs(t.Context(), []auto.ImagePromptIDs{{InputIDs: []int64{1, 58, 2}}}, auto.Generation{})
	require.ErrorContains(t, err, "auto: prompt 0: the text has 1 image tokens")
	err = torch.Try(func() {
		m.ForwardImages(torch.From([]int64{1, 58, 2}, 1, 3), torch.Tensor{}, torch.Zeros(1, 3, 8, 8))
	})
	require.ErrorContains(t, err, "the texts have 1 image tokens (id 58), and the 1 images have 4 features; want as many")
	err = torch.Try(func() { m.Forward(torch.From([]int64{1}, 1, 1), torch.Tensor{}, torch.Tensor{}) })
	require.ErrorContains(t, err, "takes texts with images: ImageTextToTextModel.ForwardImages")
}
