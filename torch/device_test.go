package torch_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

// TestDeviceAuto checks that "auto" is the process's GPU if there is one, and otherwise the CPU.
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

func TestTheGPUOfAProcessIsThatOfItsLocalRank(t *testing.T) {
	type env = map[string]string
	for name, c := range map[string]struct {
		gpus int
		env  env
		want torch.Device
		err  string
	}{
		"alone":                  {2, nil, torch.CUDA(0), ""},
		"torchrun":               {2, env{"LOCAL_RANK": "1"}, torch.CUDA(1), ""},
		"mpirun inside of srun":  {4, env{"OMPI_COMM_WORLD_LOCAL_RANK": "3", "SLURM_LOCALID": "0"}, torch.CUDA(3), ""},
		"srun":                   {2, env{"SLURM_LOCALID": "1"}, torch.CUDA(1), ""},
		"srun --gpus-per-task=1": {1, env{"SLURM_LOCALID": "1", "CUDA_VISIBLE_DEVICES": "0"}, torch.CUDA(0), ""},
		"more processes than GPUs": {1, env{"LOCAL_RANK": "1"}, torch.Device{},
			`LOCAL_RANK in the environment is "1", and libtorch sees 1 GPU`},
		"a rank that is no number":  {2, env{"LOCAL_RANK": "x"}, torch.Device{}, `is "x"`},
		"visible GPUs for everyone": {2, env{"LOCAL_RANK": "1", "CUDA_VISIBLE_DEVICES": "2,3"}, torch.CUDA(1), ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := torch.LocalGPU("auto", c.gpus, func(key string) string { return c.env[key] })
			if c.err != "" {
				require.ErrorContains(t, err, c.err)
				return
			}
			require.NoError(t, err)
			require.Equal(t, c.want, got)
		})
	}
}
