package main

import (
	"context"
	"encoding/csv"
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/compat/hezar"
	"github.com/gotrainer/gotrainer/internal/testenv"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// command runs the program.
func command(args ...string) error {
	o, err := parse(args)
	if err != nil {
		return err
	}
	return execute(context.Background(), o)
}

// recorded is the output of the same program with Hezar 1.0.0, written by testdata/files.py.
type recorded struct {
	Files []string          // of the run's folder
	Text  map[string]string // of files of the last checkpoint
}

func hezars(t *testing.T) (r recorded) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "files.json"))
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err != nil || len(r.Files) == 0 || len(r.Text) == 0 {
		t.Fatalf("testdata/files.json: %d files, %d texts, %v", len(r.Files), len(r.Text), err)
	}
	return r
}

// files returns the sorted names of a run's files, without the parts that contain time, host or
// process.
func files(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		name, err := filepath.Rel(dir, path)
		parts := strings.Split(filepath.ToSlash(name), "/")
		if parts[0] == "logs" {
			parts[1] = "RUN"
			if before, _, events := strings.Cut(parts[2], ".tfevents."); events {
				parts[2] = before + ".tfevents"
			}
		}
		names = append(names, strings.Join(parts, "/"))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(names)
	return names
}

func TestLeavesTheFilesThatHezarLeaves(t *testing.T) {
	testenv.RequireTorch(t)
	if testing.Short() {
		t.Skip("trains for some seconds")
	}
	want := hezars(t)
	t.Chdir(t.TempDir())
	if err := command("-render", "10", "."); err != nil {
		t.Fatal(err)
	}
	if err := command("-exact", "-epochs", "2", "."); err != nil {
		t.Fatal(err)
	}
	const out = "crnn-plate-fa-v1"
	ours := slices.DeleteFunc(files(t, out), func(name string) bool {
		return strings.HasSuffix(name, "/MANIFEST.json") // of each checkpoint; Hezar has no such file
	})
	if diff := cmp.Diff(want.Files, ours); diff != "" {
		t.Errorf("files of the run (-Hezar +ours):\n%s", diff)
	}
	for name, text := range want.Text {
		got, err := os.ReadFile(filepath.Join(out, "checkpoints", "4", name))
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(text, string(got)); diff != "" {
			t.Errorf("%s (-Hezar +ours):\n%s", name, diff)
		}
	}
	log, err := os.ReadFile(only(t, filepath.Join(out, "logs", "*", "training_logs.csv")))
	if err != nil || !strings.HasPrefix(string(log), "step,train.loss,evaluation.cer,evaluation.loss\n2,") ||
		strings.Count(string(log), "\n") != 3 {
		t.Errorf("training_logs.csv is %q, %v; want a row for each of two epochs of 2 batches", log, err)
	}
}

// only returns the single file that matches a pattern.
func only(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	if err != nil || len(found) != 1 {
		t.Fatalf("%s: %q, %v; want one file", pattern, found, err)
	}
	return found[0]
}

func TestTrainsWhatItRenders(t *testing.T) {
	testenv.RequireTorch(t)
	dir := t.TempDir()
	if err := command("-small", "-render", "11", dir); err != nil {
		t.Fatal(err)
	}
	for table, want := range map[string]int{trainTable: 11, testTable: 2} {
		f, err := os.Open(filepath.Join(dir, table))
		if err != nil {
			t.Fatal(err)
		}
		rows, err := csv.NewReader(f).ReadAll()
		f.Close()
		if err != nil || len(rows) != 1+want || len(rows[0]) != 2 {
			t.Errorf("%s has %d rows, %v; want %d below the header", table, len(rows), err, want)
		}
	}
	out := filepath.Join(dir, "run")
	if err := command("-small", "-epochs", "1", "-out", out, dir); err != nil {
		t.Fatal(err)
	}
	names := files(t, out)
	for _, want := range []string{"checkpoints/2/model.pt", "checkpoints/2/train/gotrainer_state.json",
		"checkpoints/2/preprocessor/image_processor_config.yaml"} {
		if !slices.Contains(names, want) {
			t.Errorf("no %s in %q", want, names)
		}
	}
}

// This is the documented command with 5 instead of 20 epochs. Until the third, almost every
// character is wrong. Runs of all epochs, and Hezar's, are in docs/from-hezar.md.
func TestLearnsToReadPlates(t *testing.T) {
	testenv.RequireTorch(t)
	if testing.Short() {
		t.Skip("trains for half a minute")
	}
	dir := t.TempDir()
	require.NoError(t, command("-small", "-render", "400", dir))
	out := filepath.Join(dir, "run")
	require.NoError(t, command("-small", "-lr", "0.0005", "-epochs", "5", "-out", out, dir))
	state, err := hezar.LoadTrainerState(filepath.Join(out, "checkpoints", "trainer_state.yaml"))
	require.NoError(t, err)
	require.NotNil(t, state.BestMetricValue)
	assert.Less(t, *state.BestMetricValue, 0.3, "the character error rate of the best epoch")
}

func TestWrongCommandLinesAreSentences(t *testing.T) {
	if _, err := parse([]string{"-h"}); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("-h: %v", err)
	}
	for _, args := range [][]string{{}, {"a", "b"}, {"-render", "-1", "a"}} {
		if _, err := parse(args); err == nil || !strings.Contains(err.Error(), "want one folder after the flags") {
			t.Errorf("%q: error %v, want one about the folder", args, err)
		}
	}
	testenv.RequireTorch(t)
	t.Setenv("HF_HUB_OFFLINE", "1")
	t.Setenv("HF_HUB_CACHE", t.TempDir())
	base, empty := t.TempDir(), t.TempDir()
	if err := command("-small", "-render", "1", base); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{empty}, "is no folder, and no name on the Hub"},
		{[]string{"-base", empty, base}, "preprocessor"},
		{[]string{"-base", filepath.Join(base, baseFolder), empty}, `no file of the split "train"`},
		{[]string{"-render", "1", "/dev/null/plates"}, "/dev/null"},
	} {
		if err := command(c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: error %v, want one with %q", c.args, err, c.want)
		}
	}
}
