package warnings_test

import (
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/accelerate"
	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/checkpoint"
	"github.com/gotrainer/gotrainer/compat/pymarlin"
	"github.com/gotrainer/gotrainer/compat/pytorchaccelerated"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/data/table"
	"github.com/gotrainer/gotrainer/hub"
	"github.com/gotrainer/gotrainer/hub/hubtest"
	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

func TestMain(m *testing.M) { os.Exit(testenv.Run(m)) }

// fit runs a trainer with a step that computes nothing, without progress output.
func fit(t *testing.T, o trainer.Options, valid data.Dataset[int]) error {
	t.Helper()
	return fitStep(t, new(trainertest.Step), o, valid)
}

func fitStep(t *testing.T, step trainer.Step[int, []int], o trainer.Options, valid data.Dataset[int]) error {
	t.Helper()
	o.Progress = io.Discard
	if o.MaxSteps == 0 {
		o.MaxSteps = 2
	}
	r, err := trainer.New(step, o)
	if err != nil {
		return err
	}
	_, err = r.Fit(t.Context(), trainertest.Samples(16), valid)
	return err
}

// line returns an engine's step with one linear layer.
func line(o engine.Options) (*engine.Step[float32, []float32], error) {
	layer := nn.NewLinear(1, 1, nil)
	return engine.New(engine.TaskFunc(layer, func(s []float32) ([]float32, error) { return s, nil },
		func(p engine.ForwardPass, b []float32) engine.Loss {
			x := engine.Input(p, b, int64(len(b)), 1)
			return engine.Mean(layer.Forward(x).Square().Mean(torch.Float32), len(b))
		}), o)
}

func fitLine(t *testing.T, e engine.Options, o trainer.Options, rows ...float32) error {
	t.Helper()
	step, err := line(e)
	if err != nil {
		return err
	}
	o.Progress, o.MaxSteps = io.Discard, 2
	r, err := trainer.New(step, o)
	if err != nil {
		return err
	}
	_, err = r.Fit(t.Context(), data.Slice[float32](rows), nil)
	return err
}

// counter has a state.
type counter struct{}

func (counter) StepEnd(*trainer.Run) error    { return nil }
func (counter) MarshalState() ([]byte, error) { return []byte("1"), nil }
func (counter) UnmarshalState([]byte) error   { return nil }

// misspelt has no method of trainer.Hooks.
type misspelt struct{}

func (misspelt) OnStepEnd(*trainer.Run) error { return nil }

type tokenizer struct{}

func (tokenizer) Save(string) error { return nil }

// offline is a Pusher without a network.
type offline struct{}

func (offline) Push(context.Context, checkpoint.Upload) error { return errors.New("no route to host") }

// trained makes an output folder with checkpoints.
func trained(t *testing.T, o trainer.Options) (dir string) {
	t.Helper()
	o.OutputDir = t.TempDir()
	require.NoError(t, fit(t, o, nil))
	return o.OutputDir
}

// situations are those that would otherwise be silent, under their names in docs/warnings.md. Each
// function provokes one; its message is the error or on standard error.
var situations = map[string]func(t *testing.T) error{
	"ForceResume without ResumeFrom": func(t *testing.T) error {
		t.Helper()
		return fit(t, trainer.Options{ForceResume: true}, nil)
	},
	"IgnoreDataSkip without ResumeFrom": func(t *testing.T) error {
		t.Helper()
		return fit(t, trainer.Options{IgnoreDataSkip: true}, nil)
	},
	"KeepCheckpoints when no checkpoint is saved": func(t *testing.T) error {
		t.Helper()
		return fit(t, trainer.Options{OutputDir: t.TempDir(), Save: trainer.Never, KeepCheckpoints: 2}, nil)
	},
	"a tokenizer when no checkpoint is saved": func(t *testing.T) error {
		t.Helper()
		return fit(t, trainer.Options{ProcessingClass: tokenizer{}}, nil)
	},
	"LogLevel without Logger": func(t *testing.T) error {
		t.Helper()
		return fit(t, trainer.Options{LogLevel: slog.LevelDebug}, nil)
	},
	"MetricForBest without a validation set": func(t *testing.T) error {
		t.Helper()
		return fit(t, trainer.Options{MetricForBest: "accuracy"}, nil)
	},
	"EvalDelay with Eval Never": func(t *testing.T) error {
		t.Helper()
		return fit(t, trainer.Options{Eval: trainer.Never, EvalDelay: 1}, trainertest.Samples(2))
	},
	"Eval without a validation set": func(t *testing.T) error {
		t.Helper()
		return fit(t, trainer.Options{Eval: trainer.Every(1, trainer.Epoch)}, nil)
	},
	"a metric that the evaluation does not compute": func(t *testing.T) error {
		t.Helper()
		return fit(t, trainer.Options{MetricForBest: "accuracy", Eval: trainer.Every(1, trainer.Update)},
			trainertest.Samples(2))
	},
	"PushStrategy without Pusher": func(t *testing.T) error {
		t.Helper()
		return fit(t, trainer.Options{OutputDir: t.TempDir(), PushStrategy: trainer.PushAtEnd}, nil)
	},
	"a callback without a hook's method": func(t *testing.T) error {
		t.Helper()
		return fit(t, trainer.Options{Callbacks: []any{misspelt{}}}, nil)
	},
	"an upload that fails": func(t *testing.T) error {
		t.Helper()
		return fit(t, trainer.Options{OutputDir: t.TempDir(), Pusher: offline{}}, nil)
	},
	"a new run in the folder of an old one": func(t *testing.T) error {
		t.Helper()
		return fit(t, trainer.Options{OutputDir: trained(t, trainer.Options{})}, nil)
	},
	"a resume from another folder into the folder of an old run": func(t *testing.T) error {
		t.Helper()
		from := filepath.Join(trained(t, trainer.Options{}), "checkpoint-2")
		return fit(t, trainer.Options{OutputDir: trained(t, trainer.Options{}), ResumeFrom: from}, nil)
	},
	"a GPU checkpoint resumed on the CPU": func(t *testing.T) error {
		t.Helper()
		dir := t.TempDir()
		step, err := line(engine.Options{})
		require.NoError(t, err)
		require.NoError(t, step.Save(dir, trainer.SaveOptions{}))
		file := filepath.Join(dir, "rng_state.safetensors")
		states, metadata, err := tensorio.Load(file)
		require.NoError(t, err)
		defer tensorio.Free(states)
		gpu := torch.FromBytes(make([]byte, 16), torch.Uint8, 16) // the state of CUDA's generator: seed and offset
		require.NoError(t, tensorio.Save(file, append(states, torch.Named{Name: "cuda:3", Tensor: gpu}), metadata))
		return step.Load(dir, trainer.LoadOptions{})
	},
	"a resume with other settings": func(t *testing.T) error {
		t.Helper()
		return fit(t, trainer.Options{OutputDir: trained(t, trainer.Options{}), ResumeFrom: trainer.Latest,
			LearningRate: 0.1}, nil)
	},
	"a resume with another batch size": func(t *testing.T) error {
		t.Helper()
		return fit(t, trainer.Options{OutputDir: trained(t, trainer.Options{}), ResumeFrom: trainer.Latest,
			BatchSize: 3}, nil)
	},
	"a resume with another order inside an epoch": func(t *testing.T) error {
		t.Helper()
		return fit(t, trainer.Options{OutputDir: trained(t, trainer.Options{BatchSize: 2}), ResumeFrom: trainer.Latest,
			BatchSize: 2, Order: data.Sequential{}}, nil)
	},
	"a resume with another metric": func(t *testing.T) error {
		t.Helper()
		step := new(trainertest.Step)
		step.EvalMetrics = func(int, []int) trainer.Metrics { return trainer.Metrics{"loss": 1, "accuracy": 0.5} }
		o := trainer.Options{OutputDir: t.TempDir(), Eval: trainer.Every(1, trainer.Update)}
		require.NoError(t, fitStep(t, step, o, trainertest.Samples(2)))
		o.ResumeFrom, o.MetricForBest = trainer.Latest, "accuracy"
		return fitStep(t, step, o, trainertest.Samples(2))
	},
	"a checkpoint without the state of a callback": func(t *testing.T) error {
		t.Helper()
		return fit(t, trainer.Options{OutputDir: trained(t, trainer.Options{}), ResumeFrom: trainer.Latest,
			Callbacks: []any{counter{}}}, nil)
	},
	"a damaged checkpoint": func(t *testing.T) error {
		t.Helper()
		dir := trained(t, trainer.Options{Save: trainer.Every(1, trainer.Update)})
		require.NoError(t, os.WriteFile(filepath.Join(dir, "checkpoint-2", "trainer_state.json"), nil, 0o600))
		return fit(t, trainer.Options{OutputDir: dir, ResumeFrom: trainer.Latest}, nil)
	},
	"a file added to a checkpoint from outside": func(t *testing.T) error {
		t.Helper()
		dir := trained(t, trainer.Options{})
		require.NoError(t, os.WriteFile(filepath.Join(dir, "checkpoint-2", "vocab.txt"), nil, 0o600))
		return fit(t, trainer.Options{OutputDir: dir, ResumeFrom: trainer.Latest}, nil)
	},
	"a resume from weights alone": func(t *testing.T) error {
		t.Helper()
		return fit(t, trainer.Options{OutputDir: trained(t, trainer.Options{SaveOnlyModel: true}),
			ResumeFrom: trainer.Latest}, nil)
	},
	"several processes and a step that does not share work": func(t *testing.T) error {
		t.Helper()
		t.Setenv("WORLD_SIZE", "2")
		return fit(t, trainer.Options{}, nil)
	},
	"WORLD_SIZE without Group": func(t *testing.T) error {
		t.Helper()
		t.Setenv("WORLD_SIZE", "2")
		return fitLine(t, engine.Options{}, trainer.Options{}, 1, 2)
	},
	"srun without Group": func(t *testing.T) error {
		t.Helper()
		t.Setenv("SLURM_STEP_NUM_TASKS", "4")
		return fitLine(t, engine.Options{}, trainer.Options{}, 1, 2)
	},
	"mpirun without Group": func(t *testing.T) error {
		t.Helper()
		t.Setenv("OMPI_COMM_WORLD_SIZE", "4")
		_, err := accelerate.New(accelerate.Options{})
		return err
	},
	"an accelerate loop that trains alone": func(t *testing.T) error {
		t.Helper()
		t.Setenv("SLURM_STEP_NUM_TASKS", "4")
		_, err := accelerate.New(accelerate.Options{})
		return err
	},
	"a compat Trainer that trains alone": func(t *testing.T) error {
		t.Helper()
		t.Setenv("WORLD_SIZE", "2")
		_, err := pytorchaccelerated.New(nn.NewLinear(1, 1, nil), func(a, b torch.Tensor) torch.Tensor { return a.Sub(b) },
			optim.SGD{LR: 1}, pytorchaccelerated.Options[pytorchaccelerated.Sample, pytorchaccelerated.Batch]{})
		return err
	},
	"TotalLimit without AutomaticNaming": func(t *testing.T) error {
		t.Helper()
		_, err := accelerate.New(accelerate.Options{Project: accelerate.Project{TotalLimit: 2}})
		return err
	},
	"NaN in the data": func(t *testing.T) error {
		t.Helper()
		zero := float32(0)
		return fitLine(t, engine.Options{}, trainer.Options{}, zero/zero, 1)
	},
	"fp16 on the CPU": func(*testing.T) error {
		_, err := line(engine.Options{Precision: amp.FP16})
		return err
	},
	"CUDA graphs on the CPU": func(*testing.T) error {
		_, err := line(engine.Options{Graphs: engine.Graphs{Kinds: 1}})
		return err
	},
	"TF32 on the CPU": func(*testing.T) error {
		_, err := line(engine.Options{TF32: engine.TF32On})
		return err
	},
	"NonPaddingTokens for a task that counts no tokens": func(*testing.T) error {
		_, err := line(engine.Options{NonPaddingTokens: true})
		return err
	},
	"metrics for a task that exposes no outputs": func(*testing.T) error {
		_, err := line(engine.Options{ComputeMetrics: func(*engine.Predictions) (map[string]float64, error) {
			return nil, nil
		}})
		return err
	},
	"metrics for a task that exposes no labels": func(t *testing.T) error {
		t.Helper()
		layer := nn.NewLinear(1, 1, nil)
		step, err := engine.New(engine.PredictFunc(layer, func(s []float32) ([]float32, error) { return s, nil },
			func(p engine.ForwardPass, b []float32) engine.Outputs {
				return engine.Outputs{Logits: []torch.Tensor{layer.Forward(engine.Input(p, b, int64(len(b)), 1))}, Rows: len(b)}
			}, func(_ engine.ForwardPass, o engine.Outputs) engine.Loss {
				return engine.Mean(o.Logits[0].Square().Mean(torch.Float32), o.Rows)
			}), engine.Options{ComputeMetrics: func(*engine.Predictions) (map[string]float64, error) { return nil, nil }})
		require.NoError(t, err)
		r, err := trainer.New(step, trainer.Options{Progress: io.Discard})
		require.NoError(t, err)
		_, err = r.Evaluate(t.Context(), data.Slice[float32]{1, 2})
		return err
	},
	"an argument that the optimizer does not have": func(*testing.T) error {
		_, err := optim.ByName("sgd", optim.Arguments{LearningRate: 0.1, OptimArgs: "rank=4"})
		return err
	},
	"weights that are missing from a file": func(t *testing.T) error {
		t.Helper()
		path := filepath.Join(t.TempDir(), "model.safetensors")
		require.NoError(t, nn.Save(path, nn.NewLinear(1, 1, &nn.LinearOptions{NoBias: true}), nil))
		_, err := nn.Load(path, nn.NewLinear(1, 1, nil), nn.LoadOptions{})
		return err
	},
	"a head that is not in the files": func(t *testing.T) error {
		t.Helper()
		m, err := bert.New(bert.Config{VocabSize: 10, HiddenSize: 4, NumLayers: 1, NumHeads: 1, IntermediateSize: 4,
			MaxPositions: 8, TypeVocabSize: 2})
		require.NoError(t, err)
		dir := t.TempDir()
		require.NoError(t, m.Save(dir))
		_, err = auto.SequenceClassification(t.Context(), dir, auto.Options{})
		return err
	},
	"a row with too few columns": func(t *testing.T) error {
		t.Helper()
		path := filepath.Join(t.TempDir(), "rows.csv")
		require.NoError(t, os.WriteFile(path, []byte("label,text\nham,hello\nspam\n"), 0o600))
		rows, err := table.OpenRows[struct {
			Label string `table:"label"`
			Text  string `table:"text"`
		}](path, table.Format{})
		if err == nil {
			_, err = rows.At(1)
		}
		return err
	},
	"a Hub that is down, with a cached copy": func(t *testing.T) error {
		t.Helper()
		server, err := hubtest.New()
		require.NoError(t, err)
		defer server.Close()
		server.AddUser("me", "hf_token")
		server.CreateRepo(hubtest.Model, "me/small", hubtest.Public)
		server.Commit(hubtest.Model, "me/small", "main", map[string][]byte{"config.json": []byte("{}")})
		c := &hub.Client{Endpoint: server.URL, CacheDir: t.TempDir(), Retries: -1}
		_, err = c.Fetch(t.Context(), "me/small", nil)
		require.NoError(t, err)
		server.Inject(hubtest.Fault{Status: 503, Times: -1})
		_, err = c.Fetch(t.Context(), "me/small", nil)
		return err
	},
	"push_to_hub without a token": func(t *testing.T) error {
		t.Helper()
		server, err := hubtest.New()
		require.NoError(t, err)
		defer server.Close()
		return fit(t, trainer.Options{OutputDir: t.TempDir(), Pusher: &hub.Pusher{Repo: "me/run",
			Client: &hub.Client{Endpoint: server.URL, CacheDir: t.TempDir(), Anonymous: true}}}, nil)
	},
	"an argument that PyMarlin's configuration does not have": func(t *testing.T) error {
		t.Helper()
		path := filepath.Join(t.TempDir(), "config.yaml")
		require.NoError(t, os.WriteFile(path, []byte("tmgr:\n  epochs: 3\n"), 0o600))
		_, err := pymarlin.ConfigParser{}.Parse([]string{"--config_path", path, "--tmgr.epoch", "4"})
		return err
	},
}

func TestNothingIsSilent(t *testing.T) {
	testenv.RequireTorch(t)
	for _, name := range []string{"WORLD_SIZE", "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "HF_TOKEN"} {
		t.Setenv(name, "")
	}
	rows := documented(t)
	assert.GreaterOrEqual(t, len(rows), 20)
	for name := range situations {
		assert.Contains(t, rows, name, "docs/warnings.md has no row of it")
	}
	for name, want := range rows {
		provoke := situations[name]
		if !assert.NotNil(t, provoke, "%q is in docs/warnings.md, and nothing provokes it", name) {
			continue
		}
		t.Run(name, func(t *testing.T) {
			said, err := standardError(t, func() error { return provoke(t) })
			if want.refused {
				require.Error(t, err, "it is refused")
				said = err.Error()
			} else {
				require.NoError(t, err, "it is a warning")
			}
			assert.Contains(t, strings.ReplaceAll(said, `\"`, `"`), want.sentence)
		})
	}
}

// row is a row of docs/warnings.md.
type row struct {
	refused  bool
	sentence string
}

func documented(t *testing.T) map[string]row {
	t.Helper()
	page, err := os.ReadFile("../../docs/warnings.md")
	require.NoError(t, err)
	rows := map[string]row{}
	for _, m := range regexp.MustCompile("(?m)^\\| ([^|`]+) \\| (warning|refused) \\| `([^`]+)` \\|$").
		FindAllStringSubmatch(string(page), -1) {
		rows[m[1]] = row{m[2] == "refused", m[3]}
	}
	return rows
}

// standardError returns what f writes to standard error, including slog's default output, and its
// error.
func standardError(t *testing.T, f func() error) (text string, err error) {
	t.Helper()
	file, err := os.CreateTemp(t.TempDir(), "stderr")
	require.NoError(t, err)
	defer file.Close()
	before := os.Stderr
	os.Stderr = file
	log.SetOutput(file)
	defer func() {
		os.Stderr = before
		log.SetOutput(before)
	}()
	err = f()
	content, readErr := os.ReadFile(file.Name())
	require.NoError(t, readErr)
	return string(content), err
}
