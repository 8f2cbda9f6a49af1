package optim

import (
	"errors"
	"testing"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

// failing returns an SGD with momentum whose kernel or allocation runs out of memory on demand.
func failing(t *testing.T, kernel, allocation *bool) *optimizer {
	t.Helper()
	opt, err := SGD{Momentum: 0.9}.Build([]Group{{Params: []torch.Named{
		{Name: "a", Tensor: torch.Ones(2).RequiresGrad()},
		{Name: "b", Tensor: torch.Ones(2).RequiresGrad()},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	o := opt.(*optimizer)
	r := o.groups[0].rule
	kernelOf, empty := r.fused, r.states[0].make
	outOfMemory := &torch.Error{Op: "test", Code: torch.ErrOutOfMemory, Msg: "no memory, as asked for"}
	r.fused = func(s *shard, set settings) {
		if *kernel {
			panic(outOfMemory)
		}
		kernelOf(s, set)
	}
	r.states[0].make = func(m *member, lr float64) torch.Tensor {
		if *allocation {
			panic(outOfMemory)
		}
		return empty(m, lr)
	}
	for _, p := range o.params {
		p.Tensor.Sum(0).Backward()
	}
	return o
}

// The momentum buffer of the first step is uninitialised until the kernel has run. If the kernel
// fails, the buffer must not be saved.
func TestAFailedFirstStepLeavesNoState(t *testing.T) {
	testenv.RequireTorch(t)
	for _, what := range []string{"kernel", "allocation"} {
		t.Run(what, func(t *testing.T) {
			kernel, allocation := what == "kernel", what == "allocation"
			o := failing(t, &kernel, &allocation)
			if err := torch.Try(func() { o.Step(0.5) }); !errors.Is(err, torch.ErrOutOfMemory) {
				t.Fatalf("Step panics with %v, want torch.ErrOutOfMemory", err)
			}
			if len(o.State()) != 0 || o.Updates() != 0 {
				t.Errorf("there are %d states after %d updates, want none", len(o.State()), o.Updates())
			}
			kernel, allocation = false, false
			o.Step(0.5)
			for _, s := range o.State() {
				if s.Tensor.Sum(0).Item() != 2 {
					t.Errorf("%s sums to %g after a second try, want 2", s.Name, s.Tensor.Sum(0).Item())
				}
			}
			if a := o.params[0].Tensor.Sum(0).Item(); a != 1 || o.Updates() != 1 {
				t.Errorf("the parameter sums to %g after %d updates, want 1 after 1", a, o.Updates())
			}
		})
	}
}

func TestLoadStateWithoutMemoryChangesNothing(t *testing.T) {
	testenv.RequireTorch(t)
	kernel, allocation := false, true
	o := failing(t, &kernel, &allocation)
	state := []torch.Named{{Name: "b.momentum_buffer", Tensor: torch.Ones(2)}}
	if err := o.LoadState(state, 7); !errors.Is(err, torch.ErrOutOfMemory) || len(o.State()) != 0 || o.Updates() != 0 {
		t.Errorf("LoadState = %v, then there are %d states and %d updates; want torch.ErrOutOfMemory and none", err,
			len(o.State()), o.Updates())
	}
	allocation = false
	if err := o.LoadState(state, 7); err != nil || len(o.State()) != 1 || o.Updates() != 7 {
		t.Errorf("LoadState = %v, then there are %d states and %d updates; want 1 and 7", err, len(o.State()),
			o.Updates())
	}
}

func TestStepOnAFreedParameterIsAnError(t *testing.T) {
	testenv.RequireTorch(t)
	no := false
	o := failing(t, &no, &no)
	o.Step(0.5)
	o.params[1].Tensor.Free()
	for name, f := range map[string]func(){"Step": func() { o.Step(0.5) }, "ZeroGrad": o.ZeroGrad} {
		if err := torch.Try(f); !errors.Is(err, torch.ErrFreed) {
			t.Errorf("%s panics with %v, want torch.ErrFreed", name, err)
		}
	}
	if o.Updates() != 1 {
		t.Errorf("Updates() = %d, want 1", o.Updates())
	}
}
