package vision

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"image/jpeg"
	"image/png"
	"io"
	"sync"

	"golang.org/x/image/bmp"
	"golang.org/x/image/tiff"
	"golang.org/x/image/webp"

	"github.com/gotrainer/gotrainer/internal/regularfile"
)

// DefaultMaxPixels is the default limit for the size of a decoded image. Pillow warns from the same
// number on.
const DefaultMaxPixels = 89_478_485

// Kinds of [DecodeError], for errors.Is.
var (
	ErrTooLarge = errors.New("image is too large")
	ErrFormat   = errors.New("unknown image format: want PNG, JPEG, BMP, WebP, TIFF, PPM or PGM")
	ErrCorrupt  = errors.New("image is damaged or cut short")

	ErrUnsupported = errors.New("image uses what is not decoded")
)

// DecodeError says which file could not be decoded and why.
type DecodeError struct {
	Name   string // the file, or the caller's name for the bytes
	Format string // "PNG", "JPEG", "BMP", "WebP", "TIFF", "PPM", "PGM"; empty if not recognized
	Kind   error  // ErrTooLarge, ErrFormat, ErrCorrupt or ErrUnsupported
	Err    error  // the decoder's own error; may be nil
	detail string
}

func (e *DecodeError) Error() string {
	s := "vision: decode " + e.Name + ": "
	if e.Format != "" {
		s += e.Format + ": "
	}
	s += e.Kind.Error()
	if e.detail != "" {
		s += ": " + e.detail
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap lets errors.Is find the kind and the decoder's error.
func (e *DecodeError) Unwrap() []error {
	if e.Err == nil {
		return []error{e.Kind}
	}
	return []error{e.Kind, e.Err}
}

// DecodeOptions configures [Open] and [Decode]. The zero value keeps the file's colors.
type DecodeOptions struct {
	Gray bool // convert to one channel as Pillow's convert("RGB").convert("L") does

	// MaxPixels refuses images with more pixels before memory is allocated. Zero means
	// DefaultMaxPixels. With zero, a file with little content may also not unpack to much more
	// than 64 MB: a blank page of 9 million pixels may, but one of 89 million from 260 kB is a
	// decompression bomb.
	MaxPixels int
}

// Open decodes an image file.
func Open(path string, o DecodeOptions) (*Image, error) {
	f, info, err := regularfile.Open(path)
	if err != nil {
		return nil, fmt.Errorf("vision: %w", err)
	}
	defer f.Close()                    //nolint:errcheck // only read
	raw := files.Get().(*bytes.Buffer) //nolint:forcetypeassert // nothing else is in it
	defer func() {
		if raw.Cap() <= mostKept {
			files.Put(raw)
		}
	}()
	raw.Reset()
	if err := readPicture(raw, f, info.Size(), path, o); err != nil {
		return nil, err
	}
	return Decode(raw.Bytes(), path, o) // the image does not keep raw
}

// files pools buffers for the contents of image files. Large buffers are not returned to it.
var files = sync.Pool{New: func() any { return new(bytes.Buffer) }}

const mostKept = 1 << 20

// From returns an image given in one of several forms: the path of a file, the bytes of one, an
// image.Image, or an *Image, which is returned unchanged.
func From(picture any) (*Image, error) {
	switch picture := picture.(type) {
	case string:
		return Open(picture, DecodeOptions{})
	case []byte:
		return Decode(picture, "an image in memory", DecodeOptions{})
	case image.Image:
		return FromStd(picture), nil
	case *Image:
		return picture, nil
	}
	return nil, fmt.Errorf("vision: an image is a %T; want a path, []byte, image.Image or *vision.Image", picture)
}

// readPicture reads a file of size bytes if it begins like an image. It reads at most what an image
// with the maximum number of pixels can need: eight bytes per pixel (four channels of 16 bits), and
// mostExtra for everything else. Most files are read in one piece.
func readPicture(raw *bytes.Buffer, f io.Reader, size int64, path string, o DecodeOptions) error {
	raw.Grow(int(min(size, mostKept)) + bytes.MinRead)
	first := raw.AvailableBuffer()[:raw.Available()]
	n, err := io.ReadAtLeast(f, first, headSize)
	raw.Write(first[:n])
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return fmt.Errorf("vision: %w", err)
	}
	d := decoderOf(raw.Bytes())
	if d == nil {
		return unknownFormat(path, raw.Bytes())
	}
	if int64(n) == size {
		return nil // the file ended before the buffer was full
	}
	limit := 8*int64(o.maxPixels()) + mostExtra
	raw.Grow(int(max(min(size, limit)-int64(n), 0)) + bytes.MinRead) // MinRead: room to see the end
	if _, err := io.Copy(raw, io.LimitReader(f, limit+1-int64(n))); err != nil {
		return fmt.Errorf("vision: %w", err)
	}
	if int64(raw.Len()) > limit {
		return &DecodeError{Name: path, Format: d.name, Kind: ErrTooLarge,
			detail: fmt.Sprintf("the file has more than %d bytes, the limit is %d pixels (DecodeOptions.MaxPixels)",
				limit, o.maxPixels())}
	}
	return nil
}

const (
	headSize  = 12       // bytes that determine the format
	mostExtra = 64 << 20 // bytes of a file besides pixels: previews, color profiles, texts
)

func (o DecodeOptions) maxPixels() int {
	if o.MaxPixels <= 0 {
		return DefaultMaxPixels
	}
	return min(o.MaxPixels, 1<<40)
}

// Decode decodes an image in memory; name is for errors only. The format is recognized by the
// first bytes. Orientation tags are not applied, as in Hezar, and as in Pillow, which rotates only
// TIFFs.
func Decode(raw []byte, name string, o DecodeOptions) (*Image, error) {
	if d := decoderOf(raw); d != nil && d.fast != nil {
		if im := d.fast(raw, o); im != nil {
			return im, nil
		}
	}
	src, err := decodeStd(raw, name, o)
	if err != nil {
		return nil, err
	}
	if o.Gray {
		return grayFromStd(src), nil
	}
	return FromStd(src), nil
}

// DecodeAlpha decodes only the alpha channel, as a gray image. For an image without alpha, all
// samples are 255.
func DecodeAlpha(raw []byte, name string, o DecodeOptions) (*Image, error) {
	src, err := decodeStd(raw, name, o)
	if err != nil {
		return nil, err
	}
	b := src.Bounds()
	im := NewImage(b.Dx(), b.Dy(), 1)
	for y := range im.Height {
		for x := range im.Width {
			_, _, _, a := src.At(b.Min.X+x, b.Min.Y+y).RGBA()
			im.Pix[y*im.Width+x] = uint8(a >> 8)
		}
	}
	return im, nil
}

// decoder is a format. magic is how files begin, where ? is any byte. fast is our own decoder for
// the usual files; it may be nil, and returns nil for other files. config and decode read the
// header and the whole file.
type decoder struct {
	name, magic string
	fast        func([]byte, DecodeOptions) *Image
	config      func([]byte) (image.Config, error)
	decode      func([]byte) (image.Image, error)
}

// of turns a function that reads from an io.Reader into one that reads from memory.
func of[T any](read func(io.Reader) (T, error)) func([]byte) (T, error) {
	return func(raw []byte) (T, error) { return read(bytes.NewReader(raw)) }
}

const (
	magicPNG  = "\x89PNG\r\n\x1a\n"
	magicJPEG = "\xff\xd8"
)

var decoders = []decoder{
	{"PNG", magicPNG, decodePNG, of(png.DecodeConfig), of(png.Decode)},
	{"JPEG", magicJPEG, decodeJPEG, of(jpeg.DecodeConfig), of(jpeg.Decode)},
	{"BMP", "BM", nil, of(bmp.DecodeConfig), of(bmp.Decode)},
	{"WebP", "RIFF????WEBP", nil, of(webp.DecodeConfig), decodeWebP},
	{"TIFF", "II*\x00", nil, of(tiff.DecodeConfig), decodeTIFF},
	{"TIFF", "MM\x00*", nil, of(tiff.DecodeConfig), decodeTIFF},
	{"PGM", "P2", nil, decodePNMConfig, decodePNM},
	{"PPM", "P3", nil, decodePNMConfig, decodePNM},
	{"PGM", "P5", nil, decodePNMConfig, decodePNM},
	{"PPM", "P6", nil, decodePNMConfig, decodePNM},
}

// The memory that decoding a file may take: unpackedFree plus unpackedRatio times its size. A
// photograph as JPEG takes about 10 times its size, a drawing as PNG 100 times.
const (
	unpackedFree  = 64 << 20
	unpackedRatio = 300
)

// unpacked returns the memory in bytes that decoding takes: the image of the standard library and
// the [Image] made from it.
func unpacked(width, height int, model color.Model, progressive bool) int64 {
	pixel := int64(4)
	switch model {
	case color.GrayModel:
		pixel = 1
	case color.Gray16Model:
		pixel = 2
	case color.RGBA64Model, color.NRGBA64Model:
		pixel = 8
	}
	if _, ok := model.(color.Palette); ok {
		pixel = 1
	}
	own := int64(3)
	if model == color.GrayModel || model == color.Gray16Model {
		own = 1
	}
	if progressive { // the decoder keeps four bytes of coefficients per sample
		pixel += 4 * own
	}
	return int64(width) * int64(height) * (pixel + own)
}

// refuse returns why an image is too large to be decoded from a file of size bytes; empty if it is
// not.
func (o DecodeOptions) refuse(width, height int, model color.Model, size int, progressive bool) string {
	if limit := o.maxPixels(); width > limit/height {
		return fmt.Sprintf("%dx%d, the limit is %d pixels (DecodeOptions.MaxPixels)", width, height, limit)
	}
	want, most := unpacked(width, height, model, progressive), unpackedFree+unpackedRatio*int64(size)
	if o.MaxPixels <= 0 && want > most {
		return fmt.Sprintf("its %d bytes unpack to %dx%d pixels, which take %d bytes; want "+
			"at most %d: if that is right, set DecodeOptions.MaxPixels", size, width, height, want, most)
	}
	return ""
}

// decodeStd reads the header and refuses images that are too large before the decoder allocates
// memory.
func decodeStd(raw []byte, name string, o DecodeOptions) (image.Image, error) {
	d := decoderOf(raw)
	if d == nil {
		return nil, unknownFormat(name, raw)
	}
	fail := func(kind, err error, detail string) error {
		return &DecodeError{Name: name, Format: d.name, Kind: kind, Err: err, detail: detail}
	}
	c, err := d.config(raw)
	if err != nil {
		return nil, fail(decoderError(err), err, "")
	}
	if c.Width <= 0 || c.Height <= 0 {
		return nil, fail(ErrCorrupt, nil, fmt.Sprintf("size %dx%d", c.Width, c.Height))
	}
	// whether a JPEG is progressive is not known yet
	if why := o.refuse(c.Width, c.Height, c.ColorModel, len(raw), d.name == "JPEG"); why != "" {
		return nil, fail(ErrTooLarge, nil, why)
	}
	im, err := d.decode(raw)
	if err != nil {
		return nil, fail(decoderError(err), err, "")
	}
	return im, nil
}

// decoderError returns the kind of an error of a decoder.
func decoderError(err error) error {
	var (
		inPNG  png.UnsupportedError
		inJPEG jpeg.UnsupportedError
		inTIFF tiff.UnsupportedError
	)
	if errors.As(err, &inPNG) || errors.As(err, &inJPEG) || errors.As(err, &inTIFF) ||
		errors.Is(err, bmp.ErrUnsupported) || errors.Is(err, errAnimated) {
		return ErrUnsupported
	}
	return ErrCorrupt
}

// decoderOf returns the decoder of the format, recognized by the first bytes; nil if it is not
// supported.
func decoderOf(raw []byte) *decoder {
	for i := range decoders {
		if begins(raw, decoders[i].magic) {
			return &decoders[i]
		}
	}
	return nil
}

// begins reports whether raw begins with magic, in which ? is any byte.
func begins(raw []byte, magic string) bool {
	if len(raw) < len(magic) {
		return false
	}
	for i := range len(magic) {
		if magic[i] != '?' && magic[i] != raw[i] {
			return false
		}
	}
	return true
}

func unknownFormat(name string, raw []byte) error {
	if len(raw) == 0 {
		return &DecodeError{Name: name, Kind: ErrFormat, detail: "it has 0 bytes"}
	}
	return &DecodeError{Name: name, Kind: ErrFormat, detail: fmt.Sprintf("it begins with %q",
		raw[:min(len(raw), headSize)])}
}
