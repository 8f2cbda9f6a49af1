package torch_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

// TestDeviceAuto: the GPU of the process where there is one, else the CPU.
func TestDeviceAuto(t *testing.T) {
	testenv.RequireTorch(t)
	t.Setenv("LOCAL_RANK", "")
	want := torch.CPU
	gpus := torch.CUDADevices()
	if gpus > 0 {
		want = torch.CUDA(0)
	}
	got, err := torch.ParseDevice("auto")
	require.NoError(t, err)
	require.Equal(t, want, got)
	_, err = torch.ParseDevice("auto:1")
	require.ErrorContains(t, err, "want auto or cuda:1")
	t.Setenv("LOCAL_RANK", "99")
	if got, err = torch.ParseDevice("auto"); gpus == 0 {
		require.NoError(t, err)
		require.Equal(t, torch.CPU, got)
	} else {
		require.ErrorContains(t, err, "LOCAL_RANK")
	}
}
