package clip_test

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/clip"
	"github.com/gotrainer/gotrainer/models/contrastive"
	"github.com/gotrainer/gotrainer/models/internal/modeltest"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/models/vit"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/vision"
)

func TestSettingsThatAreImpossibleAreRefused(t *testing.T) {
	modeltest.Refuses(t, "clip", map[string]string{
		`"text_config": 3`:                               "text_config: want an object",
		`"text_config": {"model_type": "bert"}`:          `text_config: model_type is "bert"; only "clip_text_model" is supported`,
		`"text_config": {"num_attention_heads": 7}`:      "text_config: HiddenSize is 512, which is no multiple of the 7 heads",
		`"text_config": {"eos_token_id": 49408}`:         "text_config: EOSTokenID is 49408; want an id below VocabSize, 49408",
		`"text_config": {"eos_token_id": [1, 2]}`:        "text_config: eos_token_id is [1, 2]",
		`"text_config": {"max_position_embeddings": -1}`: "text_config: MaxPositions is -1",
		`"text_config": {"num_hidden_layers": 1000}`:     "text_config: NumLayers is 1000",
		`"vision_config": {"image_size": [2, 3]}`:        "vision_config: image_size is [2, 3]",
		`"vision_config": {"patch_size": 225}`:           "vision_config: PatchSize is 225 and ImageSize is 224",
		`"vision_config": {"image_size": 1000000}`:       "vision_config: PatchSize is 32 and ImageSize is 1000000",
		`"vision_config": {"attention_dropout": 1}`:      "vision_config: AttentionDropout is 1",
		`"vision_config": {"hidden_act": "mish"}`:        `vision_config: HiddenAct: there is no activation "mish"`,
		`"vision_config_dict": []`:                       "vision_config_dict: want an object",
		`"projection_dim": -1`:                           "ProjectionDim is -1",
		`"initializer_factor": -1`:                       "InitializerFactor is -1",
		`"model_type": "align"`:                          `model_type is "align"; want one of ["clip" "siglip"]`,
	}, func(dir string) error {
		_, err := auto.ZeroShotImageClassification(t.Context(), dir, auto.Options{FromConfig: true})
		return err
	})
}

// TestSettingsOfOlderFilesCount: large models of OpenAI have the settings twice. What text_config_dict
// leaves out has its default, whatever text_config says.
func TestSettingsOfOlderFilesCount(t *testing.T) {
	config := map[string]any{"model_type": "clip", "text_config": map[string]any{"hidden_size": 8, "eos_token_id": 2,
		"num_attention_heads": 2, "vocab_size": 10, "note": 5},
		"text_config_dict":   map[string]any{"hidden_size": 16, "num_hidden_layers": 1, "intermediate_size": 8},
		"vision_config":      map[string]any{"num_hidden_layers": 1, "hidden_size": 24, "image_size": 64},
		"vision_config_dict": nil}
	m, err := auto.ZeroShotImageClassification(t.Context(), modeltest.ConfigFolder(t, config),
		auto.Options{FromConfig: true, Warnings: io.Discard})
	require.NoError(t, err)
	assert.Equal(t, []int64{49408, 16}, m.InputEmbeddings().Weight.Shape())
	assert.Equal(t, []int64{49407}, m.EOSTokenIDs())
	assert.Equal(t, int64(64), m.ImageLimits().Height)
	dir := t.TempDir()
	require.NoError(t, m.WriteConfig(dir))
	text, err := os.ReadFile(filepath.Join(dir, "config.json"))
	require.NoError(t, err)
	var d map[string]any
	require.NoError(t, json.Unmarshal(text, &d))
	assert.NotContains(t, d, "text_config_dict")
	own := d["text_config"].(map[string]any)
	assert.Equal(t, []any{"clip_text_model", 5., 16., 8.}, []any{own["model_type"], own["note"], own["hidden_size"],
		own["num_attention_heads"]})
}

// TestProcessorsSavedWithATokenizerAreFound: transformers 5 puts both into processor_config.json.
func TestProcessorsSavedWithATokenizerAreFound(t *testing.T) {
	m, _ := models.Tiny(t)
	dir := t.TempDir()
	require.NoError(t, m.Save(dir))
	file := filepath.Join(dir, "processor_config.json")
	require.NoError(t, os.WriteFile(file, []byte(`{"processor_class": "CLIPProcessor", "image_processor":
		{"size": {"shortest_edge": 15}, "crop_size": {"height": 12, "width": 12}, "image_processor_type": "CLIPImageProcessor"}}`),
		0o600))
	again, err := auto.ZeroShotImageClassification(t.Context(), dir, auto.Options{})
	require.NoError(t, err)
	assert.Equal(t, 15, again.ImageProcessor.Options().ShortestEdge)
	again.ImageProcessor = m.ImageProcessor
	require.NoError(t, again.Save(dir))
	again, err = auto.ZeroShotImageClassification(t.Context(), dir, auto.Options{})
	require.NoError(t, err)
	assert.Equal(t, m.ImageProcessor.Options(), again.ImageProcessor.Options())
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Contains(t, string(text), "CLIPProcessor")

	require.NoError(t, os.WriteFile(file, []byte(`[]`), 0o600))
	_, err = auto.ZeroShotImageClassification(t.Context(), dir, auto.Options{})
	assert.ErrorContains(t, err, "processor_config.json: json: cannot unmarshal array")
	require.NoError(t, os.WriteFile(file, []byte(`{"processor_class": "CLIPProcessor"}`), 0o600))
	_, err = auto.ZeroShotImageClassification(t.Context(), dir, auto.Options{})
	assert.NoError(t, err)
}

// TestAdaptersAreTrainedAndLoaded: the tokenizer and the image processor come from the adapter's
// folder, or from that of its model.
func TestAdaptersAreTrainedAndLoaded(t *testing.T) {
	m, file := models.Tiny(t)
	base, out := t.TempDir(), t.TempDir()
	require.NoError(t, m.Save(base))
	require.NoError(t, m.AddLoRA(lora.Config{R: 2}))
	assert.Contains(t, m.LoRA().Layers(), "text_model.encoder.layers.1.self_attn.v_proj")
	assert.Contains(t, m.LoRA().Layers(), "vision_model.encoder.layers.0.self_attn.q_proj")
	rows := models.Samples(file, 12)
	for i := range rows {
		rows[i].InputIDs = append(rows[i].InputIDs, 639)
	}
	step, err := engine.New(m.Task(), engine.Options{})
	require.NoError(t, err)
	fit, err := trainer.New(step, trainer.Options{OutputDir: out, MaxSteps: 3, Save: trainer.Every(3, trainer.Update),
		Progress: io.Discard})
	require.NoError(t, err)
	_, err = fit.Fit(t.Context(), data.Slice[contrastive.Sample](rows), nil)
	require.NoError(t, err)
	checkpoint := filepath.Join(out, "checkpoint-3")
	require.NoError(t, os.Remove(filepath.Join(checkpoint, "preprocessor_config.json")))
	again, err := auto.ZeroShotImageClassification(t.Context(), checkpoint, auto.Options{BaseModel: base})
	require.NoError(t, err)
	want, err := m.EmbedTexts(t.Context(), modeltest.DualLabels)
	require.NoError(t, err)
	got, err := again.EmbedTexts(t.Context(), modeltest.DualLabels)
	require.NoError(t, err)
	assert.Equal(t, want, got)
	im := &vision.Image{Width: 12, Height: 12, Channels: 3, Pix: make([]byte, 12*12*3)}
	_, err = again.EmbedImages(t.Context(), []*vision.Image{im, im})
	assert.NoError(t, err)
}

func TestFusedProjectionsGiveTheSameSimilarities(t *testing.T) {
	m, file := models.Tiny(t)
	rows := models.Samples(file, 12)[:4]
	for i := range rows {
		rows[i].InputIDs = append(rows[i].InputIDs, 639)
	}
	b, err := m.Task().Collate(rows)
	require.NoError(t, err)
	torch.NoGrad(func() {
		want := m.Task().Predict(engine.ForwardPass{}, b).Logits[0]
		require.NoError(t, m.FuseQKVProjections(true))
		golden.Close(t, "similarities", m.Task().Predict(engine.ForwardPass{}, b).Logits[0], want, 1e-4, 1e-5)
	})
}

func TestWhatAModelCannotDoIsSaid(t *testing.T) {
	m, _ := models.Tiny(t)
	nn.SetTraining(m, false)
	im := &vision.Image{Width: 12, Height: 12, Channels: 3, Pix: make([]byte, 12*12*3)}
	_, err := m.Predict(im, nil, auto.ZeroShotOptions{})
	assert.ErrorContains(t, err, "there are no labels")
	_, err = m.Predict(im, modeltest.DualLabels, auto.ZeroShotOptions{HypothesisTemplate: "a photo"})
	assert.ErrorContains(t, err, `HypothesisTemplate is "a photo"; want a text with {}`)
	_, err = m.Predict(&vision.Image{}, modeltest.DualLabels, auto.ZeroShotOptions{})
	assert.ErrorContains(t, err, "the picture is")
	_, err = m.PredictFile(filepath.Join(t.TempDir(), "none.png"), modeltest.DualLabels, auto.ZeroShotOptions{})
	assert.ErrorIs(t, err, os.ErrNotExist)
	err = torch.Try(func() { m.Forward(torch.Zeros(1, 2), torch.Tensor{}, torch.Tensor{}) })
	assert.ErrorContains(t, err, "CLIPModel takes texts and images")
	err = torch.Try(func() { m.ImageFeatures(torch.Zeros(1, 3, 12, 16)) })
	assert.ErrorContains(t, err, "the images have 12x16 pixels; the model is for 12x12")
	err = torch.Try(func() { m.TextFeatures(torch.TensorOptions{DType: torch.Int64}.Zeros(1, 25), torch.Tensor{}) })
	assert.ErrorContains(t, err, "the texts have 25 tokens, but the model has positions for 24")
	_, err = auto.ZeroShotImageClassification(t.Context(), t.TempDir(), auto.Options{ID2Label: []string{"a", "b"}})
	assert.ErrorContains(t, err, "this model has no classes")
	_, err = auto.NewZeroShotImageClassification(vit.Config{}, nil, nil)
	assert.ErrorContains(t, err, "a ViT does not compare texts with images")
	none, err := auto.NewZeroShotImageClassification(clip.Config{
		Text:   clip.TextConfig{Layers: clip.Layers{HiddenSize: 8, NumLayers: 1, IntermediateSize: 8}, VocabSize: 49408},
		Vision: clip.VisionConfig{Layers: clip.Layers{HiddenSize: 12, NumLayers: 1, IntermediateSize: 8}}}, nil, nil)
	require.NoError(t, err)
	_, err = none.EmbedTexts(t.Context(), modeltest.DualLabels)
	assert.ErrorContains(t, err, "the model has no tokenizer")
	_, err = none.Encode(im, "a")
	assert.ErrorContains(t, err, "the model has no image processor")
	rows, err := m.EmbedTexts(t.Context(), nil)
	require.NoError(t, err)
	assert.Empty(t, rows)
}
