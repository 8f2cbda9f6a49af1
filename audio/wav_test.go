package audio_test

import (
	"bytes"
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/audio"
	"github.com/gotrainer/gotrainer/internal/testenv"
)

// chunk makes a chunk of a RIFF file from numbers and bytes, with padding.
func chunk(name string, parts ...any) []byte {
	var content bytes.Buffer
	for _, part := range parts {
		if err := binary.Write(&content, binary.LittleEndian, part); err != nil {
			panic(err)
		}
	}
	out := append([]byte(name), binary.LittleEndian.AppendUint32(nil, uint32(content.Len()))...) //nolint:gosec // small
	out = append(out, content.Bytes()...)
	if len(out)%2 == 1 {
		out = append(out, 0)
	}
	return out
}

// format makes the fmt chunk of a rate of 16000.
func format(kind, channels, bits uint16, more ...any) []byte {
	block := channels * bits / 8
	return chunk("fmt ", append([]any{kind, channels, uint32(16000), 16000 * uint32(block), block, bits}, more...)...)
}

func riff(chunks ...[]byte) []byte {
	return append([]byte("RIFF\xff\xff\xff\xffWAVE"), bytes.Join(chunks, nil)...)
}

func TestFormatsAreRead(t *testing.T) {
	for name, c := range map[string]struct {
		file []byte
		want []float32
	}{
		"8 bits":  {riff(format(1, 1, 8), chunk("data", []byte{0, 128, 255})), []float32{-1, 0, 127. / 128}},
		"16 bits": {riff(format(1, 1, 16), chunk("data", []int16{-32768, 0, 16384})), []float32{-1, 0, 0.5}},
		"24 bits": {riff(format(1, 1, 24), chunk("data", []byte{0, 0, 0x80, 1, 0, 0, 0, 0, 0x40})),
			[]float32{-1, 1. / (1 << 23), 0.5}},
		"32 bits":  {riff(format(1, 1, 32), chunk("data", []int32{math.MinInt32, 1 << 30})), []float32{-1, 0.5}},
		"float 32": {riff(format(3, 1, 32), chunk("data", []float32{-0.25, 1.5})), []float32{-0.25, 1.5}},
		"float 64": {riff(format(3, 1, 64), chunk("data", []float64{-0.25, 0.1})), []float32{-0.25, 0.1}},
		"stereo":   {riff(format(1, 2, 16), chunk("data", []int16{16384, 0, -16384, 16384})), []float32{0.25, 0}},
		"extensible": {riff(format(0xFFFE, 1, 16, uint16(22), uint16(16), uint32(4), uint16(1), [14]byte{}),
			chunk("data", []int16{8192})), []float32{0.25}},
		"other chunks": {riff(chunk("LIST", []byte("abc")), format(1, 1, 16, uint16(0)), chunk("fact", uint32(1)),
			chunk("data", []int16{8192}), chunk("id3 ", []byte("x"))), []float32{0.25}},
		"an unknown size": {append(riff(format(1, 1, 16)), append([]byte("data\xff\xff\xff\xff"), 0, 0x20, 0, 0xE0)...),
			[]float32{0.25, -0.25}},
		"no samples": {riff(format(1, 1, 16), chunk("data")), nil},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := audio.DecodeWAV(bytes.NewReader(c.file))
			require.NoError(t, err)
			assert.Equal(t, c.want, a.Samples)
			assert.Equal(t, 16000, a.Rate)
		})
	}
}

func TestDamagedFilesAreRefused(t *testing.T) {
	whole := riff(format(1, 2, 16), chunk("data", []int16{1, 2, 3, 4}))
	for want, file := range map[string][]byte{
		`the file begins with "fLaC\x00\x00\x00\"\x10\x00\x10\x00"`: []byte("fLaC\x00\x00\x00\x22\x10\x00\x10\x00\x00"),
		"there is no data chunk":                                    riff(format(1, 1, 16)),
		"the data chunk comes before the fmt chunk":                 riff(chunk("data", []int16{1})),
		"samples have format 0x6 and 8 bits; want 1 (PCM)":          riff(format(6, 1, 8), chunk("data")),
		"samples have format 0x1 and 12 bits":                       riff(format(1, 1, 12), chunk("data")),
		"samples have format 0x2 and 16 bits": riff(format(0xFFFE, 1, 16, uint16(22), uint16(16), uint32(4), uint16(2),
			[14]byte{})),
		"the fmt chunk of an extensible format has 16 bytes": riff(format(0xFFFE, 1, 16)),
		"the fmt chunk has 4 bytes":                          riff(chunk("fmt ", uint32(1))),
		"there are 0 channels; want 1 to 1024":               riff(format(1, 0, 16)),
		"the rate is 0 samples in a second": riff(chunk("fmt ", uint16(1), uint16(1), uint32(0), uint32(0), uint16(2),
			uint16(16))),
		"block_align is 3; want 2": riff(chunk("fmt ", uint16(1), uint16(1), uint32(8000), uint32(0), uint16(3),
			uint16(16))),
		"the data chunk has 6 bytes, which is no multiple of 4": riff(format(1, 2, 16), chunk("data", []int16{1, 2, 3})),
		"sample 1 is NaN; want numbers": riff(format(3, 1, 32), chunk("data",
			[]float32{1, float32(math.NaN())})),
		"the file ends early": whole[:len(whole)-1],
	} {
		_, err := audio.DecodeWAV(bytes.NewReader(file))
		require.ErrorContains(t, err, want)
	}
	for n := range whole {
		_, err := audio.DecodeWAV(bytes.NewReader(whole[:n]))
		require.Error(t, err, n)
	}
}

// TestSizesInHeadersAreNotTrusted: a header that says four gigabytes costs no memory.
func TestSizesInHeadersAreNotTrusted(t *testing.T) {
	file := append(riff(format(1, 1, 16)), []byte("data\xfe\xff\xff\xff\x00\x00")...)
	used := testing.AllocsPerRun(1, func() {
		_, err := audio.DecodeWAV(bytes.NewReader(file))
		assert.ErrorContains(t, err, "the file ends early")
	})
	assert.Less(t, used, 200.0)
}

func TestFilesAreOpened(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a.wav")
	require.NoError(t, os.WriteFile(path, riff(format(1, 1, 16), chunk("data", make([]int16, 8000))), 0o600))
	a, err := audio.Open(path)
	require.NoError(t, err)
	assert.Equal(t, 500*time.Millisecond, a.Duration())
	require.NoError(t, os.WriteFile(path, []byte("RIFF"), 0o600))
	_, err = audio.Open(path)
	require.ErrorContains(t, err, path)
	_, err = audio.Open(filepath.Dir(path))
	require.ErrorContains(t, err, "not a regular file")
	_, err = audio.Open("no such file")
	require.ErrorContains(t, err, "no such file")
}

func TestSettingsOutOfRangeAreRefused(t *testing.T) {
	for want, o := range map[string]audio.FeatureExtractorOptions{
		"FeatureSize is -1; want 1 to":          {FeatureSize: -1},
		"SamplingRate is 2000000; want 1 to":    {SamplingRate: 2000000},
		"ChunkLength is 10000 seconds of 16000": {ChunkLength: 10000},
		"NFFT is 1; want at least 2":            {NFFT: 1},
		"NFFT is 40; want at least 2":           {NFFT: 40, SamplingRate: 16, ChunkLength: 1},
		"HopLength is 20000; want at most":      {HopLength: 20000, ChunkLength: 1},
		"Dither is -1 and PaddingValue 0":       {Dither: -1},
		"Dither is 0 and PaddingValue NaN":      {PaddingValue: math.NaN()},
	} {
		_, err := audio.NewFeatureExtractor(o)
		require.ErrorContains(t, err, want)
	}
	for want, text := range map[string]string{
		"preprocessor_config.json": "[]",
		`feature_extractor_type is "Wav2Vec2FeatureExtractor"; want "WhisperFeatureExtractor"`: `{"feature_extractor_type":
			"Wav2Vec2FeatureExtractor"}`,
		`padding_side is "left"`: `{"padding_side": "left"}`,
		"n_fft: json":            `{"n_fft": "x"}`,
	} {
		_, err := audio.ParseFeatureExtractorConfig([]byte(text))
		require.ErrorContains(t, err, want)
	}
	o, err := audio.ParseFeatureExtractorConfig([]byte(`{"mel_filters": [[1]], "processor_class": "WhisperProcessor"}`))
	require.NoError(t, err)
	assert.Len(t, o.Extra, 1)
}

func TestSoundThatDoesNotFitIsRefused(t *testing.T) {
	testenv.RequireTorch(t)
	e, err := audio.NewFeatureExtractor(audio.FeatureExtractorOptions{ChunkLength: 1})
	require.NoError(t, err)
	_, err = e.Extract(&audio.Audio{Samples: make([]float32, 16001), Rate: 16000})
	require.ErrorContains(t, err, "the sound is 1.00 seconds long; want at most 1")
	_, err = e.Extract(nil)
	require.ErrorContains(t, err, "the rate is 0 samples in a second")
	_, err = (&audio.Audio{Rate: 44101}).Resample(16000)
	require.ErrorContains(t, err, "too small a common divisor, 1")
	_, err = (&audio.Audio{Rate: 8000}).Resample(-1)
	require.ErrorContains(t, err, "the rate is -1")
	silence, err := e.Extract(&audio.Audio{Rate: 8000})
	require.NoError(t, err)
	assert.Len(t, silence, 80*100)
}

func FuzzDecodeWAV(f *testing.F) {
	f.Add(riff(format(1, 2, 16), chunk("data", []int16{1, 2, 3, 4})))
	f.Add(riff(format(3, 1, 64), chunk("LIST", []byte("abc")), chunk("data", []float64{0.5})))
	f.Add(riff(format(0xFFFE, 1, 24, uint16(22), uint16(16), uint32(4), uint16(1), [14]byte{}),
		chunk("data", []byte("abc"))))
	f.Fuzz(func(t *testing.T, file []byte) {
		a, err := audio.DecodeWAV(bytes.NewReader(file))
		if err == nil && (a.Rate < 1 || len(a.Samples) > len(file)) {
			t.Errorf("%d samples at %d from %d bytes", len(a.Samples), a.Rate, len(file))
		}
	})
}
