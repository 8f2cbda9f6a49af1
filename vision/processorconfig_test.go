package vision_test

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/vision"
)

// recordedProcessor is a case of testdata/processors.json, recorded with transformers.
type recordedProcessor struct {
	Settings json.RawMessage
	Saved    map[string]any // what transformers saves after loading Settings
	Results  []struct {
		File   string
		Shape  [3]int
		SHA256 string
	}
}

func recordedProcessors(t *testing.T) []recordedProcessor {
	t.Helper()
	text, err := os.ReadFile("testdata/processors.json")
	require.NoError(t, err)
	var all struct{ Cases []recordedProcessor }
	require.NoError(t, json.Unmarshal(text, &all))
	require.NotEmpty(t, all.Cases)
	return all.Cases
}

// TestProcessorsHaveTransformersBits covers settings with and without each step, and older files.
func TestProcessorsHaveTransformersBits(t *testing.T) {
	for _, c := range recordedProcessors(t) {
		config, err := vision.ParseProcessorConfig(c.Settings, "ViTImageProcessor")
		require.NoError(t, err, "%s", c.Settings)
		again := saved(t, config)
		p, err := vision.NewProcessor(again.ProcessorOptions)
		require.NoError(t, err)
		for _, r := range c.Results {
			im, err := vision.Open(filepath.Join("testdata/files", r.File), vision.DecodeOptions{})
			require.NoError(t, err)
			channels, height, width := p.Shape(im)
			require.Equal(t, r.Shape, [3]int{channels, height, width}, "%s: %s", c.Settings, r.File)
			pixels := make([]float32, p.Len(im))
			require.NoError(t, p.Process(pixels, im))
			var bits []byte
			for _, v := range pixels {
				bits = binary.LittleEndian.AppendUint32(bits, math.Float32bits(v))
			}
			sum := sha256.Sum256(bits)
			assert.Equal(t, r.SHA256, hex.EncodeToString(sum[:]), "%s: %s", c.Settings, r.File)
		}
	}
}

// saved writes a configuration and reads it again.
func saved(t *testing.T, c vision.ProcessorConfig) vision.ProcessorConfig {
	t.Helper()
	text, err := json.Marshal(c)
	require.NoError(t, err)
	again, err := vision.ParseProcessorConfig(text, "")
	require.NoError(t, err)
	assert.Equal(t, c, again)
	return again
}

// TestProcessorsAreWrittenAsByTransformers checks that everything written is what transformers
// writes, and that a key is missing only if it has no effect.
func TestProcessorsAreWrittenAsByTransformers(t *testing.T) {
	for _, c := range recordedProcessors(t) {
		config, err := vision.ParseProcessorConfig(c.Settings, "ViTImageProcessor")
		require.NoError(t, err)
		text, err := json.Marshal(config)
		require.NoError(t, err)
		var written map[string]any
		require.NoError(t, json.Unmarshal(text, &written))
		for key, value := range written {
			want := c.Saved[key]
			assert.True(t, want == nil && value == false || assert.ObjectsAreEqual(want, value), "%s: %s is %v, want %v",
				c.Settings, key, value, want)
		}
		for key, value := range map[string][]string{"do_resize": {"size", "resample"}, "do_center_crop": {"crop_size"},
			"do_rescale": {"rescale_factor"}, "do_normalize": {"image_mean", "image_std"}} {
			for _, setting := range value {
				_, there := written[setting]
				assert.Equal(t, written[key] == true, there, "%s: %s", c.Settings, setting)
			}
		}
	}
}

func TestProcessorsThatAreNotThereAreRefused(t *testing.T) {
	for settings, want := range map[string]string{
		`{"image_processor_type": "SamImageProcessor"}`: `image_processor_type is "SamImageProcessor"; want one of Bit, CLIP, ConvNext, DeiT, Detr, Segformer, Siglip, ViT, Yolos`,
		`{"do_pad": true}`: "do_pad is true",
		`{"size": {"shortest_edge": 20, "longest_edge": 30}}`:  "size is map[longest_edge:30 shortest_edge:20]; want shortest_edge alone, or height and width",
		`{"size": {"height": 20}}`:                             "size is map[height:20]",
		`{"size": {"height": 0, "width": 3}}`:                  "size is map[height:0 width:3]",
		`{"size": -3}`:                                         "size is map[:-3]",
		`{"size": [3, 4]}`:                                     "a size is neither a number nor",
		`{"do_center_crop": true}`:                             "crop_size is map[]; want height and width",
		`{"do_center_crop": true, "crop_size": {"height": 3}}`: "crop_size is map[height:3]",
		`{"resample": 6}`:                                      "resample 6",
		`{"image_std": [0.5, 0, 0.5]}`:                         "std that is not zero",
		`{"image_mean": [0.5, 0.5]}`:                           "2 values of mean for 3 channels",
		`{"image_mean": 3`:                                     "unexpected end",
		`{"image_processor_type": 3}`:                          "image_processor_type",
		`{"image_mean": [0.5], "image_std": [0.5, 0.5]}`:       "2 values of std for 1 channels",
		`{"size": null}`:                                       "size is map[]", `{"resample": null}`: "do_resize is true, but resample is null",
		`{"image_mean": null}`: "image_mean is null", `{"rescale_factor": null}`: "rescale_factor is null",
		`null`: "want an object",
		`{"size": {"height": 70000, "width": 70000}, "resample": 2}`: "at most 32768",
	} {
		_, err := vision.ParseProcessorConfig([]byte(settings), "ViTImageProcessor")
		require.ErrorContains(t, err, want, settings)
		assert.ErrorContains(t, err, "preprocessor_config.json")
	}
	for _, o := range []vision.ProcessorOptions{{Mirror: true}, {Gray: true}, {Wrap8Bit: true}} {
		_, err := json.Marshal(vision.ProcessorConfig{Type: "ViTImageProcessor", ProcessorOptions: o})
		assert.ErrorContains(t, err, "no place", "%+v", o)
	}
}

func FuzzParseProcessorConfig(f *testing.F) {
	f.Add([]byte(`{"size": {"height": 3, "width": 4}, "image_mean": [0.5], "crop_size": 3}`))
	f.Add([]byte(`{"feature_extractor_type": "DeiTFeatureExtractor", "do_resize": null, "note": [1]}`))
	f.Add([]byte(`{"image_processor_type": "YolosImageProcessor", "size": 8, "max_size": 9, "pad_size": {"height": 9, "width": 9}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := vision.ParseProcessorConfig(text, "CLIPImageProcessor")
		if err != nil {
			return
		}
		_, err = vision.NewProcessor(c.ProcessorOptions)
		require.NoError(t, err)
	})
}

func TestImpossibleSizesOfProcessorsAreRefused(t *testing.T) {
	for want, o := range map[string]vision.ProcessorOptions{
		"want one of them": {Width: 3, Height: 3, ShortestEdge: 3},
		"ShortestEdge -1":  {ShortestEdge: -1},
		"cuts out 3x0":     {CropWidth: 3},
		"no Float32":       {Wrap8Bit: true, Float32: true, Mean: []float64{1}, Std: []float64{1}},
		"at most 32768":    {CropWidth: 1, CropHeight: 1 << 20},
	} {
		_, err := vision.NewProcessor(o)
		assert.ErrorContains(t, err, want)
	}
}

// TestAConvNextImageProcessorIsWrittenIfItCan: other options become those of a ViTImageProcessor.
func TestAConvNextImageProcessorIsWrittenIfItCan(t *testing.T) {
	for _, c := range []struct {
		options vision.ProcessorOptions
		want    string
	}{
		{vision.ProcessorOptions{ShortestEdge: 256, CropWidth: 224, CropHeight: 224}, `"size":{"shortest_edge":224}`},
		{vision.ProcessorOptions{ShortestEdge: 256, CropWidth: 224, CropHeight: 224}, `"crop_pct":0.875`},
		{vision.ProcessorOptions{ShortestEdge: 300, CropWidth: 224, CropHeight: 224}, `"crop_pct":0.746`},
		{vision.ProcessorOptions{Width: 384, Height: 384}, `"size":{"shortest_edge":384}`},
		{vision.ProcessorOptions{}, `"do_resize":false`},
		{vision.ProcessorOptions{Width: 224, Height: 224}, `"image_processor_type":"ViTImageProcessor"`},
		{vision.ProcessorOptions{Width: 400, Height: 500}, `"size":{"height":500,"width":400}`},
		{vision.ProcessorOptions{ShortestEdge: 256}, `"image_processor_type":"ViTImageProcessor"`},
		{vision.ProcessorOptions{ShortestEdge: 256, CropWidth: 224, CropHeight: 200}, `"height":200,"width":224`},
		{vision.ProcessorOptions{ShortestEdge: 500, CropWidth: 400, CropHeight: 400}, `"size":{"shortest_edge":500}`},
	} {
		c.options.Float32, c.options.Rescale = true, 1/255.
		text, err := json.Marshal(vision.ProcessorConfig{Type: "ConvNextImageProcessor", ProcessorOptions: c.options})
		require.NoError(t, err)
		assert.Contains(t, string(text), c.want)
		again, err := vision.ParseProcessorConfig(text, "")
		require.NoError(t, err)
		assert.Equal(t, c.options, again.ProcessorOptions)
	}
	for edge := 1; edge < 384; edge += 7 { // the quotient is rounded down
		for before := edge; before < 700; before += 11 {
			o := vision.ProcessorOptions{ShortestEdge: before, CropWidth: edge, CropHeight: edge, Float32: true}
			text, err := json.Marshal(vision.ProcessorConfig{Type: "ConvNextImageProcessor", ProcessorOptions: o})
			require.NoError(t, err)
			again, err := vision.ParseProcessorConfig(text, "")
			require.NoError(t, err)
			require.Equal(t, o, again.ProcessorOptions)
			require.Equal(t, "ConvNextImageProcessor", again.Type)
		}
	}
}

func TestImpossibleSizesOfConvNextImageProcessorsAreRefused(t *testing.T) {
	for settings, want := range map[string]string{
		`{"size": {"height": 3, "width": 4}}`:     "size is map[height:3 width:4]; want shortest_edge alone",
		`{"size": 0}`:                             "size is map[:0]; want shortest_edge alone, of at least 1",
		`{"size": 224, "do_center_crop": true}`:   "do_center_crop is true; want false",
		`{"size": 224, "crop_pct": null}`:         "do_resize is true, but crop_pct is null",
		`{"size": 224, "crop_pct": 0}`:            "crop_pct is 0; want a number above 0",
		`{"size": 224, "crop_pct": 1e-9}`:         "sides have at most 32768 pixels",
		`{"size": 50000}`:                         "at most 32768",
		`{"size": 400, "do_center_crop": true}`:   "crop_size is map[]",
		`{"size": 224, "crop_pct": "everything"}`: "crop_pct",
	} {
		_, err := vision.ParseProcessorConfig([]byte(settings), "ConvNextImageProcessor")
		assert.ErrorContains(t, err, want, settings)
	}
}

// TestOneMeanIsWrittenForEachChannel: a file with a single mean is for images of one channel.
func TestOneMeanIsWrittenForEachChannel(t *testing.T) {
	for _, gray := range []bool{false, true} {
		o := vision.ProcessorOptions{Gray: gray, Width: 4, Height: 3, Filter: vision.Bilinear, Rescale: 1 / 255.,
			Mean: []float64{0.25}, Std: []float64{0.5}, Float32: true}
		text, err := json.Marshal(vision.ProcessorConfig{Type: "ViTImageProcessor", ProcessorOptions: o})
		require.NoError(t, err)
		again, err := vision.ParseProcessorConfig(text, "")
		require.NoError(t, err)
		if !gray {
			o.Mean, o.Std = []float64{0.25, 0.25, 0.25}, []float64{0.5, 0.5, 0.5}
		}
		assert.Equal(t, o, again.ProcessorOptions)
	}
}
