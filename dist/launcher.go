package dist

import (
	"fmt"
	"hash/fnv"
	"net"
	"strconv"
	"strings"
)

// Launcher says what started this process, and what that launcher says about the process. [Init],
// [Started], package trainer and `gotrainer doctor` all read the environment through it.
type Launcher struct {
	Name     string // torchrun, gotrainer launch, srun, mpirun, Kubeflow, the environment; empty: none
	Variable string // the variable that holds the number of processes

	Rank, LocalRank, World int
	LocalWorld             int // processes on this machine; zero: the launcher does not say

	Address string // host:port of the store; empty: the launcher does not say
	Store   bool   // the launcher serves that store; otherwise rank 0 opens it

	job string // tells the runs of one scheduler apart; empty: the launcher has no name for it
}

// source is the set of variables that one kind of launcher sets.
type source struct {
	name                               string
	world, rank, localRank, localWorld string
	needs                              string // another variable that must be set
}

// The launchers are tried in this order. An mpirun inside a Slurm job starts its processes through
// srun, so the variables of MPI come first. PMI_* alone come last, because srun sets them too.
var sources = []source{
	{"the environment", "WORLD_SIZE", "RANK", "LOCAL_RANK", "LOCAL_WORLD_SIZE", ""},
	{"mpirun (Open MPI)", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
		"OMPI_COMM_WORLD_LOCAL_SIZE", ""},
	{"mpirun (MVAPICH)", "MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_LOCAL_RANK",
		"MV2_COMM_WORLD_LOCAL_SIZE", ""},
	{"mpirun (Hydra)", "PMI_SIZE", "PMI_RANK", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", "MPI_LOCALRANKID"},
	// The batch script of a job, outside srun, is a single process; SLURM_STEP_NUM_TASKS is not set
	// there.
	{"srun", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID", "SLURM_LOCALID", "", ""},
	{"PMI", "PMI_SIZE", "PMI_RANK", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", ""},
	{"Kubeflow (TrainJob)", "PET_NNODES", "PET_NODE_RANK", "", "", "PET_NODE_RANK"},
}

// ReadLauncher reads from the environment what started this process. A process without a launcher
// is a single one.
func ReadLauncher(getenv func(string) string) (Launcher, error) {
	s, found := sourceOf(getenv)
	l := Launcher{World: 1}
	if found {
		l.Name, l.Variable = s.name, s.world
	}
	for _, v := range []struct {
		name string
		into *int
	}{{s.rank, &l.Rank}, {s.localRank, &l.LocalRank}, {s.world, &l.World}, {s.localWorld, &l.LocalWorld}} {
		text := getenv(v.name)
		if v.name == "" || text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			return l, fmt.Errorf("dist: the environment has %s=%q: want a number", v.name, text)
		}
		*v.into = n
	}
	if err := l.refine(s, getenv); err != nil {
		return l, err
	}
	if l.World > 1 {
		l.meet(getenv)
	}
	return l, nil
}

// sourceOf returns the first launcher whose variables are set. Without one it returns the plain
// environment variables, since RANK may be set without WORLD_SIZE.
func sourceOf(getenv func(string) string) (s source, found bool) {
	for _, s := range sources {
		if getenv(s.world) != "" && (s.needs == "" || getenv(s.needs) != "") {
			return s, true
		}
	}
	return sources[0], false
}

// refine adds what only some launchers provide, and rejects processes whose launcher does not say
// which rank they are.
func (l *Launcher) refine(s source, getenv func(string) string) error {
	inner := getenv("LOCAL_RANK") != "" // torchrun or gotrainer launch, started by Kubeflow
	switch {
	case l.Variable == "" && getenv("PMIX_RANK") != "":
		return fmt.Errorf("dist: PMIX_RANK=%s says that PMIx started this process, but not as one of how many: "+
			"start it by mpirun or srun, or set WORLD_SIZE, RANK and LOCAL_RANK", getenv("PMIX_RANK"))
	case l.Variable == "WORLD_SIZE" && getenv("TORCHELASTIC_RUN_ID") != "":
		l.Name = "torchrun"
	case l.Variable == "WORLD_SIZE" && getenv(storeVariable) != "":
		l.Name = "gotrainer launch"
	case l.Variable == "WORLD_SIZE" && !inner && getenv("PET_MASTER_ADDR") != "":
		l.Name = "Kubeflow (PyTorchJob)"
	}
	switch {
	case strings.HasPrefix(l.Name, "Kubeflow"):
		each := getenv("PET_NPROC_PER_NODE")
		if n, err := strconv.Atoi(each); err == nil && n > 1 {
			return fmt.Errorf("dist: PET_NPROC_PER_NODE=%s says that each machine runs %d processes, and the "+
				"container has started one: begin its command with gotrainer launch, which reads PET_*, or set the "+
				"job's processes per node to 1", each, n)
		}
	case s.name == "srun":
		if getenv("SLURM_STEP_NUM_NODES") == "1" {
			l.LocalWorld = l.World
		}
		l.job = "slurm." + getenv("SLURM_JOB_ID") + "." + getenv("SLURM_STEP_ID")
	case strings.HasPrefix(s.name, "mpirun"):
		l.job = getenv("PMIX_NAMESPACE")
	}
	return nil
}

// storeVariable is set by torchrun, and by gotrainer launch, if the launcher serves the store.
const storeVariable = "TORCHELASTIC_USE_AGENT_STORE"

// meet sets where the processes meet: from MASTER_ADDR and MASTER_PORT, or derived from the
// launcher's own variables.
func (l *Launcher) meet(getenv func(string) string) {
	host, port := getenv("MASTER_ADDR"), getenv("MASTER_PORT")
	if strings.HasPrefix(l.Name, "Kubeflow (TrainJob") {
		host, port = getenv("PET_MASTER_ADDR"), getenv("PET_MASTER_PORT")
	}
	scheduler := l.Name == "srun" || strings.HasPrefix(l.Name, "mpirun")
	switch local := l.LocalWorld == l.World; {
	case host == "" && scheduler && local:
		host = "127.0.0.1"
	case host == "" && l.Name == "srun":
		host = firstNode(getenv("SLURM_STEP_NODELIST"))
	}
	switch {
	case port == "" && l.Name == "srun":
		port = jobPort(getenv("SLURM_JOB_ID"))
	case port == "" && scheduler && l.job != "":
		port = jobPort(l.job)
	}
	if host == "" || port == "" {
		return
	}
	l.Address = net.JoinHostPort(strings.Trim(host, "[]"), port)
	l.Store = getenv(storeVariable) == "True"
}

// String returns the text that gotrainer doctor prints.
func (l Launcher) String() string {
	if l.Name == "" {
		return "none: a program started here is one process"
	}
	text := fmt.Sprintf("%s (%s): rank %d of %d, local rank %d", l.Name, l.Variable, l.Rank, l.World, l.LocalRank)
	if l.LocalWorld > 0 {
		text += fmt.Sprintf(" of %d", l.LocalWorld)
	}
	switch {
	case l.World == 1:
		return text
	case l.Address == "":
		return text + "; MASTER_ADDR and MASTER_PORT do not say where the processes meet"
	case l.Store:
		return text + "; the launcher keeps the store at " + l.Address
	}
	return text + "; rank 0 opens the store at " + l.Address
}

// firstNode returns the first host of a Slurm node list such as "gpu[03-05,9],login1".
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

// jobPort returns a port that all processes of a job agree on and that other jobs on the machine
// are unlikely to use: 20000 plus the last four digits of the job number, or of a hash of its name.
func jobPort(job string) string {
	n, err := strconv.ParseUint(job, 10, 64)
	if err != nil && job != "" {
		h := fnv.New64a()
		_, _ = h.Write([]byte(job)) // a hash never returns an error
		n = h.Sum64()
	}
	return strconv.FormatUint(20000+n%10000, 10)
}
