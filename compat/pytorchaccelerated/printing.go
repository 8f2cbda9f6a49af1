package pytorchaccelerated

import (
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/gotrainer/gotrainer/internal/pyfloat"
)

// PrintProgress prints a line when a run starts and ends, and when an epoch starts.
type PrintProgress struct{}

var (
	_ TrainingRunStartHook   = (*PrintProgress)(nil)
	_ TrainEpochStartHook    = (*PrintProgress)(nil)
	_ TrainingRunEndHook     = (*PrintProgress)(nil)
	_ EvalEpochStartHook     = (*PrintProgress)(nil)
	_ EvaluationRunStartHook = (*PrintProgress)(nil)
	_ EvaluationRunEndHook   = (*PrintProgress)(nil)
)

func say(r *Run, line string) error {
	r.Print(line)
	return nil
}

// OnTrainingRunStart implements [TrainingRunStartHook].
func (*PrintProgress) OnTrainingRunStart(r *Run) error { return say(r, "\nStarting training run") }

// OnTrainEpochStart implements [TrainEpochStartHook].
func (*PrintProgress) OnTrainEpochStart(r *Run) error {
	return say(r, fmt.Sprintf("\nStarting epoch %d", r.History().CurrentEpoch()))
}

// OnTrainingRunEnd implements [TrainingRunEndHook].
func (*PrintProgress) OnTrainingRunEnd(r *Run) error { return say(r, "Finishing training run") }

// OnEvalEpochStart implements [EvalEpochStartHook].
func (*PrintProgress) OnEvalEpochStart(r *Run, _ EvalEpoch) error {
	return say(r, "\nStarting eval epoch")
}

// OnEvaluationRunStart implements [EvaluationRunStartHook].
func (*PrintProgress) OnEvaluationRunStart(r *Run) error { return say(r, "\nStarting evaluation run") }

// OnEvaluationRunEnd implements [EvaluationRunEndHook].
func (*PrintProgress) OnEvaluationRunEnd(r *Run) error { return say(r, "Finishing evaluation run") }

// LogMetrics logs the latest value of every metric of the run history: those with "train" in their
// name after a training epoch, all others after an evaluation. Log sends them elsewhere than to
// Run.Print.
type LogMetrics struct {
	// Log is given the metrics of one epoch, in the order in which they were first recorded. Nil
	// prints a line for each.
	Log func(r *Run, metrics []Metric) error
}

// Metric is a metric's latest value.
type Metric struct {
	Name  string
	Value float64
}

var (
	_ TrainEpochEndHook = (*LogMetrics)(nil)
	_ EvalEpochEndHook  = (*LogMetrics)(nil)
)

// OnTrainEpochEnd implements [TrainEpochEndHook].
func (l *LogMetrics) OnTrainEpochEnd(r *Run) error { return l.log(r, true) }

// OnEvalEpochEnd implements [EvalEpochEndHook].
func (l *LogMetrics) OnEvalEpochEnd(r *Run, _ EvalEpoch) error { return l.log(r, false) }

func (l *LogMetrics) log(r *Run, train bool) error {
	var metrics []Metric
	for _, name := range r.History().MetricNames() {
		if strings.Contains(name, "train") != train {
			continue
		}
		v, err := r.History().LatestMetric(name)
		if err != nil {
			return err
		}
		metrics = append(metrics, Metric{name, v})
	}
	if l.Log != nil {
		return l.Log(r, metrics)
	}
	for _, m := range metrics {
		r.Print(fmt.Sprintf("\n%s: %s", m.Name, pyfloat.Repr(m.Value)))
	}
	return nil
}

// ProgressBar shows on Options.Progress how far an epoch is: a line that is redrawn on a terminal,
// and otherwise one line when the epoch ends.
type ProgressBar struct {
	bars []bar // the evaluation inside an epoch has its own
}

type bar struct{ done, total int }

var (
	_ TrainEpochStartHook = (*ProgressBar)(nil)
	_ TrainStepEndHook    = (*ProgressBar)(nil)
	_ TrainEpochEndHook   = (*ProgressBar)(nil)
	_ EvalEpochStartHook  = (*ProgressBar)(nil)
	_ EvalStepEndHook     = (*ProgressBar)(nil)
	_ EvalEpochEndHook    = (*ProgressBar)(nil)
)

// OnTrainEpochStart implements [TrainEpochStartHook].
func (p *ProgressBar) OnTrainEpochStart(r *Run) error {
	p.bars = []bar{{0, r.TrainDataloaderLen()}}
	return nil
}

// OnTrainStepEnd implements [TrainStepEndHook].
func (p *ProgressBar) OnTrainStepEnd(r *Run, _ TrainStepEnd) error { return p.advance(r) }

// OnTrainEpochEnd implements [TrainEpochEndHook].
func (p *ProgressBar) OnTrainEpochEnd(r *Run) error { return p.close(r) }

// OnEvalEpochStart implements [EvalEpochStartHook].
func (p *ProgressBar) OnEvalEpochStart(r *Run, _ EvalEpoch) error {
	if !r.epochs.hasEval() && r.limitEval < 0 { // under Rules.LateEvaluationCheck; Python's bar asks for its length
		return errNoEvaluationSet
	}
	p.bars = append(p.bars, bar{0, r.EvalDataloaderLen()})
	return nil
}

// OnEvalStepEnd implements [EvalStepEndHook].
func (p *ProgressBar) OnEvalStepEnd(r *Run, _ EvalStepEnd) error { return p.advance(r) }

// OnEvalEpochEnd implements [EvalEpochEndHook].
func (p *ProgressBar) OnEvalEpochEnd(r *Run, _ EvalEpoch) error { return p.close(r) }

func (p *ProgressBar) advance(r *Run) error {
	if len(p.bars) == 0 {
		return nil
	}
	b := &p.bars[len(p.bars)-1]
	if b.done++; isTerminal(r.progress) {
		_, _ = fmt.Fprint(r.progress, "\r", b)
	}
	return nil
}

func (p *ProgressBar) close(r *Run) error {
	if len(p.bars) == 0 {
		return nil
	}
	b := p.bars[len(p.bars)-1]
	p.bars = p.bars[:len(p.bars)-1]
	if isTerminal(r.progress) {
		_, _ = fmt.Fprint(r.progress, "\r")
	}
	_, _ = fmt.Fprintln(r.progress, &b)
	return nil
}

// String draws the bar: " 50%|█████     | 4/8".
func (b *bar) String() string {
	const width = 20
	share := 1.0
	if b.total > 0 {
		share = min(1, float64(b.done)/float64(b.total))
	}
	full := int(share * width)
	return fmt.Sprintf("%3.0f%%|%s%s| %d/%d", 100*share, strings.Repeat("█", full), strings.Repeat(" ", width-full),
		b.done, b.total)
}

// isTerminal tells whether people see what is written.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
