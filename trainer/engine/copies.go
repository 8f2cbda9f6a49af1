package engine

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"

	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/internal/torchsave"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
)

// tensorFile is a file of tensors that is part of a save.
type tensorFile struct {
	name     string
	tensors  []torch.Named
	metadata map[string]string
}

// writeFiles writes the files into a folder, atATime of them concurrently.
func writeFiles(dir string, files []tensorFile, atATime int) error {
	return tensorio.Each(atATime, len(files), func(i int) error {
		f := files[i]
		return tensorio.Save(filepath.Join(dir, f.name), f.tensors, f.metadata)
	})
}

// copies is the memory into which a state is copied so that training need not wait until it is
// written. It is reused from save to save, since touching new memory for the first time takes
// longer than the copy.
type copies struct {
	memory   map[copyName]torch.Tensor
	underWay *snapshot // the snapshot in progress; nil: none since the last wait
	atOnce   bool      // copy immediately, since something changes the weights between updates
}

type copyName struct{ file, tensor string }

// take replaces the tensors of the files by copies in CPU memory. Tensors in still do not change
// before the next update; if they are on the CPU, they are copied by another goroutine during the
// passes until then, and wait must be called before they change. Tensors of a GPU are copied into
// pinned memory at once. Reading number, which is on that GPU, waits for these copies.
func (c *copies) take(files []tensorFile, still map[torch.Tensor]bool, number torch.Tensor) *snapshot {
	c.wait()
	if c.memory == nil {
		c.memory = map[copyName]torch.Tensor{}
	}
	s := &snapshot{of: map[torch.Tensor]torch.Tensor{}}
	var from, to []torch.Tensor
	torch.NoGrad(func() {
		for i := range files {
			files[i].tensors = slices.Clone(files[i].tensors)
			for j := range files[i].tensors {
				t := &files[i].tensors[j]
				memory := c.room(copyName{files[i].name, t.Name}, t.Tensor)
				s.of[t.Tensor] = memory
				if still[t.Tensor] && !c.atOnce && t.Tensor.Device() == torch.CPU {
					s.moves = append(s.moves, newMove(t.Name, t.Tensor, memory))
				} else {
					from, to = append(from, t.Tensor), append(to, memory)
				}
				t.Tensor = memory
			}
		}
		if len(to) > 0 {
			torch.Call("aten::_foreach_copy_", to, from, true)
		}
	})
	if number.Device() != torch.CPU {
		number.Item()
	}
	c.underWay = s
	return s
}

// room returns the memory for the copy of a tensor: that of the previous copy if it fits.
func (c *copies) room(name copyName, t torch.Tensor) torch.Tensor {
	to, ok := c.memory[name]
	if !ok || to.DType() != t.DType() || !slices.Equal(to.Shape(), t.Shape()) {
		if ok {
			to.Free()
		}
		pinned := t.Device().IsCUDA()
		to = torch.Call("aten::empty.memory_format", t.Shape(), t.DType(), nil, torch.CPU, pinned)[0].Keep()
		c.memory[name] = to
	}
	return to
}

// wait returns when everything has been copied, so that the state may change.
func (c *copies) wait() {
	if c.underWay == nil {
		return
	}
	if errors.Is(c.underWay.unchanged(), trainer.ErrChangedWhileSaved) {
		c.atOnce = true
	}
	c.underWay = nil
}

func (c *copies) free() {
	c.wait()
	for _, t := range c.memory {
		t.Free()
	}
	c.memory = nil
}

// EmptyCache returns the memory that libtorch caches to the device, and the memory used for copies
// of asynchronous saves to the system. No save may be running.
func (s *core) EmptyCache() error {
	s.copies.free()
	return torch.Try(torch.EmptyCache)
}

// snapshot is a copy of a state at one instant. It is made later and only once: by the goroutine
// that writes it or by the one that is about to change the state, whichever comes first.
type snapshot struct {
	of      map[torch.Tensor]torch.Tensor // the copy of each tensor
	moves   []move
	copy    sync.Once
	err     error // error of the copy
	check   sync.Once
	changed error
}

// move is a tensor to be copied, and its version when that was requested.
type move struct {
	name     string
	from, to torch.Tensor
	version  any
}

func newMove(name string, t, to torch.Tensor) move {
	from := t.Detach().Keep() // shares the memory and the version counter of t, even if t is freed
	return move{name, from, to, version(from)}
}

// version returns how often a tensor has been changed in place.
func version(t torch.Tensor) any { return torch.CallAny("aten::_version", t)[0] }

// made makes the copy, or waits until it is made.
func (s *snapshot) made() error {
	s.copy.Do(func() {
		s.err = scoped(func() error {
			for _, m := range s.moves {
				if m.from.IsContiguous() {
					torch.Call("aten::_foreach_copy_", pieces(m.to), pieces(m.from), false)
				} else {
					m.to.Copy_(m.from)
				}
			}
			return nil
		})
	})
	return s.err
}

// replace replaces the tensors in the state of a PyTorch optimizer by their copies. It reports
// whether all have one, and changes nothing otherwise.
func (s *snapshot) replace(state any) bool {
	params, ok := state.(map[int]any)
	if s == nil || !ok {
		return false
	}
	torchsave.EachTensor(state, func(t torch.Tensor) {
		_, copied := s.of[t]
		ok = ok && copied
	})
	for _, p := range params {
		kinds, _ := p.(map[string]any)
		for kind, v := range kinds {
			if t, isTensor := v.(torch.Tensor); isTensor && ok {
				kinds[kind] = s.of[t]
			}
		}
	}
	return ok
}

// grain is the number of elements up to which libtorch does not divide an operator among its
// threads: those are busy training.
const grain = 1 << 15

// pieces splits a contiguous tensor into parts, each of which a single thread copies.
func pieces(t torch.Tensor) []torch.Tensor {
	if t.Numel() <= grain {
		return []torch.Tensor{t}
	}
	return t.View(-1).Split(grain, 0)
}

// unchanged waits for the copy and returns an error if a tensor was changed in the meantime. A
// change increments the version only when it is complete, so this is checked as late as possible:
// before the next update, or when the files are written.
func (s *snapshot) unchanged() error {
	err := s.made()
	s.check.Do(func() {
		for _, m := range s.moves {
			if version(m.from) != m.version {
				s.changed = fmt.Errorf("%w: %s was changed in place between two updates, while it was copied by "+
					"another goroutine; from now on the copy is made at once", trainer.ErrChangedWhileSaved, m.name)
			}
			m.from.Free()
		}
		s.moves = nil
	})
	return errors.Join(err, s.changed)
}
