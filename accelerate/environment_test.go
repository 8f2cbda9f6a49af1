package accelerate_test

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/accelerate"
	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/dist/shard"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

func TestEnvironment(t *testing.T) {
	testenv.RequireTorch(t)
	auto, err := torch.ParseDevice("auto")
	require.NoError(t, err)
	got, err := accelerate.Environment(false)
	require.NoError(t, err)
	assert.Equal(t, accelerate.Options{Device: auto}, got)
	for _, c := range []struct {
		name, value string
		want        accelerate.Options
		err         string
	}{
		{"ACCELERATE_USE_CPU", "True", accelerate.Options{}, ""},
		{"ACCELERATE_MIXED_PRECISION", "bf16", accelerate.Options{MixedPrecision: amp.BF16}, ""},
		{"ACCELERATE_MIXED_PRECISION", "no", accelerate.Options{}, ""},
		{"ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "4",
			accelerate.Options{Accumulation: accelerate.Accumulation{Steps: 4}},
			""},
		{"ACCELERATE_USE_FSDP", "true", accelerate.Options{Sharding: shard.FullShard}, ""},
		{"ACCELERATE_USE_DEEPSPEED", "1", accelerate.Options{Sharding: shard.ShardGradOp}, ""},
		{"ACCELERATE_USE_FSDP", "perhaps", accelerate.Options{}, "true or false"},
		{"ACCELERATE_USE_CPU", "perhaps", accelerate.Options{}, "true or false"},
		{"ACCELERATE_MIXED_PRECISION", "fp8", accelerate.Options{}, "no, bf16 or fp16"},
		{"ACCELERATE_GRADIENT_ACCUMULATION_STEPS", "0", accelerate.Options{}, "at least 1"},
	} {
		t.Run(c.name+"="+c.value, func(t *testing.T) {
			t.Setenv(c.name, c.value)
			got, err := accelerate.Environment(c.name != "ACCELERATE_USE_CPU")
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			assert.Equal(t, c.want, got)
		})
	}
}

func TestAGPUThatCannotBeUsedIsRefusedWithItsReason(t *testing.T) {
	testenv.RequireTorch(t)
	gpu := torch.CUDA(100)
	reason := torch.CheckDevice(gpu)
	require.Error(t, reason)
	_, err := accelerate.New(accelerate.Options{Device: gpu})
	require.EqualError(t, err, "accelerate: Options.Device: "+reason.Error())
}
