package pymarlin

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"os"

	"github.com/gotrainer/gotrainer/compat/internal/loops"
	"github.com/gotrainer/gotrainer/internal/terminal"
	"github.com/gotrainer/gotrainer/trainer"
)

// pass is the training of one epoch as package trainer sees it: its step, computed by the backend,
// and its loader. The loop knows nothing of samples and validation.
type pass[B any] struct {
	loops.Step[B]
	t        *Trainer[B]
	ctx      context.Context
	resumeAt State // where a run would resume if it were interrupted now; nil: after the last batch

	loader  Dataloader[B] // of the current epoch
	random  State         // state of the generators before that loader was made
	outputs Collected     // of the epoch

	progress *loops.Progress // over the current epoch
}

func (p *pass[B]) About() trainer.About {
	return trainer.About{Text: fmt.Sprintf("%T on %s", modelOf(p.t.module), p.t.device), JoinsGroup: true}
}

func (p *pass[B]) Train(_ context.Context, b B, _ trainer.Window) error {
	return p.t.backend.TrainBatch(b)
}

func (p *pass[B]) Update(context.Context, float64) (applied bool, err error) {
	return true, p.t.backend.ProcessGlobalStep()
}

// AroundEpoch lets the module make the loader for an epoch, and the backend train with it.
func (p *pass[B]) AroundEpoch(_ *trainer.Run, train func() error) (err error) {
	t := p.t
	if p.continues() { // the loader must draw the same random numbers again
		if err := t.setGenerators(p.resumeAt[passKey]); err != nil {
			return err
		}
	}
	p.random = t.generators()
	if b, ok := t.backend.(interface{ SetEpoch(epoch int) }); ok && !t.options.Exact {
		b.SetEpoch(t.lastEpoch + 1)
	}
	loader, err := t.module.TrainDataloader(t.backend.TrainSampler(), t.TrainStepBatchSize())
	if err != nil {
		return err
	}
	if loader == nil {
		return errNoLoader
	}
	p.progress = newProgress(t.args.DisableTqdm || !t.printsHere(), "training", t.batches)
	defer p.progress.End()
	calls := 0
	p.outputs, err = t.backend.TrainDL(p.ctx, loader, func(l Dataloader[B]) error {
		if calls++; calls > 1 {
			return errNotOnce
		}
		p.loader = l
		return train()
	})
	if err == nil && calls == 0 {
		err = errNotOnce
	}
	return err
}

var errNotOnce = errors.New("the backend's TrainDL must call train, by which the epoch is trained on, once")

// continues reports whether the run resumes inside the epoch and has not completed a batch yet.
func (p *pass[B]) continues() bool { return p.resumeAt[runKey] != nil }

// AfterBackward updates the progress line.
func (p *pass[B]) AfterBackward(r *trainer.Run) error {
	p.resumeAt = nil
	p.progress.Show(r.Batches + 1)
	return nil
}

// newProgress returns nil if standard error is not a terminal: a log file has no use for a progress
// line.
func newProgress(disabled bool, what string, batches int) *loops.Progress {
	if disabled || !terminal.Is(os.Stderr) {
		return nil
	}
	return loops.NewProgress(os.Stderr, what+" ", batches)
}

// Len returns the number of batches per epoch.
func (p *pass[B]) Len() int { return p.t.batches }

// Epoch yields the batches of the loader. If the run resumes inside the epoch, it skips the batches
// already trained on, and then restores the generators.
func (p *pass[B]) Epoch(ctx context.Context, _, skip int) iter.Seq2[B, error] {
	return func(yield func(B, error) bool) {
		if n := p.loader.Len(); n != p.t.batches {
			yield(*new(B), fmt.Errorf("the loader has %d batches; want the %d of the loader that TrainDataloader made "+
				"first, by which the run was planned", n, p.t.batches))
			return
		}
		passed := 0
		for b, err := range p.loader.Batches(ctx) {
			if passed++; err == nil && passed == skip && p.continues() {
				err = p.t.setGenerators(p.resumeAt[randomKey])
			}
			if err == nil && passed <= skip {
				continue
			}
			if err == nil && ctx.Err() != nil {
				err = context.Cause(ctx)
			}
			if !yield(b, err) || err != nil {
				return
			}
		}
	}
}

// session handles the events of a run.
type session[B any] struct {
	pass[B]
	epoch int // the current one
}

// EpochBegin begins an epoch, unless the run resumes inside it.
func (s *session[B]) EpochBegin(r *trainer.Run) (err error) {
	t := s.t
	s.epoch = r.EpochIndex
	if s.continues() {
		setTraining(t.module, true)
		return nil
	}
	if s.resumeAt, err = t.currentPlace(); err != nil {
		return err
	}
	t.logger.Info("Training", "epoch", s.epoch)
	t.stats.Update("epoch", float64(s.epoch), true)
	err = call(t.module, func(h TrainEpochBeginHook) error {
		return h.OnBeginTrainEpoch(t.GlobalStepsFinished(), s.epoch)
	})
	if err == nil {
		setTraining(t.module, true)
	}
	return err
}

// EpochDone validates, and ends the epoch.
func (s *session[B]) EpochDone(*trainer.Run) (err error) {
	t := s.t
	switch before, err := readCollected(s.resumeAt[outputsKey]); {
	case err != nil:
		return err
	case len(before.Tensors) > 0: // the run resumes in the validation
		s.outputs = before
	}
	if s.resumeAt, err = t.currentPlace(); err != nil {
		return err
	}
	s.resumeAt[passKey], s.resumeAt[outputsKey] = State{}, s.outputs.state()
	t.logger.Info("Validating", "epoch", s.epoch)
	ctx := s.ctx
	if t.IsDistributed() { // all processes stop together, after the next update
		ctx = context.WithoutCancel(ctx)
	}
	last, err := t.Validate(ctx)
	if err != nil {
		return err
	}
	last.free()
	defer func() {
		s.outputs.free()
		s.outputs, s.resumeAt = Collected{}, nil
	}()
	err = call(t.module, func(h TrainEpochEndHook) error { // after the validation, as in PyMarlin
		return h.OnEndTrainEpoch(t.GlobalStepsFinished(), s.outputs)
	})
	if err != nil {
		return err
	}
	if err := t.stats.LogLongStats(t.GlobalStepsFinished()); err != nil {
		return err
	}
	t.lastEpoch = s.epoch
	return nil
}

// SaveCheckpoint writes the checkpoint of a completed epoch, or one inside an epoch if the run is
// interrupted there. The latter has the number of its epoch as well, and is replaced when that is
// complete.
func (s *session[B]) SaveCheckpoint(r *trainer.Run, state []byte) (string, error) {
	t := s.t
	at, err := t.currentPlace()
	if err != nil {
		return "", err
	}
	index := t.lastEpoch
	if index != s.epoch {
		switch {
		case t.options.InexactResume:
			return "", nil // resuming there would skip the rest of the epoch
		case s.resumeAt != nil:
			at = s.resumeAt
		default:
			at[passKey], at[outputsKey] = s.random, Collected{}.state()
		}
		if r.Batches > 0 { // otherwise the epoch begins again
			index, at[runKey] = s.epoch, string(state)
		}
	}
	t.place = at
	interrupted, err := loops.Anywhere(t.group(), s.ctx.Err() != nil)
	if err != nil {
		return "", err
	}
	return t.save(at, index, interrupted)
}
