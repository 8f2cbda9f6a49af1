package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/gotrainer/gotrainer/dist/launch"
	"github.com/gotrainer/gotrainer/run"
)

// launchCommand starts a program several times, as torchrun --no-python and accelerate launch do.
type launchCommand struct {
	Processes  int           `short:"n" name:"processes" aliases:"nproc-per-node" help:"Processes on this machine; otherwise given by --num_processes, PET_NPROC_PER_NODE or a configuration."`
	Restarts   *int          `name:"max-restarts" aliases:"max_restarts" help:"How many times all processes are restarted after one has failed, as in torchrun."`
	Nodes      int           `name:"nnodes" aliases:"num_machines" help:"Number of machines; start the launcher on each."`
	NodeRank   *int          `name:"node-rank" aliases:"machine_rank" help:"Number of this machine, from 0."`
	Master     string        `name:"master" placeholder:"HOST:PORT" help:"Where the machines meet: an address of machine 0 and a free port there."`
	Grace      time.Duration `name:"grace" default:"30s" help:"How long a process may take to end after SIGTERM."`
	ConfigFile string        `name:"config_file" aliases:"config-file" placeholder:"FILE" help:"File that gotrainer config or accelerate config wrote. Without -n, accelerate's own file is used if there is one."`
	NumAll     int           `name:"num_processes" aliases:"num-processes" help:"Processes on all machines together."`
	Precision  string        `name:"mixed_precision" aliases:"mixed-precision" enum:",no,bf16,fp16" default:"" help:"no, bf16 or fp16: sets ACCELERATE_MIXED_PRECISION for the processes."`
	CPU        bool          `name:"cpu" help:"Train on the CPU: sets ACCELERATE_USE_CPU."`
	FSDP       bool          `name:"use_fsdp" aliases:"use-fsdp" help:"Shard the model over the processes: ZeRO stage 3, or as --fsdp_sharding_strategy says."`
	Strategy   string        `name:"fsdp_sharding_strategy" aliases:"fsdp-sharding-strategy" help:"FULL_SHARD or SHARD_GRAD_OP."`
	DeepSpeed  bool          `name:"use_deepspeed" aliases:"use-deepspeed" help:"Shard the model over the processes: ZeRO stage 2, or as --zero_stage says."`
	Stage      string        `name:"zero_stage" aliases:"zero-stage" help:"0, 1, 2 or 3."`
	Command    []string      `arg:"" passthrough:"" help:"The program and its arguments."`

	perNode int // processes on each machine, from PET_NPROC_PER_NODE
}

// Run is called by kong.
func (c *launchCommand) Run(ctx context.Context) error {
	o, err := c.options()
	if err != nil {
		return run.Usage(err)
	}
	if len(o.Command) > 0 {
		if _, err := exec.LookPath(o.Command[0]); err != nil {
			return run.Usage(fmt.Errorf("launch: cannot start a program %s; want one that is built: %w", o.Command[0], err))
		}
	}
	signals := make(chan os.Signal, 8)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGUSR1} {
		if !signal.Ignored(s) { // under nohup, SIGHUP stays ignored, also in the processes
			signal.Notify(signals, s)
		}
	}
	defer signal.Stop(signals)
	o.Signals = passedOn(signals)
	// signals are passed on to the processes, rather than ending the context
	return launch.Run(context.WithoutCancel(ctx), o)
}

// passedOn passes the signals on. From the first one on, a line that nobody reads does not end the
// launcher, and with it the processes while they save: of "gotrainer launch ... | tee log", Ctrl-C
// ends tee too.
func passedOn(signals <-chan os.Signal) <-chan os.Signal {
	out := make(chan os.Signal, cap(signals))
	go func() {
		for s := range signals {
			signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
			out <- s
		}
	}()
	return out
}

// options returns the options of the configuration, overridden by the flags.
func (c *launchCommand) options() (launch.Options, error) {
	config, found, err := c.config()
	if err != nil {
		return launch.Options{}, err
	}
	if err := c.fromPET(os.Getenv, &config, found); err != nil {
		return launch.Options{}, err
	}
	if c.Nodes != 0 {
		config.NumMachines = c.Nodes
	}
	if c.NodeRank != nil {
		config.MachineRank = *c.NodeRank
	}
	if c.Processes > 0 && c.NumAll > 0 {
		return launch.Options{}, errors.New("launch: -n and --num_processes both say how many processes; want one of " +
			"them")
	}
	switch {
	case c.Processes != 0:
		config.NumProcesses = c.Processes * config.NumMachines
	case c.NumAll != 0:
		config.NumProcesses = c.NumAll
	case c.perNode != 0:
		config.NumProcesses = c.perNode * config.NumMachines
	case !found:
		return launch.Options{}, errors.New("launch: give the number of processes: -n 4, --num_processes 4, or a " +
			"configuration (gotrainer config)")
	}
	if c.Precision != "" {
		config.MixedPrecision = c.Precision
	}
	if err := c.sharding(&config); err != nil {
		return launch.Options{}, err
	}
	if config.UseCPU = config.UseCPU || c.CPU; config.NumProcesses == 1 {
		config.DistributedType, config.FSDP, config.DeepSpeed = "NO", nil, nil // nothing to shard
	}
	command := c.Command
	if len(command) > 0 && command[0] == "--" {
		command = command[1:]
	}
	if c.Master != "" {
		host, port, err := net.SplitHostPort(c.Master)
		if config.MainProcessPort, _ = strconv.Atoi(port); err != nil || config.MainProcessPort < 1 {
			return launch.Options{}, fmt.Errorf("launch: --master is %q; want HOST:PORT", c.Master)
		}
		config.MainProcessIP = host
	}
	o, err := config.Options(command...)
	o.Grace = c.Grace
	if c.Restarts != nil {
		o.MaxRestarts = *c.Restarts
	}
	if !found && c.Precision == "" { // without a configuration, keep the variable of the environment
		o.Env = slices.DeleteFunc(o.Env, func(s string) bool { return s == "ACCELERATE_MIXED_PRECISION=no" })
	}
	return o, err
}

// sharding applies the flags of FSDP and DeepSpeed to the configuration.
func (c *launchCommand) sharding(config *launch.Config) error {
	switch {
	case c.FSDP && c.DeepSpeed:
		return errors.New("launch: --use_fsdp and --use_deepspeed are both set; want one of them")
	case c.Strategy != "" && !c.FSDP || c.Stage != "" && !c.DeepSpeed:
		return errors.New("launch: --fsdp_sharding_strategy needs --use_fsdp, and --zero_stage needs --use_deepspeed")
	case c.FSDP:
		config.DistributedType, config.FSDP, config.DeepSpeed = "FSDP", map[string]string{}, nil
		if c.Strategy != "" {
			config.FSDP["fsdp_sharding_strategy"] = c.Strategy
		}
	case c.DeepSpeed:
		config.DistributedType, config.FSDP, config.DeepSpeed = "DEEPSPEED", nil, map[string]string{}
		if c.Stage != "" {
			config.DeepSpeed["zero_stage"] = c.Stage
		}
	}
	return nil
}

// config reads the configuration that --config_file names, or accelerate's default file if no flag
// gives the number of processes.
func (c *launchCommand) config() (config launch.Config, found bool, err error) {
	config = launch.Config{DistributedType: "MULTI_GPU", MixedPrecision: "no", NumMachines: 1, NumProcesses: -1,
		GPUIDs: "all"}
	path := c.ConfigFile
	if path == "" {
		if c.Processes != 0 || c.NumAll != 0 {
			return config, false, nil
		}
		if path, err = launch.DefaultConfigFile(); err != nil {
			return config, false, err
		}
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return config, false, nil
		}
		fmt.Fprintf(os.Stderr, "gotrainer: the configuration is %s\n", path)
	}
	config, err = launch.ReadConfig(path)
	return config, true, err
}
