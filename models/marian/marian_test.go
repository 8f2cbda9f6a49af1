package marian_test

import (
	"encoding/json"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/models/marian"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// recorded is the output of testdata/marian.py for one model.
type recorded struct {
	Name              string
	Config            map[string]any
	Parameters, Saved []string
	Initial, Final    map[string]string
	Generator         string
	Cases             []modeltest.CausalCase
	Losses            []string
	GradNorms         []string    `json:"grad_norms"`
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
	text, err := os.ReadFile("testdata/marian.json")
	require.NoError(t, err)
	var f struct{ Models []recorded }
	require.NoError(t, json.Unmarshal(text, &f))
	require.Len(t, f.Models, 2)
	return f.Models, golden.Load(t, "testdata/marian.safetensors")
}

// fresh makes the model with the seed 42, and the bias of its logits of the golden file.
func (r recorded) fresh(t *testing.T, file *golden.File, o auto.Options) *auto.Seq2SeqLanguageModel {
	t.Helper()
	return r.open(t, file, modeltest.ConfigFolder(t, r.Config), o)
}

func (r recorded) open(t *testing.T, file *golden.File, dir string, o auto.Options) *auto.Seq2SeqLanguageModel {
	t.Helper()
	o.FromConfig, o.Warnings = true, io.Discard
	torch.ManualSeed(42)
	m, err := auto.Seq2SeqLM(t.Context(), dir, o)
	require.NoError(t, err)
	m.FinalLogitsBias().Copy_(file.Tensor(r.Name + ", bias"))
	return m
}

func TestSameSeedGivesTransformersWeights(t *testing.T) {
	models, file := load(t)
	for _, r := range models {
		t.Run(r.Name, func(t *testing.T) {
			m := r.fresh(t, file, auto.Options{})
			modeltest.SameFresh(t, m, r.Generator, r.Parameters, r.Initial)
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
				torch.Scope(func() { c.ComparePair(t, r.fresh(t, file, o), file) })
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
			m := r.fresh(t, file, auto.Options{})
			m.SetGradientCheckpointing(checkpointing)
			b, err := m.Task().Collate(modeltest.PairRows(file)[:4])
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

// ways are the settings of testdata/marian.py.
func ways() []auto.Generation {
	opus := auto.Generation{NumBeams: 4, BadWordsIDs: [][]int64{{0}}, ForcedEOSTokenIDs: []int64{end},
		RenormalizeLogits: new(true), MaxNewTokens: 13}
	several, drawn, beams := opus, opus, opus
	several.NumReturnSequences, several.NoRepeatNGramSize, several.LengthPenalty = 2, 2, new(0.6)
	several.BadWordsIDs = [][]int64{{0}, {17}, {28, 16}}
	drawn.Sample, drawn.NumBeams, drawn.Temperature, drawn.TopK = true, 1, 0.7, 20
	drawn.BadWordsIDs = [][]int64{{0}, {5, 6}, {7}}
	beams.Sample, beams.NumBeams, beams.MaxNewTokens = true, 3, 8
	return []auto.Generation{{MaxNewTokens: 12}, opus, several, drawn, beams,
		{MaxNewTokens: 6, RenormalizeLogits: new(true), RepetitionPenalty: 1.5, ForcedEOSTokenIDs: []int64{5, 6}}}
}

// TestRunsHaveTransformersBits compares a run of Seq2SeqTrainer, then outputs that the model
// generates for four texts.
func TestRunsHaveTransformersBits(t *testing.T) {
	models, file := load(t)
	for _, r := range models {
		t.Run(r.Name, func(t *testing.T) {
			goldencount.Start(t, "models", r.Name+", run")
			m := r.fresh(t, file, auto.Options{})
			modeltest.Train(t, m.Task(), modeltest.PairRows(file), 1, r.Losses, r.GradNorms)
			modeltest.SameWeights(t, m, r.Final)
			torch.NoGrad(func() {
				for _, p := range nn.Params(m) {
					if p.Tensor.Dim() == 2 {
						p.Tensor.MulScalar_(8)
					}
				}
			})
			require.Len(t, r.Texts, len(ways()))
			for i, g := range ways() {
				sameTexts(t, m, file, g, r.Texts[i])
			}
			state := nn.StateDict(m)
			for _, f := range r.Files {
				dir := modeltest.ConfigFolder(t, r.Config)
				text, err := json.Marshal(f.Content)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(filepath.Join(dir, f.Name), text, 0o600))
				again := r.open(t, file, dir, auto.Options{})
				nn.SetTraining(again, false)
				torch.NoGrad(func() {
					for k, s := range nn.StateDict(again) {
						s.Tensor.Copy_(state[k].Tensor)
					}
				})
				sameTexts(t, again, file, auto.Generation{}, f.Rows)
			}
		})
	}
}

// sameTexts compares what a model generates from the first four texts.
func sameTexts(t *testing.T, m *auto.Seq2SeqLanguageModel, file *golden.File, g auto.Generation, want [][]int64) {
	t.Helper()
	var texts []inputs.Text
	for _, s := range modeltest.PairRows(file)[:4] {
		texts = append(texts, s.Text)
	}
	torch.ManualSeed(3)
	got, err := m.GenerateIDs(t.Context(), texts, g)
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

// TestPositionsAreTransformers compares the positions of a model as large as those of Helsinki-NLP.
func TestPositionsAreTransformers(t *testing.T) {
	load(t)
	text, err := os.ReadFile("testdata/marian.json")
	require.NoError(t, err)
	var f struct{ Positions string }
	require.NoError(t, json.Unmarshal(text, &f))
	b, err := marian.Config{VocabSize: 8, HiddenSize: 512, MaxPositions: 512, EncoderLayers: 1, DecoderLayers: 1,
		EncoderFFNDim: 8, DecoderFFNDim: 8, PadTokenID: new(int64(0)), DecoderStartTokenID: new(int64(0))}.Blueprint()
	require.NoError(t, err)
	m, ok := b.Build(transformer.Builder{Undrawn: true}, false).Module.(*marian.Model)
	require.True(t, ok)
	if testenv.SameBits() {
		assert.Equal(t, f.Positions, modeltest.Sum(m.Decoder.Positions.Bytes()))
	}
}

// TestSettingsThatAreNotSupportedAreRefused checks settings that would change what the model
// computes.
func TestSettingsThatAreNotSupportedAreRefused(t *testing.T) {
	modeltest.Refuses(t, "marian", map[string]string{
		`"is_decoder": true`:                          "is_decoder is true; only false",
		`"is_encoder_decoder": false`:                 "is_encoder_decoder is false; only true",
		`"tie_word_embeddings": false`:                "tie_word_embeddings is false; only true",
		`"tie_encoder_decoder": true`:                 "tie_encoder_decoder is true; only false",
		`"quantization_config": {"bits": 4}`:          "only \"bitsandbytes\"",
		`"activation_function": "mish"`:               `no activation "mish"`,
		`"d_model": -1`:                               "HiddenSize is -1",
		`"d_model": 8, "hidden_size": 9`:              "which means the same, is 9",
		`"d_model": 32, "decoder_attention_heads": 5`: "no multiple of DecoderAttentionHeads, 5",
		`"max_position_embeddings": 10000000`:         "their product is at most",
		`"decoder_layers": 1000`:                      "NumLayers is 1000",
		`"dropout": 1`:                                "Dropout is 1",
		`"decoder_layerdrop": -0.5`:                   "DecoderLayerdrop is -0.5",
		`"pad_token_id": 58101`:                       "PadTokenID has the token 58101",
		`"forced_eos_token_id": [2, 58101]`:           "ForcedEOSTokenIDs has the token 58101",
		`"decoder_vocab_size": 100`:                   "DecoderVocabSize is 100, but ShareEncoderDecoderEmbeddings says",
		`"decoder_vocab_size": -1`:                    "DecoderVocabSize is -1",
		`"decoder_vocab_size": 100, "share_encoder_decoder_embeddings": false`: "PadTokenID has the token 58100",
	}, func(dir string) error {
		_, err := auto.Seq2SeqLM(t.Context(), dir, auto.Options{FromConfig: true})
		return err
	})
	_, err := auto.NewSeq2SeqLM(marian.Config{Attention: "flash"}, nil)
	require.ErrorContains(t, err, `"flash"`)
	_, err = auto.NewCausalLM(marian.Config{}, nil)
	require.ErrorContains(t, err, "a MarianMTModel is not for ForCausalLM")
}

// TestFilesAreTransformers: a weight with several names is saved once, under transformers' name, and
// positions are not saved. Files that have all names, and positions, load too.
func TestFilesAreTransformers(t *testing.T) {
	models, file := load(t)
	for _, r := range models {
		t.Run(r.Name, func(t *testing.T) {
			m := r.fresh(t, file, auto.Options{})
			loaded := func(dir string) (*auto.Seq2SeqLanguageModel, *pretrained.Report, error) {
				m, err := auto.Seq2SeqLM(t.Context(), dir, auto.Options{Warnings: io.Discard})
				if err != nil {
					return nil, nil, err
				}
				return m, m.Report, nil
			}
			modeltest.SavedModelLoads(t, m, loaded)
			dir := t.TempDir()
			require.NoError(t, m.Save(dir))
			f, err := safetensors.Open(filepath.Join(dir, pretrained.SafetensorsName))
			require.NoError(t, err)
			var names []string
			for _, e := range f.Tensors() {
				names = append(names, e.Name)
			}
			require.NoError(t, f.Close())
			assert.ElementsMatch(t, r.Saved, names)

			all := nn.StateDict(m)
			for _, side := range []string{"encoder", "decoder"} {
				all = append(all, torch.Named{Name: "model." + side + ".embed_positions.weight", Tensor: torch.Ones(20, 32)})
			}
			require.NoError(t, nn.SaveTensors(filepath.Join(dir, pretrained.SafetensorsName), all, nil))
			warnings := &warned{}
			again, err := auto.Seq2SeqLM(t.Context(), dir, auto.Options{Warnings: warnings})
			require.NoError(t, err)
			modeltest.SameWeights(t, again, r.Initial)
			assert.True(t, again.FinalLogitsBias().Equal(m.FinalLogitsBias()))
			assert.NotContains(t, warnings.text, "embed_positions")
		})
	}
}

// warned holds what was written to it.
type warned struct{ text string }

func (w *warned) Write(p []byte) (int, error) {
	w.text += string(p)
	return len(p), nil
}

// TestTextsOfTwoVocabulariesAreChecked: the ids of target texts are those of the other vocabulary.
func TestTextsOfTwoVocabulariesAreChecked(t *testing.T) {
	models, file := load(t)
	m := models[1].fresh(t, file, auto.Options{})
	sample := modeltest.PairRows(file)[0]
	sample.Labels = []int64{66, end}
	_, err := m.Task().Collate(append(modeltest.PairRows(file)[:1], sample))
	require.NoError(t, err)
	sample.Labels = []int64{67}
	_, err = m.Task().Collate(append(modeltest.PairRows(file)[:1], sample))
	require.ErrorContains(t, err, "label 0 is 67; want an id of the vocabulary of 67")
	sample.InputIDs, sample.Labels = []int64{61}, []int64{end}
	_, err = m.Task().Collate(append(modeltest.PairRows(file)[:1], sample))
	require.ErrorContains(t, err, "61")
	_, err = m.GenerateIDs(t.Context(), []inputs.Text{{InputIDs: []int64{5}}}, auto.Generation{
		BadWordsIDs: [][]int64{{67}}})
	require.ErrorContains(t, err, "BadWordsIDs has the token 67; want ids of the vocabulary of 67")
}

// TestAdaptersHavePeftsBits compares a pass with updates of query and value, and the adapter's names
// and weights in files.
func TestAdaptersHavePeftsBits(t *testing.T) {
	models, file := load(t)
	for _, r := range models {
		t.Run(r.Name, func(t *testing.T) {
			goldencount.Start(t, "models", r.Name+", adapter")
			m := r.fresh(t, file, auto.Options{})
			require.NoError(t, m.AddLoRA(lora.Config{R: 4, Dropout: 0.1, Init: lora.InitRandom}))
			task := m.Task()
			b, err := task.Collate(modeltest.PairRows(file)[:4])
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
			assert.Equal(t, slices.Sorted(maps.Keys(r.Adapter.Saved)), slices.Sorted(maps.Keys(saved)))
			if testenv.SameBits() {
				assert.Equal(t, r.Adapter.Saved, saved)
			}
		})
	}
}
