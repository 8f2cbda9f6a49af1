package trocr_test

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/seq2seq"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// recorded is the output of testdata/trocr.py for one model.
type recorded struct {
	Name              string
	Config            map[string]any
	Parameters, Saved []string
	Initial, Final    map[string]string
	Generator         string
	Cases             []modeltest.CausalCase
	Losses            []string
	GradNorms         []string    `json:"grad_norms"`
	EvalLoss          string      `json:"eval_loss"`
	Texts             [][][]int64 // padded after their end
	Adapter           struct {
		Saved, Grads map[string]string
		Norms        map[string]float64
	}
	Files []struct {
		Name    string
		Content map[string]any
		Rows    [][]int64
	}
}

// end is the token that ends a text.
const end = 60

func load(t *testing.T) ([]recorded, *golden.File) {
	t.Helper()
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	var f struct{ Models []recorded }
	text, err := os.ReadFile("testdata/trocr.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &f))
	require.Len(t, f.Models, 3)
	return f.Models, golden.Load(t, "testdata/trocr.safetensors")
}

// fresh makes the model with the seed 42.
func (r recorded) fresh(t *testing.T, o auto.Options) *auto.ImageToTextModel {
	t.Helper()
	return open(t, modeltest.ConfigFolder(t, r.Config), o)
}

func open(t *testing.T, dir string, o auto.Options) *auto.ImageToTextModel {
	t.Helper()
	o.FromConfig, o.Warnings = true, io.Discard
	torch.ManualSeed(42)
	m, err := auto.ImageToText(t.Context(), dir, o)
	require.NoError(t, err)
	return m
}

// samplesOf returns the 48 pictures and texts of the golden file for a model.
func samplesOf(m *auto.ImageToTextModel, file *golden.File) (samples []seq2seq.ImageSample) {
	for i, s := range modeltest.EncoderImages(file, m.ImageLimits()) {
		samples = append(samples, seq2seq.ImageSample{Image: inputs.Image{Pixels: s.Pixels, Shape: s.Shape},
			Labels: torch.Values[int64](file.Tensor("target." + strconv.Itoa(i)))})
	}
	return samples
}

// state returns the names of what a model saves.
func state(m *auto.ImageToTextModel) (names []string) {
	for _, s := range nn.StateDict(m) {
		if !slices.Contains(m.TiedWeights(), s.Name) {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	return names
}

func TestSameSeedGivesTransformersWeights(t *testing.T) {
	models, _ := load(t)
	for _, r := range models {
		t.Run(r.Name, func(t *testing.T) {
			m := r.fresh(t, auto.Options{})
			modeltest.SameFresh(t, m, r.Generator, r.Parameters, r.Initial)
			assert.Equal(t, r.Saved, state(m))
		})
	}
}

func TestForwardAndBackwardHaveTransformersBits(t *testing.T) {
	models, file := load(t)
	for _, r := range models {
		for _, c := range r.Cases {
			t.Run(c.Name, func(t *testing.T) {
				goldencount.Start(t, "models", c.Name)
				o := auto.Options{Attention: c.Attention}
				if c.Half {
					o.DType = torch.BFloat16
				}
				torch.Scope(func() {
					m := r.fresh(t, o)
					samples := samplesOf(m, file)[:4]
					if c.Full {
						for i, s := range samples {
							samples[i].Labels = append(slices.Clone(s.Labels), 1, 1)[:3]
						}
					}
					task := m.Task()
					b, err := task.Collate(samples)
					require.NoError(t, err)
					c.Pass(t, m, file, func() engine.Outputs { return task.Predict(engine.ForwardPass{}, b) },
						func(o engine.Outputs) torch.Tensor { return task.LossOf(engine.ForwardPass{}, o).Value })
				})
			})
		}
	}
}

// TestCheckpointingKeepsTheNumbers: as in transformers, gradients to which several layers contribute
// are summed in another order.
func TestCheckpointingKeepsTheNumbers(t *testing.T) {
	models, file := load(t)
	for _, r := range models {
		passed := func(checkpointing bool) (logits torch.Tensor, generator string, grads []torch.Named) {
			m := r.fresh(t, auto.Options{})
			m.SetGradientCheckpointing(checkpointing)
			b, err := m.Task().Collate(samplesOf(m, file)[:4])
			require.NoError(t, err)
			torch.ManualSeed(7)
			logits = m.Task().Predict(engine.ForwardPass{}, b).Logits[0]
			logits.Square().Mean(torch.DefaultDType).Backward()
			return logits, modeltest.Generator(), nn.Params(m)
		}
		want, generator, kept := passed(false)
		got, again, computed := passed(true)
		assert.True(t, got.Equal(want), r.Name)
		assert.Equal(t, generator, again)
		for i, p := range computed {
			grad, other := p.Tensor.Grad(), kept[i].Tensor.Grad()
			require.Equal(t, other.Defined(), grad.Defined(), p.Name)
			if grad.Defined() {
				assert.True(t, grad.AllClose(other, 1e-4, 1e-6, false), p.Name)
			}
		}
	}
}

// ways are the settings of testdata/trocr.py.
func ways() []auto.Generation {
	return []auto.Generation{{MaxNewTokens: 12},
		{MaxNewTokens: 12, Sample: true, Temperature: 0.7, TopK: 20, TopP: 0.9},
		{NumBeams: 4, LengthPenalty: new(2.0), NoRepeatNGramSize: 3, MaxNewTokens: 13,
			EarlyStopping: auto.EarlyStoppingTrue},
		{MaxNewTokens: 8, NumBeams: 3, NumReturnSequences: 3},
		{MaxNewTokens: 6, NumBeams: 3, Sample: true, RepetitionPenalty: 1.5}, {}}
}

// TestRunsHaveTransformersBits compares a run of Seq2SeqTrainer and its evaluation, then what the
// model writes about four pictures.
func TestRunsHaveTransformersBits(t *testing.T) {
	models, file := load(t)
	for _, r := range models {
		t.Run(r.Name, func(t *testing.T) {
			goldencount.Start(t, "models", r.Name+", run")
			m := r.fresh(t, auto.Options{})
			samples := samplesOf(m, file)
			fit := modeltest.Train(t, m.Task(), samples, 1, r.Losses, r.GradNorms)
			modeltest.SameWeights(t, m, r.Final)
			evaluated, err := fit.Evaluate(t.Context(), data.Slice[seq2seq.ImageSample](samples[:4]))
			require.NoError(t, err)
			modeltest.SameNumber(t, "eval_loss", evaluated["loss"], r.EvalLoss)
			torch.NoGrad(func() {
				for _, p := range nn.Params(m) {
					if p.Tensor.Dim() == 2 {
						p.Tensor.MulScalar_(8)
					}
				}
			})
			for i, g := range ways() {
				sameTexts(t, m, samples, g, r.Texts[i])
			}
			trained := nn.StateDict(m)
			for _, f := range r.Files {
				dir := modeltest.ConfigFolder(t, r.Config)
				text, err := json.Marshal(f.Content)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(filepath.Join(dir, f.Name), text, 0o600))
				again := open(t, dir, auto.Options{})
				nn.SetTraining(again, false)
				torch.NoGrad(func() {
					for k, s := range nn.StateDict(again) {
						s.Tensor.Copy_(trained[k].Tensor)
					}
				})
				sameTexts(t, again, samples, auto.Generation{}, f.Rows)
			}
		})
	}
}

// sameTexts compares what a model writes about the first four pictures.
func sameTexts(t *testing.T, m *auto.ImageToTextModel, samples []seq2seq.ImageSample, g auto.Generation,
	want [][]int64) {
	t.Helper()
	var images []inputs.Image
	for _, s := range samples[:4] {
		images = append(images, s.Image)
	}
	torch.ManualSeed(3)
	got, err := m.GenerateIDs(t.Context(), images, g)
	require.NoError(t, err)
	require.Len(t, got, len(want))
	for i, ids := range want {
		if at := slices.Index(ids, end); at >= 0 {
			ids = ids[:at+1]
		}
		if testenv.SameBits() {
			assert.Equal(t, ids, got[i], "text %d, %+v", i, g)
		}
	}
}

// TestAdaptersHavePeftsBits compares a pass with updates of query and value of the encoder and the
// decoder, and the adapter's names and weights in files.
func TestAdaptersHavePeftsBits(t *testing.T) {
	models, file := load(t)
	for _, r := range models {
		t.Run(r.Name, func(t *testing.T) {
			goldencount.Start(t, "models", r.Name+", adapter")
			m := r.fresh(t, auto.Options{})
			require.NoError(t, m.AddLoRA(lora.Config{R: 4, Dropout: 0.1, Init: lora.InitRandom}))
			task := m.Task()
			b, err := task.Collate(samplesOf(m, file)[:4])
			require.NoError(t, err)
			torch.ManualSeed(7)
			o := task.Predict(engine.ForwardPass{}, b)
			task.LossOf(engine.ForwardPass{}, o).Value.Backward()
			golden.Recorded(t, "logits", o.Logits[0].Detach(), file.Tensor(r.Name+", adapter.logits"))
			modeltest.SameGrads(t, m, r.Adapter.Grads, r.Adapter.Norms, 1e-4)
			saved := map[string]string{}
			_, tensors, _ := m.AdapterState()
			for _, s := range tensors {
				saved[s.Name] = modeltest.Sum(s.Tensor.Bytes())
			}
			if testenv.SameBits() {
				assert.Equal(t, r.Adapter.Saved, saved)
			} else {
				assert.Len(t, saved, len(r.Adapter.Saved))
			}
		})
	}
}

// TestFilesLoad: what Save writes, and files with both names of a tied weight, with the names that
// transformers has in memory, and without the pooler, which computes nothing.
func TestFilesLoad(t *testing.T) {
	models, _ := load(t)
	loaded := func(dir string) (*auto.ImageToTextModel, *pretrained.Report, error) {
		m, err := auto.ImageToText(t.Context(), dir, auto.Options{Warnings: io.Discard})
		if err != nil {
			return nil, nil, err
		}
		return m, m.Report, nil
	}
	for _, r := range models {
		m := r.fresh(t, auto.Options{})
		modeltest.SavedModelLoads(t, m, loaded)
		var inMemory, withoutPooler []torch.Named
		for _, s := range nn.StateDict(m) {
			inMemory = append(inMemory, torch.Named{Name: m.AdapterName(s.Name), Tensor: s.Tensor})
			if s.Name != "encoder.pooler.dense.weight" && s.Name != "encoder.pooler.dense.bias" {
				withoutPooler = append(withoutPooler, s)
			}
		}
		for _, tensors := range [][]torch.Named{inMemory, withoutPooler} {
			dir := modeltest.ConfigFolder(t, r.Config)
			require.NoError(t, nn.SaveTensors(filepath.Join(dir, pretrained.SafetensorsName), tensors, nil))
			again, report, err := loaded(dir)
			require.NoError(t, err)
			wanted := nn.Params(m)
			for i, p := range nn.Params(again) {
				if !slices.Contains(report.Initialized, p.Name) {
					golden.Bits(t, p.Name, p.Tensor, wanted[i].Tensor)
				}
			}
			if len(report.Initialized) > 0 {
				assert.Equal(t, []string{"encoder.pooler.dense.weight", "encoder.pooler.dense.bias"}, report.Initialized)
			}
		}
	}
}

// TestTheFilesDecideWhatIsTied: as in transformers, an output layer of its own in the files stays one,
// whatever config.json says.
func TestTheFilesDecideWhatIsTied(t *testing.T) {
	models, _ := load(t)
	r := models[2]
	m := r.fresh(t, auto.Options{})
	require.False(t, m.OutputEmbeddings().Weight.Is(m.InputEmbeddings().Weight))
	r.Config["decoder"].(map[string]any)["tie_word_embeddings"] = true
	tied := r.fresh(t, auto.Options{})
	require.True(t, tied.OutputEmbeddings().Weight.Is(tied.InputEmbeddings().Weight))
	dir := modeltest.ConfigFolder(t, r.Config)
	require.NoError(t, nn.Save(filepath.Join(dir, pretrained.SafetensorsName), m, nil))
	again, err := auto.ImageToText(t.Context(), dir, auto.Options{Warnings: io.Discard})
	require.NoError(t, err)
	assert.True(t, again.OutputEmbeddings().Weight.Equal(m.OutputEmbeddings().Weight))
	assert.False(t, again.OutputEmbeddings().Weight.Is(again.InputEmbeddings().Weight))
}

// TestSettingsThatAreNotSupportedAreRefused checks parts of other kinds, by name, and settings that
// would change what the model computes.
func TestSettingsThatAreNotSupportedAreRefused(t *testing.T) {
	for want, c := range map[string]struct {
		part, key string
		value     any
	}{
		`encoder: model_type is "swin"; want one of ["vit" "deit"]`: {"encoder", "model_type", "swin"},
		`decoder: model_type is "gpt2"; want one of ["trocr"]`:      {"decoder", "model_type", "gpt2"},
		`encoder: model_type is ""`:                                 {"", "encoder", nil},
		`decoder: model_type is ""`:                                 {"", "decoder", nil},
		"is_encoder_decoder is false; only true":                    {"", "is_encoder_decoder", false},
		"encoder: pooler_output_size is 17; only 16":                {"encoder", "pooler_output_size", 17},
		"encoder: HiddenSize is 16, which is no multiple of the 3":  {"encoder", "num_attention_heads", 3},
		"CrossAttentionHiddenSize is 8; want 16":                    {"decoder", "cross_attention_hidden_size", 8},
		"decoder: HiddenSize is 24, which is no multiple of the 5":  {"decoder", "decoder_attention_heads", 5},
		`no activation "mish"`:                                      {"decoder", "activation_function", "mish"},
		"Layerdrop is 1":                                            {"decoder", "decoder_layerdrop", 1},
		"DecoderPadTokenID has the token 61":                        {"decoder", "pad_token_id", 61},
		"DecoderStartTokenID has the token -1":                      {"", "decoder_start_token_id", -1},
		"NumLayers is 1000":                                         {"decoder", "decoder_layers", 1000},
	} {
		models, _ := load(t)
		config := models[0].Config
		if c.part != "" {
			config = config[c.part].(map[string]any)
		}
		config[c.key] = c.value
		_, err := auto.ImageToText(t.Context(), modeltest.ConfigFolder(t, models[0].Config), auto.Options{FromConfig: true})
		require.ErrorContains(t, err, want, want)
		require.ErrorContains(t, err, "config.json")
	}
	models, _ := load(t)
	sines := models[1].Config
	sines["decoder"].(map[string]any)["max_position_embeddings"] = int64(1) << 40
	_, err := auto.ImageToText(t.Context(), modeltest.ConfigFolder(t, sines), auto.Options{FromConfig: true})
	require.ErrorContains(t, err, "where positions are not learned, the sum of the first two times the third is at most")
	for _, config := range []map[string]any{{"encoder": 7}, {"decoder": []int{1}}, {"encoder": nil, "decoder": nil},
		{"encoder": map[string]any{"model_type": "vit"}, "decoder": map[string]any{"model_type": "trocr", "dropout": "x"}}} {
		config["model_type"] = "vision-encoder-decoder"
		_, err := auto.ImageToText(t.Context(), modeltest.ConfigFolder(t, config), auto.Options{FromConfig: true})
		require.ErrorContains(t, err, "config.json")
	}
	_, err = auto.Seq2SeqLM(t.Context(), modeltest.ConfigFolder(t, models[0].Config), auto.Options{FromConfig: true})
	require.ErrorContains(t, err, `model_type is "vision-encoder-decoder"`)
}
