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

// writeFiles writes so many files at a time.
func writeFiles(dir string, files []tensorFile, atATime int) error {
	return tensorio.Each(atATime, len(files), func(i int) error {
		f := files[i]
		return tensorio.Save(filepath.Join(dir, f.name), f.tensors, f.metadata)
	})
}

// copies is the memory that a state is copied into so that training need not wait until it is
// written. It is used again from save to save: the first touch of new memory takes longer than the
// copy.
type copies struct {
	memory   map[copyName]torch.Tensor
	underWay *snapshot // nil: none since the last wait
	atOnce   bool      // somebody changes the weights between updates
}

type copyName struct{ file, tensor string }

// take replaces the tensors of the files by copies in the memory of the CPU. Those that the caller
// says to be still until the next update are copied by another goroutine, beside the passes up to
// then; wait comes before they change. Those of a GPU go into pinned memory, all at once: what
// waits for them is one number of that GPU that is read last.
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

// room is the memory for a copy of a tensor: that of the copy before if it fits.
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

// wait returns when everything is copied, so that the state may change.
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
func (s *Step[S, B]) EmptyCache() error {
	s.copies.free()
	return torch.Try(torch.EmptyCache)
}

// snapshot is a copy of a state as of one instant, which is made later, once: by the goroutine that
// writes it, or by the one that wants to change the state, whichever comes first.
type snapshot struct {
	of      map[torch.Tensor]torch.Tensor // the copies
	moves   []move
	copy    sync.Once
	err     error // of the copy
	check   sync.Once
	changed error
}

// move is a tensor that is copied, and how often it had been changed when that began.
type move struct {
	name     string
	from, to torch.Tensor
	version  any
}

func newMove(name string, t, to torch.Tensor) move {
	from := t.Detach().Keep() // has the memory and the version of t, whatever becomes of t
	return move{name, from, to, version(from)}
}

// version counts the changes of a tensor in place.
func version(t torch.Tensor) any { return torch.CallAny("aten::_version", t)[0] }

// made returns when the copy is made.
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

// replace puts the copies instead of the tensors of a state of PyTorch's, by parameter and kind. It
// reports whether there is one of each, and changes nothing otherwise.
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

// grain is how many elements libtorch does not divide among threads: those are training meanwhile.
const grain = 1 << 15

// pieces are the parts of a contiguous tensor that one thread computes.
func pieces(t torch.Tensor) []torch.Tensor {
	if t.Numel() <= grain {
		return []torch.Tensor{t}
	}
	return t.View(-1).Split(grain, 0)
}

// unchanged returns when the copy is made, and is an error if anything has been changed meanwhile.
// A change is counted when it is complete, so this is asked as late as it can be: before the next
// update, or when the files are written.
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
