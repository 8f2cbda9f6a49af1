package hezar

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/callback"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	if dir := os.Getenv(killedRun); dir != "" {
		os.Exit(runToBeKilled(dir))
	}
	if role := os.Getenv(rankRole); role != "" {
		if err := trainOnProcesses(role, os.Getenv(rankDir)); err != nil {
			fmt.Println(err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	os.Exit(testenv.Run(m))
}

// point is a sample of the tests: two features and a class.
type point struct {
	x     [2]float32
	class int64
	row   int64 // its index
}

type points struct {
	x       []float32
	classes []int64
	rows    []int64
}

// tiny is a classifier with dropout, whose masks depend on the state of the generator.
type tiny struct {
	nn.Mode

	In  *nn.Linear `module:"in"`
	Out *nn.Linear `module:"out"`
}

func newTiny(classes int64) *tiny {
	torch.ManualSeed(1)
	return &tiny{In: nn.NewLinear(2, 4, nil), Out: nn.NewLinear(4, classes, nil)}
}

func (m *tiny) Model() any { return m }

func (m *tiny) Collate(samples []point) (b points, err error) {
	for _, s := range samples {
		b.x, b.classes, b.rows = append(b.x, s.x[:]...), append(b.classes, s.class), append(b.rows, s.row)
	}
	return b, nil
}

func (m *tiny) Predict(p engine.ForwardPass, b points) engine.Outputs {
	h := functional.Dropout(m.In.Forward(engine.Input(p, b.x, int64(len(b.classes)), 2)).Tanh(), 0.3, m.Training())
	return engine.Outputs{Logits: []torch.Tensor{m.Out.Forward(h)}, Labels: []torch.Tensor{engine.Input(p, b.classes)},
		Rows: len(b.classes)}
}

func (m *tiny) LossOf(_ engine.ForwardPass, o engine.Outputs) engine.Loss {
	return engine.Mean(functional.CrossEntropy(o.Logits[0], o.Labels[0]), o.Rows)
}

func (m *tiny) Loss(p engine.ForwardPass, b points) engine.Loss { return m.LossOf(p, m.Predict(p, b)) }

func cloud(n int) data.Slice[point] {
	out := make(data.Slice[point], n)
	for i := range out {
		out[i] = point{[2]float32{float32(i%5) - 2, float32(i%3) - 1}, int64(i % 2), int64(i)}
	}
	return out
}

type tinyOptions = Options[point, points]

// tinyConfig returns a configuration to train tiny on cloud.
func tinyConfig(dir string) TrainerConfig {
	return TrainerConfig{OutputDir: dir, Task: "text_classification", UseCPU: true, NumEpochs: 2, BatchSize: 2,
		LearningRate: 0.05, Metrics: []string{"accuracy"}}
}

func newTrainer(t *testing.T, c TrainerConfig, o tinyOptions) *Trainer[point, points] {
	t.Helper()
	testenv.RequireTorch(t)
	o.Output, o.RunName = io.Discard, "run"
	if o.EvalDataset == nil {
		o.EvalDataset = cloud(5)
	}
	tr, err := New[point, points](c, newTiny(2), cloud(11), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Close() })
	return tr
}

func weightsOf(tr *Trainer[point, points]) (all []float32) {
	for _, p := range nn.Params(tr.Model().Model()) {
		all = append(all, torch.Values[float32](p.Tensor)...)
	}
	return all
}

// Interrupts a run after every batch, inside and between windows, and resumes it with a new trainer
// each time.
func TestRunIsResumedBitForBit(t *testing.T) {
	config := tinyConfig(t.TempDir())
	config.GradientAccumulationSteps, config.SaveSteps = 2, Count(1)
	config.LRScheduler, config.LRSchedulerKwargs, config.LRSchedulingSteps = "exponential",
		omegaconf.Map{{Key: "gamma", Value: 0.9}}, 1
	whole := newTrainer(t, config, tinyOptions{})
	if err := whole.Train(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := weightsOf(whole)
	died := errors.New("the process dies here")
	for stop := 1; stop < whole.TotalSteps; stop++ {
		config.OutputDir, config.ResumeFromCheckpoint = t.TempDir(), ""
		first := newTrainer(t, config,
			tinyOptions{Overrides: Overrides[point, points]{TrainingStep: func(tr *Trainer[point, points],
				b points) (torch.Tensor, error) {
				if tr.State.GlobalStep == stop {
					return torch.Tensor{}, died
				}
				return tr.TrainingStep(b)
			}}})
		if err := first.Train(t.Context()); !errors.Is(err, died) {
			t.Fatal(err)
		}
		config.ResumeFromCheckpoint = Newest
		second := newTrainer(t, config, tinyOptions{})
		if err := second.Train(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(weightsOf(second), want) {
			t.Errorf("resumed after %d batches, the weights differ", stop)
		}
		if diff := cmp.Diff(whole.State.LossTrackerAvg, second.State.LossTrackerAvg); diff != "" {
			t.Errorf("resumed after %d batches, the running loss differs: %s", stop, diff)
		}
		if diff := cmp.Diff(whole.csv, second.csv); diff != "" {
			t.Errorf("resumed after %d batches, the log differs: %s", stop, diff)
		}
	}
}

// Cancels the context of a run, which can then be resumed as if nothing had happened.
func TestCancelledRunGoesOn(t *testing.T) {
	config := tinyConfig(t.TempDir())
	config.GradientAccumulationSteps = 2
	whole := newTrainer(t, config, tinyOptions{})
	if err := whole.Train(t.Context()); err != nil {
		t.Fatal(err)
	}
	config.OutputDir = t.TempDir()
	ctx, cancel := context.WithCancel(t.Context())
	first := newTrainer(t, config,
		tinyOptions{Overrides: Overrides[point, points]{PrepareInputBatch: func(tr *Trainer[point, points],
			b points) (points, error) {
			if tr.State.GlobalStep == 2 {
				cancel()
			}
			return b, nil
		}}})
	if err := first.Train(ctx); !errors.Is(err, context.Canceled) || first.State.GlobalStep != 4 {
		t.Fatalf("the run ended at batch %d with %v, want the end of the window, 4, and context.Canceled",
			first.State.GlobalStep, err)
	}
	config.ResumeFromCheckpoint = Newest
	second := newTrainer(t, config, tinyOptions{})
	if err := second.Train(t.Context()); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(weightsOf(second), weightsOf(whole)) {
		t.Error("the weights differ")
	}
}

func TestNewRefusesWhatCannotBe(t *testing.T) {
	testenv.RequireTorch(t)
	for _, c := range []struct {
		claim  string
		change func(*TrainerConfig)
		want   string
	}{
		{"an unknown task", func(c *TrainerConfig) { c.Task = "text_classify" }, "Task"},
		{"an unknown optimizer", func(c *TrainerConfig) { c.Optimizer = "lion" }, "Optimizer"},
		{"an unknown schedule", func(c *TrainerConfig) { c.LRScheduler = "sequential" }, "LRScheduler"},
		{"a metric of another task", func(c *TrainerConfig) { c.Metrics = []string{"cer"} },
			`Metrics is "cer"; want one of ["accuracy"`},
		{"a best metric that is not computed", func(c *TrainerConfig) { c.MetricForBestModel = "f1" },
			`"evaluation.f1"`},
		{"a loss that is none", func(c *TrainerConfig) { c.MetricForBestModel = "accuracy_loss" },
			"MetricForBestModel"},
		{"a lambda without function", func(c *TrainerConfig) { c.LRScheduler = "lambda" }, "LRLambda"},
		{"a checkpoint that is not there", func(c *TrainerConfig) { c.ResumeFromCheckpoint = "nowhere" },
			"ResumeFromCheckpoint"},
		{"fp16 on a CPU", func(c *TrainerConfig) { c.MixedPrecision = "fp16" }, "MixedPrecision"},
		{"several processes", func(c *TrainerConfig) { c.Distributed = true; t.Setenv("WORLD_SIZE", "2") },
			"(WORLD_SIZE=2), but Options.Group is nil"},
		{"a share above all", func(c *TrainerConfig) { c.SaveSteps = Share(1.5) }, "SaveSteps"},
		{"arguments that the schedule has not", func(c *TrainerConfig) {
			c.LRScheduler, c.LRSchedulerKwargs = "step", omegaconf.Map{{Key: "gama", Value: 1.0}}
		}, "gama"},
		{"the old name of SaveSteps", func(c *TrainerConfig) { c.SaveFreq = 3 }, "SaveSteps"},
		{"more batches than can be counted", func(c *TrainerConfig) { c.NumEpochs, c.MaxSteps = math.MaxInt, Count(3) },
			`NumEpochs is "9223372036854775807"; want at most 4611686018427387903: an epoch has 2 batches`},
		{"no folder", func(c *TrainerConfig) { c.OutputDir = "" }, "OutputDir"},
		{"weights of something else", func(c *TrainerConfig) { c.InitWeightsFrom = "testdata" }, "InitWeightsFrom"},
	} {
		dir := t.TempDir()
		config := tinyConfig(dir)
		c.change(&config)
		_, err := New[point, points](config, newTiny(2), cloud(4), tinyOptions{EvalDataset: cloud(2),
			Output: io.Discard})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: the error is %v, want one about %s", c.claim, err, c.want)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%s: something was written", c.claim)
		}
		t.Setenv("WORLD_SIZE", "")
	}
}

// Trains with numbers whose sums would overflow.
func TestHugeNumbersOfSamplesMakeOneBatch(t *testing.T) {
	config := tinyConfig(t.TempDir())
	config.BatchSize, config.GradientAccumulationSteps = math.MaxInt, math.MaxInt
	tr := newTrainer(t, config, tinyOptions{})
	require.NoError(t, tr.Train(t.Context()))
	assert.Equal(t, [3]int{1, 2, 2}, [3]int{tr.NumBatches, tr.TotalSteps, tr.State.GlobalStep})
}

func TestHezarsNamesAndMore(t *testing.T) {
	for name, change := range map[string]func(*TrainerConfig){
		"sgd":      func(c *TrainerConfig) { c.Optimizer = "sgd" },
		"constant": func(c *TrainerConfig) { c.LRScheduler = "constant" },
		"lambda": func(c *TrainerConfig) {
			c.LRScheduler, c.LRLambda = "lambda", func(n int) float64 { return 1 / float64(n+1) }
		},
		"cyclic": func(c *TrainerConfig) {
			c.LRScheduler, c.LRSchedulerKwargs = "cyclic", omegaconf.Map{{Key: "base_lr", Value: 0.01},
				{Key: "max_lr", Value: 0.1}, {Key: "cycle_momentum", Value: false}}
		},
		"plateau": func(c *TrainerConfig) { c.LRScheduler = "reduce_on_plateau" },
	} {
		config := tinyConfig(t.TempDir())
		change(&config)
		if err := newTrainer(t, config, tinyOptions{}).Train(t.Context()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		config.ResumeFromCheckpoint = Newest
		config.NumEpochs = 3
		if tr := newTrainer(t, config, tinyOptions{}); tr.State.Epoch != 3 || tr.State.GlobalStep != 12 {
			t.Errorf("%s: resumed at epoch %d, batch %d", name, tr.State.Epoch, tr.State.GlobalStep)
		}
	}
}

func TestInitWeightsOfAnotherHead(t *testing.T) {
	config := tinyConfig(t.TempDir())
	first := newTrainer(t, config, tinyOptions{})
	if err := first.Save(filepath.Join(config.OutputDir, "base")); err != nil {
		t.Fatal(err)
	}
	config.InitWeightsFrom = filepath.Join(config.OutputDir, "base")
	m := newTiny(3)
	fresh := torch.Values[float32](m.Out.Weight)
	tr, err := New[point, points](config, m, cloud(4), tinyOptions{EvalDataset: cloud(2), Output: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	defer tr.Close()
	r := tr.InitReport()
	if len(r.Loaded) != 2 || len(r.Mismatched) != 2 {
		t.Errorf("the report is %v; want two weights loaded and two of other shapes", r)
	}
	if !slices.Equal(fresh, torch.Values[float32](m.Out.Weight)) {
		t.Error("the new head has changed")
	}
}

func TestDamagedCheckpointIsRefused(t *testing.T) {
	config := tinyConfig(t.TempDir())
	if err := newTrainer(t, config, tinyOptions{}).Train(t.Context()); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(config.OutputDir, "checkpoints", "12", "model.pt")
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	raw[len(raw)/2] ^= 1
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	config.ResumeFromCheckpoint = Newest
	if _, err := New[point, points](config, newTiny(2), cloud(11), tinyOptions{EvalDataset: cloud(2),
		Output: io.Discard}); err == nil || !strings.Contains(err.Error(), "model.pt") {
		t.Errorf("a flipped bit goes unnoticed: %v", err)
	}
}

func TestSaveEnabledFalseWritesNoCheckpoint(t *testing.T) {
	config := tinyConfig(t.TempDir())
	config.SaveEnabled, config.SaveSteps = new(false), Count(1)
	if err := newTrainer(t, config, tinyOptions{}).Train(t.Context()); err != nil {
		t.Fatal(err)
	}
	if found, _ := filepath.Glob(filepath.Join(config.OutputDir, "checkpoints", "*", "model.pt")); len(found) != 0 {
		t.Errorf("there are %v", found)
	}
}

// Compares with metrics computed independently over the whole set, whose last batch is short.
func TestEvaluationIsThatOfTheSet(t *testing.T) {
	config := tinyConfig(t.TempDir())
	config.Metrics = []string{"accuracy", "f1"}
	tr := newTrainer(t, config, tinyOptions{})
	one, err := tr.Evaluate(t.Context(), cloud(5))
	if err != nil {
		t.Fatal(err)
	}
	config.OutputDir, config.EvalBatchSize = t.TempDir(), 5
	other, err := newTrainer(t, config, tinyOptions{}).Evaluate(t.Context(), cloud(5))
	if err != nil {
		t.Fatal(err)
	}
	for i := range one {
		if math.Abs(one[i].Value-other[i].Value) > 1e-6 || one[i].Name != other[i].Name {
			t.Errorf("%s is %v in batches of 2 and %v in one of 5", one[i].Name, one[i].Value, other[i].Value)
		}
	}
}

func TestFilesOfARun(t *testing.T) {
	config := tinyConfig(t.TempDir())
	config.LogSteps = Count(4)
	o := tinyOptions{DatasetConfig: omegaconf.Map{{Key: "name", Value: "points"}},
		ModelConfig: omegaconf.Map{{Key: "name", Value: "tiny"}}}
	tr := newTrainer(t, config, o)
	if err := tr.Train(t.Context()); err != nil {
		t.Fatal(err)
	}
	var names []string
	_ = filepath.WalkDir(config.OutputDir, func(path string, e os.DirEntry, _ error) error {
		if name, _ := filepath.Rel(config.OutputDir, path); !e.IsDir() {
			if strings.HasPrefix(e.Name(), "events.") {
				name = filepath.Join(filepath.Dir(name), "events")
				f, _ := os.Open(path)
				defer f.Close()
				events, err := callback.ReadEvents(f)
				if err != nil || len(events) != 3+2*3 {
					t.Errorf("%d events (%v), want 9", len(events), err)
				}
			}
			names = append(names, name)
		}
		return nil
	})
	var want []string
	for _, step := range []string{"06", "12"} {
		for _, name := range []string{"MANIFEST.json", "model.pt", "model_config.yaml", "train/dataset_config.yaml",
			"train/gotrainer_state.json", "train/optimizer.pt",
			"train/train_config.yaml",
			"train/trainer_state.yaml"} {
			want = append(want, "checkpoints/"+step+"/"+name)
		}
	}
	want = append(want, "checkpoints/trainer_state.yaml", "logs/run/events", "logs/run/training_logs.csv")
	if diff := cmp.Diff(want, names); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	logs, err := tr.LoadCSVLogs("")
	if err != nil || len(logs.Rows) != 2 || !slices.Equal(logs.Columns, []string{"train.loss", "evaluation.accuracy",
		"evaluation.loss"}) {
		t.Errorf("the log is %v (%v)", logs, err)
	}
	state, err := LoadTrainerState(filepath.Join(config.OutputDir, "checkpoints", "trainer_state.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(tr.State, state); diff != "" {
		t.Errorf("the state read back: %s", diff)
	}
}

func TestPushSendsHezarsFiles(t *testing.T) {
	var names []string
	tr := newTrainer(t, tinyConfig(t.TempDir()), tinyOptions{Push: func(_ context.Context, repo, dir string,
		o PushOptions) error {
		if repo != "me/tiny" || o.CommitMessage != "Hezar: Upload training files" {
			t.Errorf("pushed to %s: %v", repo, o)
		}
		return filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
			if name, _ := filepath.Rel(dir, path); !e.IsDir() {
				names = append(names, name)
			}
			return err
		})
	}})
	if err := tr.PushToHub(t.Context(), "me/tiny", PushOptions{}); err != nil {
		t.Fatal(err)
	}
	if want := []string{"model.pt", "train/optimizer.pt", "train/train_config.yaml",
		"train/training_logs.csv"}; !slices.Equal(names, want) {
		t.Errorf("pushed %v, want %v", names, want)
	}
	names = nil
	if err := tr.PushToHub(t.Context(), "me/tiny", PushOptions{NoModel: true, NoOptimizer: true,
		NoLogs: true}); err != nil || !slices.Equal(names, []string{"train/train_config.yaml"}) {
		t.Errorf("pushed %v (%v)", names, err)
	}
}

func TestEveryMethodCanBeOverridden(t *testing.T) {
	var calls []string
	type T = Trainer[point, points]
	note := func(name string) { calls = append(calls, name) }
	config := tinyConfig(t.TempDir())
	config.NumEpochs, config.MaxSteps, config.LogSteps = 1, Count(1), Count(1)
	tr := newTrainer(t, config, tinyOptions{EvalDataset: cloud(2), Overrides: Overrides[point, points]{
		CreateTrainDataloader: func(t *T) (*Dataloader[points], error) {
			note("train loader")
			return t.CreateTrainDataloader()
		},
		CreateEvalDataloader: func(t *T, d data.Dataset[point]) (*Dataloader[points], error) {
			note("eval loader")
			return t.CreateEvalDataloader(d)
		},
		PrepareInputBatch: func(t *T, b points) (points, error) { note("prepare"); return t.PrepareInputBatch(b) },
		Forward:           func(t *T, b points) (engine.Outputs, error) { note("forward"); return t.Forward(b) },
		ComputeLoss: func(t *T, o engine.Outputs, b points) (torch.Tensor, error) {
			note("loss")
			return t.ComputeLoss(o, b)
		},
		TrainingStep:     func(t *T, b points) (torch.Tensor, error) { note("train"); return t.TrainingStep(b) },
		OptimizationStep: func(t *T) error { note("optimize"); return t.OptimizationStep() },
		EvaluationStep:   func(t *T, b points) (EvalOutputs, error) { note("eval"); return t.EvaluationStep(b) },
		InnerTrainingLoop: func(t *T, ctx context.Context, epoch int) (float64, error) {
			note("inner")
			return t.InnerTrainingLoop(ctx, epoch)
		},
		Evaluate: func(t *T, ctx context.Context, d data.Dataset[point]) (Logs, error) {
			note("evaluate")
			return t.Evaluate(ctx, d)
		},
		Log: func(t *T, l Logs, step int) error { note("log"); return t.Log(l, step) },
		WriteToTensorboard: func(t *T, l Logs, step int) error {
			note("tensorboard")
			return t.WriteToTensorboard(l, step)
		},
		Save:        func(t *T, path string) error { note("save"); return t.Save(path) },
		AfterUpdate: func(*T) error { note("updated"); return nil },
		AfterLoss:   func(*T, float64) error { note("loss known"); return nil },
	}})
	if err := tr.Train(t.Context()); err != nil {
		t.Fatal(err)
	}
	want := "inner, train loader, prepare, train, forward, loss, optimize, updated, loss known, save, tensorboard, " +
		"evaluate, eval loader, prepare, eval, forward, loss, log, tensorboard"
	if got := strings.Join(calls, ", "); got != want {
		t.Errorf("the calls are\n%s, want\n%s", got, want)
	}
}

func ExampleTrainerConfig() {
	c := TrainerConfig{OutputDir: "crnn-plate-fa-v1", Task: "image2text", BatchSize: 8, NumEpochs: 20,
		Metrics: []string{"cer"}, MetricForBestModel: "cer", SaveSteps: Share(0.25)}
	text, err := omegaconf.Marshal(c.Map()[2:7])
	if err != nil {
		fmt.Println(err)
	}
	best, _ := c.Map().Get("metric_for_best_model")
	fmt.Printf("%s%s\n", text, best)
	// Output:
	// output_dir: crnn-plate-fa-v1
	// task: image2text
	// device: cuda
	// num_epochs: 20
	// num_dataloader_workers: 0
	// evaluation.cer
}
