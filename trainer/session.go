package trainer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// session is what the parts of a run share: the step and the options, the loop, and the log.
type session struct {
	step           untypedStep
	o              Options
	hooks          []any // the callbacks, including the trainer's own
	loop           *loop
	run            *Run // the hooks' view of the run
	batch          *any // being trained or evaluated on; nil between batches
	batchRequested bool // a hook has called Run.Batch and may have kept the batch

	// ctx ends the run. With several processes it is cancelled once they have agreed to end, and
	// asked is the context of this process's caller.
	ctx, asked context.Context
	cancel     context.CancelCauseFunc // cancels ctx
	stepCtx    context.Context         // never cancelled: cancelling the run must not interrupt an update

	record
	progress *progress
	warnings []string
	start    time.Time
}

// record is what the log and the report of a run are made from.
type record struct {
	history         []Logs
	historyText     historyText // of history
	final           Logs        // the last row of the log
	best            Best        // the best evaluation so far
	losses          losses
	gradNorm        *float64 // of the last update
	skipped         bool     // the last update was skipped, according to the last report
	lossSum         float64  // since the last log, as far as the step has reported it
	lossTotal       float64  // sum of what was logged
	logged          means    // other values since the last log
	left            leftOut  // updates whose losses are in neither sum, since they were not finite
	warnedNonFinite bool     // there has been a warning of a loss that is not finite
	trained         float64  // samples trained on in this session
	stopReason      string

	tokens, startTokens int64   // input tokens seen by the run, and those before this session
	flops               float64 // of the run

	parts atomic.Int64 // parts into which each batch is divided: see Options.DivideOnOutOfMemory
}

// leftOut counts the updates whose losses are left out of the log and of train_loss because they
// are not finite.
type leftOut struct {
	SinceLog int `json:"since_log,omitempty"`
	Total    int `json:"total,omitempty"` // those before the last log
}

func (r *record) save(l *loopState) {
	l.LeftOut = r.left
	l.LossSum, l.LossTotal, l.Losses = jsonFloat(r.lossSum), jsonFloat(r.lossTotal), r.losses.state()
	l.Logged = r.logged.state()
	if parts := r.parts.Load(); parts > 1 {
		l.Parts = parts
	}
	if r.gradNorm != nil {
		l.GradNorm = new(jsonFloat(*r.gradNorm))
	}
}

func (r *record) restore(l loopState, rules semantics.Rules) {
	r.parts.Store(max(1, l.Parts))
	if !rules.ForgetLossAtResume {
		r.lossSum, r.left.SinceLog = float64(l.LossSum), l.LeftOut.SinceLog
		r.logged = meansOf(l.Logged)
		if l.GradNorm != nil {
			r.gradNorm = new(float64(*l.GradNorm))
		}
	}
	if !rules.TrainLossOverAllSteps {
		r.lossTotal, r.left.Total = float64(l.LossTotal), l.LeftOut.Total
	}
	r.losses.restore(l.Losses, rules, l.Position.GlobalStep)
}

// errInterrupted is returned by code that finds the run cancelled. The runner turns it into an
// [*InterruptedError].
var errInterrupted = errors.New("interrupted")

// cancelled returns the error of the context, with its cause if that is a different error.
func (s *session) cancelled() error {
	err := s.ctx.Err()
	if cause := context.Cause(s.ctx); cause != nil && !errors.Is(cause, err) {
		return fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

// stepError wraps an error of the step, or of loading its data, in a [*StepError]; nil stays nil.
func (s *session) stepError(op string, err error) error {
	if err == nil {
		return nil
	}
	return &StepError{Op: op, GlobalStep: s.loop.GlobalStep, Epoch: s.loop.Progress, Err: err}
}

// fire calls the hooks of an event. They see the current state of the loop and may change its
// control.
func fire[H any](s *session, event string, method func(H, *Run) error) error {
	if !slices.ContainsFunc(s.hooks, has[H]) {
		return nil
	}
	s.show()
	err := call(s.run, s.hooks, event, func(h H) error { return method(h, s.run) })
	s.loop.Control = s.run.Control
	return err
}

// fireWith is fire for an event with an argument.
func fireWith[H, A any](s *session, event string, method func(H, *Run, A) error, arg A) error {
	return fire(s, event, func(h H, r *Run) error { return method(h, r, arg) })
}

// show updates the hooks' view of the run.
func (s *session) show() {
	l, r := s.loop, s.run
	r.GlobalStep, r.Updates, r.MaxSteps, r.Control = l.GlobalStep, l.Updates, l.plan.maxSteps, l.Control
	r.Epoch, r.EpochIndex, r.Batches = l.Progress, l.Epoch, l.Micro
}

// currentBatch is Run.Batch.
func (s *session) currentBatch() any {
	if s.batch == nil {
		return nil
	}
	s.batchRequested = true
	return *s.batch
}

// warn reports something that the user should know but that does not end the run: immediately, or
// in the header if that is still to come.
func (s *session) warn(format string, args ...any) {
	s.note(format, args...)
	if s.progress != nil {
		s.progress.warn(s.warnings[len(s.warnings)-1])
	}
}

// note adds a warning to the next header.
func (s *session) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	s.warnings = append(s.warnings, text)
	s.o.Logger.Warn(text)
}

// noteOnce adds warnings, unless an earlier attempt of AutoFindBatchSize has added them.
func (s *session) noteOnce(texts []string) {
	for _, text := range texts {
		if !slices.Contains(s.warnings, text) {
			s.note("%s", text)
		}
	}
}

func (s *session) seed(o SeedOptions) error {
	o.Rank = s.o.Process.Rank
	return s.stepError("seed", s.step.Seed(s.o.Seed, o))
}

// startLoader lets the step draw what a DataLoader draws at the beginning of a pass.
func (s *session) startLoader(train bool) error {
	if s.o.Semantics.SeedEveryPass {
		if err := s.seed(SeedOptions{KeepModel: true}); err != nil {
			return err
		}
	}
	iterators := 1
	if s.o.Semantics.TwoIterators {
		iterators = 2
	}
	for range iterators {
		if err := s.step.StartLoader(train); err != nil {
			return s.stepError("start a loader", err)
		}
	}
	return nil
}
