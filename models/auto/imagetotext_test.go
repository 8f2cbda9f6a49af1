package auto_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/bart"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/lora"
	"github.com/gotrainer/gotrainer/models/seq2seq"
	"github.com/gotrainer/gotrainer/models/trocr"
	"github.com/gotrainer/gotrainer/models/vit"
	"github.com/gotrainer/gotrainer/nn/quantized"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/vision"
)

// colourReader makes a small model that is to write the name of a colour.
func colourReader(t *testing.T) *auto.ImageToTextModel {
	t.Helper()
	testenv.RequireTorch(t)
	tok, err := text.TrainByteLevel(slices.Values([]string{"red green blue"}), text.TrainOptions{VocabSize: 270,
		SpecialTokens: []string{"<s>", "<pad>", "</s>"}})
	require.NoError(t, err)
	processor, err := vision.NewProcessor(vision.ProcessorOptions{Width: 8, Height: 8, Filter: vision.Bilinear,
		Rescale: 1 / 255., Float32: true, Mean: []float64{0.5, 0.5, 0.5}, Std: []float64{0.5, 0.5, 0.5}})
	require.NoError(t, err)
	torch.ManualSeed(3)
	m, err := auto.NewImageToText(trocr.Config{
		Encoder: vit.Config{ImageSize: vit.Size{Height: 8, Width: 8}, PatchSize: vit.Size{Height: 4, Width: 4},
			HiddenSize: 16, NumLayers: 1, NumHeads: 2, IntermediateSize: 16},
		VocabSize: int64(tok.VocabSize()), HiddenSize: 24, NumLayers: 1, NumHeads: 2, FFNDim: 32, MaxPositions: 12,
		Dropout: new(0.0),
	}, processor, tok)
	require.NoError(t, err)
	return m
}

var colours = []string{"red", "green", "blue"}

// TestAModelThatReadsIsTrainedSavedAndLoaded checks that evaluations score what the model writes, and
// that checkpoints and the output of Save are complete.
func TestAModelThatReadsIsTrainedSavedAndLoaded(t *testing.T) {
	m := colourReader(t)
	var samples []seq2seq.ImageSample
	for i := range 30 {
		s, err := m.Encode(colour(i%3, i), colours[i%3])
		require.NoError(t, err)
		require.Equal(t, int64(2), s.Labels[len(s.Labels)-1], "the end")
		samples = append(samples, s)
	}
	write, err := m.Writer(auto.Generation{})
	require.NoError(t, err)
	task, err := seq2seq.NewImageTask(m, seq2seq.ImageTaskOptions{Write: write,
		Metrics: []metrics.Metric[string]{&metrics.CER{}, &metrics.ExactMatch{}}})
	require.NoError(t, err)
	step, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 0.01}})
	require.NoError(t, err)
	out := t.TempDir()
	fit, err := trainer.New(step, trainer.Options{Epochs: 30, BatchSize: 6, OutputDir: out, Progress: io.Discard})
	require.NoError(t, err)
	set := data.Slice[seq2seq.ImageSample](samples)
	result, err := fit.Fit(t.Context(), set, set)
	require.NoError(t, err)
	last := result.History[len(result.History)-2] // the entry before that of the whole run
	assert.InDelta(t, 0, last["eval_cer"], 0, "%v", last)
	assert.InDelta(t, 1, last["eval_exact_match"], 0, "%v", last)
	for _, name := range []string{"preprocessor_config.json", "tokenizer.json", "tokenizer_config.json", "config.json"} {
		found, err := filepath.Glob(filepath.Join(out, "checkpoint-*", name))
		require.NoError(t, err)
		assert.NotEmpty(t, found, name)
	}

	dir := t.TempDir()
	require.NoError(t, m.Save(dir))
	again, err := auto.ImageToText(t.Context(), dir, auto.Options{})
	require.NoError(t, err)
	assert.False(t, again.Training())
	file := filepath.Join(dir, "green.ppm")
	require.NoError(t, os.WriteFile(file, append([]byte("P6 11 9 255\n"), colour(1, 4).Pix...), 0o666))
	written, err := again.GenerateFile(t.Context(), file, auto.Generation{NumBeams: 2})
	require.NoError(t, err)
	assert.Equal(t, "green", written)
	all, err := again.GenerateBatch(t.Context(), []*vision.Image{colour(2, 0), colour(0, 7)}, auto.Generation{
		Sample: true, TopK: 1, NumReturnSequences: 2})
	require.NoError(t, err)
	assert.Equal(t, []string{"blue", "blue", "red", "red"}, all)
	var parts string
	_, err = again.Generate(t.Context(), colour(0, 0), auto.Generation{Stream: func(part string) { parts += part }})
	require.NoError(t, err)
	assert.Equal(t, "red", parts)
	s, err := again.EncodeFile(file, "green")
	require.NoError(t, err)
	assert.Equal(t, samples[1].Labels, s.Labels)

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = again.Generate(ctx, colour(0, 0), auto.Generation{})
	require.ErrorIs(t, err, context.Canceled)
}

// TestAnAdapterOfAModelThatReadsIsSavedAndLoaded checks that the adapter's folder finds its model.
func TestAnAdapterOfAModelThatReadsIsSavedAndLoaded(t *testing.T) {
	base, dir := t.TempDir(), t.TempDir()
	require.NoError(t, colourReader(t).Save(base))
	m, err := auto.ImageToText(t.Context(), base, auto.Options{})
	require.NoError(t, err)
	require.NoError(t, m.AddLoRA(lora.Config{R: 2, Init: lora.InitRandom}))
	require.NoError(t, m.Save(dir))
	again, err := auto.ImageToText(t.Context(), dir, auto.Options{})
	require.NoError(t, err)
	of := func(m *auto.ImageToTextModel) []torch.Tensor {
		b, err := m.Task().Collate([]seq2seq.ImageSample{must(m.Encode(colour(1, 2), "green"))})
		require.NoError(t, err)
		return m.Task().Predict(engine.ForwardPass{}, b).Logits
	}
	assert.True(t, of(again)[0].Equal(of(m)[0]))
	require.NoError(t, again.MergeLoRA())
	assert.True(t, of(again)[0].AllClose(of(m)[0], 1e-4, 1e-5, false))
}

// TestImagesOfOtherSizesAreRead: the positions of patches are interpolated.
func TestImagesOfOtherSizesAreRead(t *testing.T) {
	m := colourReader(t)
	image := inputs.Image{Pixels: make([]float32, 3*12*16), Shape: []int64{3, 12, 16}}
	_, err := m.GenerateIDs(t.Context(), []inputs.Image{image}, auto.Generation{})
	require.ErrorContains(t, err, "Shape is [3 12 16]; the model takes pictures of [3 8 8]")
	require.NoError(t, m.InterpolatePosEncoding(true))
	rows, err := m.GenerateIDs(t.Context(), []inputs.Image{image}, auto.Generation{EOSTokenIDs: []int64{}})
	require.NoError(t, err)
	assert.Len(t, rows[0], 12, "as many tokens as there are positions")
}

// TestProcessorsOfTransformers5Load: TrOCRProcessor saves its image processor inside another file.
func TestProcessorsOfTransformers5Load(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, colourReader(t).Save(dir))
	inner, err := os.ReadFile(filepath.Join(dir, "preprocessor_config.json"))
	require.NoError(t, err)
	require.NoError(t, os.Remove(filepath.Join(dir, "preprocessor_config.json")))
	path := filepath.Join(dir, "processor_config.json")
	require.NoError(t, os.WriteFile(path, slices.Concat([]byte(`{"processor_class": "TrOCRProcessor",
		"image_processor": `), inner, []byte("}")), 0o600))
	m, err := auto.ImageToText(t.Context(), dir, auto.Options{})
	require.NoError(t, err)
	require.NotNil(t, m.ImageProcessor)
	assert.Equal(t, 8, m.ImageProcessor.Options().Width)

	var warnings bytes.Buffer
	require.NoError(t, os.WriteFile(path, []byte(`{"processor_class": "TrOCRProcessor"}`), 0o600))
	m, err = auto.ImageToText(t.Context(), dir, auto.Options{Warnings: &warnings})
	require.NoError(t, err)
	assert.Nil(t, m.ImageProcessor)
	assert.Contains(t, warnings.String(), "has no preprocessor_config.json")
	_, err = m.Generate(t.Context(), colour(0, 0), auto.Generation{})
	require.ErrorContains(t, err, "has no preprocessor_config.json beside the weights")

	require.NoError(t, os.WriteFile(path, []byte("{"), 0o600))
	_, err = auto.ImageToText(t.Context(), dir, auto.Options{})
	require.ErrorContains(t, err, "processor_config.json")
}

// TestTokenizersOfOlderFoldersLoad: trocr-base has vocab.json and merges.txt instead of
// tokenizer.json, which Save writes too.
func TestTokenizersOfOlderFoldersLoad(t *testing.T) {
	dir, second := t.TempDir(), t.TempDir()
	require.NoError(t, colourReader(t).Save(dir))
	require.NoError(t, os.Remove(filepath.Join(dir, "tokenizer.json")))
	for name, content := range map[string]string{
		"vocab.json": `{"<s>": 0, "<pad>": 1, "</s>": 2, "r": 3, "e": 4, "d": 5, "re": 6, "<unk>": 7, "<mask>": 8}`,
		"merges.txt": "#version: 0.2\nr e\n", "tokenizer_config.json": `{"tokenizer_class": "RobertaTokenizer"}`,
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600))
	}
	m, err := auto.ImageToText(t.Context(), dir, auto.Options{})
	require.NoError(t, err)
	s, err := m.Encode(colour(0, 0), "red")
	require.NoError(t, err)
	assert.Equal(t, []int64{0, 6, 5, 2}, s.Labels)
	require.NoError(t, m.Save(second))
	for _, name := range []string{"tokenizer.json", "vocab.json", "merges.txt", "tokenizer_config.json"} {
		assert.FileExists(t, filepath.Join(second, name))
	}
	again, err := auto.ImageToText(t.Context(), second, auto.Options{})
	require.NoError(t, err)
	assert.Equal(t, s, must(again.Encode(colour(0, 0), "red")))
}

// TestReadersRefuseWhatTheyCannotDo checks the errors of programs' mistakes.
func TestReadersRefuseWhatTheyCannotDo(t *testing.T) {
	m := colourReader(t)
	_, err := m.Encode(nil, "red")
	require.ErrorContains(t, err, "want one of at least 1x1")
	_, err = m.GenerateBatch(t.Context(), nil, auto.Generation{})
	require.ErrorContains(t, err, "no images to read")
	_, err = m.EncodeFile("no such file", "red")
	require.ErrorContains(t, err, "no such file")
	long, err := m.Encode(colour(0, 0), "red green blue red green blue red green blue red green blue")
	require.NoError(t, err)
	assert.LessOrEqual(t, len(long.Labels), 12, "cut to the positions of the model")
	_, err = seq2seq.NewImageTask(m, seq2seq.ImageTaskOptions{Metrics: []metrics.Metric[string]{&metrics.CER{}}})
	require.ErrorContains(t, err, "Write and Metrics go together")
	_, err = seq2seq.NewImageTask(m, seq2seq.ImageTaskOptions{TargetPadding: data.Padding{Length: 13}})
	require.ErrorContains(t, err, "positions for 12")
	_, err = m.Task().Collate([]seq2seq.ImageSample{{Image: long.Image}})
	require.ErrorContains(t, err, "sample 0 of the batch: Labels is empty")
	_, err = auto.NewImageToText(bart.Config{}, nil, nil)
	require.ErrorContains(t, err, "a Bart is not for ForImageTextToText")
	_, err = auto.NewImageToText(vit.Config{}, nil, nil)
	require.ErrorContains(t, err, "a ViT is not for ForImageTextToText")
	_, err = auto.NewImageClassification(trocr.Config{}, nil)
	require.ErrorContains(t, err, "a VisionEncoderDecoder is not for ForImageClassification")
	_, err = auto.NewSeq2SeqLM(trocr.Config{}, nil)
	require.ErrorContains(t, err, "a VisionEncoderDecoderModel is not for ForConditionalGeneration")
	_, err = auto.ImageToText(t.Context(), "no-such-model", auto.Options{Quantize: &quantized.Config{}})
	require.ErrorContains(t, err, "weights in four bits are for models of texts")
	m.Tokenizer = nil
	_, err = m.Generate(t.Context(), colour(0, 0), auto.Generation{})
	require.ErrorContains(t, err, "the model has no tokenizer")
	_, err = m.Writer(auto.Generation{})
	require.ErrorContains(t, err, "the model has no tokenizer")
	m.ImageProcessor = nil
	_, err = m.Generate(t.Context(), colour(0, 0), auto.Generation{})
	require.Error(t, err)
	err = torch.Try(func() { m.Forward(torch.Ones(1), torch.Tensor{}, torch.Tensor{}) })
	require.ErrorContains(t, err, "ImageToTextModel.ForwardPair")
}
