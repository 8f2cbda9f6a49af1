package hezar

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/text"
)

// Reads files written by Hezar in Python (testdata/files.py) and writes them again, byte for byte.
func TestFilesAreReadAndWrittenAsHezarWritesThem(t *testing.T) {
	for name, copied := range map[string]func(from, to string) error{
		"train_config.yaml": func(from, to string) error {
			c, err := LoadTrainerConfig(from)
			if err != nil {
				return err
			}
			return c.Save(to)
		},
		"trainer_state.yaml": func(from, to string) error {
			s, err := LoadTrainerState(from)
			if err != nil {
				return err
			}
			return s.Save(to)
		},
		"training_logs.csv": func(from, to string) error {
			l, err := LoadCSVLog(from)
			if err != nil {
				return err
			}
			return l.Save(to)
		},
	} {
		from, to := filepath.Join("testdata", name), filepath.Join(t.TempDir(), name)
		if err := copied(from, to); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want, _ := os.ReadFile(from)
		got, _ := os.ReadFile(to)
		if diff := cmp.Diff(string(want), string(got)); diff != "" || len(want) == 0 {
			t.Errorf("%s (-Hezar +ours):\n%s", name, diff)
		}
	}
}

func TestConfigOfAFileIsTheConfig(t *testing.T) {
	got, err := LoadTrainerConfig("testdata/train_config.yaml")
	if err != nil {
		t.Fatal(err)
	}
	want := TrainerConfig{
		OutputDir: "out/run: 1", Task: "image2text", Device: "cuda", NumEpochs: 20,
		InitWeightsFrom: "hezarai/crnn-fa-printed-96-long", ResumeFromCheckpoint: Newest, MaxSteps: Share(0.5),
		DataloaderShuffle: new(false), Seed: new(7), Optimizer: "adamw", LearningRate: 1e-5, WeightDecay: 0.01,
		LRScheduler: "multi_step",
		LRSchedulerKwargs: omegaconf.Map{{Key: "milestones", Value: []any{int64(2), int64(4)}},
			{Key: "gamma", Value: 0.5}}, LRSchedulingSteps: 3, BatchSize: 8, EvalBatchSize: 16,
		GradientAccumulationSteps: 2, MixedPrecision: "bf16", DoEvaluate: new(true), EvaluateWithGenerate: new(true),
		Metrics: []string{"wer"},
		MetricConfigs: []MetricConfig{{Name: "cer", Objective: "minimize", OutputKeys: []string{"cer"},
			NDecimals: new(6)}},
		MetricForBestModel: "evaluation.cer", SaveEnabled: new(true), SaveSteps: Count(100), LogSteps: Share(0.1),
		CheckpointsDir: "checkpoints", LogsDir: "logs",
	}
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(Steps{}), cmpopts.IgnoreFields(TrainerConfig{},
		"LRLambda")); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestWrongFilesAreRefusedByKey(t *testing.T) {
	for text, want := range map[string]string{
		"output_dir: 3":                         "output_dir is 3; want a text",
		"batch_size: many":                      "batch_size is many; want an integer",
		"learning_rat: 1.0":                     "the key learning_rat is unknown",
		"config_type: model":                    "want trainer",
		"metrics: cer":                          "metrics is cer; want a list",
		"metrics: [{name: f1, average: micro}]": "f1.average is micro; want macro",
		"save_steps: often":                     "save_steps is often",
		"resume_from_checkpoint: 3":             "resume_from_checkpoint is 3; want a text",
	} {
		path := filepath.Join(t.TempDir(), "train_config.yaml")
		if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadTrainerConfig(path); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: the error is %v, want one with %q", text, err, want)
		}
	}
}

func TestWhatAKilledProcessHasLeftOfAFileIsRemoved(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".trainer_state.yaml123", ".trainer_state.yaml.mine", ".trainer_state.csv1"} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	}
	require.NoError(t, TrainerState{Epoch: 1}.Save(filepath.Join(dir, stateFile)))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	require.Equal(t, []string{".trainer_state.csv1", ".trainer_state.yaml.mine", stateFile}, names)
}

func TestReverseDigitsAsHezar(t *testing.T) {
	for label, want := range map[string]string{ // from hezar.utils.reverse_string_digits
		"":           "",
		"abc":        "abc",
		"123":        "321",
		"۱۲ب۳۴۵":     "۵۴۳ب۲۱",
		"a12b34cc56": "a43b21cc65",
		"12--34":     "21--43",
		"1-2-":       "2-1-",
	} {
		if got := text.ReverseDigits(label); got != want {
			t.Errorf("ReverseDigits(%q) = %q, want %q", label, got, want)
		}
	}
}

func FuzzFiles(f *testing.F) {
	for _, name := range []string{"train_config.yaml", "trainer_state.yaml", "training_logs.csv"} {
		text, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte("metrics: [{name: cer}, 1]\nlr_scheduler_kwargs: {a: [1, {b: 2}]}\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		if m, err := omegaconf.Unmarshal(text); err == nil {
			if c, err := parseConfig(m); err == nil {
				if _, err := omegaconf.Marshal(c.Map()); err != nil {
					t.Errorf("a configuration that was read cannot be written: %v", err)
				}
			}
		}
		if l, err := parseCSV(string(text)); err == nil {
			again, err := parseCSV(l.text())
			if err != nil || len(again.Rows) != len(l.Rows) {
				t.Errorf("a log that was read cannot be read again: %v\n%s", err, bytes.TrimSpace(text))
			}
		}
	})
}
