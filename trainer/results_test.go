package trainer_test

import (
	"bytes"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

func TestResultFiles(t *testing.T) {
	dir := memoryDir(t)
	var shown bytes.Buffer
	tr, err := trainer.New(new(trainertest.Step), trainer.Options{OutputDir: dir, Epochs: 1, Progress: &shown})
	if err != nil {
		t.Fatal(err)
	}
	if err := tr.SaveState(); err == nil {
		t.Error("a state before the first run was written")
	}
	if _, err := tr.Evaluate(t.Context(), trainertest.Samples(2)); err != nil {
		t.Fatal(err)
	}
	require.ErrorContains(t, tr.SaveState(), "call Fit first", "an evaluation is no run")
	r, err := tr.Fit(t.Context(), trainertest.Samples(16), trainertest.Samples(2))
	if err != nil {
		t.Fatal(err)
	}
	row, err := tr.EvaluateAs(t.Context(), trainertest.Samples(2), "eval")
	if err != nil {
		t.Fatal(err)
	}
	for split, m := range map[string]trainer.Logs{"train": r.Metrics, "eval": row, "odd": {"odd_loss": math.NaN()}} {
		if err := tr.SaveMetrics(split, m); err != nil {
			t.Fatal(err)
		}
	}
	all := map[string]any{}
	readCase(t, filepath.Join(dir, "all_results.json"), &all)
	for _, name := range []string{"train_loss", "train_runtime", "total_flos", "epoch", "eval_loss", "eval_runtime"} {
		if _, ok := all[name].(float64); !ok {
			t.Errorf("all_results.json has %s = %v", name, all[name])
		}
	}
	if _, ok := all["step"]; ok || all["odd_loss"] != "nan" {
		t.Errorf("all_results.json: %v", all)
	}
	eval := map[string]float64{}
	readCase(t, filepath.Join(dir, "eval_results.json"), &eval)
	if diff := cmp.Diff(map[string]float64(row), eval); diff != "" {
		t.Errorf("eval_results.json:\n%s", diff)
	}
	if err := tr.SaveState(); err != nil {
		t.Fatal(err)
	}
	state := map[string]any{}
	readCase(t, filepath.Join(dir, "trainer_state.json"), &state)
	if log, _ := state["log_history"].([]any); len(log) != 3 || state["global_step"] != 2. {
		t.Errorf("trainer_state.json: update %v, %d rows", state["global_step"], len(log))
	}
	assert.InDelta(t, 1, state["num_train_epochs"], 0)
	for _, split := range []string{"", "a/b"} {
		if err := tr.SaveMetrics(split, row); err == nil {
			t.Errorf("the split %q was accepted", split)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "all_results.json"), []byte("{"), 0o666); err != nil {
		t.Fatal(err)
	}
	if err := tr.SaveMetrics("eval", row); err == nil || !strings.Contains(err.Error(), "repair or delete it") {
		t.Errorf("a damaged all_results.json: %v", err)
	}
	bare, err := trainer.New(new(trainertest.Step), trainer.Options{Progress: &shown})
	if err != nil {
		t.Fatal(err)
	}
	if bare.SaveMetrics("eval", row) == nil || bare.SaveState() == nil {
		t.Error("files without a folder: no error")
	}
}

// The output of transformers 5.17 for the same numbers.
func TestLogMetricsPrintsAsTransformersDoes(t *testing.T) {
	var shown bytes.Buffer
	tr, err := trainer.New(new(trainertest.Step), trainer.Options{Progress: &shown})
	if err != nil {
		t.Fatal(err)
	}
	tr.LogMetrics("train", trainer.Logs{"epoch": 3, "total_flos": 5.4e12, "train_loss": 0.123456,
		"train_runtime": 3725.678, "train_samples_per_second": 12.5, "step": 9})
	want := `***** train metrics *****
  epoch                    =        3.0
  total_flos               =     5029GF
  train_loss               =     0.1235
  train_runtime            = 1:02:05.67
  train_samples_per_second =       12.5
`
	if diff := cmp.Diff(want, shown.String()); diff != "" {
		t.Error(diff)
	}
}

// As transformers 5.17 prints them.
func TestRuntimesArePrintedAsPythonDoes(t *testing.T) {
	for want, seconds := range map[string]float64{"0:00:00.28": 0.29, "23:59:59.99": 86399.999,
		"1 day, 0:00:00.00": 86400, "1 day, 1:00:00.00": 90000, "12 days, 3:25:45.50": 1049145.5} {
		var shown bytes.Buffer
		tr, err := trainer.New(new(trainertest.Step), trainer.Options{Progress: &shown})
		require.NoError(t, err)
		tr.LogMetrics("train", trainer.Logs{"train_runtime": seconds})
		assert.Contains(t, shown.String(), "train_runtime = "+want+"\n")
	}
}

func TestOnlyTheMainProcessShowsAndWrites(t *testing.T) {
	dir := memoryDir(t)
	var shown, logged bytes.Buffer
	log := slog.New(slog.NewTextHandler(&logged, nil))
	options := func(rank int) trainer.Options {
		return trainer.Options{OutputDir: dir, Epochs: 1, Progress: &shown, Logger: log,
			Process: trainer.Process{Rank: rank, World: 2}, Save: trainer.Every(1, trainer.Update)}
	}
	replica := new(trainertest.Step)
	tr, err := trainer.New(replica, options(1))
	if err != nil {
		t.Fatal(err)
	}
	r, err := tr.Fit(t.Context(), trainertest.Samples(16), nil)
	if err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(dir)
	if err != nil || len(files) != 0 || shown.Len() != 0 || logged.Len() != 0 {
		t.Errorf("the replica left %v, showed %q and logged %q", files, shown.String(), logged.String())
	}
	if filepath.Base(r.Checkpoint) != "checkpoint-2" {
		t.Errorf("the checkpoint of the replica is %q", r.Checkpoint)
	}
	if tr.SaveState() != nil || tr.SaveMetrics("train", r.Metrics) != nil {
		t.Error("the methods that write files are for all processes")
	}

	main, err := trainer.New(new(trainertest.Step), options(0))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := main.Fit(t.Context(), trainertest.Samples(16), nil); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{`msg="training begins" rank=0`, "msg=saved", `msg="training ends"`} {
		if !strings.Contains(logged.String(), text) {
			t.Errorf("the main process did not log %q:\n%s", text, logged.String())
		}
	}
	// The replica resumes from what the main process has written.
	o := options(1)
	o.ResumeFrom, o.Epochs = trainer.Latest, 2
	again, err := trainer.New(new(trainertest.Step), o)
	if err != nil {
		t.Fatal(err)
	}
	if r, err := again.Fit(t.Context(), trainertest.Samples(16), nil); err != nil || r.GlobalStep != 4 {
		t.Errorf("resumed replica: %+v, %v", r, err)
	}
}

func TestLogLevels(t *testing.T) {
	for _, c := range []struct {
		claim   string
		process trainer.Process
		level   slog.Leveler
		replica slog.Leveler
		each    bool
		want    string
		not     string
	}{
		{"the main process logs from info on", trainer.Process{World: 1}, nil, nil, false, "level=INFO", "level=DEBUG"},
		{"rows are debug", trainer.Process{World: 1}, slog.LevelDebug, nil, false, "level=DEBUG msg=log", "level=WARN"},
		{"a replica is silent below warnings", trainer.Process{Rank: 1, World: 2}, slog.LevelDebug, nil, false, "",
			"level"},
		{"unless LogLevelReplica says otherwise", trainer.Process{Rank: 1, World: 2}, nil, slog.LevelInfo, false,
			"level=INFO", "level=DEBUG"},
		{"or is the first of its machine", trainer.Process{Rank: 1, World: 2}, slog.LevelDebug, nil, true,
			"level=DEBUG",
			"level=WARN"},
		{"which the second is not", trainer.Process{Rank: 1, LocalRank: 1, World: 2}, slog.LevelDebug, nil, true, "",
			"level"},
	} {
		var out bytes.Buffer
		log := slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelDebug}))
		if _, err := fitted(t, new(trainertest.Step), trainer.Options{Epochs: 1, Logger: log, LogLevel: c.level,
			LogLevelReplica: c.replica, LogOnEachNode: c.each, Process: c.process}, 8, nil); err != nil {
			t.Fatal(err)
		}
		if got := out.String(); !strings.Contains(got, c.want) || strings.Contains(got, c.not) {
			t.Errorf("%s:\n%s", c.claim, got)
		}
	}
}

func TestProcessOfOptions(t *testing.T) {
	if _, err := trainer.New(new(trainertest.Step), trainer.Options{Process: trainer.Process{Rank: 3,
		World: 2}}); err == nil {
		t.Error("rank 3 of 2 was accepted")
	}
	if !(trainer.Process{World: 2}).Main() {
		t.Error("rank 0 is the main process")
	}
}
