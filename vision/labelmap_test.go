package vision_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"image/png"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/vision"
)

// recordedMaps is the output of testdata/labelmaps.py.
type recordedMaps struct {
	Files []struct {
		File    string
		Classes []uint16
	}
	Cases []struct {
		Settings json.RawMessage
		File     string
		Shape    [2]int
		Labels   string
	}
}

func loadMaps(t *testing.T) (r recordedMaps) {
	t.Helper()
	text, err := os.ReadFile("testdata/labelmaps.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &r))
	require.Len(t, r.Files, 18)
	require.Len(t, r.Cases, 15)
	return r
}

func openMap(t *testing.T, name string) *vision.LabelMap {
	t.Helper()
	m, err := vision.OpenLabelMap(filepath.Join("testdata/labelmaps", name), vision.DecodeOptions{})
	require.NoError(t, err)
	return m
}

// TestLabelMapsHaveTheNumbersOfTheFile whatever their colors or shades are.
func TestLabelMapsHaveTheNumbersOfTheFile(t *testing.T) {
	for _, f := range loadMaps(t).Files {
		m := openMap(t, f.File)
		assert.Equal(t, "21x13 labels", m.String())
		assert.Equal(t, f.Classes, m.Pix, f.File)

		var b bytes.Buffer
		require.NoError(t, png.Encode(&b, m.Std()))
		again, err := vision.DecodeLabelMap(b.Bytes(), "again", vision.DecodeOptions{})
		require.NoError(t, err)
		assert.Equal(t, m, again, f.File)
	}
}

func TestProcessorsPrepareLabelMapsAsTransformersDoes(t *testing.T) {
	for _, c := range loadMaps(t).Cases {
		config, err := vision.ParseProcessorConfig(c.Settings, "")
		require.NoError(t, err)
		p, err := vision.NewProcessor(saved(t, config).ProcessorOptions)
		require.NoError(t, err)
		m := openMap(t, c.File)
		before := m.Clone()
		out, err := p.ProcessLabels(m)
		require.NoError(t, err)
		assert.Equal(t, before, m)
		require.Equal(t, c.Shape, [2]int{out.Height, out.Width})
		var b []byte
		for _, class := range out.Pix {
			b = binary.LittleEndian.AppendUint16(b, class)
		}
		sum := sha256.Sum256(b)
		assert.Equal(t, c.Labels, hex.EncodeToString(sum[:]), "%s: %s", c.Settings, c.File)
	}
}

func TestWhatIsNoLabelMapIsRefused(t *testing.T) {
	for file, want := range map[string]string{
		"labelmaps/rgb.png":        "its pixels are RGB colors; a label map wants a PNG with a palette or one gray channel",
		"labelmaps/rgba.png":       "its pixels are RGBA colors; a label map",
		"labelmaps/gray_alpha.png": "its gray pixels have alpha; a label map",
		"files/jpeg420.jpg":        "the format keeps colors; a label map",
		"labelmaps.json":           "unknown image format",
		"missing.png":              "missing.png",
	} {
		_, err := vision.OpenLabelMap(filepath.Join("testdata", file), vision.DecodeOptions{})
		assert.ErrorContains(t, err, want, file)
	}
	raw, err := os.ReadFile("testdata/labelmaps/gray8.png")
	require.NoError(t, err)
	_, err = vision.DecodeLabelMap(raw[:len(raw)-20], "half", vision.DecodeOptions{})
	require.ErrorIs(t, err, vision.ErrCorrupt)
	_, err = vision.DecodeLabelMap(raw, "large", vision.DecodeOptions{MaxPixels: 20})
	require.ErrorIs(t, err, vision.ErrTooLarge)

	m := openMap(t, "gray16.png")
	_, err = m.Resized(0, 3)
	require.ErrorContains(t, err, "resize of 21x13 labels to 0x3")
	process := func(o vision.ProcessorOptions) error {
		p, err := vision.NewProcessor(o)
		require.NoError(t, err)
		_, err = p.ProcessLabels(m)
		return err
	}
	require.ErrorContains(t, process(vision.ProcessorOptions{ReduceLabels: true}), "want classes up to 255")
	require.ErrorContains(t, process(vision.ProcessorOptions{CropWidth: 3, CropHeight: 4}), "cuts out 3x4")
}

// TestSettingsOfSegformersProcessorAreKept covers what transformers 5.17 ignores: reduce_labels of
// older files.
func TestSettingsOfSegformersProcessorAreKept(t *testing.T) {
	for settings, want := range map[string]bool{
		`{}`:                         false,
		`{"reduce_labels": true}`:    true,
		`{"do_reduce_labels": true}`: true,
		`{"do_reduce_labels": false, "reduce_labels": true}`: false,
	} {
		c, err := vision.ParseProcessorConfig([]byte(settings), "SegformerImageProcessor")
		require.NoError(t, err)
		assert.Equal(t, want, saved(t, c).ReduceLabels, settings)
		assert.Empty(t, c.Extra)
	}
	_, err := vision.ParseProcessorConfig([]byte(`{"do_center_crop": true, "crop_size": 3}`), "SegformerImageProcessor")
	require.ErrorContains(t, err, "cuts nothing out")
	_, err = json.Marshal(vision.ProcessorConfig{Type: "ViTImageProcessor",
		ProcessorOptions: vision.ProcessorOptions{ReduceLabels: true}})
	require.ErrorContains(t, err, "a ViTImageProcessor has no place for ReduceLabels")
}

func TestMirroringMovesImageAndLabelsTogether(t *testing.T) {
	p, err := vision.NewProcessor(vision.ProcessorOptions{Mirror: true, Gray: true, Float32: true})
	require.NoError(t, err)
	im, m := vision.NewImage(3, 1, 1), vision.NewLabelMap(3, 1)
	copy(im.Pix, []uint8{1, 2, 3})
	copy(m.Pix, []uint16{1, 2, 3})
	pixels := make([]float32, 3)
	require.NoError(t, p.Process(pixels, im))
	out, err := p.ProcessLabels(m)
	require.NoError(t, err)
	assert.Equal(t, []float32{3, 2, 1}, pixels)
	assert.Equal(t, []uint16{3, 2, 1}, out.Pix)
}

// FuzzDecodeLabelMap expects an error or a map of the right size.
func FuzzDecodeLabelMap(f *testing.F) {
	files, err := filepath.Glob("testdata/labelmaps/*.png")
	require.NoError(f, err)
	for _, name := range files {
		raw, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		m, err := vision.DecodeLabelMap(raw, "fuzz", vision.DecodeOptions{MaxPixels: 1 << 16})
		if err == nil {
			assert.Len(t, m.Pix, m.Width*m.Height)
		}
	})
}
