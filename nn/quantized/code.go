package quantized

import (
	"cmp"
	"slices"
	"sync"

	"github.com/gotrainer/gotrainer/torch"
)

// blockSize is the number of weights that share one scale, the largest absolute value among them.
const blockSize = 64

// code is a table of the 16 values that four bits can stand for, indexed by these bits.
type code struct {
	values  []float32
	tensors sync.Map // torch.Device to *tables
}

// tables is a code as tensors on one device.
type tables struct {
	values torch.Tensor // [16]
	bounds torch.Tensor // [15]: the midpoints between neighbouring values, in ascending order
	order  torch.Tensor // [16]: the bits of the values in ascending order
}

// codes are the tables of bitsandbytes' get_4bit_type.
var codes = map[Type]*code{
	NF4: {values: []float32{-1, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635,
		-0.18477343022823334, -0.09105003625154495, 0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634,
		0.33791524171829224, 0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1}},
	FP4: {values: twelfths(0, 0.0625, 8, 12, 4, 6, 2, 3, 0, -0.0625, -8, -12, -4, -6, -2, -3)},
}

func twelfths(values ...float32) []float32 {
	for i := range values {
		values[i] /= 12
	}
	return values
}

// on returns the tables on a device and caches them.
func (c *code) on(d torch.Device) *tables {
	if t, ok := c.tensors.Load(d); ok {
		return t.(*tables)
	}
	t := &tables{}
	torch.NoGrad(func() {
		torch.Scope(func() {
			bits := make([]uint8, len(c.values))
			for i := range bits {
				bits[i] = uint8(i)
			}
			slices.SortStableFunc(bits, func(a, b uint8) int { return cmp.Compare(c.values[a], c.values[b]) })
			var bounds []float32
			for i := range bits[1:] {
				bounds = append(bounds, (c.values[bits[i]]+c.values[bits[i+1]])/2)
			}
			on := func(t torch.Tensor) torch.Tensor { return t.ToDevice(d).Keep() }
			*t = tables{values: on(torch.From(c.values, 16)), bounds: on(torch.From(bounds, 15)),
				order: on(torch.From(bits, 16))}
		})
	})
	first, _ := c.tensors.LoadOrStore(d, t)
	return first.(*tables)
}

// packedAtOnce is how many numbers are packed at a time, a multiple of blockSize: intermediate
// results take twelve times as much memory as the numbers.
const packedAtOnce = 1 << 20

// pack divides numbers by the largest absolute value in their block and maps each quotient to four
// bits, two of which are stored in a byte, [n/2, 1]: bitsandbytes' quantize_4bit. It also returns
// the largest absolute values, [blocks].
func (c *code) pack(numbers torch.Tensor) (packed, largest torch.Tensor) {
	flat := numbers.Reshape(-1)
	n := flat.Numel()
	o := torch.TensorOptions{Device: numbers.Device()}
	largest = o.Empty((n + blockSize - 1) / blockSize)
	o.DType = torch.Uint8
	packed = o.Empty((n+1)/2, 1)
	for from := int64(0); from < n; from += packedAtOnce {
		torch.Scope(func() {
			bits, sizes := c.packPart(flat.Narrow(0, from, min(packedAtOnce, n-from)).ToDType(torch.Float32))
			packed.Narrow(0, from/2, bits.Numel()).Copy_(bits)
			largest.Narrow(0, from/blockSize, sizes.Numel()).Copy_(sizes)
		})
	}
	return packed, largest
}

// packPart is like pack for numbers of shape [n]; only the last block may be incomplete.
func (c *code) packPart(flat torch.Tensor) (packed, largest torch.Tensor) {
	t := c.on(flat.Device())
	n := flat.Numel()
	whole := n - n%blockSize
	blocks := flat.Narrow(0, 0, whole).View(-1, blockSize)
	const least = 1e-38
	largest = blocks.Abs().AMax([]int64{-1}, false)
	scaled := blocks.Mul(largest.Clamp(least, nil).Reciprocal().View(-1, 1)).Clamp(-1.0, 1.0).Reshape(-1)
	if rest := flat.Narrow(0, whole, n-whole); rest.Numel() > 0 {
		of := rest.Abs().Max().Clamp(least, nil)
		largest = torch.Cat([]torch.Tensor{largest, of.View(1)}, 0)
		scaled = torch.Cat([]torch.Tensor{scaled, rest.Div(of).Clamp(-1.0, 1.0)}, 0)
	}
	if n%2 != 0 {
		scaled = scaled.Pad(0, 0, 1)
	}
	bits := t.order.IndexSelect(0, scaled.Bucketize(t.bounds, false)).View(-1, 2)
	return bits.Select(1, 0).MulScalar(16).Add(bits.Select(1, 1)).Unsqueeze(1), largest
}

// unpack dequantizes bits to numbers of the given shape and dtype: bitsandbytes' dequantize_4bit.
// On the CPU, a custom operator does it (cgotorch/src/fourbit.cc).
func (c *code) unpack(packed, largest torch.Tensor, shape []int64, d torch.DType) torch.Tensor {
	if packed.Device() == torch.CPU {
		return torch.Call("gotrainer::unpack_4bit", packed, largest, c.on(packed.Device()).values, shape[0], shape[1], d)[0]
	}
	return c.unpackByOperators(packed, largest, shape, d)
}

// unpackByOperators is like unpack, but uses only libtorch's operators.
func (c *code) unpackByOperators(packed, largest torch.Tensor, shape []int64, d torch.DType) torch.Tensor {
	n := shape[0] * shape[1]
	high := torch.Call("aten::bitwise_right_shift.Tensor_Scalar", packed.View(-1), 4)[0]
	low := torch.Call("aten::bitwise_and.Scalar", packed.View(-1), 15)[0]
	bits := torch.Stack([]torch.Tensor{high, low}, -1).View(-1).Narrow(0, 0, n)
	numbers := c.on(packed.Device()).values.IndexSelect(0, bits.ToDType(torch.Int32))
	if rest := n % blockSize; rest != 0 {
		numbers = numbers.Pad(0, 0, blockSize-rest)
	}
	return numbers.View(-1, blockSize).Mul_(largest.View(-1, 1)).View(-1).Narrow(0, 0, n).View(shape...).ToDType(d)
}
