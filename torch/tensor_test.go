package torch_test

import (
	"errors"
	"math"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

func TestATensorTellsWhatItIs(t *testing.T) {
	testenv.RequireTorch(t)
	base := torch.Ones(2, 3)
	for _, c := range []struct {
		name           string
		t              torch.Tensor
		shape, stride  []int64
		numel          int64
		dtype          torch.DType
		contiguous     bool
		leaf, needGrad bool
	}{
		{"a matrix", base, []int64{2, 3}, []int64{3, 1}, 6, torch.Float32, true, true, false},
		{"transposed", base.T(), []int64{3, 2}, []int64{1, 3}, 6, torch.Float32, false, true, false},
		{"expanded", base.Unsqueeze(0).Expand(4, -1, -1), []int64{4, 2, 3}, []int64{0, 3, 1}, 24, torch.Float32, false,
			true, false},
		{"a number", torch.Full(7), []int64{}, []int64{}, 1, torch.Int64, true, true, false},
		{"empty", torch.Zeros(0, 3), []int64{0, 3}, []int64{3, 1}, 0, torch.Float32, true, true, false},
		{"channels last", torch.Ones(1, 2, 3, 4).InMemoryFormat(torch.ChannelsLast), []int64{1, 2, 3, 4},
			[]int64{24, 1, 8, 2}, 24, torch.Float32, false, true, false},
		{"every second column", base.At(torch.All, torch.RangeStep(0, 3, 2)), []int64{2, 2}, []int64{3, 2}, 4,
			torch.Float32, false, true, false},
		{"a leaf", torch.Ones(1).RequiresGrad(), []int64{1}, []int64{1}, 1, torch.Float32, true, true, true},
		{"a result", torch.Ones(1).RequiresGrad().Neg(), []int64{1}, []int64{1}, 1, torch.Float32, true, false, true},
	} {
		if got := c.t.Shape(); !slices.Equal(got, c.shape) || c.t.Dim() != len(c.shape) {
			t.Errorf("%s: shape %v, %d dimensions, want %v", c.name, got, c.t.Dim(), c.shape)
		}
		for i, want := range c.shape {
			if a, b := c.t.Size(int64(i)), c.t.Size(int64(i-len(c.shape))); a != want || b != want {
				t.Errorf("%s: size %d is %d, from the end %d, want %d", c.name, i, a, b, want)
			}
		}
		if got := c.t.Stride(); !slices.Equal(got, c.stride) {
			t.Errorf("%s: stride %v, want %v", c.name, got, c.stride)
		}
		if c.t.Numel() != c.numel || c.t.DType() != c.dtype || c.t.Device() != torch.CPU ||
			c.t.IsContiguous() != c.contiguous {
			t.Errorf("%s: %d elements of %s on %s, contiguous %t", c.name, c.t.Numel(), c.t.DType(), c.t.Device(),
				c.t.IsContiguous())
		}
		if c.t.IsLeaf() != c.leaf || c.t.NeedsGrad() != c.needGrad {
			t.Errorf("%s: leaf %t, needs grad %t, want %t, %t", c.name, c.t.IsLeaf(), c.t.NeedsGrad(), c.leaf,
				c.needGrad)
		}
		if got, want := int64(len(c.t.Bytes())), c.numel*c.dtype.Size(); got != want {
			t.Errorf("%s: %d bytes, want %d", c.name, got, want)
		}
	}
}

// roundTrip writes and reads data in the dtype that belongs to T.
func roundTrip[T torch.Element](t *testing.T, dtype torch.DType, data ...T) {
	t.Helper()
	x := torch.From(data)
	if x.DType() != dtype {
		t.Errorf("From[%T] gives %s, want %s", data[0], x.DType(), dtype)
	}
	into := make([]T, len(data))
	torch.CopyTo(into, x)
	for _, got := range [][]T{torch.Values[T](x), into} {
		if !reflect.DeepEqual(got, data) {
			t.Errorf("From[%T](%v) reads back as %v", data[0], data, got)
		}
	}
	if again := torch.FromBytes(x.Bytes(), dtype, int64(len(data))); !again.Equal(x) {
		t.Errorf("FromBytes of the bytes of %v is %v", x, again)
	}
	if got := torch.ScalarTensor(data[0]); got.Dim() != 0 || got.DType() != dtype {
		t.Errorf("ScalarTensor gives %v", got)
	}
}

func TestElementsOfEveryTypeReadBackAsTheyWere(t *testing.T) {
	testenv.RequireTorch(t)
	roundTrip[uint8](t, torch.Uint8, 0, 255, 7)
	roundTrip[int8](t, torch.Int8, -128, 127)
	roundTrip[int16](t, torch.Int16, math.MinInt16, math.MaxInt16)
	roundTrip[int32](t, torch.Int32, math.MinInt32, math.MaxInt32)
	roundTrip[int64](t, torch.Int64, math.MinInt64, math.MaxInt64)
	roundTrip[float32](t, torch.Float32, math.MaxFloat32, -0.5, math.SmallestNonzeroFloat32)
	roundTrip(t, torch.Float64, math.MaxFloat64, math.Inf(-1))
	roundTrip[complex64](t, torch.Complex64, 1+2i, -3i)
	roundTrip(t, torch.Complex128, 1+2i, complex(math.Inf(1), 0))
	roundTrip(t, torch.Bool, true, false, true)
}

func TestAnEmptySliceIsATensorWithoutElements(t *testing.T) {
	testenv.RequireTorch(t)
	for _, x := range []torch.Tensor{torch.From[float32](nil), torch.From([]float32{}), torch.From([]float32{}, 0),
		torch.From([]float32{}, 3, 0)} {
		if x.Numel() != 0 || len(torch.Values[float32](x)) != 0 {
			t.Errorf("got %v", x)
		}
	}
}

func TestFromCopiesItsSlice(t *testing.T) {
	testenv.RequireTorch(t)
	data := []float32{1, 2}
	x := torch.From(data)
	data[0] = 9
	if got := torch.Values[float32](x)[0]; got != 1 {
		t.Errorf("the tensor changed with its slice: %v", got)
	}
	torch.Values[float32](x)[1] = 9
	if got := torch.Values[float32](x)[1]; got != 2 {
		t.Errorf("the tensor changed with the slice that Values gave: %v", got)
	}
}

func TestElementTypesHaveTheSizesAndNamesOfPyTorch(t *testing.T) {
	testenv.RequireTorch(t)
	for d, name := range map[torch.DType]string{
		torch.Uint8: "uint8", torch.Int8: "int8", torch.Int16: "int16", torch.Int32: "int32", torch.Int64: "int64",
		torch.Float16: "float16",
		torch.Float32: "float32", torch.Float64: "float64", torch.Complex32: "complex32", torch.Complex64: "complex64",
		torch.Complex128: "complex128",
		torch.Bool:       "bool", torch.BFloat16: "bfloat16",
	} {
		x := torch.TensorOptions{DType: d}.Empty(3)
		if x.DType() != d || d.String() != name || int64(len(x.Bytes())) != 3*d.Size() {
			t.Errorf("%v: a tensor of it is %v with %d bytes", d, x.DType(), len(x.Bytes()))
		}
		if float, cplx := d.IsFloatingPoint(), d.IsComplex(); float != (name[0] == 'f' || name[0] == 'b' &&
			name != "bool") || cplx != (name[0] == 'c') {
			t.Errorf("%v: floating point %t, complex %t", d, float, cplx)
		}
	}
	if e := mustFail(t, func() { torch.DType(40).Size() }); !errors.Is(e, torch.ErrInvalid) {
		t.Errorf("the size of an unknown type: %v", e)
	}
}

func TestDevicesAreReadAndWrittenAlike(t *testing.T) {
	for _, c := range []struct {
		text string
		want torch.Device
		ok   bool
	}{
		{"cpu", torch.CPU, true}, {"cuda", torch.CUDA(0), true}, {"cuda:0", torch.CUDA(0), true},
		{"cuda:127", torch.CUDA(127), true},
		{"cuda:128", torch.CPU, false}, {"cuda:-1", torch.CPU, false}, {"cuda:", torch.CPU, false},
		{"cuda:one", torch.CPU, false}, {"", torch.CPU, false},
		{"tpu", torch.CPU, false}, {"CPU", torch.CPU, false},
	} {
		got, err := torch.ParseDevice(c.text)
		if err != nil && c.ok && c.want.IsCUDA() { // the name is valid, but there is no such GPU
			if err.Error() != torch.CheckDevice(c.want).Error() {
				t.Errorf("ParseDevice(%q): %v, want what CheckDevice says", c.text, err)
			}
			continue
		}
		if got != c.want || (err == nil) != c.ok {
			t.Errorf("ParseDevice(%q) = %v, %v, want %v, ok %t", c.text, got, err, c.want, c.ok)
		}
	}
	if d := torch.CUDA(3); d.Index() != 3 || !d.IsCUDA() || d.String() != "cuda:3" || torch.CPU.IsCUDA() {
		t.Errorf("CUDA(3) is %v", d)
	}
}

func TestItemReadsNumbersOfEveryKind(t *testing.T) {
	testenv.RequireTorch(t)
	for _, c := range []struct {
		t    torch.Tensor
		want float64
	}{
		{torch.ScalarTensor(true), 1}, {torch.ScalarTensor(false), 0}, {torch.ScalarTensor[int8](-3), -3},
		{torch.ScalarTensor(2.5), 2.5},
		{torch.Ones(1, 1, 1), 1}, {torch.Ones(1).ToDType(torch.BFloat16), 1}, {torch.ScalarTensor(math.Inf(1)),
			math.Inf(1)},
	} {
		if got := c.t.Item(); got != c.want {
			t.Errorf("%v.Item() = %v", c.t, got)
		}
	}
}

func TestSetDataKeepsTheTensorsIdentity(t *testing.T) {
	testenv.RequireTorch(t)
	w := torch.Ones(2).RequiresGrad()
	value := torch.From([]float32{5, 6})
	w.SetData_(value)
	w.Sum(0).Backward()
	if got := torch.Values[float32](w); !slices.Equal(got, []float32{5, 6}) || !w.NeedsGrad() ||
		!w.Grad().Equal(torch.Ones(2)) {
		t.Errorf("w is %v with gradient %v", w, w.Grad())
	}
	torch.NoGrad(func() { w.Zero_() })
	if got := value.Sum(0).Item(); got != 0 {
		t.Errorf("the value does not share memory: its sum is %v", got)
	}
}

func TestGradientsAddUpAndCanBeReplaced(t *testing.T) {
	testenv.RequireTorch(t)
	w := torch.Ones(2).RequiresGrad()
	if w.Grad().Defined() {
		t.Error("a fresh leaf has a gradient")
	}
	for range 2 {
		w.MulScalar(3).Sum(0).Backward()
	}
	if !w.Grad().Equal(torch.Full(6.0, 2)) {
		t.Errorf("after two passes the gradient is %v", w.Grad())
	}
	y := w.Square().Sum(0)
	torch.Backward(torch.BackwardOptions{RetainGraph: true}, y)
	y.Backward()
	if !w.Grad().Equal(torch.Full(10.0, 2)) {
		t.Errorf("after a graph was used twice the gradient is %v", w.Grad())
	}
	if w.SetGrad(torch.Ones(2)); !w.Grad().Equal(torch.Ones(2)) {
		t.Errorf("after SetGrad it is %v", w.Grad())
	}
	if w.SetGrad(torch.Tensor{}); w.Grad().Defined() {
		t.Error("SetGrad of the undefined tensor leaves a gradient")
	}
	unused := torch.Ones(1).RequiresGrad()
	got := torch.Grad([]torch.Tensor{w.Sum(0)}, []torch.Tensor{w, unused}, torch.GradOptions{AllowUnused: true})
	if !got[0].Equal(torch.Ones(2)) || got[1].Defined() || w.Grad().Defined() {
		t.Errorf("Grad gives %v", got)
	}
	if w.SetRequiresGrad(false); w.NeedsGrad() {
		t.Error("SetRequiresGrad(false) has no effect")
	}
	torch.Backward(torch.BackwardOptions{}) // of nothing
}

func TestListsWorkOnAllTheirTensors(t *testing.T) {
	testenv.RequireTorch(t)
	a, b, without := torch.Ones(2).RequiresGrad(), torch.Ones(2).RequiresGrad(), torch.Ones(1).RequiresGrad()
	tensors := []torch.Tensor{a, b, without}
	l := torch.NewList(tensors...)
	tensors[0] = without // the list has its own slice
	backward := func() {
		l.ZeroGrad(false)
		a.MulScalar(3).Sum(0).Add(b.MulScalar(-4).Sum(0)).Backward()
	}
	backward()
	if got := l.GradNorm(2).Item(); math.Abs(got-math.Sqrt(50)) > 1e-5 {
		t.Errorf("the norm is %v, want %v", got, math.Sqrt(50))
	}
	if got := l.GradNorm(math.Inf(1)).Item(); got != 4 {
		t.Errorf("the maximum norm is %v, want 4", got)
	}
	if got := l.ClipGradNorm(1, 2).Item(); math.Abs(got-math.Sqrt(50)) > 1e-5 {
		t.Errorf("ClipGradNorm gives %v, want the norm before", got)
	}
	if got := l.GradNorm(2).Item(); math.Abs(got-1) > 1e-5 {
		t.Errorf("after clipping the norm is %v, want 1", got)
	}
	backward()
	l.ClipGradValue(3.5)
	if g := l.Grads(); !g[0].Equal(torch.Full(3.0, 2)) || !g[1].Equal(torch.Full(-3.5, 2)) || g[2].Defined() {
		t.Errorf("after clipping values the gradients are %v", g)
	}
	l.ZeroGrad(true)
	if g := l.Grads(); !g[0].Equal(torch.Zeros(2)) || g[2].Defined() {
		t.Errorf("set to zero, the gradients are %v", g)
	}
	l.ZeroGrad(false)
	if g := l.Grads(); g[0].Defined() || g[1].Defined() {
		t.Errorf("removed, the gradients are %v", g)
	}
	if got := l.GradNorm(2).Item(); got != 0 || l.Len() != 3 || !l.Tensors()[0].Is(a) {
		t.Errorf("without gradients the norm is %v", got)
	}
	if got := torch.NewList().GradNorm(2).Item(); got != 0 {
		t.Errorf("the norm of nothing is %v", got)
	}
	b.Free()
	if e := mustFail(t, func() { l.ZeroGrad(false) }); !errors.Is(e, torch.ErrFreed) {
		t.Errorf("a list with a freed tensor: %v", e)
	}
}

func TestAutocastComputesProductsInTheLowerPrecision(t *testing.T) {
	testenv.RequireTorch(t)
	x := torch.Ones(2, 2)
	product := func() torch.DType { return x.MM(x).DType() }
	torch.Autocast(torch.CPU, torch.DefaultDType, true, true, func() {
		if got := product(); got != torch.BFloat16 {
			t.Errorf("by default products are %s", got)
		}
		torch.Autocast(torch.CPU, torch.BFloat16, false, true, func() {
			if got := product(); got != torch.Float32 {
				t.Errorf("switched off, products are %s", got)
			}
		})
		torch.Autocast(torch.CPU, torch.Float16, true, false, func() {
			if got := product(); got != torch.Float16 {
				t.Errorf("in float16, products are %s", got)
			}
		})
		if got := product(); got != torch.BFloat16 {
			t.Errorf("after inner regions products are %s", got)
		}
	})
	if got := product(); got != torch.Float32 {
		t.Errorf("afterwards products are %s", got)
	}
}

func TestDeterministicAlgorithmsCanBeDemanded(t *testing.T) {
	testenv.RequireTorch(t)
	torch.UseDeterministicAlgorithms(true, false)
	defer torch.UseDeterministicAlgorithms(false, false)
	if got := torch.Empty(3); !got.IsNaN().All().Equal(torch.ScalarTensor(true)) { // PyTorch fills it then
		t.Errorf("an empty tensor is %v, want nan", got)
	}
}

func TestStatesOfGeneratorsContinueTheirStream(t *testing.T) {
	testenv.RequireTorch(t)
	rapid.Check(t, func(r *rapid.T) {
		torch.Scope(func() {
			g := torch.NewGenerator(rapid.Uint64().Draw(r, "seed"))
			o := torch.TensorOptions{Generator: g}
			for range rapid.IntRange(0, 5).Draw(r, "draws before") {
				o.Randn(rapid.Int64Range(1, 40).Draw(r, "size"))
			}
			state := g.State()
			a := o.Rand(10)
			other := torch.NewGenerator(0)
			other.SetState(state)
			if b := (torch.TensorOptions{Generator: other}).Rand(10); !a.Equal(b) {
				r.Errorf("%v, continued %v", a, b)
			}
		})
	})
	torch.ManualSeed(3)
	a := torch.Rand(4)
	torch.DefaultGenerator(torch.CPU).Seed(3)
	if b := torch.Rand(4); !a.Equal(b) {
		t.Errorf("ManualSeed gives %v, the default generator %v", a, b)
	}
}

func TestViewsReadTheElementsThatTheirIndicesName(t *testing.T) {
	testenv.RequireTorch(t)
	rapid.Check(t, func(r *rapid.T) {
		torch.Scope(func() {
			shape := rapid.SliceOfN(rapid.Int64Range(1, 4), 1, 4).Draw(r, "shape")
			n := int64(1)
			for _, s := range shape {
				n *= s
			}
			order := rapid.Permutation(seq(len(shape))).Draw(r, "order")
			x := torch.Arange(n).View(shape...).Permute(order...)
			dim := rapid.Int64Range(0, int64(len(shape))-1).Draw(r, "dim")
			step := rapid.Int64Range(1, 3).Draw(r, "step")
			start := rapid.Int64Range(0, x.Size(dim)-1).Draw(r, "start")
			got := torch.Values[int64](x.Slice(dim, start, x.Size(dim), step))
			var want []int64
			walk(shape, order, func(at []int64, flat int64) {
				if at[dim] >= start && (at[dim]-start)%step == 0 {
					want = append(want, flat)
				}
			})
			if !slices.Equal(got, want) {
				r.Errorf("got %v, want %v", got, want)
			}
		})
	})
}

func seq(n int) (s []int64) {
	for i := range n {
		s = append(s, int64(i))
	}
	return s
}

// walk visits the positions of a permuted row-major array in the new order, with the old offset in
// memory.
func walk(shape, order []int64, visit func(at []int64, flat int64)) {
	stride := make([]int64, len(shape))
	for d, s := len(shape)-1, int64(1); d >= 0; d-- {
		stride[d], s = s, s*shape[d]
	}
	at := make([]int64, len(shape))
	var next func(d int, flat int64)
	next = func(d int, flat int64) {
		if d == len(shape) {
			visit(at, flat)
			return
		}
		for i := range shape[order[d]] {
			at[d] = i
			next(d+1, flat+i*stride[order[d]])
		}
	}
	next(0, 0)
}

// A mask indexes as many dimensions as it has, which leaves fewer for Ellipsis.
func TestEllipsisBesideAMask(t *testing.T) {
	testenv.RequireTorch(t)
	x := torch.Arange(24).View(2, 3, 4)
	behind := torch.Arange(12).View(3, 4).EqScalar(5)
	assert.True(t, torch.From([]int64{5, 17}, 2, 1).Equal(x.At(torch.Ellipsis, behind)), "x[..., mask]")
	before := torch.Arange(6).View(2, 3).EqScalar(4)
	assert.True(t, torch.From([]int64{16}).Equal(x.At(before, torch.Ellipsis, 0)), "x[mask, ..., 0]")
}

// The kernel does not read beyond the end of a target.
func TestThePaddingOfTargetsIsNotRead(t *testing.T) {
	testenv.RequireTorch(t)
	torch.ManualSeed(1)
	logProbs := torch.Randn(6, 2, 5).LogSoftmax(-1, torch.DefaultDType)
	inputs, lengths := torch.From([]int64{6, 6}), torch.From([]int64{3, 1})
	loss := func(padding int64) float64 {
		targets := torch.From([]int64{1, 2, 3, 4, padding, padding}, 2, 3)
		return logProbs.CTCLoss(targets, inputs, lengths, 0, torch.ReductionMean, false).Item()
	}
	assert.Equal(t, loss(1), loss(-100))
	targets := torch.From([]int64{1, 2, 9, 4, -100, -100}, 2, 3)
	require.ErrorContains(t, torch.Try(func() {
		logProbs.CTCLoss(targets, inputs, lengths, 0, torch.ReductionMean, false)
	}), "targets are 1 to 9, but there are 5 classes")
}
