package scoretest_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/gpt2"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/llama"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// TestDecodersClassifyAsInTransformers: initial weights, passes, runs of Trainer, files.
func TestDecodersClassifyAsInTransformers(t *testing.T) { modeltest.RunEncoders(t, "score") }

// recorded is what testdata/score.py wrote into heads.json.
type recorded struct {
	IDs, Mask [][]int64
	Passes    []struct {
		Name       string
		Config     map[string]any
		First, End int // which texts
		Grads      []string
		Norms      []float64
	}
	Drawn []struct {
		Name      string
		Config    map[string]any // of the language model
		Weights   []string
		Generator string
	}
}

func load(t *testing.T) (r recorded, file *golden.File) {
	t.Helper()
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	content, err := os.ReadFile("testdata/heads.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(content, &r))
	require.Len(t, r.Passes, 10)
	require.Len(t, r.Drawn, 11)
	return r, golden.Load(t, "testdata/score.safetensors")
}

// TestLabelsAndPadding: a class, several or numbers, of texts that are padded on either side, have
// the padding token within, or are nothing else.
func TestLabelsAndPadding(t *testing.T) {
	r, file := load(t)
	for _, p := range r.Passes {
		t.Run(p.Name, func(t *testing.T) {
			goldencount.Start(t, "models", "score "+p.Name)
			torch.ManualSeed(42)
			m, err := auto.SequenceClassification(t.Context(), modeltest.ConfigFolder(t, p.Config),
				auto.Options{FromConfig: true, Warnings: io.Discard})
			require.NoError(t, err)
			var ids, mask []int64
			for i := p.First; i < p.End; i++ {
				ids, mask = append(ids, r.IDs[i]...), append(mask, r.Mask[i]...)
			}
			rows := int64(p.End - p.First)
			torch.ManualSeed(7)
			key := "heads." + p.Name
			logits := m.Forward(torch.From(ids, rows, 7), torch.From(mask, rows, 7), torch.Tensor{})
			loss := m.Head().Loss(logits, file.Tensor(key+".labels"))
			loss.Backward()
			golden.Recorded(t, "logits", logits.Detach(), file.Tensor(key+".logits"))
			golden.Recorded(t, "loss", loss.Detach(), file.Tensor(key+".loss"))
			for i, param := range nn.Params(m) {
				grad := param.Tensor.Grad()
				assert.InDelta(t, p.Norms[i], grad.ToDType(torch.Float64).Norm(2).Item(), 1e-6+1e-3*p.Norms[i], param.Name)
				if testenv.SameBits() {
					assert.Equal(t, p.Grads[i], modeltest.Sum(grad.Bytes())[:8], "the gradient of %s", param.Name)
				}
			}
		})
	}
}

// TestALanguageModelGetsAHead, which from_pretrained draws; its output layer is left out.
func TestALanguageModelGetsAHead(t *testing.T) {
	r, _ := load(t)
	for _, d := range r.Drawn {
		t.Run(d.Name, func(t *testing.T) {
			goldencount.Start(t, "models", "score drawn "+d.Name)
			dir := modeltest.ConfigFolder(t, d.Config)
			torch.ManualSeed(42)
			lm, err := auto.CausalLM(t.Context(), dir, auto.Options{FromConfig: true, Warnings: io.Discard})
			require.NoError(t, err)
			require.NoError(t, lm.Save(dir))
			torch.ManualSeed(5)
			m, err := auto.SequenceClassification(t.Context(), dir, auto.Options{ID2Label: []string{"reward"},
				Warnings: io.Discard})
			require.NoError(t, err)
			assert.Equal(t, []string{"score.weight"}, m.Report.Initialized)
			assert.Equal(t, classify.Regression, m.Head().ProblemType)
			params := nn.Params(m)
			require.Len(t, params, len(d.Weights))
			if testenv.SameBits() {
				assert.Equal(t, d.Generator, modeltest.Generator()[:8], "the generator has another state")
				for i, p := range params {
					assert.Equal(t, d.Weights[i], modeltest.Sum(p.Tensor.Bytes())[:8], p.Name)
				}
			}
		})
	}
}

// tiny is a small classifier of a decoder.
func tiny(t *testing.T, c llama.Config) *auto.SequenceClassifier {
	t.Helper()
	testenv.RequireTorch(t)
	c.VocabSize, c.HiddenSize, c.NumLayers, c.NumHeads, c.NumKeyValueHeads, c.IntermediateSize = 12, 8, 1, 2, 2, 8
	torch.ManualSeed(1)
	m, err := auto.NewSequenceClassification(c, classify.Head{ID2Label: []string{"no", "yes", "maybe"}}, nil)
	require.NoError(t, err)
	return m
}

// forward computes the logits of texts of three tokens.
func forward(m *auto.SequenceClassifier, ids ...int64) (logits torch.Tensor, err error) {
	err = torch.Try(func() {
		logits = m.Forward(torch.From(ids, int64(len(ids)/3), 3), torch.Tensor{}, torch.Tensor{})
	})
	return logits, err
}

// TestThePaddingToken tells where texts end, and is saved.
func TestThePaddingToken(t *testing.T) {
	m := tiny(t, llama.Config{PadTokenID: new(int64(-1))})
	last, err := forward(m, 5, 6, 7)
	require.NoError(t, err)
	_, err = forward(m, 5, 6, 7, 8, 9, 10)
	require.ErrorContains(t, err, "no padding token (pad_token_id of config.json), so that the ends of 2 texts")
	require.ErrorContains(t, m.SetPadTokenID(12), "SetPadTokenID(12); want an id below the size of the vocabulary, 12")
	require.NoError(t, m.SetPadTokenID(7))
	assert.EqualValues(t, 7, m.Limits().PadTokenID)
	before, err := forward(m, 5, 6, 7, 8, 9, 10)
	require.NoError(t, err)
	assert.False(t, before.Narrow(0, 0, 1).AllClose(last, 1e-5, 1e-6, false), "the token that pads counts")
	short, err := forward(m, 5, 6, 6)
	require.NoError(t, err)
	assert.Equal(t, []int64{2, 3}, before.Shape())
	assert.False(t, short.AllClose(last, 1e-5, 1e-6, false))

	dir := t.TempDir()
	require.NoError(t, m.Save(dir))
	again, err := auto.SequenceClassification(t.Context(), dir, auto.Options{Warnings: io.Discard})
	require.NoError(t, err)
	assert.Equal(t, []string{"no", "yes", "maybe"}, again.Head().ID2Label)
	nn.SetTraining(m, false)
	logits, err := forward(again, 5, 6, 7, 8, 9, 10)
	require.NoError(t, err)
	assert.True(t, before.Equal(logits))
}

// TestAnAdapterKeepsThePaddingToken, the labels and the head.
func TestAnAdapterKeepsThePaddingToken(t *testing.T) {
	base, dir := t.TempDir(), t.TempDir()
	testenv.RequireTorch(t)
	torch.ManualSeed(1)
	lm, err := auto.NewCausalLM(gpt2.Config{VocabSize: 12, MaxPositions: 8, HiddenSize: 8, NumLayers: 1, NumHeads: 2}, nil)
	require.NoError(t, err)
	require.NoError(t, lm.Save(base))
	m, err := auto.SequenceClassification(t.Context(), base, auto.Options{ID2Label: []string{"a", "b"},
		Warnings: io.Discard})
	require.NoError(t, err)
	require.NoError(t, m.SetPadTokenID(11))
	require.NoError(t, m.AddLoRA(lora.Config{R: 2, Init: lora.InitRandom, TargetModules: []string{lora.AllLinear}}))
	assert.Equal(t, []string{"score"}, m.LoRA().Config().ModulesToSave)
	assert.Equal(t, "SEQ_CLS", m.LoRA().Config().TaskType)
	require.NoError(t, m.Save(dir))
	want, err := forward(m, 5, 6, 11, 8, 9, 10)
	require.NoError(t, err)
	again, err := auto.SequenceClassification(t.Context(), dir, auto.Options{Warnings: io.Discard})
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b"}, again.Head().ID2Label)
	got, err := forward(again, 5, 6, 11, 8, 9, 10)
	require.NoError(t, err)
	assert.True(t, got.Equal(want))

	file, err := os.ReadFile(filepath.Join(dir, "adapter_model.safetensors"))
	require.NoError(t, err)
	bad := bytes.Replace(file, []byte(`"pad_token_id":"11"`), []byte(`"pad_token_id":"99"`), 1)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "adapter_model.safetensors"), bad, 0o600))
	_, err = auto.SequenceClassification(t.Context(), dir, auto.Options{Warnings: io.Discard})
	require.ErrorContains(t, err, `is "99"; want an id below the size of the vocabulary, 12`)
}

func TestWhatIsNoClassifierIsRefused(t *testing.T) {
	testenv.RequireTorch(t)
	for _, kind := range []string{"granite", "t5", "vit"} {
		_, err := auto.SequenceClassification(t.Context(), modeltest.ConfigFolder(t, map[string]any{"model_type": kind}),
			auto.Options{FromConfig: true})
		require.ErrorContains(t, err, `model_type is "`+kind+`"; want one of`)
	}
	_, err := auto.NewSequenceClassification(llama.Config{Type: "granite"}, classify.Head{}, nil)
	require.ErrorContains(t, err, "transformers has no GraniteForSequenceClassification")
	_, err = auto.NewSequenceClassification(llama.Config{}, classify.Head{NumLabels: -1}, nil)
	require.ErrorContains(t, err, "NumLabels is -1")
	m := tiny(t, llama.Config{})
	require.ErrorContains(t, m.FuseQKVProjections(true), "no fused query, key and value")
}
