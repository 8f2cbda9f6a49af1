package torch_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

func TestWrongCallsPanicWithAnErrorThatNamesTheOperator(t *testing.T) {
	testenv.RequireTorch(t)
	type tensor = torch.Tensor
	f := func(shape ...int64) tensor { return torch.Ones(shape...) }
	i := func(v ...int64) tensor { return torch.From(v) }
	x, m, v := f(2, 3), f(3, 3), f(3)
	image := f(1, 2, 4, 4)
	leaf := f(2).RequiresGrad()
	list := torch.NewList(leaf)
	rnn := torch.RNNOptions{HasBiases: true, Layers: 1, Training: true}
	call := func(name string, args ...any) func() { return func() { torch.Call(name, args...) } }
	call1 := func(name string, args ...any) tensor { return torch.Call(name, args...)[0] }
	cases := []struct {
		op, name string // beginning of the message
		f        func()
		want     string // part of the message, if it is our own or informative
	}{
		// shapes
		{"Add", "shapes that do not broadcast", func() { x.Add(f(2)) }, "float32[2,3], float32[2]"},
		{"Add_", "a result larger than its receiver", func() { v.Add_(x) }, ""},
		{"MatMul", "inner sizes", func() { x.MatMul(x) }, "mat1 and mat2 shapes"},
		{"MM", "a vector", func() { x.MM(v) }, ""},
		{"BMM", "matrices without a batch", func() { x.BMM(x) }, ""},
		{"AddMM", "inner sizes", func() { x.AddMM(x, x) }, ""},
		{"MV", "a matrix", func() { x.MV(x) }, ""},
		{"Dot", "different sizes", func() { v.Dot(f(4)) }, ""},
		{"Outer", "a matrix", func() { x.Outer(v) }, ""},
		{"Linear", "weights of another size", func() { x.Linear(f(4, 4), tensor{}) }, ""},
		{"Linear", "a bias of another size", func() { x.Linear(f(4, 3), f(5)) }, ""},
		{"View", "another number of elements", func() { x.View(4) }, ""},
		{"View", "two open sizes", func() { x.View(-1, -1) }, ""},
		{"View", "memory that is not contiguous", func() { x.T().View(6) }, ""},
		{"Reshape", "another number of elements", func() { x.Reshape(5, -1) }, ""},
		{"Reshape", "a negative size", func() { x.Reshape(-2, 3) }, ""},
		{"Expand", "a size that is not 1", func() { x.Expand(4, 3) }, ""},
		{"ExpandAs", "fewer dimensions", func() { x.ExpandAs(v) }, ""},
		{"Repeat", "fewer numbers than dimensions", func() { x.Repeat(2) }, ""},
		{"Repeat", "a negative number", func() { x.Repeat(-1, 2) }, ""},
		{"Cat", "an empty list", func() { torch.Cat(nil, 0) }, "non-empty list"},
		{"Cat", "different sizes", func() { torch.Cat([]tensor{x, m}, 1) }, "float32[2,3], float32[3,3]"},
		{"Stack", "an empty list", func() { torch.Stack([]tensor{}, 0) }, ""},
		{"Stack", "different sizes", func() { torch.Stack([]tensor{x, m}, 0) }, ""},
		{"T", "three dimensions", func() { f(1, 2, 3).T() }, ""},
		{"Diag", "three dimensions", func() { f(1, 2, 3).Diag(0) }, ""},
		{"Tril", "one dimension", func() { v.Tril(0) }, ""},
		{"Conv2d", "channels", func() { image.Conv2d(f(3, 5, 2, 2), tensor{}, torch.ConvOptions{}) }, ""},
		{"Conv2d", "a kernel larger than the image", func() {
			image.Conv2d(f(3, 2, 9, 9), tensor{}, torch.ConvOptions{})
		}, ""},
		{"Conv2d", "stride 0", func() {
			image.Conv2d(f(3, 2, 2, 2), tensor{}, torch.ConvOptions{Stride: []int64{0}})
		}, ""},
		{"Conv2d", "negative padding", func() {
			image.Conv2d(f(3, 2, 2, 2), tensor{}, torch.ConvOptions{Padding: []int64{-1}})
		}, ""},
		{"Conv2d", "dilation 0", func() {
			image.Conv2d(f(3, 2, 2, 2), tensor{}, torch.ConvOptions{Dilation: []int64{0}})
		}, ""},
		{"Conv2d", "negative groups", func() {
			image.Conv2d(f(3, 2, 2, 2), tensor{}, torch.ConvOptions{Groups: -1})
		}, ""},
		{"Conv2d", "groups that do not divide", func() {
			image.Conv2d(f(3, 1, 2, 2), tensor{}, torch.ConvOptions{Groups: 2})
		}, ""},
		{"Conv2d", "three strides", func() {
			image.Conv2d(f(3, 2, 2, 2), tensor{}, torch.ConvOptions{Stride: []int64{1, 1, 1}})
		}, ""},
		{"Conv1d", "an image", func() { image.Conv1d(f(3, 2, 2), tensor{}, torch.ConvOptions{}) }, ""},
		{"Conv1d", "a bias of another size", func() { f(1, 2, 5).Conv1d(f(3, 2, 2), f(4), torch.ConvOptions{}) }, ""},
		{"MaxPool2d", "no kernel", func() { image.MaxPool2d(torch.PoolOptions{}) }, ""},
		{"MaxPool2d", "kernel 0", func() { image.MaxPool2d(torch.PoolOptions{Kernel: []int64{0}}) }, ""},
		{"MaxPool2d", "stride 0", func() {
			image.MaxPool2d(torch.PoolOptions{Kernel: []int64{2}, Stride: []int64{0}})
		}, ""},
		{"MaxPool2d", "padding beyond half the kernel", func() {
			image.MaxPool2d(torch.PoolOptions{Kernel: []int64{2}, Padding: []int64{2}})
		}, ""},
		{"AvgPool2d", "no kernel", func() { image.AvgPool2d(torch.PoolOptions{}) }, ""},
		{"AvgPool2d", "stride 0", func() {
			image.AvgPool2d(torch.PoolOptions{Kernel: []int64{2}, Stride: []int64{0, 0}})
		}, ""},
		{"AdaptiveAvgPool2d", "no size", func() { image.AdaptiveAvgPool2d(nil) }, ""},
		{"AdaptiveAvgPool2d", "a negative size", func() { image.AdaptiveAvgPool2d([]int64{-1, 2}) }, ""},
		{"LayerNorm", "another shape", func() { x.LayerNorm([]int64{4}, tensor{}, tensor{}, 1e-5) }, ""},
		{"LayerNorm", "no shape", func() { x.LayerNorm(nil, tensor{}, tensor{}, 1e-5) }, ""},
		{"BatchNorm", "running statistics of another size", func() {
			x.BatchNorm(tensor{}, tensor{}, f(2), f(2), true, 0.1, 1e-5)
		}, ""},
		{"BatchNorm", "evaluation without statistics", func() {
			x.BatchNorm(tensor{}, tensor{}, tensor{}, tensor{}, false, 0.1, 1e-5)
		}, ""},
		{"ScaledDotProductAttention", "sizes", func() {
			f(1, 1, 2, 4).ScaledDotProductAttention(f(1, 1, 3, 5), f(1, 1, 3, 5), tensor{}, 0, false, 0)
		}, ""},
		{"LSTM", "too few weights", func() { f(2, 1, 3).LSTM(f(1, 1, 4), f(1, 1, 4), []tensor{f(16, 3)}, rnn) }, ""},
		{"LSTM", "no weights", func() { f(2, 1, 3).LSTM(f(1, 1, 4), f(1, 1, 4), nil, rnn) }, ""},
		{"LSTM", "weights of other sizes", func() {
			f(2, 1, 3).LSTM(f(1, 1, 4), f(1, 1, 4), []tensor{f(16, 5), f(16, 4), f(16), f(16)}, rnn)
		}, ""},
		{"LSTM", "layers beyond the weights", func() {
			f(2, 1, 3).LSTM(f(1, 1, 4), f(1, 1, 4), []tensor{f(16, 3), f(16, 4), f(16), f(16)},
				torch.RNNOptions{HasBiases: true, Layers: 2})
		}, ""},
		{"GRU", "no weights", func() { f(2, 1, 3).GRU(f(1, 1, 4), nil, rnn) }, ""},
		{"GRU", "a vector", func() { v.GRU(f(1, 1, 4), []tensor{f(12, 3), f(12, 4), f(12), f(12)}, rnn) }, ""},
		{"LSTM", "no layers", func() {
			f(2, 1, 3).LSTM(f(1, 1, 4), f(1, 1, 4), []tensor{f(16, 3), f(16, 4), f(16), f(16)},
				torch.RNNOptions{HasBiases: true})
		}, ""},
		{"CrossEntropyLoss", "a class out of range", func() {
			x.CrossEntropyLoss(i(0, 7), tensor{}, torch.ReductionMean, -100, 0)
		}, "out of bounds"},
		{"CrossEntropyLoss", "another number of targets", func() {
			x.CrossEntropyLoss(i(0), tensor{}, torch.ReductionMean, -100, 0)
		}, ""},
		{"CrossEntropyLoss", "an unknown reduction", func() { x.CrossEntropyLoss(i(0, 1), tensor{}, 7, -100, 0) },
			"there is no reduction number 7"},
		{"CrossEntropyLoss", "smoothing of 2", func() {
			x.CrossEntropyLoss(i(0, 1), tensor{}, torch.ReductionMean, -100, 2)
		}, ""},
		{"CrossEntropyLoss", "weights of another size", func() {
			x.CrossEntropyLoss(i(0, 1), f(9), torch.ReductionMean, -100, 0)
		}, ""},
		{"NLLLoss", "a negative class", func() { x.NLLLoss(i(0, -1), tensor{}, torch.ReductionSum, -100) },
			"out of bounds"},
		{"NLLLoss", "float classes", func() { x.NLLLoss(f(2), tensor{}, torch.ReductionSum, -100) }, ""},
		{"MSELoss", "an unknown reduction", func() { x.MSELoss(x, -1) }, "reduction"},
		{"L1Loss", "shapes that do not broadcast", func() { x.L1Loss(f(2), torch.ReductionMean) }, ""},
		{"BinaryCrossEntropyWithLogits", "another shape", func() {
			x.BinaryCrossEntropyWithLogits(v.At(torch.Range(0, 2)), tensor{}, tensor{}, 1)
		}, ""},
		{"CTCLoss", "a label beyond the classes", func() {
			f(5, 1, 3).CTCLoss(i(1, 1000000).View(1, 2), i(5), i(2), 0, 1, false)
		}, "there are 3 classes"},
		{"CTCLoss", "a negative label", func() {
			f(5, 1, 3).CTCLoss(i(-4, 1).View(1, 2), i(5), i(2), 0, 1, false)
		}, "targets are -4 to 1"},
		{"CTCLoss", "a blank beyond the classes", func() {
			f(5, 1, 3).CTCLoss(i(1, 2).View(1, 2), i(5), i(2), 9, 1, false)
		}, ""},
		{"CTCLoss", "a length beyond the inputs", func() {
			f(5, 1, 3).CTCLoss(i(1, 2).View(1, 2), i(50), i(2), 0, 1, false)
		}, ""},
		{"CTCLoss", "a length beyond the targets", func() {
			f(5, 1, 3).CTCLoss(i(1, 2).View(1, 2), i(5), i(50), 0, 1, false)
		}, ""},
		{"CTCLoss", "a negative length", func() {
			f(5, 1, 3).CTCLoss(i(1, 2).View(1, 2), i(5), i(-1), 0, 1, false)
		}, ""},
		{"CTCLoss", "lengths for another batch", func() {
			f(5, 1, 3).CTCLoss(i(1, 2).View(1, 2), i(5, 5), i(2, 2), 0, 1, false)
		}, ""},
		{"OneHot", "a negative class", func() { i(-3).OneHot(4) }, ""},
		{"OneHot", "a class out of range", func() { i(9).OneHot(4) }, ""},
		{"Pad", "an odd number of borders", func() { x.Pad(0, 1) }, ""},
		{"Pad", "more borders than the tensor is large", func() { x.Pad(0, -9, -9) }, ""},
		// dimensions and indices
		{"Size", "a dimension out of range", func() { x.Size(2) }, "dimension 2 is out of range: the tensor has 2"},
		{"SumDim", "a dimension out of range", func() { x.SumDim([]int64{5}, false, 0) }, ""},
		{"SumDim", "a dimension twice", func() { x.SumDim([]int64{0, 0}, false, 0) }, ""},
		{"MaxDim", "a dimension out of range", func() { x.MaxDim(-3, false) }, ""},
		{"ArgMax", "an empty tensor", func() { f(0, 3).ArgMax(0, false) }, ""},
		{"Max", "an empty tensor", func() { f(0).Max() }, ""},
		{"Select", "an index out of range", func() { x.Select(0, 2) }, ""},
		{"Narrow", "a length out of range", func() { x.Narrow(1, 2, 5) }, ""},
		{"Narrow", "a negative length", func() { x.Narrow(1, 0, -1) }, ""},
		{"Slice", "step 0", func() { x.Slice(0, 0, 1, 0) }, ""},
		{"Split", "size 0", func() { x.Split(0, 0) }, ""},
		{"Split", "a negative size", func() { x.Split(-2, 0) }, ""},
		{"Chunk", "no chunks", func() { x.Chunk(0, 0) }, ""},
		{"Unbind", "a number", func() { f().Unbind(0) }, ""},
		{"TopK", "more than there are", func() { x.TopK(4, 1, true, true) }, ""},
		{"TopK", "fewer than none", func() { x.TopK(-1, 1, true, true) }, ""},
		{"Permute", "a dimension twice", func() { x.Permute(0, 0) }, ""},
		{"Permute", "too few dimensions", func() { x.Permute(0) }, ""},
		{"Flip", "a dimension twice", func() { x.Flip(1, 1) }, ""},
		{"Roll", "shifts without dimensions", func() { x.Roll([]int64{1, 2}, []int64{0}) }, ""},
		{"Roll", "no shifts", func() { x.Roll(nil, nil) }, ""},
		{"IndexSelect", "an index out of range", func() { x.IndexSelect(0, i(5)) }, ""},
		{"IndexSelect", "a float index", func() { x.IndexSelect(0, v) }, ""},
		{"Gather", "an index out of range", func() { x.Gather(1, i(9).View(1, 1)) }, ""},
		{"Scatter_", "an index out of range", func() { f(2, 3).Scatter_(1, i(9).View(1, 1), f(1, 1)) }, ""},
		{"Scatter_", "another dtype", func() { f(2, 3).Scatter_(1, i(0).View(1, 1), i(1).View(1, 1)) }, ""},
		{"IndexAdd_", "an index out of range", func() { f(2, 3).IndexAdd_(0, i(4), f(1, 3)) }, ""},
		{"Embedding", "an index out of range", func() { i(7).Embedding(m, -1) }, ""},
		{"Embedding", "float indices", func() { v.Embedding(m, -1) }, ""},
		{"At", "an index out of range", func() { x.At(i(5)) }, ""},
		{"Select", "a number out of range", func() { x.At(5) }, ""},
		{"At", "too many positions", func() { x.At(0, 0, 0) }, ""},
		{"At", "a string", func() { x.At("a") }, "found string"},
		{"At", "two ellipses", func() { x.At(torch.Ellipsis, torch.Ellipsis) }, "only one Ellipsis"},
		{"At", "a negative step", func() { x.At(torch.RangeStep(2, 0, -1)) }, "use Flip"},
		{"At", "a mask of another shape", func() { x.At(torch.From([]bool{true, false, true})) }, ""},
		{"SetAt", "a value of another shape", func() { f(2, 3).SetAt(f(4), i(0)) }, ""},
		{"MaskedFill", "a mask that is not bool", func() { x.MaskedFill(x, 1) }, ""},
		{"MaskedSelect", "a mask of another shape", func() { x.MaskedSelect(torch.From([]bool{true, false})) }, ""},
		// dtypes and values
		{"AddScalar", "a string", func() { x.AddScalar("1") }, "found string"},
		{"Clamp", "no limit", func() { x.Clamp(nil, nil) }, ""},
		{"AddScalar", "no number", func() { x.AddScalar(nil) }, "want a number"},
		{"MulScalar_", "a float into integers", func() { i(1, 2).MulScalar_(0.5) }, ""},
		{"MatMul", "different dtypes", func() { x.MatMul(torch.TensorOptions{DType: torch.Float64}.Ones(3, 3)) }, ""},
		{"Mean", "integers", func() { i(1, 2).Mean(0) }, ""},
		{"GELU", "an unknown approximation", func() { x.GELU("cubic") }, ""},
		{"Sub", "bools", func() { torch.From([]bool{true}).Sub(torch.From([]bool{true})) }, ""},
		{"Softmax", "integers", func() { i(1, 2).Softmax(0, 0) }, ""},
		{"Dropout", "a probability of 2", func() { x.Dropout(2, true) }, ""},
		{"Dropout", "a negative probability", func() { x.Dropout(-0.1, true) }, ""},
		{"Bernoulli_", "a probability of 2", func() { x.Clone().Bernoulli_(2, nil) }, ""},
		{"Uniform_", "a range upside down", func() { x.Clone().Uniform_(2, 1, nil) }, ""},
		{"Uniform_", "integers", func() { i(1).Uniform_(0, 1, nil) }, ""},
		{"Normal_", "a negative deviation", func() { x.Clone().Normal_(0, -1, nil) }, ""},
		{"RandomFrom_", "an empty range", func() { i(1).RandomFrom_(3, 3, nil) }, ""},
		{"Multinomial", "more draws than weights", func() { v.Multinomial(9, false, nil) }, ""},
		{"Multinomial", "no draws", func() { v.Multinomial(0, true, nil) }, ""},
		{"Multinomial", "negative weights", func() { v.Neg().Multinomial(1, true, nil) }, ""},
		{"DType", "an unknown element type", func() { x.ToDType(99) }, "no element type number 99"},
		{"DType", "a negative element type", func() { torch.TensorOptions{DType: -3}.Zeros(1) }, ""},
		{"CUDA", "a negative GPU", func() { torch.CUDA(-1) }, "not -1"},
		{"CUDA", "a GPU beyond the last number", func() { torch.CUDA(128) }, "not 128"},
		{"ToDevice", "a GPU that is not there", func() { x.ToDevice(torch.CUDA(100)) }, ""},
		{"ContiguousIn", "an unknown memory format", func() { x.ContiguousIn(9) }, ""},
		{"InMemoryFormat", "a format for four dimensions", func() { x.InMemoryFormat(torch.ChannelsLast) }, ""},
		{"NewGenerator", "a GPU that is not there", func() { torch.NewGeneratorOn(torch.CUDA(100), 1) }, ""},
		{"DefaultGenerator", "a GPU that is not there", func() { torch.DefaultGenerator(torch.CUDA(100)) }, ""},
		{"Generator.Seed", "no generator", func() { (*torch.Generator)(nil).Seed(1) }, "generator is nil"},
		{"Generator.State", "a generator that was not made", func() { new(torch.Generator).State() },
			"generator is nil"},
		{"Generator.SetState", "a state of another size", func() { torch.NewGenerator(1).SetState([]byte{1, 2, 3}) },
			""},
		{"Generator.SetState", "no state", func() { torch.NewGenerator(1).SetState(nil) }, ""},
		{"SetThreads", "no threads", func() { torch.SetThreads(0) }, "must be positive"},
		{"SetFloat32MatmulPrecision", "an unknown precision", func() { torch.SetFloat32MatmulPrecision("best") }, ""},
		// special functions, statistics
		{"BitwiseAnd", "floats", func() { x.BitwiseAnd(x) }, ""},
		{"BitwiseNot", "floats", func() { x.BitwiseNot() }, ""},
		{"BitwiseLeftShift", "bools", func() {
			torch.From([]bool{true}).BitwiseLeftShift(torch.From([]bool{true}))
		}, ""},
		{"FMod", "integers by 0", func() { i(1).FMod(i(0)) }, ""},
		{"ClampTensor", "no limit", func() { x.ClampTensor(tensor{}, tensor{}) }, ""},
		{"Heaviside", "different dtypes", func() { x.Heaviside(i(1)) }, ""},
		{"VarDim", "a dimension out of range", func() { x.VarDim([]int64{7}, true, false) }, ""},
		{"AMinMax", "a dimension out of range", func() { x.AMinMax(new(int64(7)), false) }, ""},
		{"AMinMax", "an empty tensor", func() { f(0).AMinMax(nil, false) }, ""},
		{"CountNonZero", "a dimension out of range", func() { x.CountNonZero(new(int64(7))) }, ""},
		{"MedianDim", "an empty dimension", func() { f(2, 0).MedianDim(1, false) }, ""},
		{"Mode", "an empty dimension", func() { f(2, 0).Mode(1, false) }, ""},
		{"KthValue", "k 0", func() { x.KthValue(0, 1, false) }, ""},
		{"KthValue", "more than there are", func() { x.KthValue(9, 1, false) }, ""},
		{"Quantile", "a q above 1", func() { x.Quantile(torch.From([]float32{1.5}), nil, false, "linear") }, ""},
		{"QuantileScalar", "a negative q", func() { x.QuantileScalar(-0.5, nil, false, "linear") }, ""},
		{"QuantileScalar", "an unknown interpolation", func() { x.QuantileScalar(0.5, nil, false, "cubic") }, ""},
		{"QuantileScalar", "an empty tensor", func() { f(0).QuantileScalar(0.5, nil, false, "linear") }, ""},
		{"CumMax", "a dimension out of range", func() { x.CumMax(5) }, ""},
		{"Diff", "a negative order", func() { x.Diff(-1, 0, tensor{}, tensor{}) }, ""},
		{"UniqueDim", "a dimension out of range", func() { x.UniqueDim(4, true, true, true) }, ""},
		{"HistC", "no bins", func() { x.HistC(0, 0, 1) }, ""},
		{"HistC", "limits upside down", func() { x.HistC(3, 1, 0) }, ""},
		{"BinCount", "a negative integer", func() { i(-1).BinCount(tensor{}, 0) }, ""},
		{"BinCount", "floats", func() { v.BinCount(tensor{}, 0) }, ""},
		{"BinCount", "weights of another size", func() { i(1, 2).BinCount(v, 0) }, ""},
		{"BinCount", "a negative length", func() { i(1).BinCount(tensor{}, -4) }, ""},
		{"SearchSorted", "another batch", func() { x.SearchSorted(f(3, 1), false) }, ""},
		{"Bucketize", "boundaries in two dimensions", func() { v.Bucketize(x, false) }, ""},
		{"Trace", "a vector", func() { v.Trace() }, ""},
		{"Cov", "negative weights", func() { x.Cov(1, i(-1, 1, 1), tensor{}) }, ""},
		{"IsClose", "a negative tolerance", func() { x.IsClose(x, -1, 0, false) }, ""},
		// scatter, gather, shape
		{"Take", "an index out of range", func() { x.Take(i(6)) }, ""},
		{"Put_", "an index out of range", func() { f(2).Put_(i(5), f(1), false) }, ""},
		{"Put_", "another number of values", func() { f(2).Put_(i(0), f(2), false) }, ""},
		{"TakeAlongDim", "float indices", func() { x.TakeAlongDim(x, new(int64(1))) }, ""},
		{"IndexFill_", "an index out of range", func() { f(2, 3).IndexFill_(0, i(4), 1) }, ""},
		{"IndexCopy_", "an index out of range", func() { f(2, 3).IndexCopy_(0, i(4), f(1, 3)) }, ""},
		{"IndexCopy_", "another shape", func() { f(2, 3).IndexCopy_(0, i(1), f(1, 4)) }, ""},
		{"IndexPut", "an index out of range", func() { x.IndexPut([]tensor{i(5)}, f(3), true) }, ""},
		{"IndexPut", "too many indices", func() { x.IndexPut([]tensor{i(0), i(0), i(0)}, f(1), true) }, ""},
		{"ScatterAdd_", "an index out of range", func() { f(2, 3).ScatterAdd_(1, i(9).View(1, 1), f(1, 1)) }, ""},
		{"ScatterReduce", "an unknown reduction", func() {
			x.ScatterReduce(1, i(0).View(1, 1), f(1, 1), "median", true)
		}, ""},
		{"ScatterReduce", "an index out of range", func() {
			x.ScatterReduce(1, i(-9).View(1, 1), f(1, 1), "sum", true)
		}, ""},
		{"MaskedScatter", "too few elements", func() { x.MaskedScatter(x.EqScalar(1), f(2)) }, ""},
		{"Diagonal", "one dimension twice", func() { x.Diagonal(0, 1, 1) }, ""},
		{"DiagEmbed", "a dimension out of range", func() { x.DiagEmbed(0, 7, 1) }, ""},
		{"MoveDim", "a dimension out of range", func() { x.MoveDim(0, 5) }, ""},
		{"Unflatten", "sizes that do not fit", func() { x.Unflatten(1, 2, 2) }, ""},
		{"Unflatten", "no sizes", func() { x.Unflatten(1) }, ""},
		{"BroadcastTo", "a size that is not 1", func() { x.BroadcastTo(2, 4) }, ""},
		{"Tile", "a negative number", func() { x.Tile(-1) }, ""},
		{"RepeatInterleave", "a negative number", func() { x.RepeatInterleave(-1, nil) }, ""},
		{"RepeatInterleaveTensor", "negative numbers", func() { v.RepeatInterleaveTensor(i(1, -5, 1), nil) }, ""},
		{"RepeatInterleaveTensor", "another number of numbers", func() { v.RepeatInterleaveTensor(i(1, 5), nil) }, ""},
		{"Unfold", "windows beyond the tensor", func() { x.Unfold(1, 9, 1) }, ""},
		{"Unfold", "step 0", func() { x.Unfold(1, 2, 0) }, ""},
		{"Rot90", "one dimension", func() { v.Rot90(1, []int64{0, 1}) }, ""},
		{"Rot90", "three dimensions", func() { x.Rot90(1, []int64{0, 1, 2}) }, ""},
		{"HStack", "an empty list", func() { torch.HStack(nil) }, ""},
		{"VStack", "different sizes", func() { torch.VStack([]tensor{x, f(2)}) }, ""},
		{"BlockDiag", "three dimensions", func() { torch.BlockDiag([]tensor{f(1, 2, 3)}) }, ""},
		{"Meshgrid", "a matrix", func() { torch.Meshgrid([]tensor{x}, "ij") }, ""},
		{"Meshgrid", "an unknown order", func() { torch.Meshgrid([]tensor{v}, "zz") }, ""},
		{"TensorSplit", "no sections", func() { x.TensorSplit(0, 0) }, ""},
		{"TensorSplit", "a number", func() { f().TensorSplit(2, 0) }, ""},
		{"AsStrided", "beyond its memory", func() { x.AsStrided([]int64{9, 9}, []int64{9, 1}, nil) }, ""},
		{"AsStrided", "a negative stride", func() { x.AsStrided([]int64{2}, []int64{-1}, new(int64(1))) }, ""},
		{"AsStrided", "a negative start", func() { x.AsStrided([]int64{2}, []int64{1}, new(int64(-3))) }, ""},
		{"AsStrided", "sizes without strides", func() { x.AsStrided([]int64{2, 2}, []int64{1}, nil) }, ""},
		// products, linear algebra, Fourier transforms, complex numbers
		{"Einsum", "too few tensors", func() { torch.Einsum("ij,jk->ik", []tensor{x}) }, ""},
		{"Einsum", "a letter for another number of dimensions", func() { torch.Einsum("ijk->i", []tensor{x}) }, ""},
		{"Einsum", "an unknown result", func() { torch.Einsum("ij->z", []tensor{x}) }, ""},
		{"Einsum", "no tensors", func() { torch.Einsum("", nil) }, ""},
		{"BAddBMM", "inner sizes", func() { f(1, 2, 2).BAddBMM(f(1, 2, 3), f(1, 2, 3), 1, 1) }, ""},
		{"Addr", "matrices", func() { x.Addr(x, x, 1, 1) }, ""},
		{"CDist", "different columns", func() { x.CDist(f(2, 4), 2) }, ""},
		{"CDist", "a negative norm", func() { x.CDist(x, -1) }, ""},
		{"Inv", "a matrix that is not square", func() { x.Inv() }, ""},
		{"Inv", "a singular matrix", func() { torch.Zeros(2, 2).Inv() }, "singular"},
		{"Det", "a vector", func() { v.Det() }, ""},
		{"Solve", "another size", func() { m.Solve(f(4, 4), true) }, ""},
		{"Cholesky", "a matrix that is not positive definite", func() { m.Neg().Cholesky(false) },
			"not positive-definite"},
		{"Cholesky", "integers", func() { i(1, 0, 0, 1).View(2, 2).Cholesky(false) }, ""},
		{"QR", "an unknown mode", func() { x.QR("full") }, ""},
		{"SVD", "a vector", func() { v.SVD(true) }, ""},
		{"EigH", "an unknown triangle", func() { m.EigH("X") }, ""},
		{"EigH", "nan", func() { m.MulScalar(math.NaN()).EigH("L") }, ""},
		{"LstSq", "an unknown driver", func() { x.LstSq(f(2, 1), nil, "magic") }, ""},
		{"MatrixNorm", "a vector", func() { v.MatrixNorm(2, []int64{-2, -1}, false, 0) }, ""},
		{"MatrixNorm", "an unknown order", func() { x.MatrixNorm(7, []int64{-2, -1}, false, 0) }, ""},
		{"MatrixNormNamed", "an unknown name", func() { x.MatrixNormNamed("max", []int64{-2, -1}, false, 0) }, ""},
		{"MatrixPower", "the inverse of a singular matrix", func() { m.MatrixPower(-1) }, "singular"},
		{"Cross", "vectors of size 2", func() { f(2).Cross(f(2), -1) }, ""},
		{"FFT", "no elements", func() { v.FFT(new(int64(0)), -1, "") }, ""},
		{"FFT", "an unknown norm", func() { v.FFT(nil, -1, "unit") }, ""},
		{"RFFT", "complex numbers", func() { v.FFT(nil, -1, "").RFFT(nil, -1, "") }, ""},
		{"IRFFT", "one element", func() { f(1).IRFFT(nil, -1, "") }, ""},
		{"FFT2", "a vector", func() { v.FFT2(nil, []int64{-2, -1}, "") }, ""},
		{"Imag", "real numbers", func() { v.Imag() }, ""},
		{"ViewAsReal", "real numbers", func() { v.ViewAsReal() }, ""},
		{"ViewAsComplex", "a last size of 3", func() { x.ViewAsComplex() }, ""},
		{"Complex", "different dtypes", func() {
			torch.Complex(v, torch.TensorOptions{DType: torch.Float64}.Ones(3))
		}, ""},
		{"Polar", "integers", func() { torch.Polar(i(1), i(1)) }, ""},
		// random
		{"Bernoulli", "a probability of 2", func() { f(2).MulScalar(2).Bernoulli(nil) }, ""},
		{"Poisson", "negative rates", func() { v.Neg().Poisson(nil) }, ""},
		{"Exponential_", "a negative rate", func() { f(2).Exponential_(-1, nil) }, ""},
		{"LogNormal_", "a negative deviation", func() { f(2).LogNormal_(0, -1, nil) }, ""},
		{"Geometric_", "a probability of 2", func() { f(2).Geometric_(2, nil) }, ""},
		{"Cauchy_", "integers", func() { i(1).Cauchy_(0, 1, nil) }, ""},
		{"RandIntLike", "an empty range", func() { x.RandIntLike(3, 3) }, ""},
		// making and reading
		{"Zeros", "a negative size", func() { torch.Zeros(2, -1) }, ""},
		{"Empty", "more elements than an int64 counts", func() { torch.Empty(1<<40, 1<<40) }, ""},
		{"Full", "a string", func() { torch.Full("x", 2) }, "found string"},
		{"Eye", "a negative size", func() { torch.Eye(-1) }, ""},
		{"Arange", "step 0", func() { torch.TensorOptions{}.Arange(0, 1, 0) }, ""},
		{"Arange", "a step that is 0 as an integer", func() {
			torch.TensorOptions{DType: torch.Int64}.Arange(0, 5, 0.5)
		}, "the step 0.5 is 0 as an int64"},
		{"Arange", "the wrong direction", func() { torch.TensorOptions{}.Arange(1, 0, 1) }, ""},
		{"Arange", "nan", func() { torch.TensorOptions{}.Arange(0, math.NaN(), 1) }, ""},
		{"Linspace", "negative steps", func() { torch.Linspace(0, 1, -1) }, ""},
		{"RandInt", "an empty range", func() { torch.RandInt(3, 3, 2) }, ""},
		{"RandPerm", "a negative number", func() { torch.RandPerm(-1) }, ""},
		{"RandPerm", "integers too small", func() { torch.TensorOptions{DType: torch.Uint8}.RandPerm(1000) }, ""},
		{"FromBytes", "another number of elements", func() { torch.From([]float32{1, 2, 3}, 2, 2) },
			"has 16 bytes, but 12 were given"},
		{"FromBytes", "a negative size", func() { torch.From([]float32{1}, -1) }, ""},
		{"Item", "many elements", func() { x.Item() }, "6 elements"},
		{"Item", "no elements", func() { f(0).Item() }, "0 elements"},
		{"Item", "a complex number", func() { torch.ScalarTensor(1 + 2i).Item() }, "complex"},
		{"Values", "another element type", func() { torch.Values[int64](x) },
			"elements of dtype float32 cannot be read as int64; convert with To"},
		{"CopyTo", "another number of elements", func() { torch.CopyTo(make([]float32, 5), x) }, "room for 5"},
		{"Copy_", "another shape", func() { f(2, 3).Copy_(f(5)) }, ""},
		{"SetData_", "a tensor with a history", func() { leaf.MulScalar(2).SetData_(i(1)) }, ""},
		// autograd
		{"Backward", "a tensor with many elements", func() { leaf.MulScalar(2).Backward() }, ""},
		{"Backward", "a tensor without history", func() { v.Sum(0).Backward() }, "does not require grad"},
		{"Backward", "twice", func() { y := leaf.Square().Sum(0); y.Backward(); y.Backward() }, "second time"},
		{"Backward", "too many gradients", func() {
			torch.Backward(torch.BackwardOptions{Gradients: []tensor{v, v}}, leaf)
		}, "2 gradients were given for 1"},
		{"Backward", "gradients of another shape", func() {
			torch.Backward(torch.BackwardOptions{Gradients: []tensor{f(5)}}, leaf.MulScalar(2))
		}, ""},
		{"Grad", "no inputs", func() { torch.Grad([]tensor{leaf.Sum(0)}, nil, torch.GradOptions{}) }, "at least one"},
		{"Grad", "an input that is not used", func() {
			torch.Grad([]tensor{leaf.Sum(0)}, []tensor{f(1).RequiresGrad()}, torch.GradOptions{})
		}, ""},
		{"SetRequiresGrad", "integers", func() { i(1).RequiresGrad() }, ""},
		{"SetRequiresGrad", "not a leaf", func() { leaf.MulScalar(2).SetRequiresGrad(false) }, ""},
		{"SetGrad", "another shape", func() { leaf.SetGrad(f(3)) }, "shape, dtype and device"},
		{"SetGrad", "another dtype", func() { leaf.SetGrad(i(1, 2)) }, "float32[2], int64[2]"},
		{"Add_", "a leaf in place", func() { leaf.Add_(f(2)) }, "leaf"},
		// lists
		{"FusedAdam", "no states", func() { list.FusedAdam(nil, nil, nil, nil, torch.FusedOptions{}) },
			"expAvgs is nil"},
		{"FusedAdam", "states of other shapes", func() {
			l, leaf := torch.NewList(f(1)), f(2).RequiresGrad()
			leaf.SetGrad(f(2))
			torch.NewList(leaf).FusedAdam(l, l, nil, l, torch.FusedOptions{})
		}, "parameter 0 has the shape [2] and its exp_avg [1]"},
		{"SetGrads", "another shape", func() { list.SetGrads([]tensor{f(3)}) },
			"tensor 0 has the shape [2] and its gradient [3]"},
		{"FusedAdam", "too many states", func() {
			l := torch.NewList(f(2), f(2))
			list.FusedAdam(l, l, nil, l, torch.FusedOptions{})
		}, "2 expAvgs were given for 1"},
		{"FusedAdam", "AMSGrad without its states", func() {
			l := torch.NewList(f(2))
			list.FusedAdam(l, l, nil, l, torch.FusedOptions{AMSGrad: true})
		}, "maxExpAvgSqs is nil"},
		{"FusedSGD", "momentum without buffers", func() { list.FusedSGD(nil, torch.FusedOptions{Momentum: 0.9}) },
			"momentumBuffers is nil"},
		// Call
		{"aten::nothing", "no such operator", call("aten::nothing"), "no operator"},
		{"aten::add.Nothing", "no such overload", call("aten::add.Nothing"), "no operator"},
		{"add", "no namespace", call("add", x, x), "aten::add"},
		{"aten::neg", "too few arguments", call("aten::neg"), `argument "self" is missing`},
		{"aten::neg", "too many arguments", call("aten::neg", x, x), "takes at most 1 arguments, but 2 were given"},
		{"aten::neg", "a number for a tensor", call("aten::neg", 3), `argument "self" must be Tensor, but is an int`},
		{"aten::neg", "a list for a tensor", call("aten::neg", []int64{1}), "but is a list of ints"},
		{"aten::neg", "a list of tensors for a tensor", call("aten::neg", []tensor{x}), "but is a list of tensors"},
		{"aten::cat", "a tensor for a list", call("aten::cat", x), ""},
		{"aten::cat", "numbers for tensors", call("aten::cat", []int64{1}), "but is a list of ints"},
		{"aten::sum.dim_IntList", "tensors for numbers", call("aten::sum.dim_IntList", x, []tensor{x}), ""},
		{"aten::topk", "a float for an int", call("aten::topk", x, 1.5), "but is a float"},
		{"aten::gelu", "a number for a string", call("aten::gelu", x, 1), "but is an int"},
		{"aten::dropout", "a string for a number", call("aten::dropout", x, "p", true), "but is a string"},
		{"aten::dropout", "a number for a bool", call("aten::dropout", x, 0.5, 7), ""},
		{"aten::neg", "no tensor", call("aten::neg", nil), ""},
		{"aten::neg", "the undefined tensor", call("aten::neg", tensor{}), ""},
		{"aten::linear", "an undefined tensor that must be there", call("aten::linear", x, tensor{}), ""},
		{"aten::neg", "a Go type without a meaning", call("aten::neg", struct{}{}), "a struct {} cannot be given"},
		{"aten::neg", "a channel", call("aten::neg", make(chan int)), "cannot be given"},
		{"aten::to.dtype", "an unknown element type", call("aten::to.dtype", x, torch.DType(99)), ""},
		{"aten::rand", "a tensor for sizes", call("aten::rand", x), ""},
		{"aten::multinomial", "a number for a generator", call("aten::multinomial", v, 1, true, 5), ""},
		{"aten::equal", "a result that is no tensor", call("aten::equal", x, x), "use CallAny"},
		{"aten::_foreach_mul.ScalarList", "tensors for numbers", call("aten::_foreach_mul.ScalarList", []tensor{x},
			[]tensor{x}), "must be Scalar[], but is a list of tensors"},
		{"aten::_foreach_mul.ScalarList", "too few numbers", call("aten::_foreach_mul.ScalarList", []tensor{x, x},
			[]float64{1}), ""},
		{"aten::lerp_.Scalar", "no kernel for a sparse tensor", call("aten::lerp_.Scalar", x, call1("aten::to_sparse",
			m), 0.5), "SparseCPU' backend."},
	}
	for _, c := range cases {
		t.Run(c.op+"/"+c.name, func(t *testing.T) {
			shared := []tensor{x, m, v, image, leaf}
			before := useCounts(shared)
			var e *torch.Error
			torch.Scope(func() { e = mustFail(t, c.f) })
			if after := useCounts(shared); !slices.Equal(after, before) {
				t.Errorf("the failed call leaves its arguments with %d references, want %d", after, before)
			}
			if e.Op != c.op && !(c.op == "DType" && strings.HasPrefix(e.Op, "aten::")) && !(e.Op == "DType") {
				t.Errorf("the error names %s, want %s: %v", e.Op, c.op, e)
			}
			if e.Msg == "" || strings.Contains(e.Msg, "Exception raised from") || !strings.Contains(e.Error(), c.want) {
				t.Errorf("%v\nwant it to say %q, without a C++ backtrace", e, c.want)
			}
			if e.Code == torch.ErrInternal {
				t.Errorf("an internal error: %v", e)
			}
		})
	}
	if len(cases) < 250 {
		t.Errorf("the table has %d cases, want 250 and more", len(cases))
	}
	if !errors.Is(mustFail(t, func() { x.Select(0, 9) }), torch.ErrIndex) {
		t.Error("an index out of range is not ErrIndex")
	}
}

// useCounts returns the numbers of references that Go and libtorch hold to ts.
func useCounts(ts []torch.Tensor) []int64 {
	counts := make([]int64, len(ts))
	for i, t := range ts {
		counts[i] = torch.UseCount(t)
	}
	return counts
}
