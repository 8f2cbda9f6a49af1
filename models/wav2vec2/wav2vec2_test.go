package wav2vec2_test

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/ctc"
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

// run is a recorded run of Trainer.
type run struct {
	Losses    []string
	GradNorms []string `json:"grad_norms"`
	Final     map[string]string
	EvalLoss  string `json:"eval_loss"`
}

// recorded is the output of testdata/wav2vec2.py for one model.
type recorded struct {
	Name              string
	Masked, CTC       bool
	Config            map[string]any
	Parameters, Saved []string
	Initial           map[string]string
	Generator         string
	Cases             []modeltest.CausalCase
	Run               run
	Frozen            *run // with a frozen feature encoder
	Accumulated       *run // over windows of two batches
	Adapter           *struct {
		Saved, Grads map[string]string
		Norms        map[string]float64
	}
}

func load(t *testing.T) ([]recorded, *golden.File) {
	t.Helper()
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	var f struct{ Models []recorded }
	text, err := os.ReadFile("testdata/wav2vec2.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &f))
	require.Len(t, f.Models, 6)
	return f.Models, golden.Load(t, "testdata/wav2vec2.safetensors")
}

// model is what both kinds of models have.
type model interface {
	Save(dir string) error
	FreezeFeatureEncoder() error
	AddLoRA(c lora.Config) error
	SetGradientCheckpointing(on bool)
}

// folder returns a folder with the model's config.json and preprocessor_config.json.
func (r recorded) folder(t *testing.T) string {
	t.Helper()
	dir := modeltest.ConfigFolder(t, r.Config)
	content, err := json.Marshal(map[string]any{"feature_extractor_type": "Wav2Vec2FeatureExtractor",
		"return_attention_mask": r.Masked})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "preprocessor_config.json"), content, 0o600))
	return dir
}

// open loads the model of a folder.
func (r recorded) open(t *testing.T, dir string, o auto.Options) (m model, inner *auto.Model) {
	t.Helper()
	o.Warnings = io.Discard
	if r.CTC {
		m, err := auto.CTC(t.Context(), dir, o)
		require.NoError(t, err)
		return m, m.Model
	}
	c, err := auto.AudioClassification(t.Context(), dir, o)
	require.NoError(t, err)
	return c, c.Model
}

// fresh makes the model with the seed 42.
func (r recorded) fresh(t *testing.T, o auto.Options) (model, *auto.Model) {
	t.Helper()
	o.FromConfig = true
	torch.ManualSeed(42)
	return r.open(t, r.folder(t), o)
}

func soundOf(file *golden.File, i int) inputs.Waveform {
	return inputs.Waveform{Values: torch.Values[float32](file.Tensor("sound." + strconv.Itoa(i)))}
}

// count is the number of samples of the golden file.
const count = 24

// speech returns the samples for CTC.
func speech(file *golden.File) (samples []ctc.Sample) {
	for i := range count {
		samples = append(samples, ctc.Sample{Waveform: soundOf(file, i),
			Labels: torch.Values[int64](file.Tensor("letters." + strconv.Itoa(i)))})
	}
	return samples
}

// sounds returns the samples for classifiers.
func sounds(file *golden.File) (samples []classify.AudioSample) {
	for i, label := range torch.Values[int64](file.Tensor("classes")) {
		samples = append(samples, classify.AudioSample{Waveform: soundOf(file, i), Label: label})
	}
	return samples
}

// taskOf is a task of one of the two kinds.
type taskOf[S, B any] interface {
	engine.Observer[B]
	engine.Task[S, B]
	engine.Seeder
}

// passing returns the forward pass of the first four samples, cut to the same length if full, and
// the loss of its outputs.
func passing(t *testing.T, m model, file *golden.File, full bool) (predict func() engine.Outputs,
	lossOf func(o engine.Outputs) torch.Tensor) {
	t.Helper()
	if c, ok := m.(*auto.CTCModel); ok {
		return pass(t, c.Task(), speech(file)[:4], func(s *ctc.Sample) { s.Values = s.Values[:150] }, full)
	}
	return pass(t, m.(*auto.AudioClassifier).Task(), sounds(file)[:4],
		func(s *classify.AudioSample) { s.Values = s.Values[:150] }, full)
}

func pass[S, B any](t *testing.T, task taskOf[S, B], samples []S, cut func(s *S), full bool) (
	predict func() engine.Outputs, lossOf func(o engine.Outputs) torch.Tensor) {
	t.Helper()
	for i := range samples {
		if full {
			cut(&samples[i])
		}
	}
	b, err := task.Collate(samples)
	require.NoError(t, err)
	task.TakeSeed(7)
	return func() engine.Outputs { return task.Predict(engine.ForwardPass{}, b) },
		func(o engine.Outputs) torch.Tensor { return task.LossOf(engine.ForwardPass{}, o).Value }
}

func TestSameSeedGivesTransformersWeights(t *testing.T) {
	models, _ := load(t)
	for _, r := range models {
		t.Run(r.Name, func(t *testing.T) {
			_, m := r.fresh(t, auto.Options{})
			modeltest.SameFresh(t, m, r.Generator, r.Parameters, r.Initial)
			var names []string
			for _, s := range nn.StateDict(m) {
				names = append(names, s.Name)
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
				o := auto.Options{Attention: c.Attention}
				if c.Half {
					o.DType = torch.BFloat16
				}
				torch.Scope(func() {
					m, inner := r.fresh(t, o)
					predict, lossOf := passing(t, m, file, c.Full)
					c.Pass(t, inner, file, predict, lossOf)
				})
			})
		}
	}
}

// TestLossesAreThoseOfOutputs: with and without the outputs of Predict, the loss has the same bits.
func TestLossesAreThoseOfOutputs(t *testing.T) {
	models, file := load(t)
	for _, r := range models[:2] {
		m, inner := r.fresh(t, auto.Options{})
		nn.SetTraining(inner, false)
		task := m.(*auto.CTCModel).Task()
		b, err := task.Collate(speech(file)[:5])
		require.NoError(t, err)
		golden.Bits(t, r.Name, task.Loss(engine.ForwardPass{}, b).Value,
			task.LossOf(engine.ForwardPass{}, task.Predict(engine.ForwardPass{}, b)).Value)
	}
}

func TestCheckpointingKeepsTheBits(t *testing.T) {
	models, file := load(t)
	for _, r := range models {
		passed := func(checkpointing bool) (logits torch.Tensor, generator string, grads []torch.Named) {
			m, inner := r.fresh(t, auto.Options{})
			m.SetGradientCheckpointing(checkpointing)
			predict, lossOf := passing(t, m, file, false)
			torch.ManualSeed(7)
			o := predict()
			lossOf(o).Backward()
			return o.Logits[0], modeltest.Generator(), nn.Params(inner)
		}
		want, generator, kept := passed(false)
		got, again, computed := passed(true)
		golden.Bits(t, r.Name, got, want)
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

// TestRunsHaveTransformersBits compares runs of Trainer and their evaluations, and runs with a
// frozen feature encoder and with accumulation.
func TestRunsHaveTransformersBits(t *testing.T) {
	models, file := load(t)
	for _, r := range models {
		t.Run(r.Name, func(t *testing.T) {
			goldencount.Start(t, "models", r.Name+", run")
			if r.Frozen != nil {
				m, _ := r.fresh(t, auto.Options{})
				require.NoError(t, m.FreezeFeatureEncoder())
				r.Frozen.compare(t, m, file, 1)
				m, _ = r.fresh(t, auto.Options{})
				r.Accumulated.compare(t, m, file, 2)
			}
			m, _ := r.fresh(t, auto.Options{})
			r.Run.compare(t, m, file, 1)
		})
	}
}

// compare repeats a run with a model.
func (r run) compare(t *testing.T, m model, file *golden.File, accumulate int) {
	t.Helper()
	var evaluated map[string]float64
	var err error
	if c, ok := m.(*auto.CTCModel); ok {
		samples := speech(file)
		fit := modeltest.Train(t, c.Task(), samples, accumulate, r.Losses, r.GradNorms)
		evaluated, err = fit.Evaluate(t.Context(), data.Slice[ctc.Sample](samples[:12]))
	} else {
		samples := sounds(file)
		fit := modeltest.Train(t, m.(*auto.AudioClassifier).Task(), samples, accumulate, r.Losses, r.GradNorms)
		evaluated, err = fit.Evaluate(t.Context(), data.Slice[classify.AudioSample](samples[:12]))
	}
	require.NoError(t, err)
	modeltest.SameWeights(t, m, r.Final)
	modeltest.SameNumber(t, "eval_loss", evaluated["loss"], r.EvalLoss)
}

// TestAdaptersHavePeftsBits: a pass with an adapter, and the tensors that it saves.
func TestAdaptersHavePeftsBits(t *testing.T) {
	models, file := load(t)
	for _, r := range models {
		if r.Adapter == nil {
			continue
		}
		m, inner := r.fresh(t, auto.Options{})
		require.NoError(t, m.AddLoRA(lora.Config{R: 4, Dropout: 0.1, Init: lora.InitRandom,
			TargetModules: []string{"q_proj", "v_proj"}}))
		var trained []string
		for _, name := range nn.Params(inner) {
			if _, ok := r.Adapter.Grads[name.Name]; ok {
				trained = append(trained, name.Name)
			}
		}
		modeltest.SameAdapter(t, inner, trained, r.Adapter.Saved)
		predict, lossOf := passing(t, m, file, false)
		torch.ManualSeed(7)
		o := predict()
		lossOf(o).Backward()
		golden.Recorded(t, "logits", o.Logits[0].Detach(), file.Tensor(r.Name+", adapter.logits"))
		modeltest.SameGrads(t, inner, r.Adapter.Grads, r.Adapter.Norms, 1e-4)
	}
}

// TestFilesLoad saves models and loads them, and files with the older names of the weight of the
// positions, and without the embedding of masked frames.
func TestFilesLoad(t *testing.T) {
	models, _ := load(t)
	for _, r := range models {
		m, inner := r.fresh(t, auto.Options{})
		modeltest.SavedModelLoads(t, m, func(dir string) (model, *pretrained.Report, error) {
			m, inner := r.open(t, dir, auto.Options{})
			return m, inner.Report, nil
		})
		dir := r.folder(t)
		older := map[string]string{"original0": "weight_g", "original1": "weight_v"}
		var state []torch.Named
		for _, s := range nn.StateDict(inner) {
			if filepath.Ext(s.Name) == ".masked_spec_embed" {
				continue
			}
			for now, before := range older {
				s.Name = strings.Replace(s.Name, "parametrizations.weight."+now, before, 1)
			}
			state = append(state, s)
		}
		require.NoError(t, nn.SaveTensors(filepath.Join(dir, pretrained.SafetensorsName), state, nil))
		_, again := r.open(t, dir, auto.Options{})
		for i, p := range nn.StateDict(again) {
			if filepath.Ext(p.Name) != ".masked_spec_embed" {
				golden.Bits(t, p.Name, p.Tensor, nn.StateDict(inner)[i].Tensor)
			}
		}
	}
}

// TestPositionsThatAreMissingAreDrawn: with InitMissing, the weight of the positions is what its
// two parts say.
func TestPositionsThatAreMissingAreDrawn(t *testing.T) {
	models, _ := load(t)
	for _, r := range models {
		_, inner := r.fresh(t, auto.Options{})
		state := slices.DeleteFunc(nn.StateDict(inner), func(s torch.Named) bool {
			return strings.Contains(s.Name, "pos_conv_embed.conv.")
		})
		dir := r.folder(t)
		require.NoError(t, nn.SaveTensors(filepath.Join(dir, pretrained.SafetensorsName), state, nil))
		_, err := auto.CTC(t.Context(), dir, auto.Options{Warnings: io.Discard})
		require.ErrorContains(t, err, "pos_conv_embed.conv.")
		_, again := r.open(t, dir, auto.Options{InitMissing: true})
		for _, p := range nn.Params(again) {
			if strings.HasSuffix(p.Name, "original0") {
				lengths := torch.Values[float32](p.Tensor)
				assert.Positive(t, slices.Min(lengths), r.Name)
				assert.Less(t, slices.Max(lengths), float32(100), r.Name)
			}
		}
	}
}

// TestConfigsKeepTheirKeys checks that config.json comes back as transformers wrote it.
func TestConfigsKeepTheirKeys(t *testing.T) {
	models, _ := load(t)
	for _, r := range models {
		dir := t.TempDir()
		m, _ := r.fresh(t, auto.Options{})
		require.NoError(t, m.Save(dir))
		text, err := os.ReadFile(filepath.Join(dir, "config.json"))
		require.NoError(t, err)
		var got map[string]any
		require.NoError(t, json.Unmarshal(text, &got))
		delete(got, "transformers_version")
		delete(r.Config, "transformers_version")
		assert.Equal(t, r.Config, got, r.Name)
	}
}

// TestSettingsThatAreNotSupportedAreRefused checks settings that would change what the model
// computes.
func TestSettingsThatAreNotSupportedAreRefused(t *testing.T) {
	modeltest.Refuses(t, "wav2vec2", map[string]string{
		`"add_adapter": true`:                                     "add_adapter is true; only false",
		`"adapter_attn_dim": 16`:                                  "adapter_attn_dim is 16; only null",
		`"feat_extract_norm": "batch"`:                            `FeatExtractNorm is "batch"; want "group" or "layer"`,
		`"hidden_act": "mish"`:                                    `no activation "mish"`,
		`"hidden_size": 30`:                                       "HiddenSize is 30, which is no multiple of the 12 heads",
		`"num_conv_pos_embedding_groups": 7`:                      "no multiple of NumConvPosEmbeddingGroups, 7",
		`"conv_dim": [4]`:                                         "ConvDim has 1 numbers, ConvStride 0",
		`"conv_dim": [4], "conv_stride": [0], "conv_kernel": [3]`: "ConvStride and ConvKernel of layer 0 are 4, 0 and 3",
		`"num_hidden_layers": 1000`:                               "NumLayers is 1000",
		`"layerdrop": 1`:                                          "Layerdrop is 1",
		`"mask_time_prob": -0.5`:                                  "MaskTimeProb is -0.5",
		`"mask_time_min_masks": -1`:                               "MaskTimeMinMasks is -1",
		`"mask_feature_prob": 0.1, "mask_feature_length": 800`:    "MaskFeatureLength is 800; want at most HiddenSize, 768",
		`"ctc_loss_reduction": "none"`:                            `no reduction "none" of CTC losses`,
		`"pad_token_id": 32`:                                      "PadTokenID is 32; want an id below VocabSize, 32",
	}, func(dir string) error {
		_, err := auto.CTC(t.Context(), dir, auto.Options{FromConfig: true})
		return err
	})
}

// TestSoundThatIsTooShortIsRefused: by tasks, with its number, and by the model itself.
func TestSoundThatIsTooShortIsRefused(t *testing.T) {
	models, file := load(t)
	m, inner := models[0].fresh(t, auto.Options{})
	task := m.(*auto.CTCModel).Task()
	samples := speech(file)[:2]
	samples[1].Values = samples[1].Values[:19]
	_, err := task.Collate(samples)
	require.ErrorContains(t, err, "ctc: sample 1 of the batch: Values has 19 samples; the model takes at least 20")
	samples[1].Values = make([]float32, 20)
	samples[1].Labels = []int64{12}
	_, err = task.Collate(samples)
	require.ErrorContains(t, err, "ctc: sample 1 of the batch: a label is 12; want 0 to 11 (vocab_size)")

	samples = samples[1:]
	samples[0].Labels = []int64{5, -100}
	b, err := task.Collate(samples)
	require.NoError(t, err)
	assert.Equal(t, []int64{1}, b.Counts)
	err = torch.Try(func() { task.Loss(engine.ForwardPass{}, b) })
	require.ErrorContains(t, err, "has 1 frames; want at least mask_time_length, 3")
	nn.SetTraining(inner, false)
	require.NoError(t, torch.Try(func() { task.Loss(engine.ForwardPass{}, b) }))
	err = torch.Try(func() { m.(*auto.CTCModel).Forward(torch.Zeros(2, 10), nil) })
	require.ErrorContains(t, err, "the samples have the shape [2 10]; want [B, samples], of which there are at least 20")
	err = torch.Try(func() { m.(*auto.CTCModel).Forward(torch.Zeros(2, 40), []int64{40, 50}) })
	require.ErrorContains(t, err, "the lengths are [40 50]; want one for each of the 2 rows, from 20 to 40")
}

// A text of more letters than its speech has frames has an infinite loss, after which no weight is
// finite.
func TestTextThatDoesNotFitIntoItsSpeechIsRefusedInTraining(t *testing.T) {
	testenv.RequireTorch(t)
	config := small
	config.VocabSize, config.PadTokenID = 6, new(int64(0))
	sound := inputs.Waveform{Values: make([]float32, 90)} // 2 frames
	for _, zeroed := range []bool{false, true} {
		config.CTCZeroInfinity = zeroed
		m, err := auto.NewCTC(config, nil, nil)
		require.NoError(t, err)
		for _, c := range []struct {
			labels []int64
			want   string
		}{
			{[]int64{1, 2}, ""},
			{[]int64{1, 1}, "2 labels, with a blank between equal ones, need 3 frames, but the model makes 2"},
			{[]int64{1, 2, 3}, "3 labels"},
		} {
			b, err := m.Task().Collate([]ctc.Sample{{Waveform: sound, Labels: c.labels}})
			require.NoError(t, err)
			require.EqualValues(t, []int64{2}, b.Frames(m.WaveformLimits()))
			assert.NoError(t, torch.Try(func() { m.Task().Loss(engine.ForwardPass{}, b) }), "an evaluation")
			err = torch.Try(func() { m.Task().Loss(engine.ForwardPass{WindowLen: 1}, b) })
			if zeroed || c.want == "" {
				assert.NoError(t, err)
				continue
			}
			assert.ErrorContains(t, err, c.want)
		}
	}
}
