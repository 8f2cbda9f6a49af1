package hezar

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/gotrainer/gotrainer/compat/internal/loops"
	"github.com/gotrainer/gotrainer/nn"
)

// PrintInfo writes Hezar's table of a run to Options.Output.
func (t *Trainer[S, B]) PrintInfo() {
	c := &t.Config
	evaluation := "N/A"
	if t.options.EvalDataset != nil {
		evaluation = fmt.Sprintf("%T(%d)", t.options.EvalDataset, t.options.EvalDataset.Len())
	}
	steps := func(s Steps) any {
		if s.isZero() {
			return "None"
		}
		return s
	}
	total, trainable := nn.CountParams(t.model.Model())
	header := strings.Repeat("*", 20) + " Training Info " + strings.Repeat("*", 20)
	t.say("\n%s\n\n", header)
	for _, line := range []struct {
		name  string
		value any
	}{
		{"Output Directory", c.OutputDir}, {"Task", c.Task}, {"Model", fmt.Sprintf("%T", t.model.Model())},
		{"Init Weights", cmp.Or(c.InitWeightsFrom, "N/A")}, {"Device(s)", t.device}, {"Batch Size", c.BatchSize},
		{"Epochs", c.NumEpochs}, {"Total Steps", t.TotalSteps},
		{"Training Dataset", fmt.Sprintf("%T(%d)", t.train, t.train.Len())}, {"Evaluation Dataset", evaluation},
		{"Optimizer", cmp.Or(c.Optimizer, "adam")}, {"Scheduler", cmp.Or(c.LRScheduler, "None")},
		{"Initial Learning Rate", c.LearningRate}, {"Learning Rate Decay", c.WeightDecay},
		{"Number of Parameters", total}, {"Number of Trainable Parameters", trainable},
		{"Mixed Precision", cmp.Or(c.MixedPrecision, "Full (fp32)")},
		{"Gradient Accumulation Steps", c.GradientAccumulationSteps}, {"Metrics", t.handler.Keys()},
		{"Save Steps", steps(c.SaveSteps)}, {"Log Steps", steps(c.LogSteps)},
		{"Checkpoints Path", c.OutputDir + "/" + c.CheckpointsDir}, {"Logs Path", t.State.LogsDir},
	} {
		t.say("  %s: %v\n", line.name, line.value)
	}
	t.say("\n%s\n\n", strings.Repeat("*", len(header)))
}

// newBar returns the progress line of an epoch.
func (t *Trainer[S, B]) newBar(epoch int) *loops.Progress {
	start := time.Now()
	return loops.NewLine(t.options.Output, func() string {
		return fmt.Sprintf("%-16s%3d%% %d/%d [%s, loss=%.4g]", fmt.Sprintf("Epoch: %d/%d", epoch, t.Config.NumEpochs),
			100*t.State.EpochStep/max(1, t.StepsInEpoch), t.State.EpochStep, t.StepsInEpoch,
			time.Since(start).Round(time.Second), t.loss.Mean)
	})
}
