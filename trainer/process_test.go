package trainer

import (
	"strings"
	"testing"
)

func TestProcessFromEnv(t *testing.T) {
	env := func(pairs ...string) func(string) string {
		return func(name string) string {
			for i := 0; i < len(pairs); i += 2 {
				if pairs[i] == name {
					return pairs[i+1]
				}
			}
			return ""
		}
	}
	for _, c := range []struct {
		getenv func(string) string
		want   Process
		err    string
	}{
		{env(), Process{World: 1}, ""},
		{env("RANK", "5", "LOCAL_RANK", "1", "WORLD_SIZE", "8"), Process{Rank: 5, LocalRank: 1, World: 8}, ""},
		{env("OMPI_COMM_WORLD_SIZE", "4", "OMPI_COMM_WORLD_RANK", "3", "OMPI_COMM_WORLD_LOCAL_RANK", "1"),
			Process{Rank: 3, LocalRank: 1, World: 4}, ""},
		{env("PET_NNODES", "2", "PET_NODE_RANK", "1"), Process{Rank: 1, World: 2}, ""},
		{env("PMIX_RANK", "1"), Process{}, "PMIX_RANK=1"},
		{env("RANK", "8", "WORLD_SIZE", "8"), Process{}, "rank 8"},
		{env("RANK", "one"), Process{}, `RANK="one"`},
		{env("RANK", "-1"), Process{}, "rank -1"},
	} {
		p, err := processFromEnv(c.getenv)
		if err == nil && (p != c.want || c.err != "") || err != nil && (c.err == "" || !strings.Contains(err.Error(),
			c.err)) {
			t.Errorf("%+v, %v; want %+v, %q", p, err, c.want, c.err)
		}
	}
}
