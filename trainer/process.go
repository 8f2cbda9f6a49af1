package trainer

import (
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
)

// Process is the place of this process among those of one run.
type Process struct {
	Rank      int // 0 is the main process
	LocalRank int // among those of this machine
	World     int // processes of the run
}

// Main reports whether this is the process that shows progress, writes files and uploads.
func (p Process) Main() bool { return p.Rank == 0 }

// ProcessFromEnv reads RANK, LOCAL_RANK and WORLD_SIZE, as torchrun sets them. A process without
// them is alone.
func ProcessFromEnv(getenv func(string) string) (Process, error) {
	p := Process{World: 1}
	for _, v := range []struct {
		name string
		into *int
	}{{"RANK", &p.Rank}, {"LOCAL_RANK", &p.LocalRank}, {"WORLD_SIZE", &p.World}} {
		text := getenv(v.name)
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			return Process{}, fmt.Errorf("trainer: the environment has %s=%q: want a number", v.name, text)
		}
		*v.into = n
	}
	return p, p.validate("the environment")
}

func (p Process) validate(where string) error {
	if p.World < 1 || p.Rank < 0 || p.Rank >= p.World || p.LocalRank < 0 || p.LocalRank > p.Rank {
		return fmt.Errorf("trainer: %s says rank %d, local rank %d of %d processes: want 0 <= local rank <= rank < "+
			"processes", where, p.Rank, p.LocalRank, p.World)
	}
	return nil
}

// resolveProcess finds out which process this is, and silences those that are not the main one.
func (o *Options) resolveProcess() (err error) {
	if o.Group != nil {
		if o.Process != (Process{}) {
			return &OptionError{"Process", fmt.Sprintf("%+v", o.Process),
				"its zero value, since Group says which process this is"}
		}
		o.Process = Process{Rank: o.Group.Rank(), LocalRank: o.Group.LocalRank(), World: o.Group.World()}
	} else if o.Process == (Process{}) {
		o.Process, err = ProcessFromEnv(os.Getenv)
	} else {
		err = o.Process.validate("Options.Process")
	}
	if err != nil {
		return err
	}
	if o.Progress == nil {
		o.Progress = os.Stderr
	}
	level := o.LogLevel
	if level == nil {
		level = slog.LevelInfo
	}
	if !o.Process.Main() {
		o.Progress = io.Discard
		if level = o.LogLevelReplica; level == nil {
			level = slog.LevelWarn
		}
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	o.Logger = slog.New(levelHandler{o.Logger.Handler(), level})
	if o.Process.World > 1 {
		o.Logger = o.Logger.With("rank", o.Process.Rank)
	}
	return nil
}
