package dist

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"
)

// Options configures [Init]. The zero value is what the environment says.
type Options struct {
	// Rank, LocalRank, World and Address ("host:port") say which process this is, and where the
	// processes meet. World 0: all four are read from the environment.
	Rank, LocalRank, World int
	Address                string

	// Store says that a store listens at Address already, such as torchrun's. Otherwise rank 0
	// opens one there. Read from the environment together with World.
	Store bool

	// Name tells the groups of one run apart, if it has several.
	Name string

	JoinTimeout time.Duration // how long Init waits for the others; zero: 5 minutes
	Timeout     time.Duration // of a call; zero: 30 minutes, as in torch.distributed
	PeerTimeout time.Duration // after which a machine that no longer answers is given up; zero: 30 seconds

	// Getenv is where the environment is read; nil: os.Getenv.
	Getenv func(string) string
}

func (o Options) resolved() (Options, error) {
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	where := "Options"
	if o.World == 0 {
		if o.Rank != 0 || o.LocalRank != 0 || o.Address != "" || o.Store {
			return o, errors.New("dist: Options.World is 0, which means that the environment says everything, but " +
				"Rank, LocalRank, Address or Store is set")
		}
		where = "the environment"
		if err := o.fromEnv(); err != nil {
			return o, err
		}
	}
	if o.World < 1 || o.Rank < 0 || o.Rank >= o.World || o.LocalRank < 0 || o.LocalRank > o.Rank {
		return o, fmt.Errorf("dist: %s says rank %d, local rank %d of %d processes: want 0 <= local rank <= rank < "+
			"processes", where, o.Rank, o.LocalRank, o.World)
	}
	if o.World > 1 {
		if _, _, err := net.SplitHostPort(o.Address); err != nil {
			return o, fmt.Errorf("dist: %s says that the processes meet at %q: want host:port (MASTER_ADDR and "+
				"MASTER_PORT): %w", where, o.Address, err)
		}
	}
	for _, t := range []struct {
		name  string
		value *time.Duration
		usual time.Duration
	}{{"JoinTimeout", &o.JoinTimeout, 5 * time.Minute}, {"Timeout", &o.Timeout, 30 * time.Minute},
		{"PeerTimeout", &o.PeerTimeout, 30 * time.Second}} {
		if *t.value < 0 {
			return o, fmt.Errorf("dist: Options.%s is %s; want a positive duration, or 0 for %s", t.name, *t.value,
				t.usual)
		}
		if *t.value == 0 {
			*t.value = t.usual
		}
	}
	return o, nil
}

// fromEnv reads what torchrun sets, or else what srun sets.
func (o *Options) fromEnv() error {
	names := []string{"RANK", "LOCAL_RANK", "WORLD_SIZE"}
	// the script of a job, outside of srun, is one process
	slurm := o.Getenv("WORLD_SIZE") == "" && o.Getenv("SLURM_STEP_NUM_TASKS") != ""
	if slurm {
		names = []string{"SLURM_PROCID", "SLURM_LOCALID", "SLURM_STEP_NUM_TASKS"}
	}
	o.World = 1
	for i, into := range []*int{&o.Rank, &o.LocalRank, &o.World} {
		text := o.Getenv(names[i])
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("dist: the environment has %s=%q: want a number", names[i], text)
		}
		*into = n
	}
	if o.World == 1 {
		return nil
	}
	host, port := o.Getenv("MASTER_ADDR"), o.Getenv("MASTER_PORT")
	if slurm && host == "" {
		host = firstNode(o.Getenv("SLURM_STEP_NODELIST"))
	}
	if slurm && port == "" {
		port = slurmPort(o.Getenv("SLURM_JOB_ID"))
	}
	if host == "" || port == "" {
		return fmt.Errorf("dist: the environment says %d processes, but not where they meet: MASTER_ADDR=%q, "+
			"MASTER_PORT=%q; start the program with torchrun, srun or gotrainer launch, or set both", o.World, host,
			port)
	}
	o.Address = net.JoinHostPort(host, port)
	o.Store = o.Getenv("TORCHELASTIC_USE_AGENT_STORE") == "True"
	return nil
}

// firstNode is the first host of a list such as "gpu[03-05,9],login1".
func firstNode(list string) string {
	end := strings.IndexAny(list, ",[")
	if end < 0 || list[end] == ',' {
		first, _, _ := strings.Cut(list, ",")
		return first
	}
	inside, after, _ := strings.Cut(list[end+1:], "]")
	after, _, _ = strings.Cut(after, ",")
	number := inside
	if i := strings.IndexAny(inside, ",-"); i >= 0 {
		number = inside[:i]
	}
	return list[:end] + number + after
}

// slurmPort is a port that the processes of a job agree on and that other jobs of the machine
// rarely have.
func slurmPort(job string) string {
	n, _ := strconv.Atoi(job) // without a number all steps meet at the same port
	return strconv.Itoa(20000 + n%10000)
}
