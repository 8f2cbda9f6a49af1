//go:build unix

package data

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type numbers int

func (n numbers) Len() int { return int(n) }

func (n numbers) At(i int) (int, error) { return i, nil }

var decimalCodec = Codec[int]{
	Encode: func(i int) ([]byte, error) { return strconv.AppendInt(nil, int64(i), 10), nil },
	Decode: func(b []byte) (int, error) { return strconv.Atoi(string(b)) },
}

// logged collects the output of the default logger until the end of the test.
func logged(t *testing.T) *bytes.Buffer {
	t.Helper()
	before := slog.Default()
	t.Cleanup(func() { slog.SetDefault(before) })
	var b bytes.Buffer
	slog.SetDefault(slog.New(slog.NewTextHandler(&b, nil)))
	return &b
}

// On a full disk the run continues without the cache: every sample is served, and the samples
// already in the file remain.
func TestCacheOnDiskServesWhenTheDiskIsFull(t *testing.T) {
	log := logged(t)
	path := filepath.Join(t.TempDir(), "samples")
	const n, fit = 100, 30
	open := func() *DiskCache[int] {
		c, err := CacheOnDisk(numbers(n), path, "key", decimalCodec)
		require.NoError(t, err)
		return c
	}
	c := open()
	var before syscall.Rlimit
	require.NoError(t, syscall.Getrlimit(syscall.RLIMIT_FSIZE, &before))
	for i := range n {
		if i == fit {
			limit := syscall.Rlimit{Cur: uint64(c.end + 5), Max: before.Max} // room for part of a sample
			require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit))
		}
		s, err := c.At(i)
		assert.NoError(t, err)
		assert.Equal(t, i, s)
	}
	require.NoError(t, syscall.Setrlimit(syscall.RLIMIT_FSIZE, &before))
	assert.Equal(t, 1, strings.Count(log.String(), "cannot write"), "told once: %s", log)
	assert.Contains(t, log.String(), "samples=30 of=100")
	require.NoError(t, c.Close())

	c = open()
	assert.Len(t, c.places, fit)
	for i := range n {
		s, err := c.At(i)
		assert.NoError(t, err)
		assert.Equal(t, i, s)
	}
	assert.Len(t, c.places, n, "with room again the rest is added")
	require.NoError(t, c.Close())
}

func TestCacheOnDiskWithoutLocksWarns(t *testing.T) {
	defer func() { lockOf = lockFile }()
	for _, fault := range []error{syscall.ENOSYS, syscall.ENOLCK, syscall.EOPNOTSUPP} {
		log := logged(t)
		lockOf = func(*os.File) error { return fault }
		c, err := CacheOnDisk(numbers(1), filepath.Join(t.TempDir(), "samples"), "key", decimalCodec)
		require.NoError(t, err)
		require.NoError(t, c.Close())
		assert.Contains(t, log.String(), "cannot lock files")
	}
}
