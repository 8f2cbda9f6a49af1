package siglip_test

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/contrastive"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/models/siglip"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/vision"
)

func TestSettingsThatAreImpossibleAreRefused(t *testing.T) {
	modeltest.Refuses(t, "siglip", map[string]string{
		`"text_config": 3`:                               "text_config: want an object",
		`"text_config": {"model_type": "bert"}`:          `text_config: model_type is "bert"; only "siglip_text_model" is supported`,
		`"text_config": {"num_attention_heads": 7}`:      "text_config: HiddenSize is 768, which is no multiple of the 7 heads",
		`"text_config": {"projection_size": 24}`:         "text_config: ProjectionSize is 24; want the HiddenSize of images, 768",
		`"text_config": {"max_position_embeddings": -1}`: "text_config: MaxPositions is -1",
		`"text_config": {"num_hidden_layers": 1000}`:     "text_config: NumLayers is 1000",
		`"vision_config": {"image_size": [2, 3]}`:        "vision_config: image_size is [2, 3]",
		`"vision_config": {"patch_size": 225}`:           "vision_config: PatchSize is 225 and ImageSize is 224",
		`"vision_config": {"attention_dropout": 1}`:      "vision_config: AttentionDropout is 1",
		`"vision_config": {"hidden_act": "mish"}`:        `vision_config: HiddenAct: there is no activation "mish"`,
		`"initializer_factor": -1`:                       "InitializerFactor is -1",
		`"model_type": "siglip2"`:                        `model_type is "siglip2"; want one of ["clip" "siglip"]`,
	}, func(dir string) error {
		_, err := auto.ZeroShotImageClassification(t.Context(), dir, auto.Options{FromConfig: true})
		return err
	})
}

// TestTokenizerGivesTransformersIDs: SigLIP's takes punctuation out, and lower-cases.
func TestTokenizerGivesTransformersIDs(t *testing.T) {
	tok, err := text.LoadTokenizer("testdata/tokenizer")
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, tok.Save(dir))
	again, err := text.LoadTokenizer(dir)
	require.NoError(t, err)
	for _, c := range recordedIDs(t).Cases {
		for _, tok := range []*text.Tokenizer{tok, again} {
			e, err := tok.Encode(c.Text, nil)
			require.NoError(t, err)
			assert.Equal(t, c.IDs, e.IDs, "%q", c.Text)
		}
	}
	cased := t.TempDir()
	require.NoError(t, os.CopyFS(cased, os.DirFS("testdata/tokenizer")))
	require.NoError(t, os.WriteFile(filepath.Join(cased, "tokenizer_config.json"),
		[]byte(`{"tokenizer_class": "SiglipTokenizer", "do_lower_case": false}`), 0o600))
	upper, err := text.LoadTokenizer(cased)
	require.NoError(t, err)
	e, err := upper.Encode("A cat", nil)
	require.NoError(t, err)
	assert.Contains(t, e.IDs, int64(2), "<unk>")
}

type tokenCases struct {
	Cases []struct {
		Text string
		IDs  []int64
	}
	Filled [][]int64
}

func recordedIDs(t *testing.T) (c tokenCases) {
	t.Helper()
	content, err := os.ReadFile("testdata/tokenizer/cases.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(content, &c))
	require.NotEmpty(t, c.Filled)
	return c
}

var black = &vision.Image{Width: side, Height: side, Channels: 3, Pix: make([]byte, side*side*3)}

// TestTextsArePaddedAsTransformersDoes compares with padding="max_length", where attention_mask is
// given or not, and padding in front of texts.
func TestTextsArePaddedAsTransformersDoes(t *testing.T) {
	m, _ := models.Tiny(t)
	c := recordedIDs(t)
	for i, want := range c.Filled {
		s, err := m.Encode(black, c.Cases[i].Text)
		require.NoError(t, err)
		assert.Equal(t, want, s.InputIDs, "%q", c.Cases[i].Text)
		assert.Nil(t, s.AttentionMask)
	}
	dir := t.TempDir()
	with := func(settings string) (s contrastive.Sample) {
		require.NoError(t, m.Save(dir))
		require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer_config.json"), []byte(settings), 0o600))
		m, err := auto.ZeroShotImageClassification(t.Context(), dir, auto.Options{})
		require.NoError(t, err)
		s, err = m.Encode(black, "2")
		require.NoError(t, err)
		return s
	}
	s := with(`{"tokenizer_class": "SiglipTokenizer", "pad_token": "<unk>"}`)
	n := slices.Index(s.InputIDs, 1) + 1
	assert.Equal(t, int64(2), s.InputIDs[n])
	assert.Equal(t, append(slices.Repeat([]int64{1}, n), make([]int64, length-n)...), s.AttentionMask)
	s = with(`{"tokenizer_class": "SiglipTokenizer", "padding_side": "left", "model_input_names": ["input_ids",
		"attention_mask"]}`)
	assert.Equal(t, append(make([]int64, length-n), slices.Repeat([]int64{1}, n)...), s.AttentionMask)
	assert.Equal(t, int64(1), s.InputIDs[0])
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer_config.json"), []byte(
		`{"tokenizer_class": "SiglipTokenizer", "padding_side": "middle"}`), 0o600))
	_, err := auto.ZeroShotImageClassification(t.Context(), dir, auto.Options{})
	assert.ErrorContains(t, err, `padding_side is "middle", want right or left`)
}

// gemma is the tokenizer.json of a Siglip2Tokenizer, which does not lower-case by itself.
const gemma = `{"version": "1.0", "added_tokens": [], "pre_tokenizer": {"type": "Split", "pattern": {"String": " "},
	"behavior": "MergedWithPrevious", "invert": false}, "normalizer": {"type": "Replace", "pattern": {"String": " "},
	"content": "▁"}, "model": {"type": "BPE", "unk_token": "<unk>", "fuse_unk": true, "byte_fallback": true, "vocab":
	{"<pad>": 0, "<eos>": 1, "<bos>": 2, "<unk>": 3, "<mask>": 4, "a": 5, "b": 6, "▁": 7, "▁a": 8, "ab": 9},
	"merges": [["▁", "a"], ["a", "b"]]}}`

// TestTheTokenizerOfSigLIP2LowercasesAndPadsOnTheLeft: the ids are those of transformers.
func TestTheTokenizerOfSigLIP2LowercasesAndPadsOnTheLeft(t *testing.T) {
	m, _ := models.Tiny(t)
	dir, again := t.TempDir(), t.TempDir()
	require.NoError(t, m.Save(dir))
	require.NoError(t, os.Remove(filepath.Join(dir, "spiece.model")))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer.json"), []byte(gemma), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "tokenizer_config.json"),
		[]byte(`{"tokenizer_class": "Siglip2Tokenizer", "pad_token": "<pad>"}`), 0o600))
	for _, dir := range []string{dir, again} {
		m, err := auto.ZeroShotImageClassification(t.Context(), dir, auto.Options{})
		require.NoError(t, err)
		s, err := m.Encode(black, "Ab A b")
		require.NoError(t, err)
		assert.Equal(t, append(make([]int64, length-4), 9, 8, 7, 6), s.InputIDs)
		assert.Equal(t, append(make([]int64, length-4), 1, 1, 1, 1), s.AttentionMask)
		require.NoError(t, m.Save(again))
	}
}

// TestAModelWithoutAHeadOfImagesClassifiesOnly: such a model has no vectors of images.
func TestAModelWithoutAHeadOfImagesClassifiesOnly(t *testing.T) {
	testenv.RequireTorch(t)
	c := siglip.Config{
		Text: siglip.TextConfig{Layers: siglip.Layers{HiddenSize: 8, NumLayers: 1, IntermediateSize: 8, NumHeads: 2}},
		Vision: siglip.VisionConfig{Layers: siglip.Layers{HiddenSize: 12, NumLayers: 1, IntermediateSize: 8},
			ImageSize: 32, UseHead: new(false)}}
	m, err := auto.NewImageClassification(c, nil)
	require.NoError(t, err)
	pixels := torch.Zeros(1, 3, 32, 32)
	assert.NoError(t, torch.Try(func() { m.Forward(pixels) }))
	assert.ErrorContains(t, torch.Try(func() { m.Forward(torch.Zeros(1, 3, 32, 40)) }),
		"the images have 32x40 pixels; the model is for 32x32")
	both, err := auto.NewZeroShotImageClassification(c, nil, nil)
	require.NoError(t, err)
	assert.ErrorContains(t, torch.Try(func() { both.ImageFeatures(pixels) }), "vision_use_head is false")
	ids := torch.TensorOptions{DType: torch.Int64}.Zeros(1, 65)
	assert.ErrorContains(t, torch.Try(func() { both.TextFeatures(ids, torch.Tensor{}) }),
		"the texts have 65 tokens, but the model has positions for 64")
}

func TestFusedProjectionsGiveTheSameSimilarities(t *testing.T) {
	m, file := models.Tiny(t)
	b, err := m.Task().Collate(models.Samples(file, side)[:4])
	require.NoError(t, err)
	torch.NoGrad(func() {
		want := m.Task().Predict(engine.ForwardPass{}, b).Logits[0]
		require.NoError(t, m.FuseQKVProjections(true))
		golden.Close(t, "similarities", m.Task().Predict(engine.ForwardPass{}, b).Logits[0], want, 1e-4, 1e-5)
	})
}

// TestAdaptersAreTrainedAndLoaded over the model in another folder.
func TestAdaptersAreTrainedAndLoaded(t *testing.T) {
	m, file := models.Tiny(t)
	base, out := t.TempDir(), t.TempDir()
	require.NoError(t, m.Save(base))
	assert.FileExists(t, filepath.Join(base, "spiece.model"))
	require.NoError(t, m.AddLoRA(lora.Config{R: 2}))
	assert.Contains(t, m.LoRA().Layers(), "text_model.encoder.layers.1.self_attn.v_proj")
	assert.Contains(t, m.LoRA().Layers(), "vision_model.encoder.layers.0.self_attn.q_proj")
	step, err := engine.New(m.Task(), engine.Options{})
	require.NoError(t, err)
	fit, err := trainer.New(step, trainer.Options{OutputDir: out, MaxSteps: 3, Save: trainer.Every(3, trainer.Update),
		Progress: io.Discard})
	require.NoError(t, err)
	_, err = fit.Fit(t.Context(), data.Slice[contrastive.Sample](models.Samples(file, side)), nil)
	require.NoError(t, err)
	again, err := auto.ZeroShotImageClassification(t.Context(), filepath.Join(out, "checkpoint-3"),
		auto.Options{BaseModel: base})
	require.NoError(t, err)
	nn.SetTraining(m, false)
	want, err := m.EmbedTexts(t.Context(), modeltest.DualLabels)
	require.NoError(t, err)
	got, err := again.EmbedTexts(t.Context(), modeltest.DualLabels)
	require.NoError(t, err)
	assert.Equal(t, want, got)
}
