package dist_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/dist"
)

func TestLaunchersAreRecognisedByWhatTheySet(t *testing.T) {
	for _, c := range []struct {
		claim string
		env   map[string]string
		want  dist.Launcher
		says  string
	}{
		{"nobody", nil, dist.Launcher{World: 1}, "none: a program started here is one process"},
		{"torchrun", map[string]string{"TORCHELASTIC_RUN_ID": "x", "WORLD_SIZE": "4", "RANK": "3", "LOCAL_RANK": "1",
			"LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "a", "MASTER_PORT": "29500",
			"TORCHELASTIC_USE_AGENT_STORE": "True"},
			dist.Launcher{Name: "torchrun", Variable: "WORLD_SIZE", Rank: 3, LocalRank: 1, World: 4, LocalWorld: 2,
				Address: "a:29500", Store: true},
			"torchrun (WORLD_SIZE): rank 3 of 4, local rank 1 of 2; the launcher keeps the store at a:29500"},
		{"gotrainer launch", map[string]string{"WORLD_SIZE": "2", "RANK": "1", "LOCAL_RANK": "1",
			"LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "1",
			"TORCHELASTIC_USE_AGENT_STORE": "True"},
			dist.Launcher{Name: "gotrainer launch", Variable: "WORLD_SIZE", Rank: 1, LocalRank: 1, World: 2,
				LocalWorld: 2, Address: "127.0.0.1:1", Store: true}, ""},
		{"variables set by hand", map[string]string{"WORLD_SIZE": "2", "RANK": "1", "MASTER_ADDR": "a",
			"MASTER_PORT": "1"}, dist.Launcher{Name: "the environment", Variable: "WORLD_SIZE", Rank: 1, World: 2,
			Address: "a:1"}, "the environment (WORLD_SIZE): rank 1 of 2, local rank 0; rank 0 opens the store at a:1"},
		{"variables without a place", map[string]string{"WORLD_SIZE": "2"}, dist.Launcher{Name: "the environment",
			Variable: "WORLD_SIZE", World: 2}, "the environment (WORLD_SIZE): rank 0 of 2, local rank 0; MASTER_ADDR " +
			"and " +
			"MASTER_PORT do not say where the processes meet"},
		{"an address of IPv6, in brackets too", map[string]string{"WORLD_SIZE": "2", "MASTER_ADDR": "[fd00::2]",
			"MASTER_PORT": "1"}, dist.Launcher{Name: "the environment", Variable: "WORLD_SIZE", World: 2,
			Address: "[fd00::2]:1"}, ""},
		{"srun", map[string]string{"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "3", "SLURM_LOCALID": "1",
			"SLURM_STEP_NUM_NODES": "2", "SLURM_STEP_NODELIST": "gpu[03-04]", "SLURM_JOB_ID": "123456",
			"SLURM_STEP_ID": "0"}, dist.Launcher{Name: "srun", Variable: "SLURM_STEP_NUM_TASKS", Rank: 3, LocalRank: 1,
			World: 4, Address: "gpu03:23456"}, ""},
		{"srun on one machine stays there", map[string]string{"SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "1",
			"SLURM_LOCALID": "1", "SLURM_STEP_NUM_NODES": "1", "SLURM_STEP_NODELIST": "gpu03", "SLURM_JOB_ID": "7"},
			dist.Launcher{Name: "srun", Variable: "SLURM_STEP_NUM_TASKS", Rank: 1, LocalRank: 1, World: 2,
				LocalWorld: 2, Address: "127.0.0.1:20007"}, ""},
		{"Open MPI, which Slurm has started by srun", map[string]string{"OMPI_COMM_WORLD_SIZE": "4",
			"OMPI_COMM_WORLD_RANK": "3", "OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
			"SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "1", "MASTER_ADDR": "a", "MASTER_PORT": "1"},
			dist.Launcher{Name: "mpirun (Open MPI)", Variable: "OMPI_COMM_WORLD_SIZE", Rank: 3, LocalRank: 1, World: 4,
				LocalWorld: 2, Address: "a:1"}, ""},
		{"Open MPI on one machine needs no address", map[string]string{"OMPI_COMM_WORLD_SIZE": "2",
			"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_LOCAL_RANK": "1", "OMPI_COMM_WORLD_LOCAL_SIZE": "2",
			"PMIX_NAMESPACE": "98431234"}, dist.Launcher{Name: "mpirun (Open MPI)", Variable: "OMPI_COMM_WORLD_SIZE",
			Rank: 1, LocalRank: 1, World: 2, LocalWorld: 2, Address: "127.0.0.1:21234"}, ""},
		{"MVAPICH", map[string]string{"MV2_COMM_WORLD_SIZE": "2", "MV2_COMM_WORLD_RANK": "1",
			"MV2_COMM_WORLD_LOCAL_RANK": "1", "MASTER_ADDR": "a", "MASTER_PORT": "1"},
			dist.Launcher{Name: "mpirun (MVAPICH)", Variable: "MV2_COMM_WORLD_SIZE", Rank: 1, LocalRank: 1, World: 2,
				Address: "a:1"}, ""},
		{"MPICH and Intel MPI", map[string]string{"PMI_SIZE": "2", "PMI_RANK": "1", "MPI_LOCALRANKID": "1",
			"MPI_LOCALNRANKS": "2", "MASTER_PORT": "9"}, dist.Launcher{Name: "mpirun (Hydra)", Variable: "PMI_SIZE",
			Rank: 1, LocalRank: 1, World: 2, LocalWorld: 2, Address: "127.0.0.1:9"}, ""},
		{"srun --mpi=pmi2 is srun", map[string]string{"PMI_SIZE": "2", "PMI_RANK": "1", "SLURM_STEP_NUM_TASKS": "2",
			"SLURM_PROCID": "1", "SLURM_LOCALID": "1", "SLURM_STEP_NODELIST": "n1", "SLURM_JOB_ID": "1"},
			dist.Launcher{Name: "srun", Variable: "SLURM_STEP_NUM_TASKS", Rank: 1, LocalRank: 1, World: 2,
				Address: "n1:20001"}, ""},
		{"a TrainJob, one process in a container", map[string]string{"PET_NNODES": "2", "PET_NODE_RANK": "1",
			"PET_NPROC_PER_NODE": "auto", "PET_MASTER_ADDR": "job-node-0-0.job", "PET_MASTER_PORT": "29400"},
			dist.Launcher{Name: "Kubeflow (TrainJob)", Variable: "PET_NNODES", Rank: 1, World: 2,
				Address: "job-node-0-0.job:29400"}, ""},
		{"a PyTorchJob, one process in a container", map[string]string{"WORLD_SIZE": "2", "RANK": "1",
			"MASTER_ADDR": "job-master-0", "MASTER_PORT": "23456", "PET_MASTER_ADDR": "job-master-0",
			"PET_NNODES": "2", "PET_NODE_RANK": "1"}, dist.Launcher{Name: "Kubeflow (PyTorchJob)",
			Variable: "WORLD_SIZE", Rank: 1, World: 2, Address: "job-master-0:23456"}, ""},
		{"torchrun in a PyTorchJob", map[string]string{"WORLD_SIZE": "4", "RANK": "3", "LOCAL_RANK": "1",
			"LOCAL_WORLD_SIZE": "2", "TORCHELASTIC_RUN_ID": "x", "MASTER_ADDR": "a", "MASTER_PORT": "1",
			"PET_MASTER_ADDR": "a", "PET_NPROC_PER_NODE": "2"}, dist.Launcher{Name: "torchrun", Variable: "WORLD_SIZE",
			Rank: 3, LocalRank: 1, World: 4, LocalWorld: 2, Address: "a:1"}, ""},
	} {
		t.Run(c.claim, func(t *testing.T) {
			got, err := dist.ReadLauncher(func(name string) string { return c.env[name] })
			require.NoError(t, err)
			assert.Empty(t, cmp.Diff(c.want, got, cmpopts.IgnoreUnexported(dist.Launcher{})))
			if c.says != "" {
				assert.Equal(t, c.says, got.String())
			}
			n, variable := dist.Started(func(name string) string { return c.env[name] })
			assert.Equal(t, c.want.World, n, "Started")
			assert.Equal(t, c.want.Variable, variable, "Started")
		})
	}
}

func TestLaunchersThatDoNotSayWhoTheProcessIs(t *testing.T) {
	for _, c := range []struct {
		claim string
		env   map[string]string
		want  string
	}{
		{"a rank that is no number", map[string]string{"WORLD_SIZE": "2", "RANK": "x"}, `RANK="x"`},
		{"PMIx without its mpirun", map[string]string{"PMIX_RANK": "1"}, "PMIX_RANK=1 says that PMIx started this"},
		{"a TrainJob with four processes in a container", map[string]string{"PET_NNODES": "2", "PET_NODE_RANK": "1",
			"PET_NPROC_PER_NODE": "4"}, "begin its command with gotrainer launch, which reads PET_*"},
	} {
		_, err := dist.ReadLauncher(func(name string) string { return c.env[name] })
		assert.ErrorContains(t, err, c.want, c.claim)
		n, _ := dist.Started(func(name string) string { return c.env[name] })
		assert.Greater(t, n, 1, c.claim)
		_, err = dist.Init(t.Context(), dist.Options{Getenv: func(name string) string { return c.env[name] }})
		assert.ErrorContains(t, err, c.want, c.claim)
	}
}
