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

// recordedDetectors is testdata/detectors.json, recorded with transformers.
type recordedDetectors struct {
	Cases []struct {
		Settings json.RawMessage
		Saved    map[string]any // what transformers saves after loading Settings
		Results  []struct {
			File   string
			Shape  [3]int
			Extent [2]int
			SHA256 string
		}
	}
	// Sizes are height and width, shortest and longest edge, maximal height and width, and what DETR
	// and YOLOS make of the edges, and both of the maximum.
	Sizes [][12]int
}

func loadDetectors(t *testing.T) (r recordedDetectors) {
	t.Helper()
	text, err := os.ReadFile("testdata/detectors.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &r))
	require.NotEmpty(t, r.Cases)
	return r
}

// TestProcessorsOfDetectorsHaveTransformersBits covers all ways to resize, padding, and older
// files.
func TestProcessorsOfDetectorsHaveTransformersBits(t *testing.T) {
	for _, c := range loadDetectors(t).Cases {
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
			height, width = p.Extent(im)
			require.Equal(t, r.Extent, [2]int{height, width}, "%s: %s", c.Settings, r.File)
			pixels := make([]float32, p.Len(im))
			for i := range pixels {
				pixels[i] = 7 // a buffer is reused
			}
			require.NoError(t, p.Process(pixels, im))
			var bits []byte
			for _, v := range pixels {
				bits = binary.LittleEndian.AppendUint32(bits, math.Float32bits(v))
			}
			sum := sha256.Sum256(bits)
			assert.Equal(t, r.SHA256, hex.EncodeToString(sum[:]), "%s: %s", c.Settings, r.File)
		}
		text, err := json.Marshal(config)
		require.NoError(t, err)
		var written map[string]any
		require.NoError(t, json.Unmarshal(text, &written))
		for key, value := range written {
			if want := c.Saved[key]; want != nil || value != false {
				assert.Equal(t, want, value, "%s: %s", c.Settings, key)
			}
		}
	}
}

func TestSizesOfDetectorsAreTransformers(t *testing.T) {
	sized := func(height, width int, o vision.ProcessorOptions) [2]int {
		p, err := vision.NewProcessor(o)
		require.NoError(t, err)
		h, w := p.Extent(vision.NewImage(width, height, 3))
		return [2]int{h, w}
	}
	for _, s := range loadDetectors(t).Sizes {
		o := vision.ProcessorOptions{ShortestEdge: s[2], LongestEdge: s[3]}
		assert.Equal(t, [2]int(s[6:8]), sized(s[0], s[1], o), "DETR: %v", s)
		o.Multiple = 16
		assert.Equal(t, [2]int(s[8:10]), sized(s[0], s[1], o), "YOLOS: %v", s)
		assert.Equal(t, [2]int(s[10:]), sized(s[0], s[1], vision.ProcessorOptions{MaxHeight: s[4], MaxWidth: s[5]}), "%v", s)
	}
}

func TestImpossibleProcessorsOfDetectorsAreRefused(t *testing.T) {
	for settings, want := range map[string]string{
		`{"size": {"shortest_edge": 20}}`:                         "size is map[shortest_edge:20]; want shortest_edge and longest_edge, or max_height and max_width, or height",
		`{"size": {"max_height": 20, "max_width": 0}}`:            "size is map[max_height:20 max_width:0]",
		`{"size": 20, "max_size": "many"}`:                        "max_size",
		`{"pad_size": {"height": 20}}`:                            "pad_size is map[height:20]",
		`{"format": "coco_panoptic"}`:                             `format is "coco_panoptic"; want "coco_detection"`,
		`{"do_convert_annotations": false}`:                       "do_convert_annotations is false; want true",
		`{"resample": null}`:                                      "do_resize is true, but resample is null",
		`{"resample": 9}`:                                         "resample 9",
		`{"size": {"shortest_edge": 20, "longest_edge": 100000}}`: "at most 32768",
	} {
		for _, class := range []string{"YolosImageProcessor", "DetrImageProcessor"} {
			_, err := vision.ParseProcessorConfig([]byte(settings), class)
			assert.ErrorContains(t, err, want, settings)
		}
	}
	for want, o := range map[string]vision.ProcessorOptions{
		"want both, or no LongestEdge":  {LongestEdge: 3},
		"want both, or no Multiple":     {ShortestEdge: 3, Multiple: 16},
		"want one way to resize":        {ShortestEdge: 3, MaxHeight: 3, MaxWidth: 3},
		"fills images up to 3x0":        {PadWidth: 3},
		"MaxWidth 3 and MaxHeight 0":    {MaxWidth: 3},
		"sides of 40000 pixels":         {PadWidth: 40000, PadHeight: 2},
		"LongestEdge -3":                {ShortestEdge: 3, LongestEdge: -3},
		"Multiple -1 and LongestEdge 4": {ShortestEdge: 3, LongestEdge: 4, Multiple: -1},
	} {
		_, err := vision.NewProcessor(o)
		assert.ErrorContains(t, err, want)
	}
	p, err := vision.NewProcessor(vision.ProcessorOptions{PadWidth: 4, PadHeight: 5})
	require.NoError(t, err)
	im := vision.NewImage(5, 5, 3)
	assert.ErrorContains(t, p.Process(make([]float32, p.Len(im)), im),
		"the image has 5x5 pixels after resizing; want at most 4x5")
}

// TestTheClassThatCanDoItIsWritten: what a class of detectors cannot do becomes another one.
func TestTheClassThatCanDoItIsWritten(t *testing.T) {
	for _, c := range []struct {
		class, want string
		options     vision.ProcessorOptions
	}{
		{"Yolos", "Yolos", vision.ProcessorOptions{ShortestEdge: 5, LongestEdge: 9, Multiple: 16}},
		{"Yolos", "Detr", vision.ProcessorOptions{ShortestEdge: 5, LongestEdge: 9}},
		{"Detr", "Yolos", vision.ProcessorOptions{ShortestEdge: 5, LongestEdge: 9, Multiple: 16}},
		{"Yolos", "Yolos", vision.ProcessorOptions{MaxHeight: 5, MaxWidth: 9, PadHeight: 8, PadWidth: 9}},
		{"ViT", "Detr", vision.ProcessorOptions{MaxHeight: 5, MaxWidth: 9}},
		{"Detr", "ViT", vision.ProcessorOptions{Height: 5, Width: 9, CropHeight: 4, CropWidth: 4}},
		{"Yolos", "", vision.ProcessorOptions{ShortestEdge: 5, LongestEdge: 9, Multiple: 8}},
		{"Yolos", "", vision.ProcessorOptions{PadHeight: 8, PadWidth: 9, CropHeight: 4, CropWidth: 4}},
	} {
		c.options.Float32 = true
		text, err := json.Marshal(vision.ProcessorConfig{Type: c.class + "ImageProcessor", ProcessorOptions: c.options})
		if c.want == "" {
			assert.ErrorContains(t, err, "no place for a cut together with LongestEdge")
			continue
		}
		require.NoError(t, err)
		again, err := vision.ParseProcessorConfig(text, "")
		require.NoError(t, err)
		assert.Equal(t, c.want+"ImageProcessor", again.Type)
		assert.Equal(t, c.options, again.ProcessorOptions)
	}
}
