package engine

import (
	"context"
	"fmt"

	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
)

// TrainingLogger is a [Task] that logs more values during training than the loss, such as an
// accuracy: what an override of Trainer.log adds in Python. A row of the log has the mean of each
// value over the micro-batches of all processes since the last row. A micro-batch whose value is NaN
// has none, and the mean leaves it out.
type TrainingLogger interface {
	// TrainingLogs returns the names of the values, in the order of [Loss].Logged. They must not
	// change.
	TrainingLogs() []string
}

// logged are the values of a [TrainingLogger] accumulated since the last report, on the device.
type logged struct {
	names []string
	sums  torch.Tensor // [2, names]: the sums, and the number of micro-batches in each
	fresh torch.Tensor // values of a micro-batch not added yet; undefined: none
}

// begin clears the sums and sets the names.
func (l *logged) begin(names []string, d torch.Device) {
	l.sums.Free()
	*l = logged{names: names}
	if len(names) > 0 {
		l.sums = torch.TensorOptions{DType: torch.Float64, Device: d}.Zeros(2, int64(len(names))).Keep()
	}
}

// take keeps the values of a forward pass until its backward pass is done.
func (l *logged) take(task any, numbers torch.Tensor) {
	if !numbers.Defined() {
		return
	}
	if len(l.names) == 0 {
		panic(torch.Errorf("Loss", torch.ErrValue, "%T returned Loss.Logged of shape %v, but has no names for its numbers: "+
			"want a method TrainingLogs (TrainingLogger) that returns them", task, numbers.Shape()))
	}
	if numbers.Dim() != 1 || numbers.Size(0) != int64(len(l.names)) {
		panic(torch.Errorf("Loss", torch.ErrValue, "%T returned Loss.Logged of shape %v; want one number for each of its "+
			"%d TrainingLogs %q", task, numbers.Shape(), len(l.names), l.names))
	}
	l.fresh = numbers.Detach()
}

// add adds the values that take kept, weighted by the share for a part of a micro-batch.
func (l *logged) add(w trainer.Window) {
	if !l.fresh.Defined() {
		return
	}
	none := l.fresh.IsNaN()
	numbers := torch.Stack([]torch.Tensor{l.fresh.ToDType(torch.Float64).MaskedFill(none, 0),
		none.LogicalNot().ToDType(torch.Float64)}, 0)
	if w.Share > 0 {
		numbers = numbers.MulScalar(w.Share)
	}
	l.sums.Add_(numbers)
	l.fresh = torch.Tensor{}
}

// reportLogged returns the sums over all processes and starts over.
func (s *core) reportLogged(ctx context.Context) (means map[string]trainer.Mean, err error) {
	l := &s.logged
	if len(l.names) == 0 {
		return nil, nil
	}
	all := []torch.Tensor{l.sums}
	if s.parallel != nil {
		if all, err = ddp.AllGather(ctx, s.group, l.sums.Detach()); err != nil {
			return nil, fmt.Errorf("engine: %w", err)
		}
	}
	err = scoped(func() error {
		sums := torch.Values[float64](torch.Stack(all, 0).SumDim([]int64{0}, false, torch.DefaultDType))
		l.sums.Zero_()
		means = map[string]trainer.Mean{}
		for i, name := range l.names {
			means[name] = trainer.Mean{Sum: sums[i], Count: sums[len(l.names)+i]}
		}
		return nil
	})
	return means, err
}
