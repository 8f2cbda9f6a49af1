package safetensors

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// blocks returns the size of a file and the bytes that it occupies.
func blocks(t *testing.T, f *os.File) (size, occupied int64) {
	info, err := f.Stat()
	require.NoError(t, err)
	return info.Size(), info.Sys().(*syscall.Stat_t).Blocks * 512
}

func TestReserveLeavesTheLengthOfAFile(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	require.NoError(t, err)
	defer f.Close()
	reserve(f, leastReserved-1)
	_, occupied := blocks(t, f)
	assert.Zero(t, occupied, "a small file is not worth a call")
	reserve(f, 4<<20)
	size, occupied := blocks(t, f)
	assert.Zero(t, size)
	if occupied == 0 {
		t.Skip("this file system does not reserve blocks")
	}
	assert.GreaterOrEqual(t, occupied, int64(4<<20))
}

func TestWriteIntoAnyKindOfFile(t *testing.T) {
	entries := []Entry{{Name: "a", DType: U8, Shape: []int64{3 << 20}, Data: Bytes(make([]byte, 3<<20))}}
	var want bytes.Buffer
	require.NoError(t, Write(&want, entries, nil))

	t.Run("behind other bytes", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "file")
		f, err := os.Create(path)
		require.NoError(t, err)
		_, err = f.WriteString("before")
		require.NoError(t, err)
		require.NoError(t, Write(f, entries, nil))
		require.NoError(t, f.Close())
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.True(t, bytes.Equal(append([]byte("before"), want.Bytes()...), got))
	})
	t.Run("a device that has no blocks", func(t *testing.T) {
		f, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
		require.NoError(t, err)
		defer f.Close()
		require.NoError(t, Write(f, entries, nil))
	})
	t.Run("a pipe", func(t *testing.T) {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		done := make(chan error, 1)
		go func() { done <- Write(w, entries, nil); w.Close() }()
		got, err := io.ReadAll(r)
		require.NoError(t, err)
		require.NoError(t, <-done)
		assert.True(t, bytes.Equal(want.Bytes(), got))
	})
}
