package pymarlin

import (
	"os"
	"strconv"
)

// DistributedTrainingArguments say which of how many processes this one is.
type DistributedTrainingArguments struct {
	LocalRank  int `config:"local_rank"`
	GlobalRank int `config:"global_rank"`
	WorldSize  int `config:"world_size"` // zero: 1
}

// FetchRanks reads them from the environment that a launcher makes: Azure ML's mpirun with Open
// MPI, or torchrun and torch.distributed.launch. Without either there is one process.
func FetchRanks() (DistributedTrainingArguments, error) { return fetchRanks(os.LookupEnv) }

func fetchRanks(look func(string) (string, bool)) (DistributedTrainingArguments, error) {
	all := func(names ...string) bool {
		for _, n := range names {
			if _, ok := look(n); !ok {
				return false
			}
		}
		return true
	}
	_, batch := look("AZ_BATCH_MASTER_NODE")
	_, batchAI := look("AZ_BATCHAI_MPI_MASTER_NODE")
	local, global, world := "", "", ""
	switch {
	case (batch || batchAI) && all("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
		"OMPI_COMM_WORLD_LOCAL_SIZE"):
		local, global, world = "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"
	case all("RANK", "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE"):
		local, global, world = "LOCAL_RANK", "RANK", "WORLD_SIZE"
	default:
		return DistributedTrainingArguments{WorldSize: 1}, nil
	}
	var a DistributedTrainingArguments
	for _, f := range []struct {
		name string
		to   *int
	}{{local, &a.LocalRank}, {global, &a.GlobalRank}, {world, &a.WorldSize}} {
		text, _ := look(f.name)
		n, err := strconv.Atoi(text)
		if err != nil || n < 0 {
			return a, argumentf("the environment variable %s is %q; want a number from 0, as the launcher sets it",
				f.name, text)
		}
		*f.to = n
	}
	return a, nil
}
