package trainer

import (
	"encoding/binary"
	"fmt"

	"github.com/gotrainer/gotrainer/data"
)

// EvalRound is the part of one process in a round of an evaluation that several processes share.
type EvalRound[B any] struct {
	Batch B
	Rows  int // samples in Batch; 0: this process has no batch left, and Batch is empty
	Round int // samples of all processes, without those that fill up their batches
}

// evalShard returns this process's part of an evaluation; zero if the evaluation is not shared.
func (ev *evaluator) evalShard(shared bool) data.Shard {
	if !shared {
		return data.Shard{}
	}
	shard := ev.shard()
	shard.Uneven = !ev.o.Semantics.EvenEvalBatches
	return shard
}

// sharesEval reports whether an evaluation is shared among the processes. openSet does not share
// one for which the step makes the loader, since that may have any number of batches.
func (ev *evaluator) sharesEval(e Evaluation) bool {
	if !ev.several() || ev.o.LimitEvalBatches > 0 {
		return false
	}
	return ev.step.group.SharesEval(e) // checked by New
}

// evaluateRounds passes the batches of a set to the step in rounds, one batch per process. Before
// each round the processes tell each other whether they have a batch, so that they all end in the
// same round, even if one of them fails.
func (ev *evaluator) evaluateRounds(e *evaluation) error {
	defer func() { ev.batch = nil }()
	for b, err := range e.pass(ev.evalContext(), 0, 0) {
		over, err := ev.evalRound(e, &b, err)
		if err != nil || over {
			return err
		}
		if e.done == e.limit {
			break
		}
	}
	for {
		over, err := ev.evalRound(e, nil, nil)
		if err != nil || over {
			return err
		}
	}
}

// evalRound makes one round; b is nil if this process has no batch left. It reports whether no
// process has one.
func (ev *evaluator) evalRound(e *evaluation, b *data.StreamBatch[any], failed error) (over bool, err error) {
	ev.batch = nil
	if failed != nil {
		failed = ev.stepError("load a batch to "+e.op(), failed)
	} else if b != nil {
		ev.batch = &b.Batch
		failed = fire(ev.session, "EvalStepBegin", evalStepBeginHook.EvalStepBegin)
	}
	if over, err := ev.agreeOnRound(e, b, failed); err != nil || over {
		return over, err
	}
	if err := ev.evalBatches(e, b); err != nil {
		_, _ = ev.agreeOnRound(e, nil, err) // so that the others do not wait; they may have failed too
		return false, err
	}
	return false, nil
}

// evalBatches evaluates the batches of a round.
func (ev *evaluator) evalBatches(e *evaluation, b *data.StreamBatch[any]) error {
	if e.shared {
		r := EvalRound[any]{}
		if b != nil {
			r = EvalRound[any]{b.Batch, b.Samples, b.Round}
		}
		if err := ev.step.group.EvalRound(ev.ctx, r); err != nil {
			return ev.stepError(e.op(), err)
		}
	} else if err := ev.step.Eval(ev.ctx, b.Batch); err != nil {
		return ev.stepError(e.op(), err)
	}
	if b == nil {
		return nil
	}
	e.done++
	return fire(ev.session, "EvalStep", evalStepHook.EvalStep)
}

// The first byte of what a process sends before a round. The number of samples follows hasBatch,
// and the error follows hasFailed.
const (
	hasBatch byte = iota
	hasNone
	isInterrupted
	hasFailed
)

// agreeOnRound exchanges the states of the processes, and reports whether the evaluation is over.
func (ev *evaluator) agreeOnRound(e *evaluation, b *data.StreamBatch[any], failed error) (over bool, err error) {
	news := []byte{hasNone}
	switch {
	case failed != nil:
		news = append([]byte{hasFailed}, failed.Error()...)
	case ev.asked.Err() != nil && ev.loop.windowIsComplete():
		news[0] = isInterrupted
	case b != nil:
		news = binary.AppendUvarint([]byte{hasBatch}, uint64(b.Samples))
	}
	all, err := ev.o.Group.AllGather(ev.ctx, news)
	switch {
	case failed != nil:
		return false, failed
	case err != nil:
		return false, ev.stepError(e.op(), err)
	}
	ended, samples, interrupted := 0, 0, false
	for rank, n := range all {
		switch {
		case len(n) == 0 || n[0] == hasFailed:
			return false, ev.stepError(e.op(), fmt.Errorf("rank %d has failed: %s", rank, n[min(1, len(n)):]))
		case n[0] == isInterrupted:
			interrupted = true
		case n[0] == hasNone:
			ended++
		default:
			n, _ := binary.Uvarint(n[1:])
			samples += int(n)
		}
	}
	switch {
	case interrupted:
		ev.cancelTogether()
		return false, ev.interruptEvaluation()
	case ended == len(all):
		return true, nil
	case ended > 0 && !(e.shared && !ev.o.Semantics.EvenEvalBatches):
		return false, ev.stepError(e.op(), fmt.Errorf("%d of the %d processes have no batch left after %d, but the "+
			"others do: the validation sets of the processes differ; all must use the same set", ended, len(all), e.done))
	}
	// in these cases transformers counts the samples of a single process
	if b != nil && (!e.shared || ev.o.Semantics.EvenEvalBatches) {
		samples = b.Samples
	}
	e.seen += samples
	return false, nil
}
