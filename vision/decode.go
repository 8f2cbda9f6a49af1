package vision

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/jpeg"
	"image/png"
	"io"
	"os"

	"golang.org/x/image/bmp"
)

// DefaultMaxPixels is the largest picture that is decoded unless told otherwise; Pillow warns from the same number.
const DefaultMaxPixels = 89_478_485

// Kinds of [DecodeError], for errors.Is.
var (
	ErrTooLarge = errors.New("picture is too large")
	ErrFormat   = errors.New("unknown picture format: want PNG, JPEG or BMP")
	ErrCorrupt  = errors.New("picture is damaged or cut short")
)

// DecodeError says which file could not be decoded and why.
type DecodeError struct {
	Name   string // file, or what the caller called the bytes
	Format string // "PNG", "JPEG", "BMP"; empty if not recognised
	Kind   error  // ErrTooLarge, ErrFormat or ErrCorrupt
	Err    error  // the decoder's own words; may be nil
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

// DecodeOptions configures [Open] and [Decode]. The zero value keeps the file's colours.
type DecodeOptions struct {
	Gray      bool // convert to one channel as Pillow's convert("RGB").convert("L") does
	MaxPixels int  // refuse pictures with more pixels, before memory is taken; zero means DefaultMaxPixels
}

// Open decodes a picture file.
func Open(path string, o DecodeOptions) (*Image, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("vision: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(f)
	if err != nil {
		return nil, fmt.Errorf("vision: %w", err)
	}
	return Decode(raw, path, o)
}

// Decode decodes a picture that lies in memory; name is for errors only. The format is told by the first bytes.
// Orientation tags are not applied, as in Pillow and Hezar.
func Decode(raw []byte, name string, o DecodeOptions) (*Image, error) {
	src, err := decodeStd(raw, name, o)
	if err != nil {
		return nil, err
	}
	im := FromStd(src)
	if o.Gray {
		im = im.Gray()
	}
	return im, nil
}

// DecodeAlpha decodes only the alpha channel, as a grey picture; one without alpha is 255 throughout.
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

// decoder is a format: how files begin, and the standard library's functions.
type decoder struct {
	name, magic string
	config      func(io.Reader) (image.Config, error)
	decode      func(io.Reader) (image.Image, error)
}

var decoders = []decoder{
	{"PNG", "\x89PNG\r\n\x1a\n", png.DecodeConfig, png.Decode},
	{"JPEG", "\xff\xd8", jpeg.DecodeConfig, jpeg.Decode},
	{"BMP", "BM", bmp.DecodeConfig, bmp.Decode},
}

// decodeStd reads the header, refuses what is too large, and only then lets the decoder allocate.
func decodeStd(raw []byte, name string, o DecodeOptions) (image.Image, error) {
	limit := o.MaxPixels
	if limit <= 0 {
		limit = DefaultMaxPixels
	}
	for _, d := range decoders {
		if !bytes.HasPrefix(raw, []byte(d.magic)) {
			continue
		}
		fail := func(kind, err error, detail string) error {
			return &DecodeError{Name: name, Format: d.name, Kind: kind, Err: err, detail: detail}
		}
		c, err := d.config(bytes.NewReader(raw))
		if err != nil {
			return nil, fail(ErrCorrupt, err, "")
		}
		if c.Width <= 0 || c.Height <= 0 {
			return nil, fail(ErrCorrupt, nil, fmt.Sprintf("size %dx%d", c.Width, c.Height))
		}
		if c.Width > limit/c.Height {
			return nil, fail(ErrTooLarge, nil, fmt.Sprintf("%dx%d, the limit is %d pixels (DecodeOptions.MaxPixels)", c.Width, c.Height, limit))
		}
		im, err := d.decode(bytes.NewReader(raw))
		if err != nil {
			return nil, fail(ErrCorrupt, err, "")
		}
		return im, nil
	}
	begin := raw[:min(len(raw), 8)]
	return nil, &DecodeError{Name: name, Kind: ErrFormat, detail: fmt.Sprintf("the %d bytes begin with %q", len(raw), begin)}
}
