package accelerate

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/torch"
)

// checkGroup refuses a process that was started as one of several but has no group, and so would
// train alone like all the others.
func checkGroup(g *dist.Group) error {
	if world, variable := dist.Started(os.Getenv); g == nil && world > 1 {
		return fmt.Errorf("accelerate: this process was started as one of several (%s=%d), but Options.Group "+
			"is nil: set it to what dist.Init returns, or to a group of one (dist.Options{World: 1}) if each is to "+
			"train by itself", variable, world)
	}
	return nil
}

// NumProcesses returns the number of processes that train together.
func (a *Accelerator) NumProcesses() int { return a.options.Group.World() }

// ProcessIndex returns the index of this process, from 0.
func (a *Accelerator) ProcessIndex() int { return a.options.Group.Rank() }

// LocalProcessIndex returns the index of this process among those of its machine.
func (a *Accelerator) LocalProcessIndex() int { return a.options.Group.LocalRank() }

// IsMainProcess reports whether this is the process that prints and writes files.
func (a *Accelerator) IsMainProcess() bool { return a.options.Group.Main() }

// Group returns the group of processes that train together; nil: this process alone.
func (a *Accelerator) Group() *dist.Group { return a.options.Group }

// WaitForEveryone returns when all processes have called it.
func (a *Accelerator) WaitForEveryone() error {
	return a.options.Group.Barrier(context.Background())
}

// Gather returns, for each tensor, the tensors of all processes joined along the first dimension;
// scalars become vectors. It is called inside a loop, and panics with [*torch.Error] as operators
// do, and also if another process is gone.
func (a *Accelerator) Gather(ts ...torch.Tensor) []torch.Tensor {
	if a.NumProcesses() == 1 {
		return ts
	}
	out := make([]torch.Tensor, len(ts))
	for i, t := range ts {
		if t.Dim() == 0 {
			t = t.Reshape(1)
		}
		all, err := ddp.AllGather(context.Background(), a.options.Group, t)
		a.must("Gather", err)
		out[i] = torch.Cat(all, 0)
	}
	return out
}

// GatherForMetrics is [Accelerator.Gather] without the samples that fill up the last batches of a
// pass, including those of a stream.
func (a *Accelerator) GatherForMetrics(ts ...torch.Tensor) []torch.Tensor {
	out := a.Gather(ts...)
	if a.NumProcesses() == 1 || !a.endOfLoader() {
		return out
	}
	if rows := a.loaders[len(a.loaders)-1].remainder(); rows > 0 {
		for i, t := range out {
			out[i] = t.Narrow(0, 0, min(int64(rows), t.Size(0)))
		}
	}
	return out
}

// Pad configures [Accelerator.PadAcrossProcesses]. The zero value pads the end of the first
// dimension with zeros.
type Pad struct {
	Dim   int64   // the dimension to pad; negative: counted from the last
	Index float64 // the value to pad with: pad_index
	First bool    // pad at the front rather than the end
}

// PadAcrossProcesses pads each tensor to the size it has on the process where it is largest, so
// that Gather can join them. Tensors without that dimension are not changed. It panics as Gather
// does.
func (a *Accelerator) PadAcrossProcesses(p Pad, ts ...torch.Tensor) []torch.Tensor {
	if a.NumProcesses() == 1 {
		return ts
	}
	sizes := make([]int64, len(ts)) // 0: no such dimension
	dims := make([]int64, len(ts))
	for i, t := range ts {
		if dims[i] = p.Dim; p.Dim < 0 {
			dims[i] += int64(t.Dim())
		}
		if dims[i] >= 0 && dims[i] < int64(t.Dim()) {
			sizes[i] = t.Size(dims[i])
		}
	}
	largest := append([]int64{}, sizes...)
	a.must("PadAcrossProcesses", dist.AllReduce(context.Background(), a.options.Group, largest, dist.Max))
	out := make([]torch.Tensor, len(ts))
	for i, t := range ts {
		size := largest[i]
		if out[i] = t; sizes[i] == size || dims[i] < 0 || dims[i] >= int64(t.Dim()) {
			continue
		}
		shape := t.Shape()
		shape[dims[i]] = size
		filled, at := torch.TensorOptions{DType: t.DType(), Device: t.Device()}.Full(p.Index, shape...), int64(0)
		if p.First {
			at = size - sizes[i]
		}
		torch.NoGrad(func() { filled.Narrow(dims[i], at, sizes[i]).Copy_(t) })
		out[i] = filled
	}
	return out
}

// Reduce returns the tensors reduced over all processes: accelerator.reduce, with dist.Sum or
// dist.Mean. It panics as Gather does.
func (a *Accelerator) Reduce(op dist.Op, ts ...torch.Tensor) []torch.Tensor {
	if a.NumProcesses() == 1 {
		return ts
	}
	out := make([]torch.Tensor, len(ts))
	for i, t := range ts {
		out[i] = t.Detach().Clone()
	}
	a.must("Reduce", ddp.AllReduce(context.Background(), a.options.Group, op, out...))
	return out
}

// must panics if a call over the network has failed.
func (a *Accelerator) must(op string, err error) {
	if err == nil {
		return
	}
	if known, ok := errors.AsType[*torch.Error](err); ok {
		panic(known)
	}
	panic(&torch.Error{Op: op, Code: torch.ErrInternal, Msg: err.Error()})
}

// beforeForward prepares the models for the forward pass of a batch.
func (a *Accelerator) beforeForward() error {
	if a.sharded != nil {
		if err := a.sharded.BeforeForward(context.Background(), a.sync); err != nil {
			return fmt.Errorf("accelerate: %w", err)
		}
	}
	for _, m := range a.parallel {
		if err := m.BeforeForward(context.Background(), a.sync); err != nil {
			return fmt.Errorf("accelerate: %w", err)
		}
	}
	return nil
}

// mainSeed returns the main process's number on all processes.
func (a *Accelerator) mainSeed(seed uint64) (uint64, error) {
	b := binary.LittleEndian.AppendUint64(nil, seed)
	err := a.options.Group.Broadcast(context.Background(), b, 0)
	return binary.LittleEndian.Uint64(b), err
}

// mainResult makes all processes return the main process's result.
func (a *Accelerator) mainResult(path string, err error) (string, error) {
	if a.NumProcesses() == 1 {
		return path, err
	}
	type result struct{ Path, Failure string }
	r := result{Path: path}
	if err != nil {
		r.Failure = err.Error()
	}
	mine, jsonErr := json.Marshal(r)
	if jsonErr != nil {
		return "", jsonErr
	}
	all, gatherErr := a.options.Group.AllGather(context.Background(), mine)
	if err != nil {
		return "", err
	}
	if gatherErr != nil {
		return "", fmt.Errorf("accelerate: %w", gatherErr)
	}
	if err := json.Unmarshal(all[0], &r); err != nil {
		return "", fmt.Errorf("accelerate: what the main process has sent: %w", err)
	}
	if r.Failure != "" {
		return "", fmt.Errorf("accelerate: the main process: %s", r.Failure)
	}
	return r.Path, nil
}
