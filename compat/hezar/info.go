package hezar

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/gotrainer/gotrainer/nn"
)

// PrintInfo writes Hezar's table of a run to Options.Output.
func (t *Trainer[S, B]) PrintInfo() {
	c := &t.Config
	or := func(text, otherwise string) string {
		if text == "" {
			return otherwise
		}
		return text
	}
	evaluation := "N/A"
	if t.options.EvalDataset != nil {
		evaluation = fmt.Sprintf("%T(%d)", t.options.EvalDataset, t.options.EvalDataset.Len())
	}
	steps := func(s Steps) string {
		if s.isZero() {
			return "None"
		}
		return s.String()
	}
	total, trainable := nn.CountParams(t.model.Model())
	header := strings.Repeat("*", 20) + " Training Info " + strings.Repeat("*", 20)
	t.say("\n%s\n\n", header)
	for _, line := range []struct{ name, value string }{
		{"Output Directory", c.OutputDir}, {"Task", c.Task}, {"Model", fmt.Sprintf("%T", t.model.Model())},
		{"Init Weights", or(c.InitWeightsFrom, "N/A")}, {"Device(s)", t.device.String()},
		{"Batch Size", fmt.Sprint(c.BatchSize)}, {"Epochs", fmt.Sprint(c.NumEpochs)},
		{"Total Steps", fmt.Sprint(t.TotalSteps)},
		{"Training Dataset", fmt.Sprintf("%T(%d)", t.train, t.train.Len())}, {"Evaluation Dataset", evaluation},
		{"Optimizer", or(c.Optimizer, "adam")}, {"Scheduler", or(c.LRScheduler, "None")},
		{"Initial Learning Rate", fmt.Sprint(c.LearningRate)}, {"Learning Rate Decay", fmt.Sprint(c.WeightDecay)},
		{"Number of Parameters", fmt.Sprint(total)},
		{"Number of Trainable Parameters", fmt.Sprint(trainable)},
		{"Mixed Precision", or(c.MixedPrecision, "Full (fp32)")}, {"Gradient Accumulation Steps",
			fmt.Sprint(c.GradientAccumulationSteps)},
		{"Metrics", fmt.Sprint(t.handler.Keys())}, {"Save Steps", steps(c.SaveSteps)}, {"Log Steps", steps(c.LogSteps)},
		{"Checkpoints Path", c.OutputDir + "/" + c.CheckpointsDir}, {"Logs Path", t.State.LogsDir},
	} {
		t.say("  %s: %s\n", line.name, line.value)
	}
	t.say("\n%s\n\n", strings.Repeat("*", len(header)))
}

// bar is the line that shows how far an epoch is. On a terminal it is redrawn; elsewhere only its
// last state is written.
type bar struct {
	say          func(format string, args ...any)
	line         func() string
	terminal     bool
	start, drawn time.Time
}

func (t *Trainer[S, B]) newBar(epoch int) *bar {
	b := &bar{say: t.say, start: time.Now()}
	if f, ok := t.options.Output.(*os.File); ok {
		info, err := f.Stat()
		b.terminal = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	b.line = func() string {
		return fmt.Sprintf("%-16s%3d%% %d/%d [%s, loss=%.4g]", fmt.Sprintf("Epoch: %d/%d", epoch, t.Config.NumEpochs),
			100*t.State.EpochStep/max(1, t.StepsInEpoch), t.State.EpochStep, t.StepsInEpoch,
			time.Since(b.start).Round(time.Second), t.loss.Mean)
	}
	return b
}

const redraw = 100 * time.Millisecond

// show draws the line, if it is time to.
func (b *bar) show() {
	if now := time.Now(); b.terminal && now.Sub(b.drawn) >= redraw {
		b.drawn = now
		b.say("\r%s", b.line())
	}
}

// end leaves the line standing.
func (b *bar) end() { b.say("%s%s\n", map[bool]string{true: "\r"}[b.terminal], b.line()) }
