package audio_test

import (
	"encoding/json"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/audio"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

// exact is sound of testdata/waveform.py.
func exact(n, rate int) *audio.Audio {
	a := &audio.Audio{Rate: rate}
	for i := range n {
		a.Samples = append(a.Samples, float32(i*7919%1009-300)/1024)
	}
	return a
}

func TestWaveformsHaveTransformersBits(t *testing.T) {
	testenv.RequireTorch(t)
	text, err := os.ReadFile("testdata/waveform.json")
	require.NoError(t, err)
	var f struct {
		Configs []json.RawMessage
		Sounds  []struct {
			Config, Samples int
			First           []string
			Sum             string
		}
	}
	require.NoError(t, json.Unmarshal(text, &f))
	var extractors []*audio.WaveformExtractor
	for _, c := range f.Configs {
		o, err := audio.ParseWaveformConfig(c)
		require.NoError(t, err)
		e, err := audio.NewWaveformExtractor(o)
		require.NoError(t, err)
		written, err := json.Marshal(e)
		require.NoError(t, err)
		assert.JSONEq(t, string(c), string(written))
		extractors = append(extractors, e)
	}
	for _, s := range f.Sounds {
		e := extractors[s.Config]
		a := exact(s.Samples, e.Options().SamplingRate)
		values, err := e.Extract(a)
		require.NoError(t, err)
		assert.Equal(t, exact(s.Samples, 0).Samples, a.Samples, "the sound stays as it was")
		for i, want := range s.First {
			v, err := strconv.ParseFloat(want, 64)
			require.NoError(t, err)
			assert.InDelta(t, v, float64(values[i]), 0, "%d samples", s.Samples)
		}
		assert.Equal(t, s.Sum, sum(torch.From(values)), "%d samples", s.Samples)
	}
}

func TestWaveformSettingsThatCannotBeAreRefused(t *testing.T) {
	for content, want := range map[string]string{
		`{"feature_extractor_type": "WhisperFeatureExtractor"}`: `is "WhisperFeatureExtractor"; ` +
			`want "Wav2Vec2FeatureExtractor"`,
		`{"feature_size": 80}`:     "feature_size is 80; want 1",
		`{"padding_side": "left"}`: `padding_side is "left"; want "right"`,
		`{"do_normalize": 3}`:      "preprocessor_config.json: do_normalize",
		`[]`:                       "preprocessor_config.json",
	} {
		_, err := audio.ParseWaveformConfig([]byte(content))
		require.ErrorContains(t, err, want)
	}
	_, err := audio.NewWaveformExtractor(audio.WaveformOptions{SamplingRate: -1})
	require.ErrorContains(t, err, "SamplingRate is -1; want 1 to")
	e, err := audio.NewWaveformExtractor(audio.WaveformOptions{})
	require.NoError(t, err)
	_, err = e.Extract(&audio.Audio{Rate: 16000})
	require.ErrorContains(t, err, "the sound has no samples")
	_, err = e.Extract(nil)
	require.ErrorContains(t, err, "the rate is 0")
}
