package hezar

import (
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/ranktest"
	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// Environment variables of the processes that a test starts: what they do, and in which folder.
const (
	rankRole = "HEZAR_TEST_ROLE"
	rankDir  = "HEZAR_TEST_DIR"
)

// recorded is the prefix of a process's role in a recorded run; the run's name follows.
const recorded = "recorded "

// firm is tiny without dropout.
type firm struct{ *tiny }

func (m firm) Predict(p engine.ForwardPass, b points) engine.Outputs {
	h := m.In.Forward(engine.Input(p, b.x, int64(len(b.classes)), 2)).Tanh()
	return engine.Outputs{Logits: []torch.Tensor{m.Out.Forward(h)}, Labels: []torch.Tensor{engine.Input(p, b.classes)},
		Rows: len(b.classes)}
}

func (m firm) Loss(p engine.ForwardPass, b points) engine.Loss { return m.LossOf(p, m.Predict(p, b)) }

// recordedRuns are the runs recorded by testdata/two_processes.py.
var recordedRuns = map[string]struct {
	world  int
	config TrainerConfig
}{
	"plain": {2, TrainerConfig{BatchSize: 2, NumEpochs: 2}},
	"accumulated": {2, TrainerConfig{BatchSize: 2, NumEpochs: 3, GradientAccumulationSteps: 4, Optimizer: "adamw",
		WeightDecay: 0.1, LRScheduler: "exponential", LRSchedulerKwargs: omegaconf.Map{{Key: "gamma", Value: 0.9}},
		LRSchedulingSteps: 2}},
	"three": {3, TrainerConfig{BatchSize: 1, NumEpochs: 2, GradientAccumulationSteps: 3, Optimizer: "sdg",
		DataloaderShuffle: new(false)}},
}

// replayOnProcesses is the main function of a process in a recorded run.
func replayOnProcesses(name, dir string) error {
	g, err := dist.Init(context.Background(), dist.Options{JoinTimeout: time.Minute})
	if err != nil {
		return err
	}
	defer func() { _ = g.Close() }()
	c := recordedRuns[name].config
	c.OutputDir, c.Task, c.UseCPU, c.LearningRate = filepath.Join(dir, "run"), "text_classification", true, 0.05
	c.Metrics, c.DoEvaluate, c.SaveEnabled, c.Distributed = []string{"accuracy"}, new(false), new(false), true
	var seen []int64
	var losses, norms, rates []torch.Tensor
	o := tinyOptions{Group: g, Output: io.Discard, Rules: Exact}
	o.Rules.SaveSwitchIgnored = false
	o.Overrides.PrepareInputBatch = func(_ *Trainer[point, points], b points) (points, error) {
		seen = append(seen, b.rows...)
		return b, nil
	}
	o.Overrides.TrainingStep = func(t *Trainer[point, points], b points) (torch.Tensor, error) {
		loss, err := t.TrainingStep(b)
		if err == nil {
			losses = append(losses, loss.Clone().Keep())
		}
		return loss, err
	}
	o.Overrides.AfterUpdate = func(t *Trainer[point, points]) error {
		var all []torch.Tensor
		for _, p := range nn.Params(t.Model().Model()) {
			all = append(all, p.Tensor.Grad().Flatten(0, -1))
		}
		norms = append(norms, torch.Cat(all, 0).Norm(2).Keep())
		rates = append(rates, torch.From([]float64{t.LearningRate()}, 1).Squeeze().Keep())
		return nil
	}
	tr, err := New[point, points](c, newTiny(2), cloud(22), o)
	if err != nil {
		return err
	}
	if err := tr.Train(context.Background()); err != nil {
		return err
	}
	entries, err := tensorio.Entries(append(nn.StateDict(tr.Model().Model()),
		torch.Named{Name: "seen", Tensor: torch.From(seen, int64(len(seen)))},
		torch.Named{Name: "losses", Tensor: torch.Stack(losses, 0)},
		torch.Named{Name: "norms", Tensor: torch.Stack(norms, 0)},
		torch.Named{Name: "rates", Tensor: torch.Stack(rates, 0)}))
	if err != nil {
		return err
	}
	return safetensors.WriteFile(filepath.Join(dir, fmt.Sprint(g.Rank())), entries, nil)
}

// trainOnProcesses trains according to a role, alone or as one of several processes, and writes the
// weights and the log.
func trainOnProcesses(role, dir string) error {
	if run, ok := strings.CutPrefix(role, recorded); ok {
		return replayOnProcesses(run, dir)
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	g, err := dist.Init(ctx, dist.Options{JoinTimeout: time.Minute})
	if err != nil {
		return err
	}
	defer func() { _ = g.Close() }()
	c := tinyConfig(filepath.Join(dir, "run"))
	c.BatchSize, c.GradientAccumulationSteps, c.NumEpochs = 4/g.World(), 2, 3
	c.Distributed = g.World() > 1
	o := tinyOptions{Group: g, EvalDataset: cloud(5), Output: io.Discard, RunName: "run"}
	var model Model[point, points] = newTiny(2)
	switch role {
	case "firm":
		model = firm{newTiny(2)}
	case "interrupted":
		updates := 0
		o.Overrides.AfterUpdate = func(*Trainer[point, points]) error {
			if updates++; updates == 3 && g.Rank() == 1 { // only rank 1 is cancelled
				cancel()
			}
			return nil
		}
	case "resumed":
		c.ResumeFromCheckpoint = Newest
	case "own backward":
		o.Overrides.TrainingStep = func(t *Trainer[point, points], b points) (torch.Tensor, error) {
			_, loss, err := t.losses(b)
			if err == nil {
				loss.Backward()
			}
			return loss.Detach(), err
		}
	}
	torch.ManualSeed(3 + uint64(g.Rank()))
	tr, err := New(c, model, cloud(24), o)
	if err != nil {
		return err
	}
	if err := tr.Train(ctx); err != nil {
		return err
	}
	entries, err := tensorio.Entries(nn.StateDict(tr.Model().Model()))
	if err != nil {
		return err
	}
	mean, _, _ := tr.RunningLoss()
	logs, err := tr.Evaluate(ctx, nil)
	if err != nil {
		return err
	}
	fmt.Printf("loss %.3f, accuracy %.1f, %.3f\n", mean, logs[0].Value, logs[1].Value)
	return safetensors.WriteFile(filepath.Join(dir, fmt.Sprint(g.Rank())), entries, nil)
}

func onProcesses(t *testing.T, role, dir string, world int) []ranktest.Process {
	t.Helper()
	testenv.RequireTorch(t)
	return ranktest.Run(t, world, 5*time.Minute, rankRole+"="+role, rankDir+"="+dir)
}

func sameWeights(t *testing.T, a, b string, exact bool) {
	t.Helper()
	want, got := golden.Load(t, a), golden.Load(t, b)
	for _, name := range want.Names() {
		if exact {
			golden.Bits(t, name, got.Tensor(name), want.Tensor(name))
		} else {
			golden.Close(t, name, got.Tensor(name), want.Tensor(name), 1e-4, 1e-5)
		}
	}
}

func TestProcessesTrainAsHezarWithGloo(t *testing.T) {
	testenv.RequireTorch(t)
	want := golden.Load(t, "testdata/two_processes.safetensors")
	for _, run := range slices.Sorted(maps.Keys(recordedRuns)) {
		t.Run(run, func(t *testing.T) {
			dir := t.TempDir()
			for rank, p := range onProcesses(t, recorded+run, dir, recordedRuns[run].world) {
				require.Zero(t, p.Code, "rank %d: %s", rank, p.Output)
			}
			for rank := range recordedRuns[run].world {
				got, prefix := golden.Load(t, filepath.Join(dir, fmt.Sprint(rank))), fmt.Sprintf("%s.%d.", run, rank)
				for _, name := range want.Names() {
					if seen, ok := strings.CutPrefix(name, prefix); ok {
						golden.Recorded(t, name, got.Tensor(seen), want.Tensor(name))
					}
				}
			}
		})
	}
}

func TestTwoProcessesTrainAsOneWithBatchesOfBoth(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	alone, both := onProcesses(t, "firm", one, 1), onProcesses(t, "firm", two, 2)
	for _, p := range append(alone, both...) {
		require.Zero(t, p.Code, p.Output)
		assert.Equal(t, alone[0].Output, p.Output, "the running loss and the metrics")
	}
	sameWeights(t, filepath.Join(one, "0"), filepath.Join(two, "0"), false)
	sameWeights(t, filepath.Join(two, "0"), filepath.Join(two, "1"), true)
	events, err := filepath.Glob(filepath.Join(two, "run", "*", "run", "events.*"))
	require.NoError(t, err)
	assert.Len(t, events, 1, "only the main process writes")
}

func TestAnInterruptionOfOneProcessIsContinuedByBothToTheBit(t *testing.T) {
	whole, broken := t.TempDir(), t.TempDir()
	for _, p := range onProcesses(t, "whole", whole, 2) {
		require.Zero(t, p.Code, p.Output)
	}
	for _, p := range onProcesses(t, "interrupted", broken, 2) {
		require.Equal(t, 3, p.Code, p.Output)
		assert.Contains(t, p.Output, "stopped after batch 6 of 18")
	}
	other := onProcesses(t, "resumed", broken, 3)
	for _, p := range other {
		require.Equal(t, 3, p.Code, p.Output)
	}
	for _, p := range onProcesses(t, "resumed", broken, 2) {
		require.Zero(t, p.Code, p.Output)
	}
	for _, rank := range []string{"0", "1"} {
		sameWeights(t, filepath.Join(whole, rank), filepath.Join(broken, rank), true)
	}
	log := filepath.Join("run", "logs", "run", csvFile)
	want, err := os.ReadFile(filepath.Join(whole, log))
	require.NoError(t, err)
	got, err := os.ReadFile(filepath.Join(broken, log))
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got))
}

func TestATrainingStepThatLeavesOutTheAveragingIsRefused(t *testing.T) {
	for _, p := range onProcesses(t, "own backward", t.TempDir(), 2) {
		require.Equal(t, 3, p.Code, p.Output)
		assert.Contains(t, p.Output, "has not called the Trainer's Backward")
	}
}
