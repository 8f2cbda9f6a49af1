package dist

import (
	"encoding/binary"
	"fmt"
	"math"
)

// DType is the type of the elements of an AllReduce, under PyTorch's names.
type DType uint8

// The types that can be reduced.
const (
	Float32 DType = iota + 1
	Float64
	Float16
	BFloat16
	Int32
	Int64
	Uint8
)

// Size is the number of bytes of an element.
func (d DType) Size() int {
	switch d {
	case Float64, Int64:
		return 8
	case Float32, Int32:
		return 4
	case Float16, BFloat16:
		return 2
	case Uint8:
		return 1
	}
	return 0
}

func (d DType) String() string {
	if d.Size() == 0 {
		return fmt.Sprintf("DType(%d)", uint8(d))
	}
	return [...]string{"float32", "float64", "float16", "bfloat16", "int32", "int64", "uint8"}[d-1]
}

func (d DType) isFloat() bool { return d >= Float32 && d <= BFloat16 }

// Op is how elements are reduced.
type Op uint8

// The reductions. Mean is the sum divided by the number of processes, of floating-point types only.
// Max and Min are nan where one of the elements is.
const (
	Sum Op = iota + 1
	Mean
	Max
	Min
	Product
)

func (o Op) String() string {
	if o < Sum || o > Product {
		return fmt.Sprintf("Op(%d)", uint8(o))
	}
	return [...]string{"sum", "mean", "max", "min", "product"}[o-1]
}

// reduce sets acc to the reduction of acc and b, element by element.
func reduce(acc, b []byte, d DType, o Op) {
	switch d {
	case Float32:
		reduce32(acc, b, func(x, y uint32) uint32 {
			return math.Float32bits(combine(o, math.Float32frombits(x), math.Float32frombits(y)))
		}, o == Sum || o == Mean)
	case Float64:
		for i := 0; i+8 <= len(acc); i += 8 {
			x, y := binary.LittleEndian.Uint64(acc[i:]), binary.LittleEndian.Uint64(b[i:])
			binary.LittleEndian.PutUint64(acc[i:], math.Float64bits(combine(o, math.Float64frombits(x),
				math.Float64frombits(y))))
		}
	case Float16, BFloat16:
		for i := 0; i+2 <= len(acc); i += 2 {
			x, y := widen(d, binary.LittleEndian.Uint16(acc[i:])), widen(d, binary.LittleEndian.Uint16(b[i:]))
			binary.LittleEndian.PutUint16(acc[i:], narrow(d, combine(o, x, y)))
		}
	case Int32:
		reduce32(acc, b, func(x, y uint32) uint32 { return uint32(combine(o, int32(x), int32(y))) }, false)
	case Int64:
		for i := 0; i+8 <= len(acc); i += 8 {
			x, y := binary.LittleEndian.Uint64(acc[i:]), binary.LittleEndian.Uint64(b[i:])
			binary.LittleEndian.PutUint64(acc[i:], uint64(combine(o, int64(x), int64(y))))
		}
	case Uint8:
		for i := range acc {
			acc[i] = combine(o, acc[i], b[i])
		}
	}
}

// reduce32 is for elements of four bytes; sums of float32, which gradients are, have a loop of
// their own.
func reduce32(acc, b []byte, f func(x, y uint32) uint32, floatSum bool) {
	b = b[:len(acc)]
	if floatSum {
		for i := 0; i+4 <= len(acc); i += 4 {
			sum := math.Float32frombits(binary.LittleEndian.Uint32(acc[i:])) +
				math.Float32frombits(binary.LittleEndian.Uint32(b[i:]))
			binary.LittleEndian.PutUint32(acc[i:], math.Float32bits(sum))
		}
		return
	}
	for i := 0; i+4 <= len(acc); i += 4 {
		binary.LittleEndian.PutUint32(acc[i:], f(binary.LittleEndian.Uint32(acc[i:]),
			binary.LittleEndian.Uint32(b[i:])))
	}
}

func combine[T float32 | float64 | int32 | int64 | uint8](o Op, x, y T) T {
	switch o {
	case Max:
		return max(x, y)
	case Min:
		return min(x, y)
	case Product:
		return x * y
	}
	return x + y
}

// divide sets every element to itself divided by n.
func divide(b []byte, d DType, n int) {
	switch d {
	case Float32:
		for i := 0; i+4 <= len(b); i += 4 {
			binary.LittleEndian.PutUint32(b[i:],
				math.Float32bits(math.Float32frombits(binary.LittleEndian.Uint32(b[i:]))/float32(n)))
		}
	case Float64:
		for i := 0; i+8 <= len(b); i += 8 {
			binary.LittleEndian.PutUint64(b[i:],
				math.Float64bits(math.Float64frombits(binary.LittleEndian.Uint64(b[i:]))/float64(n)))
		}
	case Float16, BFloat16:
		for i := 0; i+2 <= len(b); i += 2 {
			binary.LittleEndian.PutUint16(b[i:], narrow(d, widen(d, binary.LittleEndian.Uint16(b[i:]))/float32(n)))
		}
	}
}

// widen is the float32 of the same value.
func widen(d DType, h uint16) float32 {
	if d == BFloat16 {
		return math.Float32frombits(uint32(h) << 16)
	}
	sign, exponent, fraction := uint32(h>>15)<<31, uint32(h>>10&31), uint32(h&0x3ff)
	switch exponent {
	case 31: // inf, nan
		return math.Float32frombits(sign | 0xff<<23 | fraction<<13)
	case 0: // zero, subnormal
		f := float32(fraction) * 0x1p-24
		return math.Float32frombits(math.Float32bits(f) | sign)
	}
	return math.Float32frombits(sign | (exponent+112)<<23 | fraction<<13)
}

// narrow rounds to the nearest, ties to even.
func narrow(d DType, f float32) uint16 {
	bits := math.Float32bits(f)
	if d == BFloat16 {
		if f != f {
			return 0x7fc0
		}
		return uint16((bits + 0x7fff + bits>>16&1) >> 16)
	}
	sign := uint16(bits >> 16 & 0x8000)
	abs := math.Float32frombits(bits &^ (1 << 31))
	switch {
	case f != f:
		return sign | 0x7e00
	case abs >= 65520: // rounds to infinity
		return sign | 0x7c00
	case abs < 0x1p-14: // subnormal: the sum leaves the rounded fraction in the low bits
		return sign | uint16(math.Float32bits(abs+0.5)-math.Float32bits(0.5))
	}
	b := math.Float32bits(abs)
	b += 0xfff + b>>13&1
	return sign | uint16((b-112<<23)>>13)
}
