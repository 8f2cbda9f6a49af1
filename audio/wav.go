package audio

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
)

// DecodeWAV reads WAV: PCM of 8, 16, 24 or 32 bits, or floating-point numbers of 32 or 64 bits, in any
// number of channels, whose mean it takes. Memory grows with what is there, not with what a header
// says. A file that ends early is an error.
func DecodeWAV(r io.Reader) (*Audio, error) {
	d := wav{in: bufio.NewReaderSize(r, 1<<16)}
	a, err := d.decode()
	return decoded("WAV", a, err)
}

// wav reads one file.
type wav struct {
	in       *bufio.Reader
	format   uint16
	channels int
	rate     int
	bits     int
}

// The formats that are read, by their numbers in files.
const (
	formatPCM        = 1
	formatFloat      = 3
	formatExtensible = 0xFFFE // the format is in the first two bytes of a longer name
)

// unknownSize is what programs write that cannot go back to the header of a file.
const unknownSize = math.MaxUint32

// maxChannels is more than any recording has.
const maxChannels = 1024

func (d *wav) decode() (*Audio, error) {
	var start [12]byte
	if _, err := io.ReadFull(d.in, start[:]); err != nil {
		return nil, err
	}
	if string(start[:4]) != "RIFF" || string(start[8:]) != "WAVE" {
		return nil, fmt.Errorf("the file begins with %q; want RIFF and WAVE", start[:])
	}
	for {
		var head [8]byte
		if _, err := io.ReadFull(d.in, head[:]); errors.Is(err, io.EOF) {
			return nil, errors.New("there is no data chunk")
		} else if err != nil {
			return nil, err
		}
		name, size := string(head[:4]), binary.LittleEndian.Uint32(head[4:])
		switch name {
		case "fmt ":
			if err := d.readFormat(size); err != nil {
				return nil, err
			}
		case "data":
			if d.channels == 0 {
				return nil, errors.New("the data chunk comes before the fmt chunk")
			}
			samples, err := d.readSamples(size)
			return &Audio{samples, d.rate}, err
		default:
			if err := d.skip(int64(size)); err != nil {
				return nil, err
			}
		}
		if size%2 == 1 { // chunks begin at even places
			if err := d.skip(1); err != nil {
				return nil, err
			}
		}
	}
}

func (d *wav) skip(n int64) error {
	if _, err := io.CopyN(io.Discard, d.in, n); err != nil {
		return fmt.Errorf("a chunk: %w", err)
	}
	return nil
}

// readFormat reads a fmt chunk.
func (d *wav) readFormat(size uint32) error {
	const plain, extensible, most = 16, 40, 1 << 16
	if size < plain || size > most {
		return fmt.Errorf("the fmt chunk has %d bytes; want %d to %d", size, plain, most)
	}
	f := make([]byte, size)
	if _, err := io.ReadFull(d.in, f); err != nil {
		return err
	}
	d.format = binary.LittleEndian.Uint16(f)
	d.channels = int(binary.LittleEndian.Uint16(f[2:]))
	rate := binary.LittleEndian.Uint32(f[4:])
	block := int(binary.LittleEndian.Uint16(f[12:]))
	d.bits = int(binary.LittleEndian.Uint16(f[14:]))
	if d.format == formatExtensible {
		if size < extensible {
			return fmt.Errorf("the fmt chunk of an extensible format has %d bytes; want at least %d", size, extensible)
		}
		d.format = binary.LittleEndian.Uint16(f[24:])
	}
	known := map[uint16][]int{formatPCM: {8, 16, 24, 32}, formatFloat: {32, 64}}[d.format]
	supported := false
	for _, bits := range known {
		supported = supported || bits == d.bits
	}
	switch {
	case !supported:
		return fmt.Errorf("samples have format %#x and %d bits; want 1 (PCM) with 8, 16, 24 or 32, or 3 (floating-point) "+
			"with 32 or 64", d.format, d.bits)
	case d.channels < 1 || d.channels > maxChannels:
		return fmt.Errorf("there are %d channels; want 1 to %d", d.channels, maxChannels)
	case rate < 1 || rate > maxRate:
		return fmt.Errorf("the rate is %d samples in a second; want 1 to %d", rate, maxRate)
	case block != d.channels*d.bits/8:
		return fmt.Errorf("block_align is %d; want %d, for %d channels of %d bits", block, d.channels*d.bits/8, d.channels,
			d.bits)
	}
	d.rate = int(rate)
	return nil
}

// readSamples reads a data chunk.
func (d *wav) readSamples(size uint32) (samples []float32, err error) {
	width := d.bits / 8
	block := make([]byte, d.channels*width)
	if size != unknownSize && size%uint32(len(block)) != 0 { //nolint:gosec // G115: at most maxChannels times 8
		return nil, fmt.Errorf("the data chunk has %d bytes, which is no multiple of %d, those of a sample of all channels",
			size, len(block))
	}
	for left := int64(size); left > 0; left -= int64(len(block)) {
		_, err := io.ReadFull(d.in, block)
		switch {
		case size == unknownSize && errors.Is(err, io.EOF):
			return samples, nil
		case err != nil:
			return nil, fmt.Errorf("the data chunk says %d bytes, %d of which are missing: %w", size, left, err)
		}
		var sum float32
		for at := 0; at < len(block); at += width {
			sum += d.number(block[at:])
		}
		if wide := float64(sum); math.IsNaN(wide) || math.IsInf(wide, 0) {
			return nil, fmt.Errorf("sample %d is %g; want numbers", len(samples), sum)
		}
		samples = append(samples, sum/float32(d.channels))
	}
	return samples, nil
}

// number returns the number at the start of b.
func (d *wav) number(b []byte) float32 {
	le := binary.LittleEndian
	switch {
	case d.format == formatFloat && d.bits == 32:
		return math.Float32frombits(le.Uint32(b))
	case d.format == formatFloat:
		return float32(math.Float64frombits(le.Uint64(b)))
	case d.bits == 8: // the only one without a sign
		return (float32(b[0]) - 128) / (1 << 7)
	case d.bits == 16:
		return float32(int16(le.Uint16(b))) / (1 << 15) //nolint:gosec // G115: the bits of a signed number
	case d.bits == 24:
		return float32(int32(b[0])<<8|int32(b[1])<<16|int32(b[2])<<24) / (1 << 31)
	}
	return float32(int32(le.Uint32(b))) / (1 << 31) //nolint:gosec // G115: the bits of a signed number
}
