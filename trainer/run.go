package trainer

import (
	"maps"
	"strings"
	"time"

	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// Run is a hook's view of a run. The loop keeps its fields up to date. Changing any field other
// than Control has no effect. A hook must not keep the Run after it returns.
type Run struct {
	GlobalStep int     // updates so far, or what semantics.Rules.Steps counts instead
	Updates    int     // optimizer updates so far
	Epoch      float64 // 1.5: half of the second epoch
	EpochIndex int     // completed epochs: 0 during the first
	Batches    int     // micro-batches of this epoch already trained on
	MaxSteps   int     // planned number of steps
	StartStep  int     // updates before this session; nonzero after a resume

	// Evaluation is the name of the current evaluation, under which its numbers are logged: "eval",
	// "eval_matched" for one of several sets, "test". It is empty when no evaluation is running.
	Evaluation string

	// Aside reports whether the current evaluation was requested by a hook, with Evaluate.
	Aside bool

	// Control holds the decisions. A hook may set and clear them.
	Control Control

	Info Info

	evalBatches int // batches in the current evaluation; 0: a stream
	loop        *loopView
}

// Info describes a run. It does not change during the run.
type Info struct {
	Step            string // what is trained: About.Text of the step, or its type
	Semantics       semantics.Rules
	OutputDir       string // absolute; empty: none
	ResumedFrom     string // the checkpoint; empty: the run started from the beginning
	TrainSamples    int    // 0: a stream, whose length is not known
	EvalSamples     int    // 0: no validation set, or a stream
	BatchSize       int
	EvalBatches     int // over all validation sets
	EvalBatchSize   int
	Accumulate      int
	Epochs          float64 // 0 for a stream, like the next field
	Batches         int     // micro-batches of an epoch that are trained on; 0 for a stream
	UpdatesPerEpoch int     // as planned
	StepsPerEpoch   int     // the same in steps
	LearningRate    float64
	Schedule        string
	Seed, DataSeed  uint64
	Process         Process
	Eval, Save, Log Trigger // a share of the run is given as a number of updates
	Start           time.Time
	Warnings        []string // warnings at the start, such as a damaged checkpoint that was skipped
}

// unit returns the word for a step.
func (i *Info) unit() string {
	if i.Semantics.CountsBatches() {
		return "micro-batch"
	}
	return "update"
}

// Best is the best evaluation so far.
type Best struct {
	Metric string  // "eval_accuracy"; empty: none yet
	Value  float64 // of the metric
	// Metrics are all numbers of that evaluation under the names in the log. It is empty if the
	// evaluation came before a resume from another program's checkpoint.
	Metrics    Metrics
	GlobalStep int
	Checkpoint string // where its model is; empty: it was not saved
}

// loopView gives a Run access to the parts of the loop that hooks may use.
type loopView struct {
	*record
	bestMetric *bestMetric
	evalKey    func() string // prefix of the current set's metrics: "matched_"
	batch      func() any
	batchLoss  func() (BatchLoss, error)
	evaluate   func(name string) (Metrics, error)
	limit      func(batches int)
	state      func(done bool) ([]byte, error)
	warn       func(format string, args ...any)
}

// Stop ends the run after the current update. The reason appears in the report of the run.
func (r *Run) Stop(reason string) {
	r.Control.ShouldTrainingStop = true
	if r.loop.stopReason == "" {
		r.loop.stopReason = reason
	}
}

// Warn reports something that the user should know but that does not end the run. It is logged,
// shown with the progress, and added to Result.Warnings.
func (r *Run) Warn(format string, args ...any) { r.loop.warn(format, args...) }

// LimitBatches ends every epoch, from the next one on, after n micro-batches or when the training
// set has no more. Unlike Options.LimitBatches it does not change the plan of the run. Call it in
// TrainBegin or EpochBegin, or in AroundEpoch before training. It does not limit streams.
func (r *Run) LimitBatches(n int) { r.loop.limit(n) }

// State returns the state of the run as it would be passed to a [Saver] now, for a hook that writes
// checkpoints itself. It can be called in TrainBegin, AroundEpoch, StepEnd, EpochEnd, EpochDone and
// TrainEnd, and after the run. A run that starts from it, as Options.Start.State, continues after
// the current event if done is set, and with the current event otherwise. Inside a window, State
// returns the state before that window; by then the step has drawn random numbers that it will draw
// again.
func (r *Run) State(done bool) ([]byte, error) { return r.loop.state(done) }

// Batch returns the current batch, of the step's batch type, in BatchBegin, AfterForward,
// AfterBackward, EvalStepBegin and EvalStep. Elsewhere it returns nil.
func (r *Run) Batch() any { return r.loop.batch() }

// BatchLoss returns the loss of the current batch, in AfterForward, AfterBackward and EvalStep. It
// waits for the device. The step must be a [SplitStep].
func (r *Run) BatchLoss() (BatchLoss, error) { return r.loop.batchLoss() }

// Loss returns the loss as it would be logged now under the run's semantics. It returns 0 if the
// semantics report the mean since the last log, which is computed only for a log.
func (r *Run) Loss() float64 { return r.loop.losses.value() }

// RunningLoss returns the values from which semantics.RunningMean computes [Run.Loss]. It is zero
// under other semantics.
func (r *Run) RunningLoss() RunningLoss { return r.loop.losses.running }

// Evaluate evaluates the validation sets immediately, at whatever point the loop has reached. It
// returns the numbers by their bare names, prefixed with the name of their set if there are
// several. While it runs, Run.Evaluation is name in EvalBegin to EvalEnd. The result is neither
// logged nor compared with the best evaluation. Cancelling the run does not end Evaluate.
func (r *Run) Evaluate(name string) (Metrics, error) { return r.loop.evaluate(name) }

// History returns the rows of the log so far.
func (r *Run) History() []Logs { return append([]Logs(nil), r.loop.history...) }

// Best returns the best evaluation so far; ok is false before the first one.
func (r *Run) Best() (best Best, ok bool) {
	b := r.loop.best
	b.Metrics = maps.Clone(b.Metrics)
	return b, b.Metric != ""
}

// BestMetric returns the bare name of the metric that decides which evaluation is the best: "loss",
// "accuracy", or "matched_accuracy" if one of several validation sets decides. It is empty if the
// semantics track the best evaluation only on request and the options do not request it.
func (r *Run) BestMetric() string {
	if !r.loop.bestMetric.track {
		return ""
	}
	return r.loop.bestMetric.name
}

// Decides reports whether the current evaluation is of the validation set that decides which
// evaluation is the best.
func (r *Run) Decides() bool { return strings.HasPrefix(r.BestMetric(), r.loop.evalKey()) }

// BestValue returns the deciding number among m, the numbers passed to AfterEval. ok is false if m
// does not have it.
func (r *Run) BestValue(m Metrics) (v float64, ok bool) {
	name, ok := strings.CutPrefix(r.BestMetric(), r.loop.evalKey())
	if !ok {
		return 0, false
	}
	v, ok = m[name]
	return v, ok
}

// Better reports whether value a of the deciding metric is better than b. NaN is never better.
func (r *Run) Better(a, b float64) bool { return r.loop.bestMetric.better(a, b) }

// StopReason returns the reason given by the first call of Stop; empty if there was none.
func (r *Run) StopReason() string { return r.loop.stopReason }
