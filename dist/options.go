package dist

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"time"
)

// Options configures [Init]. With the zero value, everything is read from the environment.
type Options struct {
	// Rank, LocalRank, World and Address ("host:port") say which process this is, and where the
	// processes meet. If World is 0, all four are read from the environment.
	Rank, LocalRank, World int
	Address                string

	// LocalWorld is how many of the processes run on this machine; zero means unknown. If all of
	// them do, the processes listen only on this machine. It is read from the environment together
	// with World.
	LocalWorld int

	// Store says that a store already listens at Address, such as torchrun's. Otherwise rank 0
	// opens one there. It is read from the environment together with World.
	Store bool

	// Name distinguishes the groups of a run that has several.
	Name string

	JoinTimeout time.Duration // how long Init waits for the other processes; zero: 5 minutes
	Timeout     time.Duration // how long a call may take; zero: 30 minutes, as in torch.distributed
	PeerTimeout time.Duration // how long until an unresponsive machine is given up; zero: 30 seconds

	// Checked makes libtorch compare operator, shapes and dtypes over the processes before every
	// collective of tensors, including those in a backward pass and those of a torch.ProcessGroup
	// itself. A difference is an error that names the ranks. Use it to look for a mistake: it
	// costs one exchange per collective, and a process that hangs keeps the others waiting until
	// Timeout. It must be the same in all processes. TORCH_DISTRIBUTED_DEBUG=DETAIL in the
	// environment sets it.
	Checked bool

	// Fake makes a group of World processes of which only this one exists (PyTorch's backend
	// "fake"). Every call returns at once, as if each process had the data of this one, so a sum
	// is World times its value. It shows what one process of many does and allocates, without the
	// others. World and Rank must be set; nothing listens.
	Fake bool

	// Getenv reads the environment; nil means os.Getenv.
	Getenv func(string) string

	job  string // set from the launcher; part of the store's keys, so that other jobs are ignored
	host string // overrides the host name, in tests
}

// hostname returns the name of this machine; empty if unknown.
func (o *Options) hostname() string {
	if o.host != "" {
		return o.host
	}
	name, _ := os.Hostname()
	return name
}

func (o Options) resolved() (Options, error) {
	if o.Getenv == nil {
		o.Getenv = os.Getenv
	}
	where := "Options"
	if o.Fake && (o.World == 0 || o.Checked || o.Address != "" || o.Store) {
		return o, errors.New("dist: Options.Fake is set, so there are no others: want World and Rank, and none of Address, " +
			"Store and Checked")
	}
	if strings.EqualFold(o.Getenv("TORCH_DISTRIBUTED_DEBUG"), "DETAIL") && !o.Fake {
		o.Checked = true
	}
	if o.World == 0 {
		if o.Rank != 0 || o.LocalRank != 0 || o.LocalWorld != 0 || o.Address != "" || o.Store {
			return o, errors.New("dist: Options.World is 0, which means that the environment says everything, but " +
				"Rank, LocalRank, LocalWorld, Address or Store is set")
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
	if o.LocalWorld < 0 || o.LocalWorld > o.World || o.LocalWorld > 0 && o.LocalRank >= o.LocalWorld {
		return o, fmt.Errorf("dist: %s says local rank %d of %d processes on this machine, and %d in all: want local "+
			"rank < processes on this machine <= all (LOCAL_RANK, LOCAL_WORLD_SIZE, WORLD_SIZE)", where, o.LocalRank,
			o.LocalWorld, o.World)
	}
	if o.World > 1 && !o.Fake {
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

// fromEnv takes the settings from the launcher's variables.
func (o *Options) fromEnv() error {
	l, err := ReadLauncher(o.Getenv)
	if err != nil {
		return err
	}
	if l.World > 1 && l.Address == "" {
		return fmt.Errorf("dist: the environment says %d processes (%s), but not where they meet: MASTER_ADDR=%q, "+
			"MASTER_PORT=%q; start the program with torchrun, srun or gotrainer launch, or set both, to the machine of "+
			"rank 0 and a free port there (mpirun -x MASTER_ADDR=... -x MASTER_PORT=...)", l.World, l.Variable,
			o.Getenv("MASTER_ADDR"), o.Getenv("MASTER_PORT"))
	}
	o.Rank, o.LocalRank, o.World, o.LocalWorld = l.Rank, l.LocalRank, l.World, l.LocalWorld
	o.Address, o.Store, o.job = l.Address, l.Store, l.job
	return nil
}
