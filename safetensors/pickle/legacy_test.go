package pickle_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/safetensors/pickle"
)

// legacy returns a file in the format before PyTorch 1.6: {"a": float32[2], "b": float32[1]}, with
// one storage of three elements whose key is "k".
func legacy(parts ...string) []byte {
	const view = "ctorch._utils\n_rebuild_tensor_v2\n((X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x00k" +
		"X\x03\x00\x00\x00cpuK\x03NtQ"
	file := []string{
		"\x80\x02\x8a\n\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.",
		"\x80\x02M\xe9\x03.",
		"\x80\x02}X\x0d\x00\x00\x00little_endian\x88s.",
		"\x80\x02}(X\x01\x00\x00\x00a" + view + "K\x00K\x02\x85K\x01\x85\x89NtR" +
			"X\x01\x00\x00\x00b" + view + "K\x02K\x01\x85K\x01\x85\x89NtRu.",
		"\x80\x02]X\x01\x00\x00\x00ka.",
		string(binary.LittleEndian.AppendUint64(nil, 3)),
		"aaaabbbbcccc",
	}
	for i := 0; i < len(parts); i += 2 { // parts of the file to replace
		for k := range file {
			file[k] = strings.ReplaceAll(file[k], parts[i], parts[i+1])
		}
	}
	return []byte(strings.Join(file, ""))
}

func TestLegacyFile(t *testing.T) {
	content := legacy()
	r, err := pickle.NewReader(bytes.NewReader(content), int64(len(content)))
	require.NoError(t, err)
	a, err := r.Read("a")
	require.NoError(t, err)
	b, err := r.Read("b")
	require.NoError(t, err)
	assert.Equal(t, []string{"aaaabbbb", "cccc"}, []string{string(a), string(b)})
}

func TestLegacyFilesThatAreRefused(t *testing.T) {
	for _, c := range []struct {
		name    string
		content []byte
		err     error
		want    string
	}{
		{"another version", legacy("M\xe9\x03", "M\xe8\x03"), pickle.ErrMalformed, "version 1000"},
		{"a big-endian machine", legacy("little_endian\x88", "little_endian\x89"), pickle.ErrBigEndian, ""},
		{"a view of another storage", legacy("K\x03NtQ", "K\x03)tQ"), pickle.ErrMalformed, "a tuple of storage"},
		{"a storage of two sizes", legacy("K\x03NtQK\x02", "K\x04NtQK\x02"), pickle.ErrMalformed,
			"4 elements in 16 bytes, and 3 in 12 elsewhere"},
		{"a storage that is in no tensor", legacy("ka.", "ja."), pickle.ErrMalformed, `storage "j"`},
		{"a storage twice", legacy("]X\x01\x00\x00\x00ka", "](X\x01\x00\x00\x00kX\x01\x00\x00\x00ke"), pickle.ErrMalformed,
			"twice"},
		{"a storage that is not there", legacy("X\x01\x00\x00\x00ka", ""), pickle.ErrMalformed, "storage k: "},
		{"another size", legacy("\x03\x00\x00\x00\x00\x00\x00\x00", "\x02\x00\x00\x00\x00\x00\x00\x00"),
			pickle.ErrMalformed, "it has 2 elements, but the pickle counts 3"},
		{"a storage larger than the file", legacy("K\x03NtQ", "J\xff\xff\xff\x7fNtQ"), pickle.ErrMalformed,
			"it has 8589934588 bytes, the file"},
		{"a tensor beyond its storage", legacy("K\x02K\x01\x85", "K\x02K\x02\x85"), pickle.ErrMalformed, "reaches beyond"},
		{"something that no tensor needs", legacy("ctorch._utils\n_rebuild_tensor_v2", "cos\nsystem"),
			pickle.ErrForbidden, "os.system"},
	} {
		_, err := pickle.NewReader(bytes.NewReader(c.content), int64(len(c.content)))
		require.ErrorIs(t, err, c.err, c.name)
		require.ErrorContains(t, err, c.want, c.name)
	}
	whole, err := os.ReadFile("testdata/legacy.bin")
	require.NoError(t, err)
	for n := range whole {
		_, err := pickle.NewReader(bytes.NewReader(whole[:n]), int64(n))
		require.Error(t, err, "%d of %d bytes", n, len(whole))
	}
}
