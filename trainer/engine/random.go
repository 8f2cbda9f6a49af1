package engine

import (
	"errors"
	"fmt"
	"sync"

	"github.com/gotrainer/gotrainer/internal/torchsave"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/torch/cuda"
	"github.com/gotrainer/gotrainer/trainer"
)

// random is the state of a Step's random numbers: those of all operators without a generator of
// their own, including dropout and attention.
type random struct {
	id int64 // identifies the Step
	// states between two calls of Around; nil: the Step has not drawn any numbers yet
	states torchsave.Generators
	inside bool // Around is running
}

// drawing records which Step used the default generators last, and how many Steps are using
// generators of their own now.
var drawing struct {
	sync.Mutex
	steps, last int64
	inside      int
}

// enter reports whether no other Step has used the default generators since this one, so that it
// starts from their current state.
func (r *random) enter() (alone bool) {
	drawing.Lock()
	defer drawing.Unlock()
	if r.id == 0 {
		drawing.steps++
		r.id = drawing.steps
	}
	alone = r.states == nil || drawing.last == r.id && drawing.inside == 0
	drawing.last, r.inside = r.id, true
	drawing.inside++
	return alone
}

func (r *random) leave() {
	drawing.Lock()
	defer drawing.Unlock()
	drawing.last, r.inside = r.id, false
	drawing.inside--
}

// Around carries out a run with the Step's own random generators in place of the default generators
// of its devices (see [torch.ForkRNG]), so that Steps running at the same time do not affect each
// other's numbers. When body ends, the default generators are set to the state of the Step's, as if
// body had drawn from them. The Step's generators start from the state of the default ones if no
// other Step has drawn from those since; otherwise from where the Step's last Seed or run left
// them.
//
// Goroutines started by body draw from the default generators. A loader whose Collate or data set
// draws with package torch is therefore repeatable only if it uses its own torch.Generator.
// Goroutines that make models at the same time should do so in [torch.ForkRNG] or with
// [NewFromInit].
func (s *core) Around(body func() error) (err error) {
	if s.random.inside {
		return body()
	}
	return s.onDevice(func() error { return s.around(body) })
}

func (s *core) around(body func() error) (err error) {
	devices := s.devices()
	var begin torchsave.Generators
	if !s.random.enter() {
		begin = s.random.states
	}
	defer s.random.leave()
	// Whatever ended the run, such as a lack of memory, may also make this fail. It must not hide
	// the first error.
	defer func() {
		err = joined(err, ask("put the random generators back", func() { s.random.states.Restore(devices) }))
	}()
	defer s.resident.free()
	defer s.graphs.forget() // graphs draw from the generators of this run
	torch.ForkRNG(func() {
		begin.Restore(devices)
		s.order.global = torch.DefaultGenerator(torch.CPU)
		defer func() {
			s.order.global, s.random.states = nil, nil
			err = joined(err, ask("keep the states of the random generators", func() {
				s.random.states = torchsave.GeneratorsOf(devices)
			}))
		}()
		if err = body(); err == nil {
			err = s.summon() // outside of a run the model has all its parameters
		}
	}, devices...)
	return err
}

// onDevice calls f with Options.Device as the current GPU, if it is one. Otherwise, when libtorch
// waits for another GPU, it would create a context of some hundred megabytes on the current one.
func (s *core) onDevice(f func() error) (err error) {
	if !s.options.Device.IsCUDA() {
		return f()
	}
	return try(func() error {
		cuda.On(s.options.Device, func() { err = f() })
		return err
	})
}

// ask calls f, which uses the default generators. It does nothing if the GPU has failed, since then
// its generator cannot be used.
func ask(what string, f func()) error {
	if torch.DeviceFailed() {
		return nil
	}
	if err := torch.Try(f); err != nil {
		return fmt.Errorf("engine: %s: %w", what, err)
	}
	return nil
}

// joined returns err, joined with second if that is not nil.
func joined(err, second error) error {
	if second == nil {
		return err
	}
	return errors.Join(err, second)
}

// Seed restarts the Step's generators. If the Step was made by [NewFromInit], it also makes the
// model again.
func (s *core) Seed(seed uint64, o trainer.SeedOptions) error {
	if o.UnlessFresh && s.fresh {
		return nil
	}
	s.fresh = false
	s.copies.wait()
	if is[DeviceSpecificSeeder](s.task.given) {
		seed += uint64(o.Rank)
	}
	s.python = torchsave.SeedRandom(seed)
	return s.Around(func() error { return s.seed(seed, o) })
}

func (s *core) seed(seed uint64, o trainer.SeedOptions) error {
	err := torch.Try(func() {
		torch.ManualSeed(seed)
		if t, ok := s.task.given.(Seeder); ok {
			t.TakeSeed(seed)
		}
	})
	if t, ok := s.task.given.(StateOwner); ok && err == nil && !o.KeepModel {
		var begin func()
		if begin, err = t.LoadState(nil); err == nil {
			begin()
		}
	}
	if err != nil || s.init == nil || o.KeepModel {
		return err
	}
	t, err := callInit(s.init)
	if err != nil {
		return err
	}
	if s.sharded != nil { // it holds parts of the model that is being replaced
		s.sharded.Close()
		s.sharded, s.parallel = nil, nil
	}
	s.task, s.scaler, s.fresh = t, nil, true
	return try(s.prepareModel)
}
