package trainer

import (
	"maps"
	"strings"
	"time"

	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// Run is what a hook sees of a run. Its fields are kept up to date by the loop; changing any but
// Control changes nothing. A hook must not keep it beyond its own call.
type Run struct {
	GlobalStep int     // updates so far, or what semantics.Rules.Steps counts in their place
	Updates    int     // optimizer updates so far
	Epoch      float64 // 1.5: half of the second epoch
	EpochIndex int     // epochs that have ended: 0 in the first
	Batches    int     // micro-batches of this epoch that were trained on
	MaxSteps   int     // steps that are planned
	StartStep  int     // updates before this session; not zero after a resume

	// Evaluation is the name of the current evaluation, under which its numbers are logged: "eval",
	// "eval_matched" of several sets, "test". It is empty outside of one.
	Evaluation string

	// Aside is whether a hook has asked for the current evaluation by Evaluate.
	Aside bool

	// Control are the decisions; a hook may set and clear them.
	Control Control

	Info Info

	evalBatches int // of the current evaluation; 0: a stream
	loop        *loopView
}

// Info says what a run is; it does not change while the run lasts.
type Info struct {
	Step            string // what is trained: Describe of the step, or its type
	Semantics       semantics.Rules
	OutputDir       string // absolute; empty: none
	ResumedFrom     string // the checkpoint; empty: from the beginning
	TrainSamples    int    // 0: a stream, whose length is not known
	EvalSamples     int    // 0: no validation set, or a stream
	BatchSize       int
	EvalBatches     int // of all validation sets
	EvalBatchSize   int
	Accumulate      int
	Epochs          float64 // 0 of a stream, as the next
	Batches         int     // micro-batches of an epoch that are trained on; 0 of a stream
	UpdatesPerEpoch int     // as planned
	StepsPerEpoch   int     // the same in steps
	LearningRate    float64
	Schedule        string
	Seed, DataSeed  uint64
	Process         Process
	Eval, Save, Log Trigger // shares of the run as numbers of updates
	Start           time.Time
	Warnings        []string // of the start: a damaged checkpoint that was passed over, and the like
}

// unit is what a step is.
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
	// all numbers of that evaluation under their logged names; empty if it was before a resume from
	// another program's checkpoint
	Metrics    Metrics
	GlobalStep int
	Checkpoint string // where its model is; empty: it was not saved
}

// loopView is how a Run reaches the parts of the loop it can read.
type loopView struct {
	*record
	judge     *judge
	evalKey   func() string // what the name of the current set puts before its numbers: "matched_"
	batch     func() any
	batchLoss func() (BatchLoss, error)
	evaluate  func(name string) (Metrics, error)
	limit     func(batches int)
	state     func(done bool) ([]byte, error)
	warn      func(format string, args ...any)
}

// Stop ends the run after the current update. The reason stands in the report of the run.
func (r *Run) Stop(reason string) {
	r.Control.ShouldTrainingStop = true
	if r.loop.stopReason == "" {
		r.loop.stopReason = reason
	}
}

// Warn tells of something that the user should know and that does not end the run: it is logged,
// shown with the progress, and stands in Result.Warnings.
func (r *Run) Warn(format string, args ...any) { r.loop.warn(format, args...) }

// LimitBatches ends every epoch from the next on after n micro-batches, or after all that the
// training set has. Unlike Options.LimitBatches it leaves the plan of the run as it is. It is for
// TrainBegin and EpochBegin, and for AroundEpoch before it trains; of a stream nothing is limited.
func (r *Run) LimitBatches(n int) { r.loop.limit(n) }

// State is the state of the run as a [Saver] would be given it now, for a hook that writes
// checkpoints by itself: in TrainBegin, AroundEpoch, StepEnd, EpochEnd, EpochDone, TrainEnd and
// after the run. A run that begins from it as Options.Start.State continues behind the current
// event if done is set, and otherwise with it. Asked for inside a window, it is that before the
// window; the step has then drawn random numbers which it will draw again.
func (r *Run) State(done bool) ([]byte, error) { return r.loop.state(done) }

// Batch returns the current batch, of the type that the step has: in BatchBegin, AfterForward and
// AfterBackward, EvalStepBegin and EvalStep. It is nil elsewhere.
func (r *Run) Batch() any { return r.loop.batch() }

// BatchLoss is the loss of the current batch, in AfterForward, AfterBackward and EvalStep. It waits
// for the device. The step must be a [SplitStep].
func (r *Run) BatchLoss() (BatchLoss, error) { return r.loop.batchLoss() }

// Loss is the loss as the semantics report it, as it would be logged now; 0 where they report the
// mean since the last log, which only a log works out.
func (r *Run) Loss() float64 { return r.loop.losses.value() }

// RunningLoss is what a [Run.Loss] of semantics.RunningMean is made of; zero under other semantics.
func (r *Run) RunningLoss() RunningLoss { return r.loop.losses.running }

// Evaluate runs over the validation sets here and now, in the middle of whatever the loop is doing.
// It returns the numbers by their bare names, with the name of their set before them where there
// are several; name is what EvalBegin to EvalEnd find in Run.Evaluation. Nothing is logged or
// compared with the best. Cancelling the run does not end it.
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
// "accuracy", or "matched_accuracy" where one of several validation sets decides. It is empty if
// the semantics remember no best evaluation unless asked to, and the options do not ask.
func (r *Run) BestMetric() string {
	if !r.loop.judge.track {
		return ""
	}
	return r.loop.judge.metric
}

// Decides reports whether the current evaluation is that of the validation set whose numbers decide
// which evaluation is the best.
func (r *Run) Decides() bool { return strings.HasPrefix(r.BestMetric(), r.loop.evalKey()) }

// BestValue returns the deciding number among what AfterEval is told. ok is false if it is
// not there.
func (r *Run) BestValue(m Metrics) (v float64, ok bool) {
	name, ok := strings.CutPrefix(r.BestMetric(), r.loop.evalKey())
	if !ok {
		return 0, false
	}
	v, ok = m[name]
	return v, ok
}

// Better reports whether value a of the deciding metric is better than b. A nan is never better.
func (r *Run) Better(a, b float64) bool { return r.loop.judge.better(a, b) }

// StopReason is what the first call of Stop said; empty if there was none.
func (r *Run) StopReason() string { return r.loop.stopReason }
