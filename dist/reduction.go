package dist

import (
	"encoding/binary"
	"fmt"
	"math"
)

// Op is how the data of all processes are combined.
type Op uint8

// The reductions. Mean is the sum divided by the number of processes, for floating-point numbers
// only. Max and Min are nan if one of the elements is.
const (
	Sum Op = iota + 1
	Mean
	Max
	Min
	Product

	opBroadcast // the contribution of one process, for all
	opGather    // all contributions, by rank
	opBarrier   // no data
)

func (o Op) String() string {
	if o < Sum || o > Product {
		return fmt.Sprintf("Op(%d)", uint8(o))
	}
	return [...]string{"sum", "mean", "max", "min", "product"}[o-1]
}

// Number is the element type of a slice that [AllReduce] accepts.
type Number interface{ float64 | int64 }

// number is an element type.
type number uint8

const (
	float64s number = iota + 1
	int64s
)

func (n number) String() string { return [...]string{"nothing", "float64", "int64"}[min(n, int64s)] }

// numberBytes encodes numbers as in messages: 8 bytes each, little-endian.
func numberBytes[T Number](v []T) []byte {
	b := make([]byte, 0, 8*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint64(b, bitsOf(x))
	}
	return b
}

// readNumbers reads len(v) numbers.
func readNumbers[T Number](b []byte, v []T) {
	for i := range v {
		v[i] = fromBits[T](binary.LittleEndian.Uint64(b[8*i:]))
	}
}

func bitsOf[T Number](x T) uint64 {
	if f, ok := any(x).(float64); ok {
		return math.Float64bits(f)
	}
	return uint64(x)
}

func fromBits[T Number](bits uint64) (x T) {
	if _, ok := any(x).(float64); ok {
		return T(math.Float64frombits(bits))
	}
	return T(int64(bits))
}

// reduce returns the reduction of the parts, element by element in the order of the ranks.
func reduce[T Number](parts []*frame, op Op) []byte {
	n := len(parts[0].part()) / 8
	all, next := make([]T, n), make([]T, n)
	readNumbers(parts[0].part(), all)
	for _, p := range parts[1:] {
		readNumbers(p.part(), next)
		for i, x := range next {
			switch op {
			case Max:
				all[i] = max(all[i], x)
			case Min:
				all[i] = min(all[i], x)
			case Product:
				all[i] *= x
			default:
				all[i] += x
			}
		}
	}
	if op == Mean {
		for i := range all {
			all[i] /= T(len(parts))
		}
	}
	return numberBytes(all)
}

// combine returns the result of a call, given the contributions by rank.
func combine(parts []*frame) (answer []byte) {
	switch first := parts[0]; {
	case first.op == opBroadcast:
		return parts[first.root].part()
	case first.op == opGather:
		for _, p := range parts {
			answer = binary.LittleEndian.AppendUint64(answer, uint64(len(p.part())))
			answer = append(answer, p.part()...)
		}
		return answer
	case first.op == opBarrier:
		return nil
	case first.number == float64s:
		return reduce[float64](parts, first.op)
	default:
		return reduce[int64](parts, first.op)
	}
}
