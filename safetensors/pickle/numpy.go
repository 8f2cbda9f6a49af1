package pickle

import (
	"fmt"
	"math"
)

// NumPy arrays in a pickle are the states of its random generators, which trainers save with their
// tensors. They are small and stored in the pickle itself.

// Array is a numpy.ndarray in C order.
type Array struct {
	DType string // NumPy's: "u4" is uint32, "f8" float64; little-endian
	Shape []int64
	Data  []byte
}

// The names that build an array.
const (
	reconstructArray    Name = "numpy._core.multiarray._reconstruct"
	reconstructArrayOld Name = "numpy.core.multiarray._reconstruct" // before NumPy 2
	ndarray             Name = "numpy.ndarray"
	numpyDType          Name = "numpy.dtype"
	encodeText          Name = "_codecs.encode"    // bytes in protocol 2
	emptyBytes          Name = "__builtin__.bytes" // b"" in protocol 2
)

// arrayType is a numpy.dtype while a pickle is read.
type arrayType struct {
	name string
	size int64
}

// arraySizes holds the size of an element in bytes by dtype.
var arraySizes = map[string]int64{"b1": 1, "i1": 1, "u1": 1, "i2": 2, "u2": 2, "f2": 2, "i4": 4, "u4": 4, "f4": 4,
	"i8": 8, "u8": 8, "f8": 8}

// callNumPy calls a name that builds an array.
func callNumPy(f Name, args Tuple) (any, error) {
	switch f {
	case emptyBytes:
		if len(args) == 0 {
			return []byte{}, nil
		}
	case encodeText:
		if len(args) == 2 && args[1] == "latin1" {
			if text, ok := args[0].(string); ok {
				return latin1(text)
			}
		}
	case numpyDType:
		if len(args) == 3 {
			name, _ := args[0].(string)
			if size, ok := arraySizes[name]; ok {
				return &arrayType{name, size}, nil
			}
			return nil, fault(ErrDType, "", "a NumPy array has the dtype %.20q", name)
		}
	case reconstructArray, reconstructArrayOld:
		if len(args) == 3 && args[0] == any(ndarray) {
			return &Array{}, nil
		}
	}
	return nil, fmt.Errorf("%s gets %d values, which are not those of an array", f, len(args))
}

func latin1(text string) ([]byte, error) {
	out := make([]byte, 0, len(text))
	for _, r := range text {
		if r > math.MaxUint8 {
			return nil, fmt.Errorf("%s gets the character %U, which latin1 has not", encodeText, r)
		}
		out = append(out, byte(r))
	}
	return out, nil
}

// build sets the state of a dtype: (version, byte order, ...).
func (t *arrayType) build(state any) error {
	items, ok := state.(Tuple)
	if !ok || len(items) < 2 || items[1] != "<" && items[1] != "|" {
		return fmt.Errorf("the dtype %s has the state %s; want a tuple with the byte order < or |", t.name,
			describe(state))
	}
	return nil
}

// build sets the state of an array: (version, shape, dtype, Fortran order, bytes).
func (a *Array) build(state any) error {
	items, ok := state.(Tuple)
	if !ok || len(items) != 5 {
		return fmt.Errorf("an array has the state %s; want a tuple of five", describe(state))
	}
	shape, ok1 := ints(items[1])
	kind, ok2 := items[2].(*arrayType)
	data, ok3 := items[4].([]byte)
	if !ok1 || !ok2 || !ok3 || items[3] != false {
		return fmt.Errorf("an array is made of %s, %s and %s; want a shape, a dtype and bytes in C order",
			describe(items[1]), describe(items[2]), describe(items[4]))
	}
	want := kind.size
	for _, n := range shape {
		if n > 0 && want > math.MaxInt64/n {
			return fault(ErrTooLarge, "", "an array has the shape %v", shape)
		}
		want *= n
	}
	if want != int64(len(data)) {
		return fault(ErrMalformed, "", "an array of %s%v has %d bytes; want %d", kind.name, shape, len(data), want)
	}
	a.DType, a.Shape, a.Data = kind.name, shape, data
	return nil
}
