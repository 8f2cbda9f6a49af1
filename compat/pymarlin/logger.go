package pymarlin

import (
	"log/slog"
	"os"
	"strings"
)

// parseLevel reads the names of Python's logging.
func parseLevel(name string) (slog.Level, error) {
	switch strings.ToUpper(name) {
	case "DEBUG", "NOTSET":
		return slog.LevelDebug, nil
	case "INFO":
		return slog.LevelInfo, nil
	case "WARNING", "WARN":
		return slog.LevelWarn, nil
	case "ERROR":
		return slog.LevelError, nil
	case "CRITICAL", "FATAL":
		return slog.LevelError + 4, nil
	}
	return 0, argumentf("there is no log level %q; want DEBUG, INFO, WARNING, ERROR or CRITICAL", name)
}

// newLogger writes lines from a level on to standard error.
func newLogger(level string) (*slog.Logger, error) {
	l, err := parseLevel(level)
	if err != nil {
		return nil, err
	}
	return slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: l})), nil
}
