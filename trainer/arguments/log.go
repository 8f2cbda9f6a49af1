package arguments

import (
	"log/slog"
	"os"

	"github.com/gotrainer/gotrainer/trainer"
)

const levelNames = "detail debug info warning error critical passive"

// verbosity is the environment variable that determines the level "passive".
const verbosity = "TRANSFORMERS_VERBOSITY"

// levels are the levels of Python's logging. "detail" is "debug" with the location in the source.
var levels = map[string]slog.Level{"detail": slog.LevelDebug, "debug": slog.LevelDebug, "info": slog.LevelInfo,
	"warning": slog.LevelWarn, "error": slog.LevelError, "critical": slog.LevelError + 4}

// level returns the level with a name; "passive" is what the environment says, or warning:
// get_verbosity.
func level(name string) slog.Level {
	if name == "passive" {
		name = os.Getenv(verbosity)
	}
	if l, known := levels[name]; known {
		return l
	}
	return slog.LevelWarn
}

// ProcessLogLevel is get_process_log_level: the log level for a process. It is log_level for the
// first process of each machine or, if log_on_each_node is off, of the first machine only, and
// log_level_replica for all others. A program that logs should set its own loggers to it.
func (a *TrainingArguments) ProcessLogLevel(p trainer.Process) slog.Level {
	if p.Rank == 0 || a.LogOnEachNode && p.LocalRank == 0 {
		return level(a.LogLevel)
	}
	return level(a.LogLevelReplica)
}
