package trainer_test

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/checkpoint"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

func TestTwoRunsDoNotShareAFolder(t *testing.T) {
	dir := t.TempDir()
	s, err := checkpoint.Open(dir, checkpoint.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = runOnce(t.Context(), new(trainertest.Step), resumable(dir, trainer.Never))
	var locked *checkpoint.LockedError
	if !errors.As(err, &locked) || !strings.Contains(err.Error(), fmt.Sprintf("process %d", os.Getpid())) {
		t.Errorf("Fit = %v, want an error that names the process that has the folder", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestAnOldRunIsNotOverwrittenByAccident(t *testing.T) {
	dir := t.TempDir()
	o := trainer.Options{OutputDir: dir, MaxSteps: 2, Progress: io.Discard}
	if _, err := runOnce(t.Context(), new(trainertest.Step), o); err != nil {
		t.Fatal(err)
	}
	_, err := runOnce(t.Context(), new(trainertest.Step), o)
	if !errors.Is(err, trainer.ErrOldRun) || !strings.Contains(err.Error(), "trainer.Latest") ||
		!strings.Contains(err.Error(), "Options.Overwrite") {
		t.Errorf("Fit = %v, want ErrOldRun with the two ways out", err)
	}
	o.Overwrite, o.MaxSteps = true, 1
	if _, err := runOnce(t.Context(), new(trainertest.Step), o); err != nil {
		t.Fatal(err)
	}
	left, _ := filepath.Glob(dir + "/checkpoint-*")
	if len(left) != 1 || filepath.Base(left[0]) != "checkpoint-1" {
		t.Errorf("left %q, want checkpoint-1 alone", left)
	}
}

// A run that continues a checkpoint from another folder is a new run in its own folder.
func TestAForkDoesNotMixWithAnOldRun(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	fit := func(dir string, steps int, change func(*trainer.Options)) error {
		o := trainer.Options{OutputDir: dir, MaxSteps: steps, BatchSize: 1, Save: trainer.Every(1, trainer.Update),
			Log: trainer.Every(1, trainer.Update), KeepCheckpoints: 2, Progress: io.Discard}
		change(&o)
		_, err := runOnce(t.Context(), new(trainertest.Step), o)
		return err
	}
	files := func(dir string) (list map[string]string) {
		list = map[string]string{}
		require.NoError(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || d.Name() == ".lock" { // the lock file has the time at which it was taken
				return err
			}
			text, err := os.ReadFile(path)
			list[path] = string(text)
			return err
		}))
		return list
	}
	checkpoints := func(dir string) []string {
		found, err := filepath.Glob(filepath.Join(dir, "checkpoint-*"))
		require.NoError(t, err)
		for i := range found {
			found[i] = filepath.Base(found[i])
		}
		return found
	}
	require.NoError(t, fit(a, 2, func(*trainer.Options) {}))
	require.NoError(t, fit(b, 6, func(*trainer.Options) {}))
	before := files(b)

	fork := func(o *trainer.Options) { o.ResumeFrom = filepath.Join(a, "checkpoint-1") }
	require.ErrorIs(t, fit(b, 4, fork), trainer.ErrOldRun)
	assert.Equal(t, before, files(b))

	require.NoError(t, fit(b, 4, func(o *trainer.Options) { fork(o); o.Overwrite = true }))
	assert.Equal(t, []string{"checkpoint-3", "checkpoint-4"}, checkpoints(b))
	assert.Equal(t, []string{"checkpoint-1", "checkpoint-2"}, checkpoints(a))

	require.NoError(t, fit(b, 6, func(o *trainer.Options) { o.ResumeFrom = filepath.Join(b, "checkpoint-4") }))
	assert.Equal(t, []string{"checkpoint-5", "checkpoint-6"}, checkpoints(b))
	err := fit(b, 6, func(o *trainer.Options) { o.ResumeFrom, o.Overwrite = filepath.Join(b, "checkpoint-6"), true })
	assert.ErrorContains(t, err, "either resumed or started over")
}

// Under KeepOldRun the checkpoints of an earlier run remain, and a rotation keeps those with the
// highest numbers, whichever run wrote them.
func TestANewRunBesideAnOldOne(t *testing.T) {
	dir := t.TempDir()
	o := trainer.Options{OutputDir: dir, MaxSteps: 4, Save: trainer.Every(2, trainer.Update), Progress: io.Discard}
	o.Semantics.KeepOldRun = true
	if _, err := runOnce(t.Context(), new(trainertest.Step), o); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		steps, keep int
		want        []string
	}{
		{3, 0, []string{"checkpoint-2", "checkpoint-3", "checkpoint-4"}},
		{1, 2, []string{"checkpoint-3", "checkpoint-4"}}, // its own checkpoint-1 is deleted immediately
	} {
		o.MaxSteps, o.KeepCheckpoints = c.steps, c.keep
		if _, err := runOnce(t.Context(), new(trainertest.Step), o); err != nil {
			t.Fatal(err)
		}
		left, _ := filepath.Glob(dir + "/checkpoint-*")
		for i := range left {
			left[i] = filepath.Base(left[i])
		}
		if !slices.Equal(left, c.want) {
			t.Errorf("after a run of %d updates %q are left, want %q", c.steps, left, c.want)
		}
	}
}

func TestTheLogOfAnOldRunIsNotLostByAccident(t *testing.T) {
	dir := t.TempDir()
	o := trainer.Options{OutputDir: dir, MaxSteps: 1, Save: trainer.Never, Progress: io.Discard}
	if _, err := runOnce(t.Context(), new(trainertest.Step), o); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(filepath.Join(dir, "metrics.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := runOnce(t.Context(), new(trainertest.Step), o); !errors.Is(err, trainer.ErrOldRun) ||
		!strings.Contains(err.Error(), "metrics.jsonl") {
		t.Errorf("Fit = %v, want ErrOldRun", err)
	}
	if after, err := os.ReadFile(filepath.Join(dir, "metrics.jsonl")); err != nil || !slices.Equal(before, after) {
		t.Errorf("the log has changed (%v)", err)
	}
	o.Overwrite = true
	if _, err := runOnce(t.Context(), new(trainertest.Step), o); err != nil {
		t.Fatal(err)
	}
}

func TestMetricsFilesHoldTheLog(t *testing.T) {
	dir := t.TempDir()
	o := resumable(dir, trainer.Every(3, trainer.Update))
	if _, err := runOnce(t.Context(), &trainertest.Step{Inject: func(op string, n int) error {
		if op == "update" && n == 6 { // rows of updates 4 and 5 are in the files, but in no checkpoint
			return errPulledPlug
		}
		return nil
	}}, o); !errors.Is(err, errPulledPlug) {
		t.Fatal(err)
	}
	r, err := runOnce(t.Context(), new(trainertest.Step), o)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(dir, "metrics.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	var rows []trainer.Logs
	for line := range strings.Lines(string(text)) {
		var row trainer.Logs
		if err := row.UnmarshalJSON([]byte(line)); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		rows = append(rows, row)
	}
	if diff := cmp.Diff(r.History, rows); diff != "" {
		t.Errorf("metrics.jsonl (-log +file):\n%s", diff)
	}
	f, err := os.Open(filepath.Join(dir, "metrics.csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	table, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if len(table) != len(r.History)+1 || !slices.Equal(table[0][:5], []string{"step", "epoch", "loss", "grad_norm",
		"learning_rate"}) {
		t.Errorf("metrics.csv has %d rows under %q, want %d", len(table)-1, table[0], len(r.History))
	}
}
