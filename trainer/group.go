package trainer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/gotrainer/gotrainer/checkpoint"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist"
)

// GroupStep is a [Step] that can train on several processes; see Options.Group. Its About has
// JoinsGroup set.
type GroupStep[B any] interface {
	// JoinGroup makes the model the same on all processes. From then on:
	//
	//   - When Train (or Backward) has added the gradients of the last micro-batch of a window, it
	//     replaces them by their means over the processes.
	//   - A loss over the items of a window is multiplied by the number of processes.
	//   - Report averages the losses.
	//
	// JoinGroup is called before every run, and before an evaluation if there has been no run. g is
	// never nil.
	JoinGroup(ctx context.Context, g *dist.Group) error

	// RandomState returns the state of this process's random generators. SetRandomState restores
	// it.
	RandomState() ([]byte, error)
	SetRandomState(state []byte) error

	// SharesEval reports whether the processes can share an evaluation, that is, whether everything
	// computed from it can be gathered. Otherwise every process evaluates the whole set.
	SharesEval(e Evaluation) bool
	// EvalRound evaluates the batches of all processes in one round. It evaluates this process's
	// batch and records the results of all, in the order of the ranks. All processes call it
	// together, and it returns an error on all of them if it fails on one. Metrics then gives the
	// same numbers on all.
	EvalRound(ctx context.Context, r EvalRound[B]) error
}

// randomFile is the file with the random states of all processes, in a checkpoint of a run on
// several.
const randomFile = "random_states.json"

// checkGroup refuses options and steps that do not work with several processes.
func (o *Options) checkGroup(step *untypedStep, can About) error {
	joins := step.group != nil
	alone := func(option string) error {
		return fmt.Errorf("trainer: Options.%s is set, and Options.Group has %d processes: it is for one process only",
			option, o.Process.World)
	}
	if can.Sharded {
		if err := o.checkSharded(); err != nil {
			return err
		}
	}
	switch {
	case o.Process.World == 1:
		return nil
	case o.Group == nil && (joins || can.JoinsGroup):
		return fmt.Errorf("trainer: this process is one of %d, but Options.Group is nil, so each would train by "+
			"itself and all write to the same folder: set it to what dist.Init returns, or to a group of one "+
			"(dist.Options{World: 1}) if each is to train by itself", o.Process.World)
	case o.Group == nil:
		return nil // the step may communicate in its own way
	case !joins:
		return fmt.Errorf("trainer: Options.Group has %d processes, but %T is not a trainer.GroupStep: %s",
			o.Process.World, step.given, passOn("JoinGroup, RandomState, SetRandomState, SharesEval and EvalRound"))
	case o.AutoFindBatchSize:
		return alone("AutoFindBatchSize")
	// each process has its own gradients of an open window at the end of an epoch, and only a Saver
	// can store them
	case o.Semantics.CarriesWindows() && o.Saver == nil && o.Save.kind != never:
		return alone("Semantics.CarryWindows")
	}
	return nil
}

func (s *session) several() bool { return s.o.Group.World() > 1 }

// shard returns this process's part of an epoch.
func (s *session) shard() data.Shard {
	return data.Shard{Rank: s.o.Group.Rank(), WorldSize: s.o.Group.World()}
}

// joinGroup makes the step train together with the other processes, and the run end on all of them
// at the same update.
func (r *runner) joinGroup() error {
	if !r.several() && !r.sharded() {
		return nil
	}
	if r.several() {
		r.endTogether()
	}
	r.t.joined = true
	// checked by New
	return r.stepError("join the group", r.step.group.JoinGroup(r.ctx, r.o.Group))
}

// endTogether makes the run end when the processes have agreed to end it, not when the caller of
// this process cancels its context.
func (s *session) endTogether() {
	s.asked = s.ctx
	s.ctx, s.cancel = context.WithCancelCause(context.WithoutCancel(s.ctx))
}

// either returns a context that ends with the run or when the caller of this process cancels,
// whichever comes first. It is for work in which the other processes take no part. stop releases
// it.
func (s *session) either() (ctx context.Context, stop func()) {
	ctx, cancel := context.WithCancelCause(s.ctx)
	if s.asked == nil {
		return ctx, func() { cancel(nil) }
	}
	forget := context.AfterFunc(s.asked, func() { cancel(context.Cause(s.asked)) })
	return ctx, func() { forget(); cancel(nil) }
}

// cancelTogether cancels the run on this process, as the processes have agreed.
func (s *session) cancelTogether() {
	cause := context.Cause(s.asked)
	if cause == nil {
		cause = errors.New("another process of the run was interrupted")
	}
	s.cancel(cause)
}

// joinToEvaluate is joinGroup for an evaluation outside of a run. If there has been a run, the
// models are already the same on all processes.
func (r *runner) joinToEvaluate() error {
	if r.t.joined {
		if r.several() {
			r.endTogether()
		}
		return nil
	}
	return r.joinGroup()
}

// windowTotals is the size of a window. The processes add theirs up before they train on it.
type windowTotals struct {
	items         int64
	tokens, flops []float64 // of each micro-batch
}

// agree tells the other processes whether this one was interrupted, and adds up the sizes of their
// windows. It reports whether the run ends here on all processes; err is then the interruption.
func (r *runner) agree() (stop bool, err error) {
	if !r.several() {
		return false, nil
	}
	own := r.countWindow()
	numbers := slices.Concat([]float64{0, float64(own.items)}, own.tokens, own.flops)
	if r.asked.Err() != nil {
		numbers[0] = 1
	}
	if err := dist.AllReduce(r.ctx, r.o.Group, numbers, dist.Sum); err != nil {
		return false, r.stepError("agree with the other processes", err)
	}
	if numbers[0] > 0 {
		r.cancelTogether()
		return true, r.interrupt()
	}
	n := 2 + len(own.tokens)
	r.totals = windowTotals{items: int64(numbers[1]), tokens: numbers[2:n:n], flops: numbers[n:]}
	return false, nil
}

// failGroup ends the run on the other processes with an error of this one's step, since they would
// wait for it in the middle of an update. It returns the error.
func (r *runner) failGroup(err error) error {
	if _, known := errors.AsType[*dist.Error](err); r.several() && err != nil && !known && r.ctx.Err() == nil {
		_ = r.o.Group.Fail("training", err)
	}
	return err
}

// meanLoss replaces the loss of a batch by its mean over the processes, so that reports, and
// decisions that depend on them, are the same on all.
func (r *runner) meanLoss(b *BatchLoss) error {
	if !r.several() {
		return nil
	}
	numbers := []float64{b.Loss, b.Divided}
	err := dist.AllReduce(r.ctx, r.o.Group, numbers, dist.Mean)
	b.Loss, b.Divided = numbers[0], numbers[1]
	return r.stepError("average the loss", err)
}

// countWindow returns the size of this process's window. It reuses the memory of the previous
// window's totals.
func (r *runner) countWindow() windowTotals {
	w := windowTotals{tokens: r.totals.tokens[:0], flops: r.totals.flops[:0]}
	for i := range r.window {
		var c Counts
		for _, b := range r.partsOf(i) {
			one := r.step.Count(b)
			c.Items, c.Tokens, c.Flops = c.Items+one.Items, c.Tokens+one.Tokens, c.Flops+one.Flops
		}
		if !r.o.Semantics.CarriesWindows() {
			w.items += c.Items
		}
		if !r.o.CountTokens {
			c.Tokens = 0
		}
		w.tokens, w.flops = append(w.tokens, float64(c.Tokens)), append(w.flops, c.Flops)
	}
	return w
}

// agreeOnSave returns the save error of the main process on all processes, so that they all
// continue in the same way.
func (s *session) agreeOnSave(err error) error {
	if !s.several() {
		return err
	}
	var own []byte
	switch {
	case err == nil:
	case errors.Is(err, ErrChangedWhileSaved):
		own = []byte("c" + err.Error())
	case checkpoint.IsSaveError(err):
		own = []byte("s" + err.Error())
	default:
		own = []byte("x" + err.Error())
	}
	all, groupErr := s.o.Group.AllGather(context.WithoutCancel(s.ctx), own)
	switch {
	case groupErr != nil:
		return errors.Join(err, groupErr)
	// the errors of the other processes follow from that of the main one
	case len(all[0]) == 0 || err != nil && (s.o.Process.Main() || !s.sharded()):
		return err
	case all[0][0] == 'c':
		return fmt.Errorf("%w: the main process: %s", ErrChangedWhileSaved, all[0][1:])
	case all[0][0] == 's':
		return &fs.PathError{Op: "save", Path: "the checkpoint of the main process",
			Err: errors.New(string(all[0][1:]))}
	}
	return fmt.Errorf("the main process could not save: %s", all[0][1:])
}

// sameStart makes all processes resume from the checkpoint that the main one has found.
func (r *runner) sameStart(from string) (string, error) {
	if !r.several() {
		return from, nil
	}
	all, err := r.o.Group.AllGather(r.ctx, []byte(from))
	if err != nil {
		return "", r.stepError("agree with the other processes", err)
	}
	return string(all[0]), nil
}

// gatherRandom collects the random states of all processes, before a checkpoint is written.
func (s *session) gatherRandom() ([][]byte, error) {
	if !s.several() {
		return nil, nil
	}
	mine, err := s.step.group.RandomState()
	if err != nil {
		return nil, s.stepError("save", err)
	}
	all, err := s.o.Group.AllGather(context.WithoutCancel(s.ctx), mine)
	return all, s.stepError("save", err)
}

// readRandom reads the random states of a checkpoint, which was made after the given number of
// updates. continues restores them; it is called after the step has loaded those of the main
// process. A checkpoint of another number of processes is refused, unless the run counts global
// batches: then random numbers start from a new seed.
func (s *session) readRandom(from string, updates int) (continues func() error, err error) {
	text, err := os.ReadFile(filepath.Join(from, randomFile))
	writers, states := 1, [][]byte(nil)
	switch {
	case err == nil:
		if err := json.Unmarshal(text, &states); err != nil {
			return nil, cannotResume(from, "%s: %w", randomFile, err)
		}
		writers = len(states)
	case !errors.Is(err, os.ErrNotExist):
		return nil, cannotResume(from, "%w", err)
	}
	switch world := s.o.Group.World(); {
	case writers == world:
		return func() error {
			if world == 1 {
				return nil
			}
			return s.stepError("load the random state", s.step.group.SetRandomState(states[s.o.Group.Rank()]))
		}, nil
	case s.o.GlobalBatch > 0:
		return func() error { return s.deriveRandom(updates) }, nil
	default:
		return nil, cannotResume(from, "%w: it was written by %s, and there are %d now; set "+
			"Options.GlobalBatch in runs that are to continue on others", ErrOtherRun, counted(writers, "process"), world)
	}
}
