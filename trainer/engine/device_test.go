package engine_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// TestARunOnTheCPUSaysOnceThatThereIsAGPU pretends that libtorch sees two.
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
	assert.Contains(t, warnings[0], `libtorch sees 2 GPUs; Options.Device of torch.ParseDevice("auto") takes one`)
}

func TestAGPUThatCannotBeUsedIsRefusedWithItsReason(t *testing.T) {
	testenv.RequireTorch(t)
	gpu := torch.CUDA(100)
	reason := torch.CheckDevice(gpu)
	require.Error(t, reason)
	_, err := engine.New(engine.Classify(nn.Sequential{nn.NewLinear(2, 2, nil)}), engine.Options{Device: gpu})
	require.EqualError(t, err, "engine: Options.Device: "+reason.Error())
}
