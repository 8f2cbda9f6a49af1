package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/gotrainer/gotrainer/dist/launch"
)

// launchCommand starts a program several times, as torchrun --no-python does.
type launchCommand struct {
	Processes int           `short:"n" name:"processes" aliases:"nproc-per-node" required:"" help:"Processes on this machine."`
	Nodes     int           `name:"nnodes" default:"1" help:"Machines; start the launcher on each."`
	NodeRank  int           `name:"node-rank" help:"Number of this machine, from 0."`
	Master    string        `name:"master" placeholder:"HOST:PORT" help:"Where the machines meet: an address of machine 0 and a free port there."`
	Grace     time.Duration `name:"grace" default:"30s" help:"How long a process may take to end after SIGTERM."`
	Command   []string      `arg:"" passthrough:"" help:"The program and its arguments."`
}

// Run is called by kong.
func (c *launchCommand) Run(ctx context.Context) error {
	command := c.Command
	if len(command) > 0 && command[0] == "--" {
		command = command[1:]
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	// a signal is passed on as it is, and not as the end of the context
	return launch.Run(context.WithoutCancel(ctx), launch.Options{
		Processes: c.Processes, Command: command, Nodes: c.Nodes, NodeRank: c.NodeRank, Master: c.Master,
		Grace: c.Grace, Signals: signals,
	})
}
