package whisper_test

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
	"github.com/gotrainer/gotrainer/models/bart"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/seq2seq"
	"github.com/gotrainer/gotrainer/models/whisper"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// run is a recorded run of Seq2SeqTrainer.
type run struct {
	Losses    []string
	GradNorms []string `json:"grad_norms"`
	Final     map[string]string
	EvalLoss  string `json:"eval_loss"`
}

// recorded is the output of testdata/whisper.py for one model.
type recorded struct {
	Name              string
	Config            map[string]any
	Parameters, Saved []string
	Initial           map[string]string
	Generator         string
	Cases             []modeltest.CausalCase
	Run               run
	Frozen            *run // with a frozen encoder
	Adapter           struct {
		Saved, Grads map[string]string
		Norms        map[string]float64
	}
	Files []struct {
		Content  map[string]any // generation_config.json
		Settings map[string]any // of generate
		Rows     [][]int64      // padded after their end
	}
	Segments []struct {
		Long              bool
		Content, Settings map[string]any
		Segments          []struct {
			Start, End float64
			IDs        []int64
		}
	}
}

// end is the token that ends a text.
const end = 40

func load(t *testing.T) ([]recorded, *golden.File) {
	t.Helper()
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	var f struct{ Models []recorded }
	text, err := os.ReadFile("testdata/whisper.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &f))
	require.Len(t, f.Models, 2)
	return f.Models, golden.Load(t, "testdata/whisper.safetensors")
}

// fresh makes the model with the seed 42.
func (r recorded) fresh(t *testing.T, o auto.Options) *auto.SpeechToTextModel {
	t.Helper()
	return open(t, modeltest.ConfigFolder(t, r.Config), o)
}

func open(t *testing.T, dir string, o auto.Options) *auto.SpeechToTextModel {
	t.Helper()
	o.FromConfig, o.Warnings = true, io.Discard
	torch.ManualSeed(42)
	m, err := auto.SpeechToText(t.Context(), dir, o)
	require.NoError(t, err)
	return m
}

// samplesOf returns the 48 samples of the golden file.
func samplesOf(file *golden.File) (samples []seq2seq.SpeechSample) {
	features := file.Tensor("features")
	for i := range features.Size(0) {
		samples = append(samples, seq2seq.SpeechSample{
			Speech: inputs.Speech{Features: torch.Values[float32](features.Select(0, i))},
			Labels: torch.Values[int64](file.Tensor("target." + strconv.FormatInt(i, 10)))})
	}
	return samples
}

// state returns the names of what a model saves.
func state(m *auto.SpeechToTextModel) (names []string) {
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
					samples := samplesOf(file)[:4]
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
			b, err := m.Task().Collate(samplesOf(file)[:4])
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

// TestRunsHaveTransformersBits compares a run of Seq2SeqTrainer and its evaluation, and one with a
// frozen encoder, then what the model writes about some speech.
func TestRunsHaveTransformersBits(t *testing.T) {
	models, file := load(t)
	for _, r := range models {
		t.Run(r.Name, func(t *testing.T) {
			goldencount.Start(t, "models", r.Name+", run")
			if r.Frozen != nil {
				m := r.fresh(t, auto.Options{})
				require.NoError(t, m.FreezeEncoder())
				r.Frozen.compare(t, m, file)
			}
			m := r.fresh(t, auto.Options{})
			r.Run.compare(t, m, file)
			std := 0.02
			if r.Name == "whisper with layerdrop" {
				std = 0.05
			}
			torch.NoGrad(func() {
				for _, p := range nn.Params(m) {
					if p.Tensor.Dim() > 1 {
						p.Tensor.MulScalar_(0.6 / std)
					}
				}
			})
			trained := nn.StateDict(m)
			for _, f := range r.Files {
				again := open(t, withGeneration(t, r.Config, f.Content), auto.Options{})
				nn.SetTraining(again, false)
				torch.NoGrad(func() {
					for k, s := range nn.StateDict(again) {
						s.Tensor.Copy_(trained[k].Tensor)
					}
				})
				sameTexts(t, again, file, f.Settings, f.Rows)
			}
			for i, c := range r.Segments {
				again := open(t, withGeneration(t, r.Config, c.Content), auto.Options{})
				nn.SetTraining(again, false)
				torch.NoGrad(func() {
					for k, s := range nn.StateDict(again) {
						s.Tensor.Copy_(trained[k].Tensor)
					}
				})
				features := file.Tensor("features").Select(0, 0)
				if c.Long {
					features = file.Tensor("long").Select(0, 0)
				}
				torch.ManualSeed(3)
				got, err := again.TranscribeFeatures(t.Context(), inputs.Speech{Features: torch.Values[float32](features)},
					generation(t, c.Settings))
				require.NoError(t, err)
				if !testenv.SameBits() {
					continue
				}
				require.Len(t, got, len(c.Segments), "%d: %v", i, c.Settings)
				for k, s := range c.Segments {
					assert.Equal(t, s.IDs, got[k].IDs, "%d: %v", i, c.Settings)
					assert.InDelta(t, s.Start, got[k].Start.Seconds(), 1e-9)
					assert.InDelta(t, s.End, got[k].End.Seconds(), 1e-9)
				}
			}
		})
	}
}

// compare repeats a run with a model.
func (r run) compare(t *testing.T, m *auto.SpeechToTextModel, file *golden.File) {
	t.Helper()
	samples := samplesOf(file)
	fit := modeltest.Train(t, m.Task(), samples, 1, r.Losses, r.GradNorms)
	modeltest.SameWeights(t, m, r.Final)
	evaluated, err := fit.Evaluate(t.Context(), data.Slice[seq2seq.SpeechSample](samples[:4]))
	require.NoError(t, err)
	modeltest.SameNumber(t, "eval_loss", evaluated["loss"], r.EvalLoss)
}

// withGeneration returns a folder with a config.json and a generation_config.json.
func withGeneration(t *testing.T, config, generation map[string]any) string {
	t.Helper()
	dir := modeltest.ConfigFolder(t, config)
	text, err := json.Marshal(generation)
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "generation_config.json"), text, 0o600))
	return dir
}

// sameTexts compares what a model writes about the first four samples, given settings of generate.
func sameTexts(t *testing.T, m *auto.SpeechToTextModel, file *golden.File, settings map[string]any, want [][]int64) {
	t.Helper()
	g := generation(t, settings)
	var speech []inputs.Speech
	for _, s := range samplesOf(file)[:4] {
		speech = append(speech, s.Speech)
	}
	torch.ManualSeed(3)
	got, err := m.GenerateIDs(t.Context(), speech, g)
	require.NoError(t, err)
	require.Len(t, got, len(want))
	ended := func(ids []int64) []int64 { // transformers leaves the token out that ends a text
		if at := slices.Index(ids, end); at >= 0 {
			ids = ids[:at]
		}
		return ids
	}
	for i, ids := range want {
		if testenv.SameBits() {
			assert.Equal(t, ended(ids), ended(got[i]), "text %d, %v", i, settings)
		}
	}
}

// generation returns settings of generate.
func generation(t *testing.T, settings map[string]any) auto.Generation {
	t.Helper()
	g := auto.Generation{Sample: settings["temperature"] != nil}
	for key, value := range settings {
		number, _ := value.(float64)
		text, _ := value.(string)
		switch key {
		case "language":
			g.Language = text
		case "task":
			g.Task = text
		case "max_new_tokens":
			g.MaxNewTokens = int(number)
		case "min_new_tokens":
			g.MinNewTokens = int(number)
		case "num_beams":
			g.NumBeams = int(number)
		case "length_penalty":
			g.LengthPenalty = &number
		case "temperature":
			g.Temperature = number
		case "top_k":
			g.TopK = int(number)
		case "top_p":
			g.TopP = number
		case "no_repeat_ngram_size":
			g.NoRepeatNGramSize = int(number)
		case "repetition_penalty":
			g.RepetitionPenalty = number
		default:
			t.Fatalf("there is no setting %s", key)
		}
	}
	return g
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
			b, err := task.Collate(samplesOf(file)[:4])
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

// TestFilesLoad: what Save writes, and files with both names of the tied weight.
func TestFilesLoad(t *testing.T) {
	models, _ := load(t)
	loaded := func(dir string) (*auto.SpeechToTextModel, *pretrained.Report, error) {
		m, err := auto.SpeechToText(t.Context(), dir, auto.Options{Warnings: io.Discard})
		if err != nil {
			return nil, nil, err
		}
		return m, m.Report, nil
	}
	for _, r := range models {
		m := r.fresh(t, auto.Options{})
		modeltest.SavedModelLoads(t, m, loaded)
		dir := modeltest.ConfigFolder(t, r.Config)
		require.NoError(t, nn.SaveTensors(filepath.Join(dir, pretrained.SafetensorsName), nn.StateDict(m), nil))
		again, _, err := loaded(dir)
		require.NoError(t, err)
		modeltest.SameWeights(t, again, r.Initial)
		assert.True(t, again.OutputEmbeddings().Weight.Is(again.InputEmbeddings().Weight))
		for _, p := range nn.Params(again) {
			assert.Equal(t, p.Name != "model.encoder.embed_positions.weight", p.Tensor.NeedsGrad(), p.Name)
		}
	}
}

// TestConfigsKeepTheirKeys checks that config.json comes back as transformers wrote it.
func TestConfigsKeepTheirKeys(t *testing.T) {
	models, _ := load(t)
	for _, r := range models {
		dir := t.TempDir()
		require.NoError(t, r.fresh(t, auto.Options{}).Save(dir))
		text, err := os.ReadFile(filepath.Join(dir, "config.json"))
		require.NoError(t, err)
		var got map[string]any
		require.NoError(t, json.Unmarshal(text, &got))
		delete(got, "transformers_version")
		delete(r.Config, "transformers_version")
		assert.Equal(t, r.Config, got)
	}
}

// TestSettingsThatAreNotSupportedAreRefused checks settings that would change what the model
// computes.
func TestSettingsThatAreNotSupportedAreRefused(t *testing.T) {
	modeltest.Refuses(t, "whisper", map[string]string{
		`"is_decoder": true`:            "is_decoder is true; only false",
		`"is_encoder_decoder": false`:   "is_encoder_decoder is false; only true",
		`"tie_word_embeddings": false`:  "tie_word_embeddings is false; only true",
		`"activation_function": "mish"`: `no activation "mish"`,
		`"d_model": 7, "encoder_attention_heads": 7, "decoder_attention_heads": 7`:  "HiddenSize is 7; want an even number",
		`"d_model": 8, "hidden_size": 9`:                                            "which means the same, is 9",
		`"d_model": 32, "decoder_attention_heads": 5, "encoder_attention_heads": 4`: "no multiple of DecoderAttentionHeads, 5",
		`"decoder_layers": 1000`:                                                    "NumLayers is 1000",
		`"dropout": 1`:                                                              "Dropout is 1",
		`"encoder_layerdrop": -0.5`:                                                 "EncoderLayerdrop is -0.5",
		`"num_mel_bins": -1`:                                                        "NumMelBins is -1",
		`"max_source_positions": 1099511627776`:                                     "MaxSourcePositions is 1099511627776",
		`"pad_token_id": 51865`:                                                     "PadTokenID has the token 51865",
		`"decoder_start_token_id": -1`:                                              "DecoderStartTokenID has the token -1",
		`"begin_suppress_tokens": [51865]`:                                          "BeginSuppressTokens has the token 51865",

		`"mask_time_prob": 2`: "MaskTimeProb is 2",
		`"apply_spec_augment": true, "mask_time_length": 3001`: "MaskTimeLength is 3001; want at most twice",
		`"mask_feature_prob": 0.1, "mask_feature_length": 81`:  "MaskFeatureLength is 81; want at most NumMelBins",
	}, func(dir string) error {
		_, err := auto.SpeechToText(t.Context(), dir, auto.Options{FromConfig: true})
		return err
	})
	_, err := auto.NewSpeechToText(whisper.Config{Attention: "flash"}, nil, nil)
	require.ErrorContains(t, err, `"flash"`)
	_, err = auto.NewSpeechToText(bart.Config{}, nil, nil)
	require.ErrorContains(t, err, "a Bart is not for ForSpeechSeq2Seq")
	models, _ := load(t)
	_, err = auto.Seq2SeqLM(t.Context(), modeltest.ConfigFolder(t, models[0].Config), auto.Options{FromConfig: true})
	require.ErrorContains(t, err, `model_type is "whisper"`)
	m := models[0].fresh(t, auto.Options{})
	err = torch.Try(func() { m.ForwardPair(torch.Ones(1, 6, 7), torch.TensorOptions{DType: torch.Int64}.Zeros(1, 1)) })
	require.ErrorContains(t, err, "the features have the shape [1 6 7]; want [B, 6, 16]")
}
