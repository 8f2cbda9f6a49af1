package vision

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func file(t testing.TB, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata/files", name))
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// withSize returns a PNG whose header states another size, with a correct checksum.
func withSize(raw []byte, width, height uint32) []byte {
	out := bytes.Clone(raw)
	binary.BigEndian.PutUint32(out[16:], width)
	binary.BigEndian.PutUint32(out[20:], height)
	binary.BigEndian.PutUint32(out[29:], crc32.ChecksumIEEE(out[12:29]))
	return out
}

// withCompression returns a little-endian TIFF that states another compression.
func withCompression(raw []byte, coding uint16) []byte {
	out := bytes.Clone(raw)
	entry := bytes.Index(out, []byte{3, 1, 3, 0, 1, 0, 0, 0}) // tag 259: one short
	binary.LittleEndian.PutUint16(out[entry+8:], coding)
	return out
}

// animated returns the header of an animated WebP of one pixel.
func animated() []byte {
	return append([]byte("RIFF\x16\x00\x00\x00WEBPVP8X\x0a\x00\x00\x00\x02"), make([]byte, 9)...)
}

func TestDecodeErrorsNameTheFileAndTheKind(t *testing.T) {
	png := file(t, "rgb.png")
	jpg := file(t, "jpeg420.jpg")
	webp := file(t, "lossy.webp")
	tiff := file(t, "deflate.tif")
	flipped := bytes.Clone(png)
	flipped[len(flipped)/2] ^= 4
	tests := []struct {
		name  string
		raw   []byte
		limit int
		kind  error
		words string
	}{
		{"empty file", nil, 0, ErrFormat, "0 bytes"},
		{"a text", []byte("hello, world"), 0, ErrFormat, `"hello, world"`},
		{"PNG without data", png[:8], 0, ErrCorrupt, "PNG"},
		{"PNG cut in the middle", png[:len(png)/2], 0, ErrCorrupt, "not enough pixel data"},
		{"PNG with a flipped bit", flipped, 0, ErrCorrupt, "PNG"},
		{"PNG of no width", withSize(png, 0, 19), 0, ErrCorrupt, "PNG"},
		{"PNG that claims a terapixel", withSize(png, 1<<20, 1<<20), 0, ErrTooLarge, "1048576x1048576"},
		{"PNG whose area overflows", withSize(png, 1<<24, 1<<24), 0, ErrTooLarge, "PNG"},
		{"PNG larger than data behind it", withSize(png, 29, 20), 0, ErrCorrupt, "PNG"},
		{"one pixel over the limit", png, 29*19 - 1, ErrTooLarge, "550 pixels"},
		{"JPEG cut in the middle", jpg[:len(jpg)/2], 0, ErrCorrupt, "JPEG"},
		{"JPEG without data", jpg[:2], 0, ErrCorrupt, "JPEG"},
		{"BMP without data", []byte("BM"), 0, ErrCorrupt, "BMP"},
		{"WebP without data", []byte("RIFF\x04\x00\x00\x00WEBP"), 0, ErrCorrupt, "WebP"},
		{"WebP cut in the middle", webp[:len(webp)/2], 0, ErrCorrupt, "WebP"},
		{"an animated WebP", animated(), 0, ErrUnsupported, "it is an animation; want a still image"},
		{"TIFF without data", []byte("II*\x00"), 0, ErrCorrupt, "TIFF"},
		{"TIFF cut in the middle", tiff[:len(tiff)/2], 0, ErrCorrupt, "TIFF"},
		{"TIFF compressed as JPEG", withCompression(tiff, 7), 0, ErrUnsupported, "compression value 7"},
		{"PPM without data", []byte("P6"), 0, ErrCorrupt, "PPM: image is damaged or cut short: the width"},
		{"PPM cut in the middle", []byte("P6 2 1 255\nabc"), 0, ErrCorrupt, "unexpected EOF"},
		{"PPM of 16 bits cut in the middle", []byte("P6 1 1 65535\nabc"), 0, ErrCorrupt, "value 2 of 3: unexpected EOF"},
		{"PPM that claims a terapixel", []byte("P6 1000000 1000000 255\n"), 0, ErrTooLarge, "1000000x1000000"},
		{"PPM of no height", []byte("P6 2 0 255\n"), 0, ErrCorrupt, "the height: it is 0, want 1 to 2147483647"},
		{"PPM whose white is too large", []byte("P6 2 1 65536\n"), 0, ErrCorrupt, "it is 65536, want 1 to 65535"},
		{"PGM with a letter", []byte("P2 2 1 9\n3 x"), 0, ErrCorrupt, "value 2 of 2: 'x' follows 0 digits"},
		{"PGM above its white", []byte("P2 2 1 9\n3 10"), 0, ErrCorrupt, "value 2 of 2: it is 10, but white is 9"},
		{"PGM whose comment does not end", []byte("P5 2 1 # no"), 0, ErrCorrupt, "unexpected EOF"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := Decode(test.raw, "plates/17.png", DecodeOptions{MaxPixels: test.limit})
			var d *DecodeError
			if !errors.As(err, &d) || !errors.Is(err, test.kind) || d.Name != "plates/17.png" {
				t.Fatalf("Decode = %v, want a DecodeError of kind %q that names the file", err, test.kind)
			}
			if s := err.Error(); !strings.Contains(s, test.words) || !strings.Contains(s, "plates/17.png") {
				t.Errorf("error %q does not say %q", s, test.words)
			}
		})
	}
	if _, err := Decode(png, "x", DecodeOptions{MaxPixels: 29 * 19}); err != nil {
		t.Errorf("an image of exactly the limit: %v", err)
	}
	if _, err := Open("testdata/none.png", DecodeOptions{}); !errors.Is(err, fs.ErrNotExist) ||
		!strings.Contains(err.Error(), "none.png") {
		t.Errorf("Open of a missing file = %v", err)
	}
}

// counting is an endless file that begins like a given format, and counts the bytes read.
type counting struct {
	begin string
	read  int
}

func (c *counting) Read(p []byte) (int, error) {
	clear(p)
	if c.read < len(c.begin) {
		copy(p, c.begin[c.read:])
	}
	c.read += len(p)
	return len(p), nil
}

func TestOpenReadsOfAFileWhatAnImageCanHave(t *testing.T) {
	for _, c := range []struct {
		claim, begin string
		kind         error
		words        string
		most         int
	}{
		{"of what is no image the first block", "PK\x03\x04 a zip", ErrFormat, `begins with "PK`, 4096},
		{"of an image without end what its pixels may take", "\x89PNG\r\n\x1a\n", ErrTooLarge,
			"PNG: image is too large: the file has more than 67109664 bytes, the limit is 100 pixels",
			2 * (mostExtra + 800)},
	} {
		file := &counting{begin: c.begin}
		err := readPicture(new(bytes.Buffer), file, 0, "a.png", DecodeOptions{MaxPixels: 100})
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.words) || !strings.Contains(err.Error(),
			"a.png") {
			t.Errorf("%s: %v, want %v with %q", c.claim, err, c.kind, c.words)
		}
		if file.read > c.most {
			t.Errorf("%s: %d bytes were read, want at most %d", c.claim, file.read, c.most)
		}
	}
}

func TestTooLargeIsRefusedBeforeMemoryIsTaken(t *testing.T) {
	huge := withSize(file(t, "rgb.png"), 50_000, 50_000) // 10 GB if it were decoded
	n := testing.AllocsPerRun(5, func() {
		if _, err := Decode(huge, "huge.png", DecodeOptions{}); !errors.Is(err, ErrTooLarge) {
			t.Fatal(err)
		}
	})
	if n > 50 {
		t.Errorf("%v allocations to refuse an image by its header", n)
	}
}

func TestEveryKindOfStandardImageConverts(t *testing.T) {
	r := image.Rect(2, 3, 7, 9) // not at the origin
	pictures := map[string]image.Image{
		"CMYK":      image.NewCMYK(r),
		"Alpha":     image.NewAlpha(r),
		"Gray16":    image.NewGray16(r),
		"RGBA":      image.NewRGBA(r),
		"RGBA64":    image.NewRGBA64(r),
		"NRGBA64":   image.NewNRGBA64(r),
		"Uniform":   &sized{image.NewUniform(color.RGBA{9, 99, 199, 255}), r},
		"YCbCr 444": image.NewYCbCr(r, image.YCbCrSubsampleRatio444),
		"YCbCr 440": image.NewYCbCr(r, image.YCbCrSubsampleRatio440),
		"YCbCr 411": image.NewYCbCr(r, image.YCbCrSubsampleRatio411),
		"YCbCr 420": image.NewYCbCr(image.Rect(0, 0, 5, 6), image.YCbCrSubsampleRatio420),
	}
	for name, p := range pictures {
		t.Run(name, func(t *testing.T) {
			im := FromStd(p)
			if im.Width != 5 || im.Height != 6 || len(im.Pix) != 30*im.Channels {
				t.Fatalf("got %v with %d samples", im, len(im.Pix))
			}
			if name == "Uniform" && !bytes.Equal(im.Pix[:3], []byte{9, 99, 199}) {
				t.Errorf("first pixel %v, want 9 99 199", im.Pix[:3])
			}
		})
	}
	empty := FromStd(image.NewYCbCr(image.Rectangle{}, image.YCbCrSubsampleRatio420))
	if len(empty.Pix) != 0 {
		t.Errorf("an empty image has %d samples", len(empty.Pix))
	}
}

func TestDeepGreyKeepsItsHighByte(t *testing.T) {
	src := image.NewGray16(image.Rect(0, 0, 3, 1))
	for x, v := range []uint16{0x00ff, 0x1234, 0xffff} {
		src.SetGray16(x, 0, color.Gray16{Y: v})
	}
	if im := FromStd(src); !bytes.Equal(im.Pix, []byte{0, 0x12, 0xff}) {
		t.Errorf("got %v, want 0 18 255", im.Pix)
	}
}

type sized struct {
	image.Image
	r image.Rectangle
}

func (s *sized) Bounds() image.Rectangle { return s.r }

func TestDecodeAlphaReadsTheMaskOnly(t *testing.T) {
	src := image.NewNRGBA(image.Rect(0, 0, 2, 1))
	src.SetNRGBA(0, 0, color.NRGBA{200, 100, 50, 7})
	src.SetNRGBA(1, 0, color.NRGBA{0, 0, 0, 255})
	var b bytes.Buffer
	if err := png.Encode(&b, src); err != nil {
		t.Fatal(err)
	}
	im, err := DecodeAlpha(b.Bytes(), "mask", DecodeOptions{})
	if err != nil || !bytes.Equal(im.Pix, []byte{7, 255}) {
		t.Errorf("DecodeAlpha = %v, %v; want 7 255", im, err)
	}
	if _, err := DecodeAlpha([]byte("x"), "mask", DecodeOptions{}); !errors.Is(err, ErrFormat) {
		t.Errorf("DecodeAlpha of a text = %v", err)
	}
}

// FuzzDecode checks that any bytes give a consistent image or an error that names the input, never
// a panic.
func FuzzDecode(f *testing.F) {
	entries, err := os.ReadDir("testdata/files")
	if err != nil {
		f.Fatal(err)
	}
	for _, e := range entries {
		raw, err := os.ReadFile(filepath.Join("testdata/files", e.Name()))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(raw)
	}
	var odd bytes.Buffer
	if err := jpeg.Encode(&odd, image.NewRGBA(image.Rect(0, 0, 17, 1)), nil); err != nil {
		f.Fatal(err)
	}
	f.Add(odd.Bytes())
	f.Fuzz(func(t *testing.T, raw []byte) {
		const limit = 1 << 16
		im, err := Decode(raw, "fuzzed", DecodeOptions{MaxPixels: limit})
		if err != nil {
			var d *DecodeError
			if !errors.As(err, &d) || !strings.Contains(err.Error(), "fuzzed") {
				t.Fatalf("error %v is no DecodeError or does not name its input", err)
			}
			return
		}
		if im.Width < 1 || im.Height < 1 || im.Width*im.Height > limit ||
			len(im.Pix) != im.Width*im.Height*im.Channels {
			t.Fatalf("%v with %d samples", im, len(im.Pix))
		}
		if g := im.Gray(); g.Channels != 1 || len(g.Pix) != im.Width*im.Height {
			t.Fatalf("grey: %v with %d samples", g, len(g.Pix))
		}
	})
}
