package audio_test

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/audio"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// recorded is the output of testdata/audio.py.
type recorded struct {
	Rates    [][2]int
	Features []struct {
		Config            json.RawMessage // preprocessor_config.json
		Filters, Features string
		Shape             []int64
		Every             int64
	}
}

func load(t *testing.T) (r recorded, file *golden.File) {
	t.Helper()
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	text, err := os.ReadFile("testdata/audio.json")
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &r))
	return r, golden.Load(t, "testdata/audio.safetensors")
}

// sum is the hash of testdata/audio.py.
func sum(t torch.Tensor) string {
	s := sha256.Sum256(t.Contiguous().Bytes())
	return hex.EncodeToString(s[:8])
}

func TestResamplingHasTorchaudiosBits(t *testing.T) {
	r, file := load(t)
	for i, rates := range r.Rates {
		name := strconv.Itoa(rates[0]) + " to " + strconv.Itoa(rates[1])
		t.Run(name, func(t *testing.T) {
			goldencount.Start(t, "audio", "resampling, "+name)
			a := &audio.Audio{Samples: torch.Values[float32](file.Tensor("sound." + strconv.Itoa(i))), Rate: rates[0]}
			got, err := a.Resample(rates[1])
			require.NoError(t, err)
			assert.Equal(t, rates[1], got.Rate)
			golden.Recorded(t, "samples", torch.From(got.Samples, int64(len(got.Samples))),
				file.Tensor("resampled."+strconv.Itoa(i)))
		})
	}
}

// TestLongSoundHasTransformersBits: features of sound that is longer than a chunk, and not cut.
func TestLongSoundHasTransformersBits(t *testing.T) {
	_, file := load(t)
	goldencount.Start(t, "audio", "features of long sound")
	e, err := audio.NewFeatureExtractor(audio.FeatureExtractorOptions{ChunkLength: 1, FeatureSize: 10})
	require.NoError(t, err)
	values, err := e.ExtractAll(&audio.Audio{Samples: torch.Values[float32](file.Tensor("long")), Rate: 16000})
	require.NoError(t, err)
	golden.Recorded(t, "features", torch.From(values, 10, int64(len(values)/10)), file.Tensor("features.long"))
	short := &audio.Audio{Samples: torch.Values[float32](file.Tensor("long"))[:9000], Rate: 16000}
	values, err = e.ExtractAll(short)
	require.NoError(t, err)
	want, err := e.Extract(short)
	require.NoError(t, err)
	assert.Equal(t, want, values)
}

func TestFeaturesHaveTransformersBits(t *testing.T) {
	r, file := load(t)
	for i, f := range r.Features {
		name := "features " + strconv.Itoa(i)
		t.Run(name, func(t *testing.T) {
			goldencount.Start(t, "audio", name)
			o, err := audio.ParseFeatureExtractorConfig(f.Config)
			require.NoError(t, err)
			e, err := audio.NewFeatureExtractor(o)
			require.NoError(t, err)
			written, err := json.Marshal(e)
			require.NoError(t, err)
			assert.JSONEq(t, string(f.Config), string(written))
			a := &audio.Audio{Samples: torch.Values[float32](file.Tensor("speech")), Rate: e.Options().SamplingRate}
			torch.ManualSeed(3)
			values, err := e.Extract(a)
			require.NoError(t, err)
			assert.EqualValues(t, f.Shape[2], e.Frames())
			got := torch.From(values, f.Shape[1:]...)
			want := file.Tensor("features." + strconv.Itoa(i))
			n := want.Size(1)
			var kept []int64
			for k := range n {
				kept = append(kept, k*f.Every)
			}
			golden.Recorded(t, "features", got.IndexSelect(1, torch.From(kept, n)), want)
			if testenv.SameBits() {
				assert.Equal(t, f.Features, sum(got))
			}
		})
	}
}
