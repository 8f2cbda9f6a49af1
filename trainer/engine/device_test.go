package engine_test

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/torch/cuda"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// TestARunOnTheCPUSaysOnceThatThereIsAGPU pretends that libtorch sees two GPUs.
func TestARunOnTheCPUSaysOnceThatThereIsAGPU(t *testing.T) {
	testenv.RequireTorch(t)
	var warnings []string
	for range 2 {
		engine.PretendGPUs(t, 2, len(warnings) == 0)
		_, err := engine.New(engine.Classify(nn.Sequential{nn.NewLinear(2, 2, nil)}), engine.Options{
			Warn: func(text string) { warnings = append(warnings, text) }})
		require.NoError(t, err)
	}
	require.Len(t, warnings, 1)
	assert.Contains(t, warnings[0], `libtorch sees 2 GPUs; to use one, set Options.Device to torch.ParseDevice("auto")`)
}

func TestAGPUThatCannotBeUsedIsRefusedWithItsReason(t *testing.T) {
	testenv.RequireTorch(t)
	gpu := torch.CUDA(100)
	reason := torch.CheckDevice(gpu)
	require.Error(t, reason)
	_, err := engine.New(engine.Classify(nn.Sequential{nn.NewLinear(2, 2, nil)}), engine.Options{Device: gpu})
	require.EqualError(t, err, "engine: Options.Device: "+reason.Error())
}

func TestAnArithmeticThatAGPULacksIsRefusedOrWarnedOf(t *testing.T) {
	gpu := torch.CUDA(0)
	for _, c := range []struct {
		o            engine.Options
		capability   cuda.Capability
		warning, err string
	}{
		{engine.Options{Device: gpu, Precision: amp.BF16, TF32: engine.TF32On}, cuda.Capability{Major: 8}, "", ""},
		{engine.Options{Device: gpu, Precision: amp.FP16, TF32: engine.TF32Off}, cuda.Capability{Major: 7}, "", ""},
		{engine.Options{Device: gpu, Precision: amp.BF16}, cuda.Capability{Major: 7, Minor: 5},
			"cuda:0 is Test GPU of capability 7.5, which imitates bf16 slowly; bf16 begins with 8.0 (Ampere), and amp.FP16 is " +
				"fast there", ""},
		{engine.Options{Device: gpu, FullEval: amp.BF16}, cuda.Capability{Major: 7}, "imitates bf16", ""},
		{engine.Options{Device: gpu, TF32: engine.TF32On}, cuda.Capability{Major: 7, Minor: 5}, "",
			"engine: Options.TF32 is TF32On, but cuda:0 is Test GPU of capability 7.5; TF32 begins with 8.0 (Ampere)"},
	} {
		warning, err := engine.PretendCapability(t, c.o, c.capability)
		if c.warning == "" {
			assert.Empty(t, warning)
		} else {
			assert.Contains(t, warning, c.warning)
		}
		if c.err == "" {
			require.NoError(t, err)
		} else {
			require.EqualError(t, err, c.err)
		}
	}
}

func TestAStepSaysThatTheCPUIsSlowInBFloat16(t *testing.T) {
	testenv.RequireTorch(t)
	warnings := func(o engine.Options) (all []string) {
		o.Warn = func(text string) { all = append(all, text) }
		_, err := engine.New(engine.Classify(nn.Sequential{nn.NewLinear(2, 2, nil)}), o)
		require.NoError(t, err)
		return all
	}
	assert.Empty(t, warnings(engine.Options{}))
	for _, o := range []engine.Options{{Precision: amp.BF16}, {FullEval: amp.BF16}} {
		if reason := torch.SlowBFloat16(); reason == "" {
			assert.Empty(t, warnings(o))
		} else {
			assert.Equal(t, []string{"Options.Precision or FullEval is amp.BF16: " + reason}, warnings(o))
		}
	}
}

func TestSettingsOfTheWholeProgram(t *testing.T) {
	testenv.RequireTorch(t)
	before := cuda.CuDNNSettings()
	defer func() {
		cuda.SetTF32(false)
		cuda.SetCuDNN(before)
		torch.UseDeterministicAlgorithms(false, false)
	}()
	newStep := func(o engine.Options) error {
		_, err := engine.New(engine.Classify(nn.Sequential{nn.NewLinear(2, 2, nil)}), o)
		return err
	}
	gpu := torch.CUDA(0)
	cuda.SetTF32(true)
	engine.Apply(engine.Options{Device: gpu})
	products, convolutions := cuda.TF32()
	assert.True(t, products && convolutions, "unset changes nothing")
	require.NoError(t, newStep(engine.Options{TF32: engine.TF32Off}))
	products, convolutions = cuda.TF32()
	assert.True(t, products && convolutions, "a run on the CPU leaves them alone")
	engine.Apply(engine.Options{Device: gpu, TF32: engine.TF32Off})
	products, convolutions = cuda.TF32()
	assert.False(t, products || convolutions)
	engine.Apply(engine.Options{Device: gpu, TF32: engine.TF32On})
	products, convolutions = cuda.TF32()
	assert.True(t, products && convolutions)
	require.ErrorContains(t, newStep(engine.Options{TF32: engine.TF32On}),
		"Options.TF32 is TF32On, but Options.Device is cpu")
	require.ErrorContains(t, newStep(engine.Options{TF32: 3}), "want TF32Unset, TF32On or TF32Off")

	c := before
	c.Benchmark = true
	cuda.SetCuDNN(c)
	require.NoError(t, newStep(engine.Options{FullDeterminism: true}))
	c = cuda.CuDNNSettings()
	assert.True(t, c.Deterministic)
	assert.False(t, c.Benchmark)
	require.ErrorContains(t, newStep(engine.Options{CuDNNBenchmark: true}), "Options.Device is cpu; cuDNN is for GPUs")
	require.ErrorContains(t, newStep(engine.Options{CuDNNBenchmark: true, FullDeterminism: true, Device: gpu}),
		"Options.CuDNNBenchmark and Options.FullDeterminism are both set")
	engine.Apply(engine.Options{Device: gpu, CuDNNBenchmark: true})
	assert.True(t, cuda.CuDNNSettings().Benchmark)
	require.ErrorContains(t, newStep(engine.Options{MemoryFormat: torch.ChannelsLast3d}), "want torch.ChannelsLast")
	t.Setenv("CUBLAS_WORKSPACE_CONFIG", "")
	require.NoError(t, os.Unsetenv("CUBLAS_WORKSPACE_CONFIG"))
	engine.Apply(engine.Options{Device: gpu, FullDeterminism: true})
	assert.Equal(t, ":16:8", os.Getenv("CUBLAS_WORKSPACE_CONFIG"))
}
