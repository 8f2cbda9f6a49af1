package cuda_test

import (
	"os"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/cgotorch"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/torch/cuda"
)

func TestMain(m *testing.M) { os.Exit(testenv.Run(m)) }

// questions returns all functions that query a GPU.
func questions(d torch.Device) map[string]func() error {
	must := func(f func()) func() error { return func() error { return torch.Try(f) } }
	return map[string]func() error{
		"DeviceProperties":      func() error { _, err := cuda.DeviceProperties(d); return err },
		"MemoryStats":           func() error { _, err := cuda.MemoryStats(d); return err },
		"ResetPeakMemoryStats":  func() error { return cuda.ResetPeakMemoryStats(d) },
		"MemoryInfo":            func() error { _, _, err := cuda.MemoryInfo(d); return err },
		"On":                    must(func() { cuda.On(d, func() {}) }),
		"Synchronize":           must(func() { cuda.Synchronize(d) }),
		"NewStream":             must(func() { cuda.NewStream(d) }),
		"NewHighPriorityStream": must(func() { cuda.NewHighPriorityStream(d) }),
		"CurrentStream":         must(func() { cuda.CurrentStream(d) }),
		"NewGraph":              must(func() { cuda.NewGraph(d) }),
	}
}

func TestWithoutAGPUEveryQuestionSaysWhyThereIsNone(t *testing.T) {
	testenv.RequireTorch(t)
	if cuda.Available() {
		t.Skip("this machine has a GPU")
	}
	build, err := torch.BuildInfo()
	require.NoError(t, err)
	require.NotEmpty(t, build.NoCUDA)
	assert.Zero(t, cuda.DeviceCount())
	for name, ask := range questions(torch.CUDA(0)) {
		err := ask()
		require.ErrorIs(t, err, torch.ErrNotSupported, name)
		require.ErrorContains(t, err, build.NoCUDA, name)
		require.ErrorContains(t, err, "cuda:0", name)
	}
	require.ErrorContains(t, torch.Try(func() { cuda.NewEvent(cuda.EventOptions{}) }), build.NoCUDA)
	_, err = cuda.LibraryVersions()
	require.ErrorContains(t, err, build.NoCUDA)
	_, err = torch.ParseDevice("cuda")
	require.EqualError(t, err, "torch: cuda:0: "+build.NoCUDA)
	cuda.EmptyCache()
}

func TestWhatIsNoGPUIsRefused(t *testing.T) {
	testenv.RequireTorch(t)
	for name, ask := range questions(torch.CPU) {
		require.ErrorIs(t, ask(), torch.ErrInvalid, name)
		require.ErrorContains(t, ask(), "cpu: it is no GPU; want one, such as torch.CUDA(0)", name)
	}
	for name, ask := range questions(torch.CUDA(127)) {
		require.ErrorIs(t, ask(), torch.ErrNotSupported, name)
	}
	var zero cuda.Stream
	require.ErrorIs(t, torch.Try(func() { zero.Run(func() {}) }), torch.ErrUndefined)
	require.ErrorIs(t, torch.Try(zero.Synchronize), torch.ErrUndefined)
}

// After a failure, the GPU is not called any more, and the error says so.
func TestAfterAFailureNothingIsAsked(t *testing.T) {
	testenv.RequireTorch(t)
	defer cgotorch.ThrowForTest(cgotorch.Mend)
	cgotorch.ThrowForTest(10).Take()
	for name, ask := range questions(torch.CUDA(0)) {
		require.ErrorIs(t, ask(), torch.ErrDevice, name)
	}
}

func TestCuDNNSettingsAreReadAsTheyWereMade(t *testing.T) {
	testenv.RequireTorch(t)
	before := cuda.CuDNNSettings()
	defer cuda.SetCuDNN(before)
	assert.Equal(t, cuda.CuDNN{Enabled: true, BenchmarkLimit: 10, TF32: true}, before, "PyTorch's defaults")
	for _, c := range []cuda.CuDNN{{}, {Enabled: true, Benchmark: true, BenchmarkLimit: 3},
		{Deterministic: true, TF32: true}} {
		cuda.SetCuDNN(c)
		assert.Equal(t, c, cuda.CuDNNSettings())
	}
	require.ErrorIs(t, torch.Try(func() { cuda.SetCuDNN(cuda.CuDNN{BenchmarkLimit: -1}) }), torch.ErrValue)
}

func TestAttentionKernelsAreAllowedOneByOne(t *testing.T) {
	testenv.RequireTorch(t)
	before := cuda.AttentionKernels()
	defer cuda.SetAttentionKernels(before)
	assert.Equal(t, cuda.Attention{Flash: true, Efficient: true, Math: true, CuDNN: true}, before)
	for _, c := range []struct {
		a    cuda.Attention
		text string
	}{{cuda.Attention{Flash: true, Math: true}, "flash, math"}, {cuda.Attention{Efficient: true, CuDNN: true},
		"efficient, cuDNN"}} {
		cuda.SetAttentionKernels(c.a)
		assert.Equal(t, c.a, cuda.AttentionKernels())
		assert.Equal(t, c.text, c.a.String())
	}
	require.ErrorIs(t, torch.Try(func() { cuda.SetAttentionKernels(cuda.Attention{}) }), torch.ErrValue)
}

func TestTF32IsForProductsAndConvolutions(t *testing.T) {
	testenv.RequireTorch(t)
	products, convolutions := cuda.TF32()
	defer func() {
		cuda.SetTF32(products)
		c := cuda.CuDNNSettings()
		c.TF32 = convolutions
		cuda.SetCuDNN(c)
	}()
	assert.False(t, products)
	assert.True(t, convolutions, "PyTorch's defaults")
	for _, on := range []bool{true, false} {
		cuda.SetTF32(on)
		products, convolutions := cuda.TF32()
		assert.Equal(t, [2]bool{on, on}, [2]bool{products, convolutions})
	}
}

func TestPrecisionIsSetByBackendAndOperator(t *testing.T) {
	testenv.RequireTorch(t)
	for _, c := range [][2]string{{"cuda", "conv"}, {"cuda", "matmul"}, {"mkldnn", "matmul"}, {"cuda", "rnn"}} {
		before := cuda.Float32Precision(c[0], c[1])
		cuda.SetFloat32Precision(c[0], c[1], "ieee")
		assert.Equal(t, "ieee", cuda.Float32Precision(c[0], c[1]), c)
		cuda.SetFloat32Precision(c[0], c[1], before)
		assert.Equal(t, before, cuda.Float32Precision(c[0], c[1]), c)
	}
	for _, wrong := range [][3]string{{"tpu", "all", "ieee"}, {"cuda", "add", "ieee"}, {"cuda", "conv", "fp8"},
		{"generic", "conv", "ieee"}, {"cuda", "conv", "bf16"}} {
		err := torch.Try(func() { cuda.SetFloat32Precision(wrong[0], wrong[1], wrong[2]) })
		require.ErrorIs(t, err, torch.ErrValue, wrong)
		require.ErrorContains(t, err, "want one of", wrong)
	}
}

func TestWhatAGPUTells(t *testing.T) {
	testenv.RequireCUDA(t)
	d := torch.CUDA(0)
	p, err := cuda.DeviceProperties(d)
	require.NoError(t, err)
	assert.NotEmpty(t, p.Name)
	assert.Positive(t, p.Capability.Major)
	free, total, err := cuda.MemoryInfo(d)
	require.NoError(t, err)
	assert.Less(t, free, total)
	versions, err := cuda.LibraryVersions()
	require.NoError(t, err)
	assert.GreaterOrEqual(t, versions.Driver, versions.Runtime/1000*1000)

	require.NoError(t, cuda.ResetPeakMemoryStats(d))
	before, err := cuda.MemoryStats(d)
	require.NoError(t, err)
	torch.Scope(func() { torch.TensorOptions{Device: d, DType: torch.Uint8}.Zeros(1 << 20) })
	after, err := cuda.MemoryStats(d)
	require.NoError(t, err)
	assert.Equal(t, before.Allocated.Current, after.Allocated.Current)
	assert.GreaterOrEqual(t, after.Allocated.Peak, before.Allocated.Current+1<<20)
}

func TestStreamsWaitForEachOther(t *testing.T) {
	testenv.RequireCUDA(t)
	d := torch.CUDA(0)
	first, side := cuda.CurrentStream(d), cuda.NewStream(d)
	begin, end := cuda.NewEvent(cuda.EventOptions{Timing: true}), cuda.NewEvent(cuda.EventOptions{Timing: true})
	defer begin.Free()
	defer end.Free()
	torch.Scope(func() {
		x := torch.TensorOptions{Device: d}.Ones(1<<20, 1)
		side.WaitStream(first)
		var y torch.Tensor
		side.Run(func() {
			assert.Equal(t, side, cuda.CurrentStream(d))
			begin.Record(side)
			y = x.Add(x)
			end.Record(side)
		})
		side.Record(x)
		assert.Equal(t, first, cuda.CurrentStream(d))
		first.WaitEvent(end)
		assert.InDelta(t, 2<<20, y.Sum(torch.Float32).Item(), 0)
		cuda.Synchronize(d)
		assert.True(t, side.Ready() && end.Ready())
		assert.Greater(t, end.Since(begin), time.Duration(0))
	})
	runtime.KeepAlive(begin)
}
