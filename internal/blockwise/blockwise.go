// Package blockwise quantizes numbers to 8 bits like bitsandbytes: each element is stored as the
// index of one of 256 numbers between -1 and 1 (or between 0 and 1 for squares), to be multiplied
// by the largest absolute value in its block of 256 elements.
package blockwise

import (
	"math"
	"slices"
	"sync"

	"github.com/gotrainer/gotrainer/torch"
)

// Size is the number of elements in a block.
const Size = 256

// Map is a table of 256 numbers, with a table for the inverse.
type Map struct {
	values  []float32 // ascending: create_dynamic_map
	nearest []uint8   // index of the nearest value for each of 65536 evenly spaced numbers from -1 to 1
	tensors sync.Map  // per device: *mapTensors
}

type mapTensors struct{ values, nearest torch.Tensor }

// The maps of bitsandbytes.
var (
	Signed   = sync.OnceValue(func() *Map { return newMap(true) })
	Unsigned = sync.OnceValue(func() *Map { return newMap(false) })
)

// Values returns the numbers in ascending order, [256], as a tensor on a device that must not be
// modified.
func (m *Map) Values(d torch.Device) torch.Tensor { return m.on(d).values }

// newMap computes in float32 what PyTorch computes on a CPU with fused multiply-add, so that the
// map is the same everywhere: states are useless without it. Smaller magnitudes have fewer numbers.
func newMap(signed bool) *Map {
	m := &Map{values: []float32{0, 1}}
	for i, size := range []float32{1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1} {
		count := 1 << i
		if !signed {
			count *= 2
		}
		step := (1 - float32(0.1)) / float32(count)
		bound := func(k int) float32 {
			if k < (count+1)/2 {
				return float32(float64(float32(0.1)) + float64(step)*float64(k))
			}
			return float32(1 - float64(step)*float64(count-k))
		}
		for k := range count {
			mean := float32(bound(k)+bound(k+1)) / 2
			m.values = append(m.values, size*mean)
			if signed {
				m.values = append(m.values, -size*mean)
			}
		}
	}
	slices.Sort(m.values)
	m.nearest = make([]uint8, 1<<16)
	at := 0
	for i := range m.nearest {
		x := -1 + float32(2*i)/float32(len(m.nearest)-1)
		for at < len(m.values)-1 && 0.5*(m.values[at]+m.values[at+1]) < x {
			at++
		}
		m.nearest[i] = uint8(at)
	}
	return m
}

// on returns the tables as tensors on a device, which are cached.
func (m *Map) on(d torch.Device) *mapTensors {
	if t, ok := m.tensors.Load(d); ok {
		return t.(*mapTensors)
	}
	t := &mapTensors{torch.From(m.values, 256).To(torch.TensorOptions{Device: d}).Keep(),
		torch.From(m.nearest, 1<<16).To(torch.TensorOptions{Device: d}).Keep()}
	first, _ := m.tensors.LoadOrStore(d, t)
	return first.(*mapTensors)
}

// blocks returns a tensor as a matrix of blocks, padding the last one with zeros.
func blocks(t torch.Tensor) torch.Tensor {
	t = t.Reshape(-1)
	if rest := t.Numel() % Size; rest != 0 {
		t = t.Pad(0, 0, Size-rest)
	}
	return t.View(-1, Size)
}

// Count returns the number of blocks for a number of elements.
func Count(elements int64) int64 { return (elements + Size - 1) / Size }

// Dequantize returns the float32 numbers for indices.
func (m *Map) Dequantize(indices, largest torch.Tensor) torch.Tensor {
	flat := indices.Reshape(-1).ToDType(torch.Int32)
	numbers := blocks(m.on(indices.Device()).values.IndexSelect(0, flat)).Mul(largest.Unsqueeze(-1))
	return numbers.Reshape(-1).Narrow(0, 0, indices.Numel()).View(indices.Shape()...)
}

// Quantize writes the indices of float32 numbers, and the largest absolute value of each block. A
// nan becomes the first number of the map.
func (m *Map) Quantize(numbers, indices, largest torch.Tensor) {
	zero, infinite := 0.0, math.Inf(1)
	b := blocks(numbers)
	largest.Copy_(b.Abs().NanToNum(&zero, &infinite, nil).AMax([]int64{1}, false))
	at := b.Mul(largest.Reciprocal().Unsqueeze(-1)).Clamp(-1.0, 1.0).AddScalar(1).MulScalar(0.5).
		MulScalar(1<<16-1).AddScalar(0.5).NanToNum(&zero, nil, nil).ToDType(torch.Int32)
	nearest := m.on(numbers.Device()).nearest.IndexSelect(0, at.Reshape(-1))
	indices.Copy_(nearest.Narrow(0, 0, numbers.Numel()).View(indices.Shape()...))
}
