package checkpoint

import (
	"hash/crc32"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/gotrainer/gotrainer/safetensors"
)

func TestCombineIsTheSumOfBoth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := rapid.SliceOf(rapid.Byte()).Draw(t, "a"), rapid.SliceOf(rapid.Byte()).Draw(t, "b")
		got := combine(crc32.Checksum(a, castagnoli), crc32.Checksum(b, castagnoli), int64(len(b)))
		if want := crc32.Checksum(append(a, b...), castagnoli); got != want {
			t.Fatalf("combine gives %08x, want %08x", got, want)
		}
	})
}

func TestADamagedTensorIsNamed(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	path, err := s.Write(1, func(dir string) error {
		return safetensors.WriteFile(filepath.Join(dir, "model.safetensors"), []safetensors.Entry{
			{Name: "first", DType: safetensors.U8, Shape: []int64{9}, Data: safetensors.Bytes([]byte("123456789"))},
			{Name: "second", DType: safetensors.U8, Shape: []int64{3}, Data: safetensors.Bytes([]byte("abc"))},
			{Name: "third", DType: safetensors.U8, Shape: []int64{0}, Data: safetensors.Bytes(nil)},
		}, nil)
	})
	require.NoError(t, err)
	m, err := readManifest(path)
	require.NoError(t, err)
	assert.Equal(t, "e3069283", m.Files[0].Tensors["first"], "the check value of CRC-32C")
	assert.Equal(t, "00000000", m.Files[0].Tensors["third"])
	assert.Len(t, m.Files[0].Tensors, 3)

	name := filepath.Join(path, "model.safetensors")
	content, err := os.ReadFile(name)
	require.NoError(t, err)
	for at, want := range map[int]string{len(content) - 1: `tensor "second"`, len(content) - 12: `tensor "first"`,
		12: "its header is damaged"} {
		content[at] ^= 1
		put(t, name, content)
		content[at] ^= 1
		damaged(t, path, "a flipped bit")
		assert.ErrorContains(t, Verify(path), want)
	}
	put(t, name, content)
	require.NoError(t, Verify(path))
}

// Checkpoints of the previous release have a manifest of format 1.
func TestTheFormatBeforeIsRead(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	path := save(t, s, 1, "weights")
	m, err := readManifest(path)
	require.NoError(t, err)
	m.Format = 1
	text, err := m.encode()
	require.NoError(t, err)
	put(t, filepath.Join(path, ManifestName), text)
	require.NoError(t, Verify(path))
}
