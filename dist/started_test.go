package dist_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gotrainer/gotrainer/dist"
)

func TestStarted(t *testing.T) {
	for _, c := range []struct {
		claim    string
		env      map[string]string
		n        int
		variable string
	}{
		{"nobody", nil, 1, ""},
		{"torchrun", map[string]string{"WORLD_SIZE": "4"}, 4, "WORLD_SIZE"},
		{"a launcher inside of srun", map[string]string{"WORLD_SIZE": "1", "SLURM_STEP_NUM_TASKS": "4"}, 1, ""},
		{"srun", map[string]string{"SLURM_STEP_NUM_TASKS": "4"}, 4, "SLURM_STEP_NUM_TASKS"},
		{"the script of a job, outside of srun", map[string]string{"SLURM_NTASKS": "4"}, 1, ""},
		{"mpirun", map[string]string{"OMPI_COMM_WORLD_SIZE": "2"}, 2, "OMPI_COMM_WORLD_SIZE"},
		{"something else", map[string]string{"WORLD_SIZE": "all"}, 1, ""},
	} {
		n, variable := dist.Started(func(name string) string { return c.env[name] })
		assert.Equal(t, c.n, n, c.claim)
		assert.Equal(t, c.variable, variable, c.claim)
	}
}
