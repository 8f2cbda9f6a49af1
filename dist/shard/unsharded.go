package shard

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/checkpoint/sharded"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/torch"
)

// The files of an unsharded checkpoint, as the Trainer writes it.
const (
	wholeModel = "model.safetensors"
	wholeState = "optimizer.safetensors" // its metadata contain the number of updates
)

// source is a checkpoint of either kind, with the tensor names of a sharded one.
type source interface {
	Tensor(name string) (sharded.Tensor, bool)
	ReadRange(name string, offset, length int64, w io.Writer) error
	Close() error

	about() *sharded.Index
}

type shardedSource struct{ *sharded.Reader }

func (s shardedSource) about() *sharded.Index { return &s.Index }

// openSource opens a sharded checkpoint by its index, or the files of an unsharded one.
func openSource(path string) (source, error) {
	if _, err := os.Stat(filepath.Join(path, sharded.IndexName)); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(filepath.Join(path, wholeModel)); err == nil {
			return openWhole(path)
		}
	}
	r, err := sharded.Open(path)
	if err != nil {
		return nil, err
	}
	return shardedSource{r}, nil
}

// wholeSource is a checkpoint of an unsharded run.
type wholeSource struct {
	index sharded.Index
	files []*safetensors.File
	at    map[string]place
}

// place is where a tensor is stored.
type place struct {
	file *safetensors.File
	name string // in the file
	sharded.Tensor
}

func openWhole(path string) (_ *wholeSource, err error) {
	s := &wholeSource{at: map[string]place{}, index: sharded.Index{Metadata: map[string]string{}}}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("shard: %w", err), s.Close())
		}
	}()
	model, err := safetensors.Open(filepath.Join(path, wholeModel))
	if err != nil {
		return nil, err
	}
	s.files = append(s.files, model)
	shapes := map[string][]int64{}
	for _, t := range model.Tensors() {
		shapes[t.Name] = t.Shape
		s.add(model, t, modelPrefix+t.Name)
	}
	for alias, name := range model.Metadata() { // tied weights are stored once
		if found, ok := s.at[modelPrefix+name]; ok && shapes[alias] == nil {
			shapes[alias] = shapes[name]
			s.at[modelPrefix+alias] = found
		}
	}
	state, err := safetensors.Open(filepath.Join(path, wholeState))
	if errors.Is(err, fs.ErrNotExist) {
		return s, nil // weights without optimizer state
	}
	if err != nil {
		return nil, err
	}
	s.files = append(s.files, state)
	for _, t := range state.Tensors() {
		prefix := countPrefix
		shape, ok := shapes[t.Name[:max(strings.LastIndexByte(t.Name, '.'), 0)]]
		if ok && fmt.Sprint(shape) == fmt.Sprint(t.Shape) {
			prefix = statePrefix
		}
		s.add(state, t, prefix+t.Name)
	}
	for key, value := range state.Metadata() {
		s.index.Metadata[key] = value
	}
	s.index.Step, _ = strconv.Atoi(s.index.Metadata[updatesKey]) // Load reports a missing value
	return s, nil
}

func (s *wholeSource) add(f *safetensors.File, t safetensors.Tensor, name string) {
	described := sharded.Tensor{Name: name, DType: t.DType.String(), Shape: t.Shape}
	s.index.Tensors = append(s.index.Tensors, described)
	s.at[name] = place{f, t.Name, described}
}

// checkForm refuses the file of an unsharded run whose tensors have another form than those of the
// model in memory ([nn.FileForm]), as the experts of a mixture have: the parts of one are not parts
// of the other.
func (m *Model) checkForm(s *wholeSource) error {
	if _, ok := m.model.(nn.FileForm); !ok {
		return nil
	}
	for _, t := range m.targets() {
		if _, found := s.Tensor(t.name); !found && strings.Contains(t.name, ".experts.") {
			return fmt.Errorf("the checkpoint is of a run without sharding, whose file holds each expert of a mixture by "+
				"itself; it has no tensor %q, and a sharded run cannot continue from it: load the model from its folder and begin "+
				"a new run, or go on without sharding", strings.TrimPrefix(t.name, modelPrefix))
		}
	}
	return nil
}

func (s *wholeSource) about() *sharded.Index { return &s.index }

func (s *wholeSource) Tensor(name string) (sharded.Tensor, bool) {
	p, ok := s.at[name]
	return p.Tensor, ok
}

func (s *wholeSource) ReadRange(name string, offset, length int64, w io.Writer) error {
	p := s.at[name]
	section, err := p.file.Section(p.name)
	if err != nil {
		return fmt.Errorf("shard: %w", err)
	}
	d, _ := safetensors.ParseDType(p.DType)
	size := int64(d.Bits() / 8)
	if _, err := section.Seek(offset*size, io.SeekStart); err != nil {
		return fmt.Errorf("shard: %w", err)
	}
	if _, err := io.CopyN(w, section, length*size); err != nil {
		return fmt.Errorf("shard: cannot read %q: %w", p.name, err)
	}
	return nil
}

func (s *wholeSource) Close() (err error) {
	for _, f := range s.files {
		err = errors.Join(err, f.Close())
	}
	return err
}

// Whole is the complete contents of a sharded checkpoint, in one process.
type Whole struct {
	Model    []torch.Named // parameters and buffers
	State    []torch.Named // state of the optimizer, as its LoadState takes it
	Updates  int           // updates of the optimizer; -1: the checkpoint has no optimizer state
	Step     int
	Metadata map[string]string
}

// ReadWhole reads a sharded checkpoint into one process, to continue without sharding: load Model
// with [Whole.LoadModel] and State into the optimizer. The caller owns the tensors, see
// [Whole.Free]. [Model.Load] goes the other way: it also reads checkpoints of unsharded runs.
func ReadWhole(path string) (w *Whole, err error) {
	r, err := openSource(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }() // opened for reading
	x := r.about()
	w = &Whole{Updates: -1, Step: x.Step, Metadata: x.Metadata}
	failed := torch.Try(func() {
		for _, t := range x.Tensors {
			dtype, e := dtypeOf(t)
			if err = e; err != nil {
				return
			}
			n := int64(1)
			for _, d := range t.Shape {
				n *= d
			}
			value, e := readPart(r, t.Name, dtype, t.Shape, 0, n)
			if err = e; err != nil {
				return
			}
			named := torch.Named{Tensor: value.Reshape(t.Shape...).Keep()}
			var isModel bool
			if named.Name, isModel = strings.CutPrefix(t.Name, modelPrefix); isModel {
				w.Model = append(w.Model, named)
				continue
			}
			named.Name = strings.TrimPrefix(strings.TrimPrefix(t.Name, statePrefix), countPrefix)
			w.State = append(w.State, named)
		}
	})
	if text, ok := x.Metadata[updatesKey]; ok && err == nil {
		w.Updates, err = strconv.Atoi(text)
	}
	if err = errors.Join(err, failed); err != nil {
		w.Free()
		return nil, err
	}
	return w, nil
}

// Free frees the tensors.
func (w *Whole) Free() {
	for _, t := range append(w.Model, w.State...) {
		t.Tensor.Free()
	}
}

// CheckModel reports whether a model has the parameters and buffers of the checkpoint.
func (w *Whole) CheckModel(model any) error {
	_, err := w.targets(model)
	return err
}

// LoadModel copies the parameters and buffers of the checkpoint into a model. If they do not
// match, it returns an error and nothing has changed.
func (w *Whole) LoadModel(model any) error {
	targets, err := w.targets(model)
	if err != nil {
		return err
	}
	return torch.Try(func() {
		torch.NoGrad(func() {
			for i, t := range targets {
				t.Copy_(w.Model[i].Tensor)
			}
		})
	})
}

// targets returns the tensors of a model that the checkpoint's tensors are copied to, in the same
// order.
func (w *Whole) targets(model any) (targets []torch.Tensor, err error) {
	own, left := map[string]torch.Tensor{}, map[torch.Tensor]string{}
	for _, t := range nn.StateDict(model) {
		own[t.Name], left[t.Tensor] = t.Tensor, t.Name
	}
	for _, t := range w.Model {
		found, ok := own[t.Name]
		if !ok {
			return nil, fmt.Errorf("shard: the checkpoint has %q, which the model has not: is it of another model?", t.Name)
		}
		if fmt.Sprint(found.Shape(), found.DType()) != fmt.Sprint(t.Tensor.Shape(), t.Tensor.DType()) {
			return nil, fmt.Errorf("shard: tensor %q of the checkpoint is a %s%v, in the model it is a %s%v", t.Name,
				t.Tensor.DType(), t.Tensor.Shape(), found.DType(), found.Shape())
		}
		targets = append(targets, found)
		delete(left, found)
	}
	for _, name := range left {
		return nil, fmt.Errorf("shard: the checkpoint has no tensor %q of the model: is it of another model?", name)
	}
	return targets, nil
}
