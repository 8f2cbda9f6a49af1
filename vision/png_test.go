package vision

import (
	"bytes"
	"compress/zlib"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"image/png"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// samplesOf is the number of samples per pixel for each color type.
var samplesOf = map[byte]int{pngGray: 1, pngRGB: 3, pngPalette: 1, pngGrayAlpha: 2, pngRGBA: 4}

// pngWriter builds a PNG with 8 bits per sample.
type pngWriter []byte

func newPNGWriter(width, height int, kind byte) pngWriter {
	file := pngWriter("\x89PNG\r\n\x1a\n")
	head := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, uint32(width)), uint32(height))
	file.chunk("IHDR", append(head, 8, kind, 0, 0, 0))
	return file
}

func (w *pngWriter) chunk(name string, content []byte) {
	body := append([]byte(name), content...)
	*w = append(binary.BigEndian.AppendUint32(*w, uint32(len(content))), body...)
	*w = binary.BigEndian.AppendUint32(*w, crc32.ChecksumIEEE(body))
}

// makePNG compresses rows, each of which begins with its filter type, into the given number of IDAT
// chunks. A palette has half the maximum length.
func makePNG(t testing.TB, width, height int, kind byte, rows []byte, pieces int) []byte {
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	_, err := z.Write(rows)
	require.NoError(t, err)
	require.NoError(t, z.Close())
	file := newPNGWriter(width, height, kind)
	file.chunk("tEXt", []byte("Title\x00a test"))
	if kind == pngPalette {
		palette := make([]byte, 3*128)
		for i := range palette {
			palette[i] = byte(i * 31)
		}
		file.chunk("PLTE", palette)
	}
	for rest := packed.Bytes(); pieces > 0; pieces-- {
		n := len(rest) / pieces
		file.chunk("IDAT", rest[:n])
		rest = rest[n:]
	}
	file.chunk("tIME", make([]byte, 7))
	file.chunk("IEND", nil)
	return file
}

// samePixels compares the result of decodePNG, if it decodes the file, with image/png's. It reports
// whether decodePNG did.
func samePixels(t testing.TB, raw []byte) bool {
	said := false
	for _, gray := range []bool{false, true} {
		got := decodePNG(raw, DecodeOptions{Gray: gray, MaxPixels: 1 << 20})
		if got == nil {
			continue
		}
		said = true
		std, err := png.Decode(bytes.NewReader(raw))
		require.NoError(t, err, "image/png refuses it")
		want := FromStd(std)
		if gray {
			want = grayFromStd(std)
		}
		require.Equal(t, want.String(), got.String())
		require.True(t, bytes.Equal(want.Pix, got.Pix), "gray %v: other pixels than image/png", gray)
	}
	return said
}

func TestPNGsAreWhatImagePNGMakesOfThem(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for kind, samples := range samplesOf {
		for _, size := range [][2]int{{1, 1}, {2, 3}, {7, 5}, {8, 9}, {9, 8}, {31, 20}, {100, 41}} {
			for _, pieces := range []int{1, 2, 5} {
				t.Run(fmt.Sprint(kind, size, pieces), func(t *testing.T) {
					stride := 1 + size[0]*samples
					rows := make([]byte, stride*size[1])
					for i := range rows {
						rows[i] = byte(random.Uint32())
						if i%stride == 0 {
							rows[i] %= 5
						}
					}
					raw := makePNG(t, size[0], size[1], kind, rows, pieces)
					assert.True(t, samePixels(t, raw), "left to image/png")

					rows[stride*(size[1]-1)] = 5
					assert.False(t, samePixels(t, makePNG(t, size[0], size[1], kind, rows, pieces)), "a filter that is none")
					for i := 8; i < len(raw)-12; i += 1 + i/40 {
						damaged := bytes.Clone(raw)
						damaged[i] ^= 1 << (i % 8)
						assert.False(t, samePixels(t, damaged), "byte %d is damaged", i)
						assert.False(t, samePixels(t, raw[:i]), "cut after %d bytes", i)
					}
				})
			}
		}
	}
}

func TestUnusualPNGsAreLeftToImagePNG(t *testing.T) {
	for name, usual := range map[string]bool{
		"gray.png": true, "gray_alpha.png": true, "rgb.png": true, "rgba.png": true,
		"bit.png": false, "gray2.png": false, "gray4.png": false, "palette.png": false, // fewer bits
		"rgb16.png": false, "rgb_transparent.png": false, "palette_transparent.png": false,
	} {
		assert.Equal(t, usual, samePixels(t, file(t, name)), name)
	}
}

// FuzzPNG corrects the checksums of the chunks, without which hardly any input would be accepted.
func FuzzPNG(f *testing.F) {
	files, err := filepath.Glob("testdata/files/*.png")
	require.NoError(f, err)
	for _, name := range files {
		raw, err := os.ReadFile(name)
		require.NoError(f, err)
		f.Add(raw)
	}
	for kind, samples := range samplesOf {
		f.Add(makePNG(f, 5, 4, kind, make([]byte, 4*(1+5*samples)), 2))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		raw = bytes.Clone(raw)
		for at := 8; len(raw)-at >= 12; {
			n := int(binary.BigEndian.Uint32(raw[at:]))
			if n > len(raw)-at-12 {
				break
			}
			binary.BigEndian.PutUint32(raw[at+8+n:], crc32.ChecksumIEEE(raw[at+4:at+8+n]))
			at += 12 + n
		}
		samePixels(t, raw)
	})
}
