// Package idx reads IDX files, the format of MNIST and its relatives: an array of numbers after a
// header of a few bytes, often compressed with gzip.
//
//	train, err := idx.Open("mnist/train") // mnist/train-images-idx3-ubyte and mnist/train-labels-idx1-ubyte, .gz or not
//	sample, err := train.At(0)            // sample.Image: train.Height*train.Width bytes, sample.Label
//
// [Read] reads any IDX array.
package idx

import (
	"bufio"
	"compress/flate"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/bits"
)

// Type is the type of an array's elements, by its code in the file. Those of more than a byte are
// big-endian.
type Type uint8

// The types of the format.
const (
	Uint8   Type = 0x08
	Int8    Type = 0x09
	Int16   Type = 0x0b
	Int32   Type = 0x0c
	Float32 Type = 0x0d
	Float64 Type = 0x0e
)

// Size returns the bytes of one element; zero if the type is none of the format's.
func (t Type) Size() int {
	switch t {
	case Uint8, Int8:
		return 1
	case Int16:
		return 2
	case Int32, Float32:
		return 4
	case Float64:
		return 8
	}
	return 0
}

func (t Type) String() string {
	switch t {
	case Uint8:
		return "uint8"
	case Int8:
		return "int8"
	case Int16:
		return "int16"
	case Int32:
		return "int32"
	case Float32:
		return "float32"
	case Float64:
		return "float64"
	}
	return fmt.Sprintf("0x%02x", uint8(t))
}

// Array is the content of a file.
type Array struct {
	Type  Type
	Shape []int  // one number for each dimension
	Data  []byte // in C order, as it stands in the file
}

// ErrFormat is wrapped by the errors about files that are not what they should be.
var ErrFormat = errors.New("not a sound IDX file")

// Read reads an array, compressed with gzip or not, up to the end of r.
func Read(r io.Reader) (*Array, error) {
	in := bufio.NewReader(r)
	if magic, _ := in.Peek(2); len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, fmt.Errorf("idx: %w: %w", ErrFormat, err)
		}
		in = bufio.NewReader(z)
	}
	var magic [4]byte
	if _, err := io.ReadFull(in, magic[:]); err != nil {
		return nil, cutShort("the magic number", err)
	}
	a := &Array{Type: Type(magic[2])}
	if magic[0] != 0 || magic[1] != 0 || a.Type.Size() == 0 {
		return nil, fmt.Errorf("idx: %w: it begins with % x, expected 00 00, a type (08, 09, 0b to 0e) and the "+
			"number of dimensions", ErrFormat, magic)
	}
	size := uint64(a.Type.Size())
	for range magic[3] {
		var dim [4]byte
		if _, err := io.ReadFull(in, dim[:]); err != nil {
			return nil, cutShort("the shape", err)
		}
		d := binary.BigEndian.Uint32(dim[:])
		a.Shape = append(a.Shape, int(d))
		over, product := bits.Mul64(size, uint64(d))
		if over != 0 || product >= 1<<62 {
			return nil, fmt.Errorf("idx: %w: shape %v has more bytes than any file", ErrFormat, a.Shape)
		}
		size = product
	}
	// The size is only what the file claims: memory grows with what is really there.
	data, err := io.ReadAll(io.LimitReader(in, int64(size)+1))
	switch {
	case err != nil:
		return nil, cutShort("the data", err)
	case uint64(len(data)) < size:
		return nil, fmt.Errorf("idx: %w: %s%v needs %d bytes, found %d; was it cut short?", ErrFormat, a.Type, a.Shape,
			size, len(data))
	case uint64(len(data)) > size:
		return nil, fmt.Errorf("idx: %w: %s%v needs %d bytes, found more", ErrFormat, a.Type, a.Shape, size)
	}
	a.Data = data
	return a, nil
}

// cutShort says in which part of a file reading failed.
func cutShort(part string, err error) error {
	var corrupt flate.CorruptInputError
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, gzip.ErrChecksum) ||
		errors.Is(err, gzip.ErrHeader) || errors.As(err, &corrupt) {
		return fmt.Errorf("idx: %w: it ends or breaks in %s: %w", ErrFormat, part, err)
	}
	return fmt.Errorf("idx: cannot read %s: %w", part, err)
}
