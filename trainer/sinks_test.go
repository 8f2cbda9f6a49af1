package trainer

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestMetricsFileThatCannotBeWrittenIsNamed(t *testing.T) {
	history := []Logs{{"loss": 1, "step": 1}}
	r := &Run{GlobalStep: 3, loop: &loopView{record: &record{history: history}}}
	gone := filepath.Join(t.TempDir(), "gone", metricsFile)
	begin := func(h trainBeginHook) error { return h.TrainBegin(r) }
	for name, c := range map[string]struct {
		err   error
		cause error
		want  string
	}{
		"the record at the start": {call(r, []any{&metricsLog{path: gone, format: metricsJSONL{}}}, "TrainBegin", begin),
			fs.ErrNotExist, "trainer: after update 3: cannot write " + gone + ": no such file or directory; does the " +
				"folder still exist"},
		"the table at the start": {call(r, []any{&metricsLog{path: gone, format: &metricsCSV{}}}, "TrainBegin", begin),
			fs.ErrNotExist, "cannot write " + gone},
		"the record in the midst of it": {(&metricsLog{path: gone, format: metricsJSONL{}}).add(r, history[0]),
			fs.ErrNotExist, "cannot write " + gone},
		"a full disk": {writing("runs/a/metrics.jsonl", &os.PathError{Op: "write",
			Path: "runs/a/.metrics.jsonl17", Err: syscall.ENOSPC}), syscall.ENOSPC,
			"cannot write runs/a/metrics.jsonl: no space left on device; make room on its disk, or choose another " +
				"Options.OutputDir"},
	} {
		if c.err == nil || !errors.Is(c.err, c.cause) || !strings.Contains(c.err.Error(), c.want) ||
			strings.Contains(c.err.Error(), "trainer.metrics") {
			t.Errorf("%s: %v, want %q", name, c.err, c.want)
		}
	}
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("no /dev/full here:", err)
	}
	if err := appendTo("/dev/full", []byte("row")); !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(),
		"make room") {
		t.Errorf("a row for a full disk: %v, want ENOSPC and what to do", err)
	}
}
