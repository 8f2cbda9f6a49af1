package checkpoint

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// large writes a file of random bytes.
func large(t testing.TB, size int) string {
	t.Helper()
	text := make([]byte, size)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(text) // never fails
	path := filepath.Join(t.TempDir(), "x")
	require.NoError(t, os.WriteFile(path, text, 0o666))
	return path
}

// A file has the same checksum however many readers compute it, and a flipped bit is found in any
// range.
func TestRangesHaveTheChecksumOfTheFile(t *testing.T) {
	const size = 3*leastRange + 12345
	path := large(t, size)
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	require.NoError(t, err)
	defer f.Close()
	_, want, err := checksum(f)
	require.NoError(t, err)
	for readers := 1; readers < 6; readers++ {
		_, err := f.Seek(0, 0)
		require.NoError(t, err)
		n, got, err := checksumBy(readers, f)
		require.NoError(t, err)
		assert.EqualValues(t, size, n)
		assert.Equal(t, want, got, "%d readers", readers)
	}
	entry := file{Name: "x", Size: size, CRC32C: fmt.Sprintf("%08x", want)}
	for _, at := range []int64{0, leastRange, 2*leastRange + 1, size - 1} {
		bit := make([]byte, 1)
		_, err := f.ReadAt(bit, at)
		require.NoError(t, err)
		_, err = f.WriteAt([]byte{bit[0] ^ 4}, at)
		require.NoError(t, err)
		assert.ErrorAs(t, verifyFile(filepath.Dir(path), entry, 3), new(*DamagedError), "byte %d", at)
		_, err = f.WriteAt(bit, at)
		require.NoError(t, err)
	}
	assert.NoError(t, verifyFile(filepath.Dir(path), entry, 3))
}

func BenchmarkVerify256MB(b *testing.B) {
	for _, readers := range []int{1, 2, 4} {
		b.Run(fmt.Sprint("readers=", readers), func(b *testing.B) {
			f, err := os.Open(large(b, 256<<20))
			require.NoError(b, err)
			defer f.Close()
			b.SetBytes(256 << 20)
			for b.Loop() {
				_, err := f.Seek(0, 0)
				require.NoError(b, err)
				_, _, err = checksumBy(readers, f)
				require.NoError(b, err)
			}
		})
	}
}
