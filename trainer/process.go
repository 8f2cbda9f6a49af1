package trainer

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/gotrainer/gotrainer/dist"
)

// Process says which of the processes of a run this one is.
type Process struct {
	Rank      int // 0 is the main process
	LocalRank int // rank among the processes of this machine
	World     int // number of processes in the run
}

// Main reports whether this is the process that shows progress, writes files and uploads.
func (p Process) Main() bool { return p.Rank == 0 }

// processFromEnv returns the process as its launcher describes it. Without a launcher, a process is
// alone.
func processFromEnv(getenv func(string) string) (Process, error) {
	l, err := dist.ReadLauncher(getenv)
	if err != nil {
		return Process{}, fmt.Errorf("trainer: %w", err)
	}
	p := Process{Rank: l.Rank, LocalRank: l.LocalRank, World: l.World}
	return p, p.validate("the environment")
}

func (p Process) validate(where string) error {
	if p.World < 1 || p.Rank < 0 || p.Rank >= p.World || p.LocalRank < 0 || p.LocalRank > p.Rank {
		return fmt.Errorf("trainer: %s says rank %d, local rank %d of %d processes: want 0 <= local rank <= rank < "+
			"processes", where, p.Rank, p.LocalRank, p.World)
	}
	return nil
}

// resolveProcess determines which process this is, and turns off the progress and most of the log
// of all but the main one.
func (o *Options) resolveProcess() (err error) {
	if o.Group != nil {
		if o.Process != (Process{}) {
			return wrong("Process", fmt.Sprintf("%+v", o.Process), "its zero value, since Group says which process this is")
		}
		o.Process = Process{Rank: o.Group.Rank(), LocalRank: o.Group.LocalRank(), World: o.Group.World()}
	} else if o.Process == (Process{}) {
		o.Process, err = processFromEnv(os.Getenv)
	} else {
		o.processSet, err = true, o.Process.validate("Options.Process")
	}
	if err != nil {
		return err
	}
	if o.Progress == nil {
		o.Progress = os.Stderr
	}
	level := cmp.Or[slog.Leveler](o.LogLevel, slog.LevelInfo)
	if !o.Process.Main() {
		o.Progress = io.Discard
		if !(o.LogOnEachNode && o.Process.LocalRank == 0) {
			level = cmp.Or[slog.Leveler](o.LogLevelReplica, slog.LevelWarn)
		}
	}
	switch {
	case o.Logger != nil:
	case o.Progress == io.Discard: // the progress would have shown the warnings
		o.Logger = slog.New(newWarner())
	default:
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Logger = slog.New(levelHandler{o.Logger.Handler(), func(l slog.Level) bool { return l >= level.Level() }})
	if o.Process.World > 1 {
		o.Logger = o.Logger.With("rank", o.Process.Rank)
	}
	return nil
}
