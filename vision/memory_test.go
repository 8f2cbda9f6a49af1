package vision

import (
	"bytes"
	"compress/zlib"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/peak"
	"github.com/gotrainer/gotrainer/internal/regularfile"
)

// blank returns a PNG of one color, whose file is about a thousandth the size of its pixels.
func blank(t *testing.T, width, height int, colorType byte, channels int) []byte {
	t.Helper()
	var packed bytes.Buffer
	z, err := zlib.NewWriterLevel(&packed, zlib.BestSpeed)
	require.NoError(t, err)
	row := make([]byte, 1+width*channels)
	for range height {
		_, err := z.Write(row)
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	file := newPNGWriter(width, height, colorType)
	file.chunk("IDAT", packed.Bytes())
	file.chunk("IEND", nil)
	return file
}

func TestAnImageThatUnpacksToMuchMoreThanItsFileIsRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("images of many megabytes take half a minute under the race detector")
	}
	const rgb, gray = 2, 0
	for _, c := range []struct {
		name          string
		width, height int
		kind          byte
		channels      int
		refused       bool
	}{
		{"89 megapixels", 10000, 8900, rgb, 3, true},
		{"89 megapixels of grey", 10000, 8900, gray, 1, true},
		{"a blank page of A4, 300 dpi", 2480, 3508, rgb, 3, false},
		{"a blank page of grey, 600 dpi", 4960, 7016, gray, 1, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			raw := blank(t, c.width, c.height, c.kind, c.channels)
			var im *Image
			var err error
			more := peak.Memory(t, func() { im, err = Decode(raw, "page.png", DecodeOptions{}) })
			t.Logf("%d kB of PNG: %d MB: %v", len(raw)>>10, more>>20, err)
			if c.refused {
				require.ErrorIs(t, err, ErrTooLarge)
				require.ErrorContains(t, err, "DecodeOptions.MaxPixels")
				assert.Less(t, more, int64(8<<20))
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.width, im.Width)
			assert.Less(t, more, int64(unpackedFree+unpackedRatio*len(raw)))
		})
	}
	page := blank(t, 6000, 8000, gray, 1)
	_, err := Decode(page, "page.png", DecodeOptions{})
	require.ErrorIs(t, err, ErrTooLarge)
	_, err = Decode(page, "page.png", DecodeOptions{MaxPixels: 48_000_000})
	assert.NoError(t, err, "who says how many pixels are right gets them")
}

func TestOpenRefusesWhatIsNoFile(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "pipe.png")
	require.NoError(t, syscall.Mkfifo(pipe, 0o600))
	zero := filepath.Join(t.TempDir(), "zero.png")
	require.NoError(t, os.Symlink("/dev/zero", zero))
	for _, path := range []string{pipe, zero} {
		_, err := Open(path, DecodeOptions{})
		assert.ErrorIs(t, err, regularfile.ErrKind)
	}
	err := readPicture(new(bytes.Buffer), io.LimitReader(bytes.NewReader(nil), 0), 0, "empty.png", DecodeOptions{})
	assert.ErrorIs(t, err, ErrFormat)
}
