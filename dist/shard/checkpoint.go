package shard

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/gotrainer/gotrainer/checkpoint/sharded"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/torch"
)

// Prefixes of the tensor names in a checkpoint; the names of the model and the optimizer follow.
const (
	modelPrefix = sharded.ModelPrefix
	statePrefix = "optimizer." // state with the size of its parameter
	countPrefix = "count."     // state that is the same for all elements of a parameter, or for all parameters
)

const updatesKey = "updates" // key in the metadata of a checkpoint

// tensorPart is the part of a tensor that one process stores in a checkpoint.
type tensorPart struct {
	name   string
	tensor torch.Tensor // the part, flat
	shape  []int64      // of the whole tensor
	offset int64
}

// parts returns what this process has to store: its pieces and, on rank 0 only, what all processes
// hold in full.
func (m *Model) parts(opt optim.Optimizer) (all []tensorPart) {
	pieces := map[string]Piece{}
	for _, p := range m.Pieces() {
		pieces[p.Name] = p
		all = append(all, m.ofReplica(tensorPart{modelPrefix + p.Name, p.Tensor.Detach(), p.Shape, p.Offset}))
	}
	for _, s := range m.frozen() {
		all = append(all, m.ofReplica(s))
	}
	whole := func(name string, t torch.Tensor) {
		s := tensorPart{name, t.Detach().Reshape(-1), t.Shape(), 0}
		if !m.group.Main() {
			s.tensor = s.tensor.Narrow(0, 0, 0)
		}
		all = append(all, s)
	}
	for _, t := range m.rest() {
		whole(modelPrefix+t.Name, t.Tensor)
	}
	if opt == nil {
		return all
	}
	for _, s := range opt.State() {
		p, ok := pieces[s.Name[:max(strings.LastIndexByte(s.Name, '.'), 0)]]
		if ok && slices.Equal(s.Tensor.Shape(), p.Tensor.Shape()) {
			all = append(all, m.ofReplica(tensorPart{statePrefix + s.Name, s.Tensor.Detach(), p.Shape, p.Offset}))
		} else {
			whole(countPrefix+s.Name, s.Tensor)
		}
	}
	return all
}

// frozen returns this process's parts of the frozen parameters in units.
func (m *Model) frozen() (all []tensorPart) {
	for _, u := range m.units() {
		for _, r := range u.rows {
			for _, p := range r.params {
				if !p.piece.Defined() {
					offset, n, place := r.flat.mine(p)
					all = append(all, tensorPart{modelPrefix + p.name, r.mine.Narrow(0, place, n), p.shape, offset})
				}
			}
		}
	}
	return all
}

// rest returns the frozen parameters and the buffers that every process holds in full.
func (m *Model) rest() (all []torch.Named) {
	known := map[torch.Tensor]bool{}
	for _, f := range m.rows {
		for _, p := range f.params {
			if p.whole.Defined() {
				known[p.whole] = true
			}
		}
	}
	for _, t := range nn.StateDict(m.model) {
		if !known[t.Tensor] {
			known[t.Tensor] = true
			all = append(all, t)
		}
	}
	return all
}

var writeFile = sharded.WriteFile // tests replace it to simulate full disks

// Save writes a sharded checkpoint, see package checkpoint/sharded. Each process writes its part,
// and when all have done so, the folder gets its name. All processes must call it, with a path on
// a shared disk. opt may be nil. metadata is the program's own. If a process fails, all return its
// error, there is no checkpoint, and the group keeps working.
func (m *Model) Save(ctx context.Context, path string, step int, opt optim.Optimizer,
	metadata map[string]string) error {
	var hidden string
	var err error
	if m.group.Main() {
		hidden, err = sharded.Begin(path)
	}
	folders, err := together(ctx, m, hidden, err)
	if err != nil {
		return err
	}
	err = m.WriteTo(ctx, folders[0], step, opt, metadata)
	if err == nil {
		var failed error
		if m.group.Main() {
			failed = sharded.Publish(path)
		}
		_, err = together(ctx, m, "", failed)
	}
	if err != nil && m.group.Main() {
		err = errors.Join(err, sharded.Abandon(path))
	}
	return err
}

// WriteTo is like [Model.Save] but writes into an existing folder, for a program that itself
// ensures that folders appear complete or not at all. The folder may contain other files. If a
// process fails, all return its error, for which errors.Is(err, syscall.ENOSPC) and the like hold
// on all of them, and the folder should be removed.
func (m *Model) WriteTo(ctx context.Context, folder string, step int, opt optim.Optimizer,
	metadata map[string]string) error {
	m.reshardRoot()
	id, err := m.begin(ctx, m.Release())
	if err != nil {
		return err
	}
	var entries []sharded.Entry
	if failed := torch.Try(func() { entries, err = entriesOf(m.parts(opt)) }); failed != nil {
		err = failed
	}
	return write(ctx, m.group, folder, id, step, withUpdates(metadata, opt), entries, err)
}

// WriteLater copies the part of this process and returns a function that writes the copy as
// WriteTo does. All processes must call both. The function may run in another goroutine, while the
// group does something else, and must be called once.
func (m *Model) WriteLater(ctx context.Context, folder string, step int, opt optim.Optimizer,
	metadata map[string]string) (later func() error, err error) {
	m.reshardRoot()
	err = m.Release()
	id, err := m.begin(ctx, err)
	if err != nil {
		return nil, err
	}
	if m.background == nil {
		if m.background, err = dist.Split(ctx, m.group, 0); err != nil {
			return nil, err
		}
	}
	var entries []sharded.Entry
	var copies []torch.Tensor
	failed := torch.Try(func() {
		parts := m.parts(opt)
		torch.NoGrad(func() {
			for i, p := range parts {
				t := p.tensor.CPU()
				if p.tensor.Device() == torch.CPU {
					t = t.Clone()
				}
				parts[i].tensor = t.Keep()
				copies = append(copies, parts[i].tensor)
			}
		})
		entries, err = entriesOf(parts)
	})
	failed = errors.Join(err, failed)
	metadata = withUpdates(metadata, opt)
	return func() error {
		err := write(ctx, m.background, folder, id, step, metadata, entries, failed)
		for _, t := range copies {
			t.Free()
		}
		return err
	}, nil
}

// begin draws the ID of a checkpoint on rank 0. It fails on all processes if one of them passes an
// error.
func (m *Model) begin(ctx context.Context, err error) (id string, _ error) {
	ids, err := gatherOf(ctx, m.group, rand.Text(), err)
	if err != nil {
		return "", err
	}
	return ids[0], nil
}

func withUpdates(metadata map[string]string, opt optim.Optimizer) map[string]string {
	all := map[string]string{}
	maps.Copy(all, metadata)
	if opt != nil {
		all[updatesKey] = strconv.Itoa(opt.Updates())
	}
	return all
}

func entriesOf(parts []tensorPart) (entries []sharded.Entry, err error) {
	for _, s := range parts {
		e, err := tensorio.Entry(s.name, s.tensor)
		if err != nil {
			return nil, err
		}
		entries = append(entries, sharded.Entry{Name: s.name, DType: e.DType, Shape: s.shape, Offset: s.offset,
			Length: s.tensor.Numel(), Data: e.Data})
	}
	return entries, nil
}

// write writes the files of all processes in a group, then the index once all are complete. failed
// is the reason why this process has nothing to write, if any.
func write(ctx context.Context, g *dist.Group, folder, id string, step int, metadata map[string]string,
	entries []sharded.Entry, failed error) error {
	var mine sharded.Written
	if failed == nil {
		if mine, failed = writeFile(folder, g.Rank(), g.World(), id, entries); errors.Is(failed, syscall.ENOSPC) ||
			errors.Is(failed, syscall.EDQUOT) {
			failed = fmt.Errorf("%s of step %d cannot be written: make room on the disk of %s, and save again: %w",
				mine.File.Name, step, folder, failed)
		}
	}
	written, err := gatherOf(ctx, g, mine, failed)
	if err != nil {
		return err
	}
	if g.Main() {
		failed = sharded.WriteIndex(folder, id, step, metadata, written)
	}
	_, err = gatherOf(ctx, g, "", failed)
	return err
}

// together is gatherOf for the processes of the model.
func together[T any](ctx context.Context, m *Model, value T, err error) ([]T, error) {
	return gatherOf(ctx, m.group, value, err)
}

// gatherOf returns the values of all processes, by rank, or the first error among them.
func gatherOf[T any](ctx context.Context, g *dist.Group, value T, err error) ([]T, error) {
	type report struct {
		Value T
		Error string
		Errno syscall.Errno // the cause, if any: all processes must be able to tell a full disk from a bug
	}
	mine := report{Value: value}
	if err != nil {
		mine.Error = err.Error()
		mine.Errno, _ = errors.AsType[syscall.Errno](err)
	}
	text, marshalErr := json.Marshal(mine)
	if marshalErr != nil {
		return nil, marshalErr
	}
	parts, gatherErr := g.AllGather(ctx, text)
	if gatherErr != nil {
		return nil, gatherErr
	}
	all := make([]T, len(parts))
	for rank, part := range parts {
		var r report
		if decodeErr := json.Unmarshal(part, &r); decodeErr != nil {
			return nil, g.Fail("a checkpoint", decodeErr)
		}
		switch {
		case r.Error == "":
			all[rank] = r.Value
		case rank == g.Rank():
			return nil, fmt.Errorf("shard: rank %d: %w", rank, err)
		case r.Errno != 0:
			return nil, &systemError{fmt.Sprintf("shard: rank %d: %s", rank, r.Error), r.Errno}
		default:
			return nil, fmt.Errorf("shard: rank %d: %s", rank, r.Error)
		}
	}
	return all, nil
}

// systemError is the error of another process that wraps an errno, such as ENOSPC.
type systemError struct {
	text string
	err  syscall.Errno
}

func (e *systemError) Error() string { return e.text }
func (e *systemError) Unwrap() error { return e.err }

// Load restores a checkpoint written by any number of processes; each process reads what it needs.
// It also reads a folder with the model.safetensors and optimizer.safetensors of an unsharded run
// of the Trainer; [ReadWhole] goes the other way. All processes must call it. opt may be nil;
// otherwise it must be of the same kind as the one that was saved.
//
// A checkpoint that is incomplete, damaged or of another model is an error on all processes, and
// then nothing has changed. It returns the step and metadata given to Save.
func (m *Model) Load(ctx context.Context, path string, opt optim.Optimizer) (step int, metadata map[string]string,
	err error) {
	m.reshardRoot()
	l, err := &loadedState{}, m.Release()
	if err == nil {
		l, err = m.read(path, opt)
	}
	if _, err := together(ctx, m, "", err); err != nil {
		return 0, nil, err
	}
	_, err = together(ctx, m, "", l.apply(opt))
	return l.step, l.metadata, err
}

// loadedState is what a process has read from a checkpoint.
type loadedState struct {
	step            int
	metadata        map[string]string
	updates         int
	targets, values []torch.Tensor
	states          []torch.Named
}

// apply copies what was read into the model and the optimizer.
func (l *loadedState) apply(opt optim.Optimizer) error {
	if opt != nil {
		if err := opt.LoadState(l.states, l.updates); err != nil {
			return err
		}
	}
	return torch.Try(func() {
		torch.NoGrad(func() {
			for i, t := range l.targets {
				t.Copy_(l.values[i])
			}
		})
	})
}

func (m *Model) read(path string, opt optim.Optimizer) (l *loadedState, err error) {
	r, err := openSource(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }() // opened for reading
	if whole, ok := r.(*wholeSource); ok {
		if err := m.checkForm(whole); err != nil {
			return nil, err
		}
	}
	l = &loadedState{step: r.about().Step, metadata: maps.Clone(r.about().Metadata)}
	delete(l.metadata, updatesKey)
	failed := torch.Try(func() { err = m.readModel(r, l) })
	if err = errors.Join(err, failed); err != nil || opt == nil {
		return l, err
	}
	if l.updates, err = strconv.Atoi(r.about().Metadata[updatesKey]); err != nil {
		return l, fmt.Errorf("%s has no state of an optimizer", path)
	}
	failed = torch.Try(func() { err = m.readState(r, l) })
	return l, errors.Join(err, failed)
}

// targets returns the tensors that a checkpoint of the model is read into: pieces, or whole
// parameters if all processes hold them.
func (m *Model) targets() (all []tensorPart) {
	for _, f := range m.rows {
		for _, p := range f.params {
			if p.whole.Defined() {
				all = append(all, tensorPart{modelPrefix + p.name, p.whole.Detach(), p.shape, 0})
				continue
			}
			offset, _, _ := f.mine(p)
			all = append(all, tensorPart{modelPrefix + p.name, p.piece.Detach(), p.shape, offset})
		}
	}
	all = append(all, m.frozen()...)
	for _, t := range m.rest() {
		all = append(all, tensorPart{modelPrefix + t.Name, t.Tensor.Detach(), t.Tensor.Shape(), 0})
	}
	return all
}

// readModel reads the parameters and buffers.
func (m *Model) readModel(r source, l *loadedState) error {
	all := m.targets()
	for _, t := range all {
		value, err := readPart(r, t.name, t.tensor.DType(), t.shape, t.offset, t.tensor.Numel())
		if err != nil {
			return err
		}
		l.targets, l.values = append(l.targets, t.tensor), append(l.values, value.Reshape(t.tensor.Shape()...))
	}
	has := 0
	for _, t := range r.about().Tensors {
		if strings.HasPrefix(t.Name, modelPrefix) {
			has++
		}
	}
	if has != len(all) {
		return fmt.Errorf("the checkpoint has %d parameters and buffers, the model %d: is it of another model?", has,
			len(all))
	}
	return nil
}

// readState reads the parts of the optimizer state that belong to this process's pieces.
func (m *Model) readState(r source, l *loadedState) error {
	pieces := map[string]Piece{}
	for _, p := range m.Pieces() {
		pieces[p.Name] = p
	}
	for _, t := range r.about().Tensors {
		var shape []int64
		offset, n := int64(0), int64(1)
		name, whole := strings.CutPrefix(t.Name, countPrefix)
		if whole {
			for _, d := range t.Shape {
				n *= d
			}
			shape = t.Shape
		} else {
			var isState bool
			if name, isState = strings.CutPrefix(t.Name, statePrefix); !isState {
				continue
			}
			p, ok := pieces[name[:max(strings.LastIndexByte(name, '.'), 0)]]
			if !ok || !slices.Equal(p.Shape, t.Shape) {
				return fmt.Errorf("state %q, %s%v, is of no parameter of the model", name, t.DType, t.Shape)
			}
			offset, n = p.Offset, p.Tensor.Numel()
			shape = []int64{n}
		}
		dtype, err := dtypeOf(t)
		if err != nil {
			return err
		}
		value, err := readPart(r, t.Name, dtype, t.Shape, offset, n)
		if err != nil {
			return err
		}
		l.states = append(l.states, torch.Named{Name: name, Tensor: value.Reshape(shape...)})
	}
	return nil
}

func dtypeOf(t sharded.Tensor) (torch.DType, error) {
	d, _ := safetensors.ParseDType(t.DType)
	dtype, ok := tensorio.TorchDType(d)
	if !ok {
		return 0, fmt.Errorf("tensor %q of the checkpoint is of %s, which libtorch has not", t.Name, t.DType)
	}
	return dtype, nil
}

// readPart reads elements of a tensor, and checks the tensor's dtype and shape.
func readPart(r source, name string, dtype torch.DType, shape []int64, offset, n int64) (v torch.Tensor,
	err error) {
	t, ok := r.Tensor(name)
	if !ok {
		return v, fmt.Errorf("the checkpoint has no tensor %q", name)
	}
	found, err := dtypeOf(t)
	if err != nil {
		return v, err
	}
	if found != dtype || !slices.Equal(t.Shape, shape) {
		return v, fmt.Errorf("tensor %q of the checkpoint is a %s%v, here it is a %s%v", name, found, t.Shape, dtype,
			shape)
	}
	var values bytes.Buffer
	values.Grow(int(n * dtype.Size()))
	if err := r.ReadRange(name, offset, n, &values); err != nil {
		return v, err
	}
	return torch.FromBytes(values.Bytes(), dtype, n), nil
}
