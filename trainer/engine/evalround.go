package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
)

// Evaluations that several processes share. In each round every process sends its results to all
// others, and all add up the same numbers in the same order. An error is sent in place of results,
// so that no process waits for one that has failed.

// ObservationSharer is an [Observer] or [Evaluator] that works when each of several processes sees
// only a part of an evaluation: it combines the parts and computes the numbers of the whole.
// Without it each process evaluates the whole set. A process on its own does not call these
// methods. [Observations] implements it.
type ObservationSharer interface {
	// TakeObserved returns what Observe or Evaluate has recorded since the last call, and discards
	// it. Only the first rows samples of it count; the others fill up a batch.
	TakeObserved(rows int) ([]byte, error)

	// AddObserved records what TakeObserved returned on some process, including this one.
	AddObserved(part []byte) error
}

// SharesEval reports whether everything that an evaluation gathers can be combined. What an
// [Observer] or [Evaluator] gathers can be combined only if it is an [ObservationSharer].
func (s *core) SharesEval(e trainer.Evaluation) bool {
	return is[ObservationSharer](s.task.given) || !s.task.isObserver && (e.Predict || !s.task.isEvaluator)
}

// roundResult is what one process has computed in a round.
type roundResult struct {
	loss     Loss
	outputs  Outputs
	observed []byte
	planned  int // samples of the batch, including bad ones that were left out
}

// evalRound is [Step.EvalRound].
func (s *core) evalRound(ctx context.Context, r trainer.EvalRound[any]) error {
	return scoped(func() error { return s.addRound(ctx, r) })
}

func (s *core) addRound(ctx context.Context, r trainer.EvalRound[any]) error {
	s.eval.batches++
	if err := s.summon(); err != nil {
		return err
	}
	items, err := s.itemsOfRound(ctx, r)
	if err != nil {
		return err
	}
	var mine roundResult
	failed := try(func() (err error) {
		if r.Rows > 0 {
			mine, err = s.evalOwn(r, items)
		}
		return err
	})
	if s.eval.Even && s.options.PreprocessLogits != nil && s.keepsOutputs() {
		if mine.outputs, err = s.widen(ctx, mine.outputs, failed); err != nil {
			return err
		}
	}
	if failed == nil && r.Rows > 0 && s.keepsOutputs() {
		failed = try(func() error { mine.outputs = s.preprocess(mine.outputs); return nil })
	}
	all, err := s.gatherResults(ctx, mine, failed)
	if err != nil {
		return err
	}
	return s.addResults(all, r.Round)
}

// itemsOfRound returns the labelled items of this process's batch or, if the batches of a round are
// weighted together, of all processes' batches.
func (s *core) itemsOfRound(ctx context.Context, r trainer.EvalRound[any]) (items int64, err error) {
	failed := try(func() error {
		if r.Rows > 0 {
			items = s.items(r.Batch)
		}
		return nil
	})
	if !s.task.isItemCounter || !s.eval.Even {
		return items, failed
	}
	all, _, err := s.exchange(ctx, message{Items: items}, nil, nil, failed)
	if err != nil {
		return 0, err
	}
	items = 0
	for _, n := range all {
		items += n.Items
	}
	return items, nil
}

func (s *core) evalOwn(r trainer.EvalRound[any], items int64) (f roundResult, err error) {
	s.mode(false, false)
	f.planned = r.Rows
	f.loss, f.outputs = s.evalForward(r.Batch, items)
	if value := f.loss.Value; value.Defined() {
		value = mean(value)
		if f.loss.whole && s.eval.Even { // then the items are those of all processes
			value = value.MulScalar(s.group.World())
		}
		f.loss.Value = value
		s.eval.own.Free()
		s.eval.own = value.Clone().Keep()
	}
	if f.loss.Rows == 0 {
		f.loss.Rows = r.Rows
	}
	if !s.keepsOutputs() {
		f.outputs = Outputs{}
	}
	if o, ok := s.task.given.(ObservationSharer); ok {
		rows := f.loss.Rows
		if s.eval.Even {
			rows = min(max(0, r.Round-s.group.Rank()*r.Rows), rows)
		}
		if f.observed, err = o.TakeObserved(rows); err != nil {
			return f, fmt.Errorf("engine: %T: %w", s.task.given, err)
		}
	}
	return f, nil
}

// message is what a process sends in an exchange. Data and tensors may follow it.
type message struct {
	Failure string  `json:"failure,omitempty"`
	Items   int64   `json:"items,omitempty"`
	Widths  []int64 `json:"widths,omitempty"`

	NonFinite []string `json:"non_finite,omitempty"` // weights and buffers

	Rows  int    `json:"rows,omitempty"`  // samples of the batch; 0: the process has none
	Plan  int    `json:"plan,omitempty"`  // Rows, with the bad samples that were left out
	Loss  bool   `json:"loss,omitempty"`  // the first of the tensors is the loss
	Lists [3]int `json:"lists,omitempty"` // numbers of tensors of logits, labels and inputs after the loss
}

// exchange sends a message, with data and tensors, to all other processes, and returns those of
// all. If one process has failed, all get an error.
func (s *core) exchange(ctx context.Context, n message, data []byte, ts []torch.Tensor,
	failed error) (all []message, parts []part, err error) {
	if failed != nil {
		n, data, ts = message{Failure: failed.Error()}, nil, nil
	}
	note, err := json.Marshal(n)
	if err != nil {
		return nil, nil, err
	}
	notes, lists, err := ddp.AllGatherLists(ctx, s.group, append(append(note, '\n'), data...), ts, s.options.Device)
	switch {
	case failed != nil:
		return nil, nil, failed
	case err != nil:
		return nil, nil, fmt.Errorf("engine: %w", err)
	}
	all, parts = make([]message, len(notes)), make([]part, len(notes))
	for rank, note := range notes {
		line, data, _ := bytes.Cut(note, []byte("\n"))
		if err := json.Unmarshal(line, &all[rank]); err != nil {
			return nil, nil, fmt.Errorf("engine: what rank %d has sent: %w", rank, err)
		}
		if text := all[rank].Failure; text != "" {
			return nil, nil, fmt.Errorf("engine: rank %d has failed: %s", rank, text)
		}
		parts[rank] = part{data, lists[rank]}
	}
	return all, parts, nil
}

// part is the data and tensors that came with a message.
type part struct {
	data    []byte
	tensors []torch.Tensor
}

// widen pads the second dimension of logits and labels to that of the widest process:
// pad_across_processes of Accelerate, before preprocess_logits_for_metrics.
func (s *core) widen(ctx context.Context, o Outputs, failed error) (Outputs, error) {
	var n message
	for _, t := range append(append([]torch.Tensor{}, o.Logits...), o.Labels...) {
		width := int64(0)
		if t.Dim() > 1 {
			width = t.Size(1)
		}
		n.Widths = append(n.Widths, width)
	}
	all, _, err := s.exchange(ctx, n, nil, nil, failed)
	if err != nil {
		return o, err
	}
	widest := n.Widths
	for rank, other := range all {
		if len(other.Widths) != len(widest) {
			return o, fmt.Errorf("engine: rank %d has %d outputs and labels, and rank %d has %d", rank,
				len(other.Widths), s.group.Rank(), len(widest))
		}
		for i, width := range other.Widths {
			widest[i] = max(widest[i], width)
		}
	}
	i := -1
	fill := func(t torch.Tensor) torch.Tensor {
		i++
		if t.Dim() < 2 || t.Size(1) == widest[i] {
			return t
		}
		shape := t.Shape()
		shape[1] = widest[i]
		out := torch.TensorOptions{DType: t.DType(), Device: t.Device()}.Full(IgnoreIndex, shape...)
		out.Narrow(1, 0, t.Size(1)).Copy_(t)
		return out
	}
	o.Logits, o.Labels = each(o.Logits, fill), each(o.Labels, fill)
	return o, nil
}

func (s *core) gatherResults(ctx context.Context, mine roundResult, failed error) (all []roundResult, err error) {
	n := message{Rows: mine.loss.Rows, Plan: mine.planned, Loss: mine.loss.Value.Defined()}
	var ts []torch.Tensor
	if n.Loss {
		ts = append(ts, mine.loss.Value)
	}
	for k, list := range mine.outputs.lists() {
		n.Lists[k] = len(*list)
		ts = append(ts, *list...)
	}
	notes, parts, err := s.exchange(ctx, n, mine.observed, each(ts, torch.Tensor.Detach), failed)
	if err != nil {
		return nil, err
	}
	all = make([]roundResult, len(notes))
	for rank, n := range notes {
		ts := parts[rank].tensors
		take := func(k int) (some []torch.Tensor) {
			some, ts = ts[:k:k], ts[k:]
			return some
		}
		f := &all[rank]
		f.loss.Rows, f.outputs.Rows, f.planned, f.observed = n.Rows, n.Rows, n.Plan, parts[rank].data
		if n.Loss {
			f.loss.Value = take(1)[0]
		}
		for k, list := range f.outputs.lists() {
			*list = take(n.Lists[k])
		}
	}
	return all, nil
}

// addResults adds the results to the evaluation, in the order of the ranks. round is the number of
// samples without those that fill up batches.
func (s *core) addResults(all []roundResult, round int) error {
	before, rows := 0, 0
	for _, f := range all {
		if f.loss.Rows == 0 {
			continue
		}
		if o, ok := s.task.given.(ObservationSharer); ok {
			if err := o.AddObserved(f.observed); err != nil {
				return fmt.Errorf("engine: %T: %w", s.task.given, err)
			}
		}
		if s.keepsOutputs() && !s.eval.Even {
			if err := s.keep(f.outputs); err != nil {
				return err
			}
		}
		if s.eval.Even {
			f.loss.Rows = min(max(0, round-before), f.loss.Rows)
		}
		if f.loss.Value.Defined() {
			s.eval.losses.add(f.loss)
		}
		before += f.planned
		rows += f.loss.Rows
	}
	s.eval.rows += rows
	if !s.eval.Even || !s.keepsOutputs() {
		return nil
	}
	return s.keep(together(all, round))
}

// together concatenates the outputs of all processes, without the samples that fill up their
// batches.
func together(all []roundResult, rows int) Outputs {
	o := Outputs{}
	for k, list := range o.lists() {
		var joined columns
		for _, f := range all {
			joined.join(*f.outputs.lists()[k])
		}
		*list = each(joined, func(parts []torch.Tensor) torch.Tensor {
			t := padAndConcat(parts)
			return t.Narrow(0, 0, min(int64(rows), t.Size(0)))
		})
	}
	for _, f := range all {
		o.Rows += f.outputs.Rows
	}
	o.Rows = min(o.Rows, rows)
	return o
}
