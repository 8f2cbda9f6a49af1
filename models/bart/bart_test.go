package bart_test

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
	"github.com/gotrainer/gotrainer/models/bart"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/seq2seq"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// recorded is the output of testdata/bart.py for one model.
type recorded struct {
	Name           string
	Config         map[string]any
	Parameters     []string
	Initial, Final map[string]string
	Generator      string
	Cases          []modeltest.CausalCase
	Losses         []string
	GradNorms      []string    `json:"grad_norms"`
	Texts          [][][]int64 // padded after their end
	Adapter        struct {
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
	require.NoError(t, json.Unmarshal(read(t, "testdata/bart.json"), &f))
	require.Len(t, f.Models, 4)
	return f.Models, golden.Load(t, "testdata/bart.safetensors")
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return text
}

// fresh makes the model with the seed 42, and the bias of its logits of the golden file.
func (r recorded) fresh(t *testing.T, file *golden.File, o auto.Options) *auto.Seq2SeqLanguageModel {
	t.Helper()
	return open(t, file, modeltest.ConfigFolder(t, r.Config), o)
}

func open(t *testing.T, file *golden.File, dir string, o auto.Options) *auto.Seq2SeqLanguageModel {
	t.Helper()
	o.FromConfig, o.Warnings = true, io.Discard
	torch.ManualSeed(42)
	m, err := auto.Seq2SeqLM(t.Context(), dir, o)
	require.NoError(t, err)
	m.FinalLogitsBias().Copy_(file.Tensor("bias"))
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

// ways are the settings of testdata/bart.py.
func ways() []auto.Generation {
	cnn := auto.Generation{NumBeams: 4, LengthPenalty: new(2.0), NoRepeatNGramSize: 3, MinNewTokens: 5, MaxNewTokens: 13,
		EarlyStopping: auto.EarlyStoppingTrue}
	forced := cnn
	forced.ForcedBOSTokenID = new(int64(11))
	even := make([]int64, 30)
	for i := range even {
		even[i] = int64(2 * i)
	}
	return []auto.Generation{{MaxNewTokens: 12}, {MaxNewTokens: 12, ForcedBOSTokenID: new(int64(7))},
		{MaxNewTokens: 12, Sample: true, Temperature: 0.7, TopK: 20, TopP: 0.9, ForcedBOSTokenID: new(int64(9))},
		forced, cnn,
		{MaxNewTokens: 8, NumBeams: 3, NumReturnSequences: 3, ForcedBOSTokenID: new(int64(7)),
			ForcedEOSTokenIDs: []int64{5, 6}},
		{MaxNewTokens: 9, NumBeams: 3, Sample: true, ForcedBOSTokenID: new(int64(4))},
		{MaxNewTokens: 6, ForcedBOSTokenID: new(int64(7)), BeginSuppressTokens: even, RepetitionPenalty: 1.5},
		{MaxNewTokens: 1, ForcedBOSTokenID: new(int64(7))}}
}

// TestRunsHaveTransformersBits compares a run of Seq2SeqTrainer, then outputs that the model
// generates for four texts.
func TestRunsHaveTransformersBits(t *testing.T) {
	models, file := load(t)
	for _, r := range models {
		t.Run(r.Name, func(t *testing.T) {
			goldencount.Start(t, "models", r.Name+", run")
			m := r.fresh(t, file, auto.Options{})
			rows := modeltest.PairRows(file)
			modeltest.Train(t, m.Task(), rows, 1, r.Losses, r.GradNorms)
			modeltest.SameWeights(t, m, r.Final)
			torch.NoGrad(func() {
				for _, p := range nn.Params(m) {
					if p.Tensor.Dim() == 2 {
						p.Tensor.MulScalar_(8)
					}
				}
			})
			for i, g := range ways() {
				sameTexts(t, m, rows, g, r.Texts[i])
			}
			state := nn.StateDict(m)
			for _, f := range r.Files {
				dir := modeltest.ConfigFolder(t, r.Config)
				text, err := json.Marshal(f.Content)
				require.NoError(t, err)
				require.NoError(t, os.WriteFile(filepath.Join(dir, f.Name), text, 0o600))
				again := open(t, file, dir, auto.Options{})
				nn.SetTraining(again, false)
				torch.NoGrad(func() {
					for k, s := range nn.StateDict(again) {
						s.Tensor.Copy_(state[k].Tensor)
					}
				})
				sameTexts(t, again, rows, auto.Generation{}, f.Rows)
			}
		})
	}
}

// sameTexts compares what a model generates from the first four texts.
func sameTexts(t *testing.T, m *auto.Seq2SeqLanguageModel, rows []seq2seq.Sample, g auto.Generation, want [][]int64) {
	t.Helper()
	var texts []inputs.Text
	for _, s := range rows[:4] {
		texts = append(texts, s.Text)
	}
	torch.ManualSeed(3)
	got, err := m.GenerateIDs(t.Context(), texts, g)
	require.NoError(t, err)
	require.Len(t, got, len(want))
	for i, ids := range want {
		is := func(id int64) bool { return id == end }
		if at := slices.IndexFunc(ids, is); at >= 0 {
			ids = ids[:at+1]
		}
		if testenv.SameBits() {
			assert.Equal(t, ids, got[i], "text %d, %+v", i, g)
		}
	}
}

// TestSettingsThatAreNotSupportedAreRefused checks settings that would change what the model
// computes.
func TestSettingsThatAreNotSupportedAreRefused(t *testing.T) {
	modeltest.Refuses(t, "bart", map[string]string{
		`"is_decoder": true`:                          "is_decoder is true; only false",
		`"is_encoder_decoder": false`:                 "is_encoder_decoder is false; only true",
		`"tie_word_embeddings": false`:                "tie_word_embeddings is false; only true",
		`"tie_encoder_decoder": true`:                 "tie_encoder_decoder is true; only false",
		`"quantization_config": {"bits": 4}`:          "only \"bitsandbytes\"",
		`"activation_function": "mish"`:               `no activation "mish"`,
		`"d_model": -1`:                               "HiddenSize is -1",
		`"d_model": 8, "hidden_size": 9`:              "which means the same, is 9",
		`"d_model": 32, "decoder_attention_heads": 5`: "no multiple of DecoderAttentionHeads, 5",
		`"decoder_layers": 1000`:                      "NumLayers is 1000",
		`"dropout": 1`:                                "Dropout is 1",
		`"encoder_layerdrop": -0.5`:                   "EncoderLayerdrop is -0.5",
		`"pad_token_id": 50265`:                       "PadTokenID has the token 50265",
		`"forced_eos_token_id": [2, 50265]`:           "ForcedEOSTokenIDs has the token 50265",
	}, func(dir string) error {
		_, err := auto.Seq2SeqLM(t.Context(), dir, auto.Options{FromConfig: true})
		return err
	})
	_, err := auto.NewSeq2SeqLM(bart.Config{Attention: "flash"}, nil)
	require.ErrorContains(t, err, `"flash"`)
	_, err = auto.NewSeq2SeqLM(bart.Config{Type: "pegasus"}, nil)
	require.ErrorContains(t, err, `model_type is "pegasus"`)
	_, err = auto.NewCausalLM(bart.Config{}, nil)
	require.ErrorContains(t, err, "a BartForConditionalGeneration is not for ForCausalLM")
}

// TestOlderFilesLoad: files of BartModel, without the prefix and the bias of the logits, and files
// that have a tied weight under another name, or under all names.
func TestOlderFilesLoad(t *testing.T) {
	models, file := load(t)
	for _, r := range models[:3] {
		m := r.fresh(t, file, auto.Options{})
		modeltest.SavedModelLoads(t, m, func(dir string) (*auto.Seq2SeqLanguageModel, *pretrained.Report, error) {
			m, err := auto.Seq2SeqLM(t.Context(), dir, auto.Options{Warnings: io.Discard})
			if err != nil {
				return nil, nil, err
			}
			return m, m.Report, nil
		})
		whole := map[string]torch.Tensor{}
		for _, s := range nn.StateDict(m) {
			whole[s.Name] = s.Tensor
		}
		bare, renamed, all := map[string]torch.Tensor{}, map[string]torch.Tensor{}, map[string]torch.Tensor{}
		for name, tensor := range whole {
			all[name], renamed[name] = tensor, tensor
			if inModel, ok := strings.CutPrefix(name, "model."); ok {
				bare[inModel] = tensor
			}
		}
		all["model.encoder.version"] = torch.Ones(1)
		for _, tied := range []string{"model.shared.weight", "model.decoder.embed_tokens.weight", "lm_head.weight"} {
			delete(renamed, tied)
		}
		for _, tensors := range []map[string]torch.Tensor{bare, renamed, all} {
			dir := modeltest.ConfigFolder(t, r.Config)
			var list []torch.Named
			for name, tensor := range tensors {
				list = append(list, torch.Named{Name: name, Tensor: tensor})
			}
			require.NoError(t, nn.SaveTensors(filepath.Join(dir, pretrained.SafetensorsName), list, nil))
			again, err := auto.Seq2SeqLM(t.Context(), dir, auto.Options{Warnings: io.Discard})
			require.NoError(t, err)
			modeltest.SameWeights(t, again, r.Initial)
			assert.Empty(t, again.Report.Missing)
			_, saved := tensors["final_logits_bias"]
			assert.Equal(t, saved, again.FinalLogitsBias().Equal(m.FinalLogitsBias()))
			assert.True(t, again.OutputEmbeddings().Weight.Is(again.InputEmbeddings().Weight))
		}
	}
}

// TestNamesInFilesAreTransformers checks that a tied weight is saved once, under transformers' name.
func TestNamesInFilesAreTransformers(t *testing.T) {
	models, file := load(t)
	m := models[2].fresh(t, file, auto.Options{})
	dir := t.TempDir()
	require.NoError(t, m.Save(dir))
	f, err := safetensors.Open(filepath.Join(dir, pretrained.SafetensorsName))
	require.NoError(t, err)
	defer f.Close() //nolint:errcheck // it was only read
	want := append(slices.Clone(models[2].Parameters), "final_logits_bias")
	var names []string
	for _, e := range f.Tensors() {
		names = append(names, e.Name)
	}
	assert.ElementsMatch(t, want, names)
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

// TestTextsKeepToThePositions: neither targets nor generated texts are longer than the model has
// positions for.
func TestTextsKeepToThePositions(t *testing.T) {
	models, file := load(t)
	m := models[0].fresh(t, file, auto.Options{})
	sample := modeltest.PairRows(file)[0]
	task, err := seq2seq.NewTask(m, seq2seq.TaskOptions{TargetPadding: data.Padding{Multiple: 16}})
	require.NoError(t, err)
	sample.Labels = slices.Repeat([]int64{5}, 21)
	_, err = task.Collate([]seq2seq.Sample{sample})
	require.ErrorContains(t, err, "Labels has 21 tokens, but the model has positions for 20")
	sample.Labels = sample.Labels[:17]
	_, err = task.Collate([]seq2seq.Sample{sample})
	require.ErrorContains(t, err, "rows of 32 labels, but the model has positions for 20")
	rows, err := m.GenerateIDs(t.Context(), []inputs.Text{sample.Text}, auto.Generation{MaxNewTokens: 50,
		EOSTokenIDs: []int64{}})
	require.NoError(t, err)
	assert.Len(t, rows[0], 20)
}

// TestAForcedTokenOfAFileCanBeLeftOut checks that -1 means none, and that ids outside the vocabulary
// are refused.
func TestAForcedTokenOfAFileCanBeLeftOut(t *testing.T) {
	models, file := load(t)
	dir := modeltest.ConfigFolder(t, models[0].Config)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "generation_config.json"), []byte(`{"forced_bos_token_id": 7}`),
		0o600))
	m := open(t, file, dir, auto.Options{})
	written := func(g auto.Generation) []int64 {
		g.MaxNewTokens = 3
		rows, err := m.GenerateIDs(t.Context(), []inputs.Text{{InputIDs: []int64{5, 6, end}}}, g)
		require.NoError(t, err)
		return rows[0]
	}
	forced, free := written(auto.Generation{}), written(auto.Generation{ForcedBOSTokenID: new(int64(-1))})
	assert.Equal(t, int64(7), forced[0])
	assert.Equal(t, written(auto.Generation{IgnoreFile: true}), free)
	assert.NotEqual(t, forced, free)
	_, err := m.GenerateIDs(t.Context(), []inputs.Text{{InputIDs: []int64{5}}}, auto.Generation{
		ForcedBOSTokenID: new(int64(61))})
	require.ErrorContains(t, err, "ForcedBOSTokenID is 61; want an id of the vocabulary of 61, or -1 for none")
}

// TestFloat16IsClose checks a pass with weights in float16, whose numbers are limited in the encoder.
func TestFloat16IsClose(t *testing.T) {
	models, file := load(t)
	for _, r := range models {
		want, got := r.fresh(t, file, auto.Options{}), r.fresh(t, file, auto.Options{DType: torch.Float16})
		state := nn.StateDict(want)
		torch.NoGrad(func() {
			for i, s := range nn.StateDict(got) {
				s.Tensor.Copy_(state[i].Tensor)
			}
			nn.SetTraining(want, false)
			nn.SetTraining(got, false)
			ids := torch.From([]int64{5, 6, 7, end}, 1, 4)
			logits := got.ForwardPair(ids, torch.Tensor{}, ids).ToDType(torch.Float32)
			assert.True(t, logits.AllClose(want.ForwardPair(ids, torch.Tensor{}, ids), 2e-2, 2e-2, false), r.Name)
		})
	}
}
