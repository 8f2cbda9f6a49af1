package pymarlin_test

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/compat/pymarlin"
)

const yaml = `
tmgr:
  epochs: 2
  train_batch_size: 32
  clip_grads: yes
  max_grad_norm: 1.0
  writers: ["stdout"]
chkp:
  save_dir: null
  period: 1
module:
  lr: 1e-5
  sizes: [1, 2]
  name: off
  inner: {depth: -1}
seed: 7
`

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestConfigOfAFolderWhoseNameIsAPattern(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "[1] run")
	require.NoError(t, os.Mkdir(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "config.yaml"), []byte(yaml), 0o600))
	c, err := pymarlin.ReadConfig(dir)
	require.NoError(t, err)
	assert.Equal(t, 7, c["seed"])
}

func TestCommandLineReplacesTheFile(t *testing.T) {
	path := write(t, yaml)
	for _, c := range []struct {
		args  string
		where []string
		want  any
	}{
		{"", []string{"tmgr", "epochs"}, 2},
		{"", []string{"tmgr", "clip_grads"}, true},
		{"", []string{"module", "lr"}, 1e-5},
		{"", []string{"module", "name"}, false},
		{"", []string{"config_path"}, path},
		{"--tmgr.epochs 4", []string{"tmgr", "epochs"}, 4},
		{"--tmgr.epochs=4", []string{"tmgr", "epochs"}, 4},
		{"--tmgr.clip_grads no", []string{"tmgr", "clip_grads"}, false},
		{"--module.name --seed 8", []string{"module", "name"}, true},
		{"--module.name --seed 8", []string{"seed"}, 8},
		{"--tmgr.max_grad_norm -1", []string{"tmgr", "max_grad_norm"}, -1.0},
		{"--chkp.save_dir out/a", []string{"chkp", "save_dir"}, "out/a"},
		{"--module.sizes 3-4-5", []string{"module", "sizes"}, []any{3, 4, 5}},
		{"--module.sizes [6,7]", []string{"module", "sizes"}, []any{6, 7}},
		{"--module.sizes 8", []string{"module", "sizes"}, []any{8}},
		{"--module.inner.depth 3", []string{"module", "inner", "depth"}, 3},
		{`--params {"--tmgr.epochs":9,"new":"x"}`, []string{"tmgr", "epochs"}, 9},
		{`--params {"--tmgr.epochs":9,"new":"x"}`, []string{"new"}, "x"},
		{`--tmgr.epochs 4 --params {"tmgr.epochs":9}`, []string{"tmgr", "epochs"}, 9},
		{"--unknown 3", []string{"tmgr", "epochs"}, 2},
	} {
		config, err := pymarlin.ConfigParser{Logger: slog.New(slog.DiscardHandler)}.Parse(append(strings.Fields(c.args),
			"--config_path", path))
		if err != nil {
			t.Errorf("%q: %v", c.args, err)
			continue
		}
		var got any = map[string]any(config)
		for _, key := range c.where {
			got = got.(map[string]any)[key]
		}
		if !reflect.DeepEqual(got, c.want) {
			t.Errorf("%q: %v is %#v, want %#v", c.args, c.where, got, c.want)
		}
	}
}

func TestCommandLineIsRefused(t *testing.T) {
	path := write(t, yaml)
	for _, c := range []struct{ args, want string }{
		{"--tmgr.epochs four", "whole number"},
		{"--tmgr.epochs", "no value"},
		{"--tmgr.clip_grads perhaps", "true or false"},
		{"--module.sizes 1-x", `in the list "1-x"`},
		{"--module 3", "name an argument in it"},
		{"--params {", "JSON object"},
		{`--params {"a.b":1}`, "no argument a.b"},
		{"--params", "no value"},
		{"--epochs 3", "no such argument"},
	} {
		_, err := pymarlin.ConfigParser{Strict: true}.Parse(append([]string{"--config_path", path},
			strings.Fields(c.args)...))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: the error is %v, want %q in it", c.args, err, c.want)
		}
	}
	if _, err := (pymarlin.ConfigParser{}).Parse([]string{"--config_path", filepath.Dir(path)}); err != nil {
		t.Errorf("a folder with one file: %v", err)
	}
	if _, err := (pymarlin.ConfigParser{}).Parse([]string{"--config_path", t.TempDir()}); !errors.Is(err,
		os.ErrNotExist) {
		t.Errorf("an empty folder: %v", err)
	}
}

func TestArgumentsAreReadByPythonsNames(t *testing.T) {
	config, err := pymarlin.ParseConfig([]byte(`
epochs: 3
use_gpu: false
clip_grads: false
train_batch_size: 16
max_train_steps_per_epoch: null
writers: []
log_level: DEBUG
amp_backend_native: false
checkpointer_args: {period: 2, checkpoint: true, model_state_save_dir: null, log_level: INFO}
stats_args: {log_steps: 5}
writer_args: {tb_log_dir: tb, tb_log_multi: false}
distributed_training_args: {world_size: 1, backend: nccl}
`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := pymarlin.TrainerArgumentsFromConfig(config)
	want := pymarlin.TrainerArguments{Epochs: 3, NoGPU: true, NoClipGrads: true, TrainBatchSize: 16,
		Writers: []string{}, LogLevel: "DEBUG",
		CheckpointerArgs:        pymarlin.CheckpointerArguments{Period: 2, NoModelState: true},
		StatsArgs:               pymarlin.StatInitArguments{LogSteps: 5},
		WriterArgs:              pymarlin.WriterInitArguments{TBLogDir: "tb"},
		DistributedTrainingArgs: &pymarlin.DistributedTrainingArguments{WorldSize: 1}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("read %+v, %v, want %+v", got, err, want)
	}
	for text, want := range map[string]string{
		"epoch: 3":                             "no argument epoch; want one of backend",
		"val_batch_size: 0":                    "val_batch_size is 0",
		"epochs: x":                            "want a whole number",
		"clip_grads: 1":                        "want true or false",
		"amp_backend_native: true":             "sp-amp",
		"differential_privacy_args: {a: 1}":    "no such training",
		"writer_args: {tb_log_multi: true}":    "the only value here is false",
		"checkpointer_args: 3":                 "want a section",
		"writers: stdout":                      "list of names",
		"checkpointer_args: {log_level: WARN}": "the only value here is INFO",
	} {
		config, err := pymarlin.ParseConfig([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := pymarlin.TrainerArgumentsFromConfig(config); !errors.Is(err, pymarlin.ErrArgument) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%q: the error is %v, want %q in it", text, err, want)
		}
	}
}

func ExampleConfigParser() {
	dir, err := os.MkdirTemp("", "config")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "config.yaml")
	if err := os.WriteFile(path, []byte("tmgr: {epochs: 1, train_batch_size: 32}\nmodule: {lr: 1e-3}\n"),
		0o600); err != nil {
		fmt.Println(err)
		return
	}
	config, err := pymarlin.ConfigParser{}.Parse([]string{"--config_path", path, "--tmgr.epochs", "4", "--params",
		`{"--module.lr": 0.01}`})
	if err != nil {
		fmt.Println(err)
		return
	}
	section, err := config.Section("tmgr")
	if err != nil {
		fmt.Println(err)
		return
	}
	args, err := pymarlin.TrainerArgumentsFromConfig(section)
	fmt.Println(args.Epochs, args.TrainBatchSize, config["module"], err)
	// Output: 4 32 map[lr:0.01] <nil>
}

func FuzzConfig(f *testing.F) {
	f.Setenv("TMPDIR", f.TempDir()) // also of its workers, which may be killed
	f.Add(yaml, "--tmgr.epochs 3 --module.sizes [1] --params {\"seed\":1}")
	f.Add("a: &x {b: 1}\nc: *x", "--c.b 2")
	f.Add("- 1", "--")
	f.Fuzz(func(t *testing.T, text, args string) {
		config, err := pymarlin.ParseConfig([]byte(text))
		if err != nil {
			return
		}
		if section, err := config.Section("tmgr"); err == nil {
			_, _ = pymarlin.TrainerArgumentsFromConfig(section)
		}
		path := filepath.Join(t.TempDir(), "c.yaml")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		words := append(strings.Fields(args), "--config_path", path)
		if config, err := (pymarlin.ConfigParser{Logger: slog.New(slog.DiscardHandler)}).Parse(words); err == nil &&
			config["config_path"] == nil {
			t.Errorf("%q: the configuration has no path", words)
		}
	})
}

func TestFetchRanksReadsWhatALauncherSays(t *testing.T) {
	for name, value := range map[string]string{"LOCAL_RANK": "1", "RANK": "3", "WORLD_SIZE": "4"} {
		t.Setenv(name, value)
	}
	want := pymarlin.DistributedTrainingArguments{LocalRank: 1, GlobalRank: 3, WorldSize: 4}
	got, err := pymarlin.FetchRanks()
	if got != want || err != nil {
		t.Errorf("read %+v, %v, want %+v", got, err, want)
	}
	t.Setenv("RANK", "first")
	if _, err := pymarlin.FetchRanks(); !errors.Is(err, pymarlin.ErrArgument) || !strings.Contains(err.Error(), "RANK") {
		t.Errorf("a rank that is no number: %v", err)
	}
}
