package pytorchaccelerated

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/compat/internal/loops"
	"github.com/gotrainer/gotrainer/internal/pyfloat"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// DefaultCallbacks returns the callbacks of a Trainer for which none are given, in order:
// DEFAULT_CALLBACKS.
func DefaultCallbacks() []any {
	return []any{&MoveModulesToDevice{}, &TerminateOnNaN{}, &PrintProgress{}, &ProgressBar{}, &LogMetrics{}}
}

// GetDefaultCallbacks returns the same, with or without the progress bar: get_default_callbacks.
func GetDefaultCallbacks(progressBar bool) []any {
	return slices.DeleteFunc(DefaultCallbacks(), func(c any) bool {
		_, bar := c.(*ProgressBar)
		return bar && !progressBar
	})
}

// MoveModulesToDevice moves the modules in Options.Modules, such as those of a loss or a metric,
// to the device of the run when it starts. The Trainer itself moves the model.
type MoveModulesToDevice struct{}

func (*MoveModulesToDevice) OnTrainingRunStart(r *Run) error {
	for _, module := range r.modules {
		nn.To(module, torch.TensorOptions{Device: r.Device()})
	}
	return nil
}

func (m *MoveModulesToDevice) OnEvaluationRunStart(r *Run) error { return m.OnTrainingRunStart(r) }

// TerminateOnNaN ends a run if a loss is nan or infinite, before its backward pass. Train or
// Evaluate then returns an error for which errors.Is(err, ErrNonFiniteLoss) holds; the process
// continues.
type TerminateOnNaN struct{ where string }

// OnTrainingRunStart forgets previous runs.
func (t *TerminateOnNaN) OnTrainingRunStart(*Run) error {
	t.where = ""
	return nil
}

// OnTrainStepEnd checks the loss of a training step. All processes end if one has such a loss.
func (t *TerminateOnNaN) OnTrainStepEnd(r *Run, e TrainStepEnd) error {
	bad, err := loops.Anywhere(r.group(), nonFinite(e.Output))
	return cmp.Or(err, terminate(bad, "training"))
}

// OnEvalStepEnd checks the loss of an evaluation step.
func (t *TerminateOnNaN) OnEvalStepEnd(_ *Run, e EvalStepEnd) error {
	return terminate(nonFinite(e.Output), "validation")
}

func nonFinite(out *BatchOutput) bool { return out.Loss.Detach().IsFinite().All().Item() == 0 }

func terminate(bad bool, where string) error {
	if !bad {
		return nil
	}
	return StopTraining(nanReason + where + " step")
}

const nanReason = "Stopping training due to NaN loss in "

// OnStopTrainingError records where the loss was, which may have been in another process.
func (t *TerminateOnNaN) OnStopTrainingError(_ *Run, stop *StopTrainingError) error {
	if where, ok := strings.CutPrefix(stop.Reason, nanReason); ok {
		t.where = strings.TrimSuffix(where, " step")
	}
	return nil
}

// OnTrainingRunEnd makes Train fail if there was such a loss.
func (t *TerminateOnNaN) OnTrainingRunEnd(*Run) error {
	if t.where == "" {
		return nil
	}
	return errors.Join(ErrNonFiniteLoss, errors.New("the run was ended in a "+t.where+" step"))
}

// OnEvaluationRunStart forgets previous runs.
func (t *TerminateOnNaN) OnEvaluationRunStart(r *Run) error { return t.OnTrainingRunStart(r) }

// OnEvaluationRunEnd makes Evaluate fail if there was such a loss.
func (t *TerminateOnNaN) OnEvaluationRunEnd(r *Run) error { return t.OnTrainingRunEnd(r) }

// PrintProgress prints a line when a run starts and ends, and when an epoch starts.
type PrintProgress struct{}

func say(r *Run, line string) error {
	r.Print(line)
	return nil
}

func (*PrintProgress) OnTrainingRunStart(r *Run) error { return say(r, "\nStarting training run") }

func (*PrintProgress) OnTrainEpochStart(r *Run) error {
	return say(r, fmt.Sprintf("\nStarting epoch %d", r.History().CurrentEpoch()))
}

func (*PrintProgress) OnTrainingRunEnd(r *Run) error { return say(r, "Finishing training run") }

func (*PrintProgress) OnEvalEpochStart(r *Run, _ EvalEpoch) error {
	return say(r, "\nStarting eval epoch")
}

func (*PrintProgress) OnEvaluationRunStart(r *Run) error { return say(r, "\nStarting evaluation run") }

func (*PrintProgress) OnEvaluationRunEnd(r *Run) error { return say(r, "Finishing evaluation run") }

// LogMetrics logs the latest value of every metric of the run history: those with "train" in their
// name after a training epoch, all others after an evaluation.
type LogMetrics struct {
	// Log gets an epoch's metrics in the order of their first values. Nil prints one line for
	// each.
	Log func(r *Run, metrics []Metric) error
}

// Metric is the latest value of a metric.
type Metric struct {
	Name  string
	Value float64
}

func (l *LogMetrics) OnTrainEpochEnd(r *Run) error { return l.log(r, true) }

func (l *LogMetrics) OnEvalEpochEnd(r *Run, _ EvalEpoch) error { return l.log(r, false) }

func (l *LogMetrics) log(r *Run, train bool) error {
	var metrics []Metric
	for _, name := range r.History().MetricNames() {
		if strings.Contains(name, "train") == train {
			v, err := r.History().LatestMetric(name)
			if err != nil {
				return err
			}
			metrics = append(metrics, Metric{name, v})
		}
	}
	if l.Log != nil {
		return l.Log(r, metrics)
	}
	for _, m := range metrics {
		r.Print(fmt.Sprintf("\n%s: %s", m.Name, pyfloat.Repr(m.Value)))
	}
	return nil
}

// ProgressBar shows the progress of an epoch on Options.Progress: a line that is redrawn on a
// terminal, and otherwise one line when the epoch ends.
type ProgressBar struct {
	bars []*loops.Progress // a stack: an evaluation inside an epoch has its own bar
}

func (p *ProgressBar) OnTrainEpochStart(r *Run) error {
	p.bars = []*loops.Progress{p.bar(r, r.TrainDataloaderLen())}
	return nil
}

func (p *ProgressBar) OnTrainStepEnd(*Run, TrainStepEnd) error {
	p.last().Add()
	return nil
}

func (p *ProgressBar) OnTrainEpochEnd(*Run) error {
	p.last().End()
	p.bars = p.bars[:max(0, len(p.bars)-1)]
	return nil
}

func (p *ProgressBar) OnEvalEpochStart(r *Run, _ EvalEpoch) error {
	if _, eval := r.loaders(); eval == nil && r.limitEval < 0 { // Rules.LateEvaluationCheck, like Python
		return errNoEvaluationSet
	}
	p.bars = append(p.bars, p.bar(r, r.EvalDataloaderLen()))
	return nil
}

func (*ProgressBar) bar(r *Run, n int) *loops.Progress {
	if !r.printsHere() {
		return loops.NewProgress(io.Discard, "", n)
	}
	return loops.NewProgress(r.progress, "", n)
}

func (p *ProgressBar) OnEvalStepEnd(r *Run, _ EvalStepEnd) error {
	return p.OnTrainStepEnd(r, TrainStepEnd{})
}

func (p *ProgressBar) OnEvalEpochEnd(r *Run, _ EvalEpoch) error { return p.OnTrainEpochEnd(r) }

// last returns the bar of the current pass, or nil if there is none.
func (p *ProgressBar) last() *loops.Progress {
	if len(p.bars) == 0 {
		return nil
	}
	return p.bars[len(p.bars)-1]
}
