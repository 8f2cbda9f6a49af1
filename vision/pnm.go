package vision

import (
	"bytes"
	"errors"
	"fmt"
	"image"
	"image/color"
	"io"
	"math"
)

// pnmHeader is the header of a PGM or PPM file: Netpbm's formats P2 and P5 (gray), P3 and P6 (red,
// green, blue). P2 and P3 have the samples as text.
type pnmHeader struct {
	width, height, channels int
	most                    int // the value of white (maxval)
	text                    bool
}

func (h pnmHeader) config() image.Config {
	model := color.Model(color.NRGBAModel)
	if h.channels == 1 {
		model = color.GrayModel
	}
	return image.Config{ColorModel: model, Width: h.width, Height: h.height}
}

func decodePNMConfig(raw []byte) (image.Config, error) {
	h, err := readPNMHeader(bytes.NewReader(raw))
	return h.config(), err
}

// decodePNM scales samples to 255 as Pillow does, including 16-bit gray.
func decodePNM(raw []byte) (image.Image, error) {
	in := bytes.NewReader(raw)
	h, err := readPNMHeader(in)
	if err != nil {
		return nil, err
	}
	im := NewImage(h.width, h.height, h.channels)
	if h.most == 255 && !h.text {
		_, err := io.ReadFull(in, im.Pix)
		return im.Std(), unexpected(err)
	}
	for i := range im.Pix {
		v, err := h.value(in)
		if err != nil {
			return nil, fmt.Errorf("value %d of %d: %w", i+1, len(im.Pix), err)
		}
		im.Pix[i] = uint8(math.RoundToEven(float64(v) / float64(h.most) * 255))
	}
	return im.Std(), nil
}

func readPNMHeader(in *bytes.Reader) (h pnmHeader, err error) {
	var magic [2]byte
	if _, err := io.ReadFull(in, magic[:]); err != nil {
		return h, err
	}
	h.text, h.channels = magic[1] <= '3', 1
	if magic[1] == '3' || magic[1] == '6' {
		h.channels = 3
	}
	for _, field := range []struct {
		name string
		to   *int
		most int
	}{{"width", &h.width, math.MaxInt32}, {"height", &h.height, math.MaxInt32}, {"value of white", &h.most, 65535}} {
		n, err := pnmNumber(in)
		if err == nil && (n == 0 || n > field.most) {
			err = fmt.Errorf("it is %d, want 1 to %d", n, field.most)
		}
		if err != nil {
			return h, fmt.Errorf("the %s: %w", field.name, err)
		}
		*field.to = n
	}
	return h, nil
}

// value reads the next sample: a number as text, or one or two bytes.
func (h pnmHeader) value(in *bytes.Reader) (v int, err error) {
	if h.text {
		if v, err = pnmNumber(in); err == nil && v > h.most {
			err = fmt.Errorf("it is %d, but white is %d", v, h.most)
		}
		return v, err
	}
	size := 1
	if h.most > 255 {
		size = 2
	}
	for range size {
		b, err := in.ReadByte()
		if err != nil {
			return 0, unexpected(err)
		}
		v = v<<8 | int(b)
	}
	return min(v, h.most), nil
}

// pnmNumber reads a number of at most ten digits and the white space after it. Comments, from # to
// the end of the line, may precede or interrupt it.
func pnmNumber(in *bytes.Reader) (n int, err error) {
	for digits := 0; ; {
		b, err := in.ReadByte()
		switch {
		case errors.Is(err, io.EOF) && digits > 0:
			return n, nil
		case err != nil:
			return 0, unexpected(err)
		case b == '#':
			for b != '\n' && b != '\r' {
				if b, err = in.ReadByte(); err != nil {
					return 0, unexpected(err)
				}
			}
		case b == ' ' || '\t' <= b && b <= '\r':
			if digits > 0 {
				return n, nil
			}
		case b < '0' || b > '9' || digits == 10:
			return 0, fmt.Errorf("%q follows %d digits; want a number of at most ten", b, digits)
		default:
			n, digits = 10*n+int(b-'0'), digits+1
		}
	}
}

// unexpected turns io.EOF into io.ErrUnexpectedEOF, for a file that should not have ended yet.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
