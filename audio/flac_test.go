package audio_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/audio"
)

func TestFLACIsReadAsLibsndfileReadsIt(t *testing.T) {
	content, err := os.ReadFile("testdata/flac/flac.json")
	require.NoError(t, err)
	var cases []struct {
		Name          string
		Rate, Samples int
		First         float64
		SHA256        string
	}
	require.NoError(t, json.Unmarshal(content, &cases))
	for _, c := range cases {
		a, err := audio.Open(filepath.Join("testdata/flac", c.Name+".flac"))
		require.NoError(t, err, c.Name)
		assert.Equal(t, c.Rate, a.Rate, c.Name)
		require.Len(t, a.Samples, c.Samples, c.Name)
		assert.InDelta(t, c.First, a.Samples[0], 0, c.Name)
		var b bytes.Buffer
		require.NoError(t, binary.Write(&b, binary.LittleEndian, a.Samples))
		sum := sha256.Sum256(b.Bytes())
		assert.Equal(t, c.SHA256, hex.EncodeToString(sum[:]), c.Name)
	}
}

func TestADamagedFLACIsAnError(t *testing.T) {
	whole, err := os.ReadFile("testdata/flac/stereo16.flac")
	require.NoError(t, err)
	for n := 0; n < len(whole); n += 1 + n/50 {
		_, err := audio.DecodeFLAC(bytes.NewReader(whole[:n]))
		require.Error(t, err, "the first %d bytes", n)
	}
	_, err = audio.DecodeFLAC(bytes.NewReader(whole[:len(whole)-1]))
	require.ErrorContains(t, err, "audio: FLAC: ")
	bad := bytes.Clone(whole)
	bad[len(bad)/2] ^= 1
	_, err = audio.DecodeFLAC(bytes.NewReader(bad))
	require.ErrorContains(t, err, "mismatch")
	_, err = audio.Decode(bytes.NewReader([]byte("OggS and more")))
	require.ErrorContains(t, err, `audio: the sound begins with "OggS and mor"; want WAV (RIFF) or FLAC (fLaC)`)
	_, err = audio.Decode(bytes.NewReader(nil))
	require.ErrorContains(t, err, `audio: the sound begins with ""`)
}

func FuzzDecodeFLAC(f *testing.F) {
	for _, name := range []string{"one", "mono8", "stereo24", "surround16"} {
		content, err := os.ReadFile(filepath.Join("testdata/flac", name+".flac"))
		require.NoError(f, err)
		f.Add(content)
	}
	f.Fuzz(func(t *testing.T, content []byte) {
		a, err := audio.DecodeFLAC(bytes.NewReader(content))
		if err != nil {
			return
		}
		require.Positive(t, a.Rate)
		for _, x := range a.Samples {
			require.True(t, x >= -1 && x <= 1, x)
		}
	})
}
