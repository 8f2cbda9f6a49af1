package data_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
)

// decimal encodes numbers as text.
var decimal = data.Codec[int]{
	Encode: func(i int) ([]byte, error) { return strconv.AppendInt(nil, int64(i), 10), nil },
	Decode: func(b []byte) (int, error) { return strconv.Atoi(string(b)) },
}

// onDisk runs f with a cache of n samples, and returns how many were loaded.
func onDisk(t *testing.T, path, key string, n int, f func(*data.DiskCache[int])) (total int) {
	t.Helper()
	d, counts := loads(n)
	c, err := data.CacheOnDisk(d, path, key, decimal)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	f(c)
	for i := range counts {
		total += int(counts[i].Load())
	}
	return total
}

func TestCacheOnDiskIsFoundByTheNextRun(t *testing.T) {
	path := filepath.Join(t.TempDir(), "samples")
	some := func(n int) func(*data.DiskCache[int]) {
		return func(c *data.DiskCache[int]) {
			for i := range n {
				if s, err := c.At(i); s != i || err != nil {
					t.Errorf("At(%d) = %d, %v", i, s, err)
				}
			}
		}
	}
	for _, c := range []struct {
		name, key    string
		n, ask, want int
	}{
		{"a new file", "a", 10, 4, 4},
		{"the next run", "a", 10, 10, 6},
		{"the one after", "a", 10, 10, 0},
		{"another key", "b", 10, 10, 10},
		{"another number of samples", "b", 11, 11, 11},
		{"and again", "b", 11, 11, 0},
	} {
		if got := onDisk(t, path, c.key, c.n, some(c.ask)); got != c.want {
			t.Errorf("%s: %d samples were loaded, want %d", c.name, got, c.want)
		}
	}
}

// TestCacheOnDiskSurvivesDamage truncates the file at every byte and flips every byte. No sample
// may ever be wrong.
func TestCacheOnDiskSurvivesDamage(t *testing.T) {
	path := filepath.Join(t.TempDir(), "samples")
	ask := func(c *data.DiskCache[int]) {
		for i := range 5 {
			if s, err := c.At(i); s != i || err != nil {
				t.Errorf("At(%d) = %d, %v", i, s, err)
			}
		}
	}
	onDisk(t, path, "key", 5, ask)
	good, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for at := range good {
		bads := [][]byte{good[:at]}
		if at >= len(diskMagic) { // a file with another beginning is rejected
			flipped := bytes.Clone(good)
			flipped[at] ^= 1
			bads = append(bads, flipped)
		}
		for _, bad := range bads {
			if err := os.WriteFile(path, bad, 0o644); err != nil {
				t.Fatal(err)
			}
			if n := onDisk(t, path, "key", 5, ask); n == 0 {
				t.Errorf("damage at byte %d was not noticed", at)
			}
			if n := onDisk(t, path, "key", 5, ask); n != 0 {
				t.Errorf("damage at byte %d was not mended: %d loads", at, n)
			}
		}
	}
}

// diskMagic is the beginning of a file of CacheOnDisk.
const diskMagic = "gotrainer samples 1\n"

func TestCacheOnDiskLeavesOtherFilesAlone(t *testing.T) {
	path := filepath.Join(t.TempDir(), "train.csv")
	for _, text := range []string{"text,label\ngood,1\n", "1", strings.Replace(diskMagic, "1", "2", 1)} {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
		_, err := data.CacheOnDisk(numbers(3), path, "key", decimal)
		require.ErrorContains(t, err, path)
		require.ErrorContains(t, err, "CacheOnDisk did not write it")
		now, err := os.ReadFile(path)
		require.NoError(t, err)
		assert.Equal(t, text, string(now))
	}
}

func TestCacheOnDiskForManyGoroutines(t *testing.T) {
	path := filepath.Join(t.TempDir(), "samples")
	for range 2 {
		onDisk(t, path, "key", 100, func(c *data.DiskCache[int]) {
			var wg sync.WaitGroup
			for range 4 {
				wg.Go(func() {
					for i := range 100 {
						if s, err := c.At(i); s != i || err != nil {
							t.Errorf("At(%d) = %d, %v", i, s, err)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}

func TestCacheOnDiskRefuses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "samples")
	c, err := data.CacheOnDisk(numbers(3), path, "key", decimal)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := data.CacheOnDisk(numbers(3), path, "key", decimal); err == nil || !strings.Contains(err.Error(),
		"another process is using it") {
		t.Errorf("a file in use: %v", err)
	}
	if err := errors.Join(c.Close(), c.Close()); err != nil {
		t.Error(err)
	}
	if s, err := c.At(2); s != 2 || err != nil {
		t.Errorf("after Close: %d, %v", s, err)
	}
	augmented := data.Augment(numbers(3), 1, func(r *rand.Rand, i int) (int, error) { return i, nil })
	if _, err := data.CacheOnDisk(augmented, path, "key", decimal); err == nil {
		t.Error("augmented samples are accepted")
	}
	if _, err := data.CacheOnDisk(numbers(3), path, "key", data.Codec[int]{}); err == nil {
		t.Error("no codec is accepted")
	}
	if _, err := data.CacheOnDisk(numbers(3), "/no/such/folder/samples", "key", decimal); err == nil {
		t.Error("a folder that is not there is accepted")
	}
	var calls atomic.Int64
	broken := data.Codec[int]{Encode: func(int) ([]byte,
		error) {
		calls.Add(1)
		return nil, errors.New("cannot be written")
	}, Decode: decimal.Decode}
	b, err := data.CacheOnDisk(numbers(3), path, "other", broken)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if _, err := b.At(0); err == nil || cmp.Diff(int64(1), calls.Load()) != "" {
		t.Errorf("a codec that fails: %v", err)
	}
}

// FuzzCacheOnDisk opens a file of arbitrary content. Either every sample is served, also from the
// file in the next run, or the file is rejected and left unchanged.
func FuzzCacheOnDisk(f *testing.F) {
	path := filepath.Join(f.TempDir(), "samples")
	d, _ := loads(3)
	codec := data.Codec[int]{ // the cache cannot detect a wrong sample with a correct checksum
		Encode: decimal.Encode,
		Decode: func(b []byte) (int, error) { return len(b), nil },
	}
	c, err := data.CacheOnDisk(d, path, "key", codec)
	require.NoError(f, err)
	for i := range 3 {
		_, err := c.At(i)
		require.NoError(f, err)
	}
	require.NoError(f, c.Close())
	content, err := os.ReadFile(path)
	require.NoError(f, err)
	f.Add(content)
	f.Fuzz(func(t *testing.T, content []byte) {
		require.NoError(t, os.WriteFile(path, content, 0o600))
		for range 2 {
			c, err := data.CacheOnDisk(d, path, "key", codec)
			if err != nil {
				left, readErr := os.ReadFile(path)
				require.NoError(t, readErr)
				require.True(t, bytes.Equal(content, left), "a file that is refused was changed: %v", err)
				return
			}
			for i := range 3 {
				_, err := c.At(i)
				require.NoError(t, err)
			}
			require.NoError(t, c.Close())
			content, err = os.ReadFile(path)
			require.NoError(t, err)
		}
	})
}
