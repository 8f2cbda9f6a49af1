package hezar

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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

// What a process that a test starts is told by its environment: what it does, and where.
const (
	rankRole = "HEZAR_TEST_ROLE"
	rankDir  = "HEZAR_TEST_DIR"
)

// firm is tiny without dropout.
type firm struct{ *tiny }

func (m firm) Predict(p engine.ForwardPass, b points) engine.Outputs {
	h := m.In.Forward(engine.Input(p, b.x, int64(len(b.classes)), 2)).Tanh()
	return engine.Outputs{Logits: []torch.Tensor{m.Out.Forward(h)}, Labels: []torch.Tensor{engine.Input(p, b.classes)},
		Rows: len(b.classes)}
}

func (m firm) Loss(p engine.ForwardPass, b points) engine.Loss { return m.LossOf(p, m.Predict(p, b)) }

// trainOnProcesses trains by a role, alone or as one of several, and writes the weights and the log.
func trainOnProcesses(role, dir string) error {
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
			if updates++; updates == 3 && g.Rank() == 1 { // rank 0 is not told
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
	assert.Len(t, events, 1, "the main process alone writes")
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
