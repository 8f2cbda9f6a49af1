package pymarlin

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// State is what a checkpoint holds of something: a dict in Python. Its values are nil, bool, int,
// float64, string, torch.Tensor, []any, State and map[int]any of these.
type State map[string]any

// Checkpoint is what is saved and loaded at once. Files have the fields under PyMarlin's names.
type Checkpoint struct {
	ModuleInterfaceState State // weights and buffers by name, or what the module's GetState returns
	TrainerState         State // last_epoch, optimizers, schedulers
	TrainerBackendState  State // global_step_completed, batches_completed
}

// The keys of a checkpoint file.
const (
	moduleKey  = "module_interface_state"
	trainerKey = "trainer_state"
	backendKey = "trainer_backend_state"
)

// free frees the tensors of a state that was read.
func (s State) free() { eachTensor(s, torch.Tensor.Free) }

func eachTensor(v any, f func(torch.Tensor)) {
	switch v := v.(type) {
	case torch.Tensor:
		f(v)
	case State:
		for _, x := range v {
			eachTensor(x, f)
		}
	case map[int]any:
		for _, x := range v {
			eachTensor(x, f)
		}
	case []any:
		for _, x := range v {
			eachTensor(x, f)
		}
	}
}

// moduleState is what the module has, or its model's state_dict.
func moduleState(m any) (State, error) {
	if m, ok := m.(Stateful); ok {
		return m.GetState()
	}
	s := State{}
	err := torch.Try(func() {
		for _, t := range nn.StateDict(modelOf(m)) {
			s[t.Name] = t.Tensor
		}
	})
	return s, err
}

// updateModule gives the module what moduleState returned. Names and shapes must fit, as with
// load_state_dict.
func updateModule(m any, s State) error {
	if m, ok := m.(Stateful); ok {
		return m.UpdateState(s)
	}
	var named []torch.Named
	for name, v := range s {
		t, ok := v.(torch.Tensor)
		if !ok {
			return fmt.Errorf("%q is %T, want a tensor", name, v)
		}
		named = append(named, torch.Named{Name: name, Tensor: t})
	}
	slices.SortFunc(named, func(a, b torch.Named) int { return strings.Compare(a.Name, b.Name) })
	_, err := nn.LoadStateDict(modelOf(m), nn.Tensors(named), nn.LoadOptions{})
	return err
}

// states collects the state of optimizers or schedulers.
func states[T interface{ State() (State, error) }](list []T) ([]any, error) {
	out := []any{}
	for _, x := range list {
		s, err := x.State()
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

// loadStates hands a list of states out again. There must be as many as things.
func loadStates[T interface{ LoadState(State) error }](what string, list []T, saved any) error {
	states, ok := saved.([]any)
	if !ok {
		return fmt.Errorf("want a list of %s, found %T", what, saved)
	}
	if len(states) != len(list) {
		return fmt.Errorf("it has %d %s, and the module has %d", len(states), what, len(list))
	}
	for i, x := range list {
		s, ok := states[i].(State)
		if !ok {
			return fmt.Errorf("%s[%d] is %T, want a dictionary", what, i, states[i])
		}
		if err := x.LoadState(s); err != nil {
			return fmt.Errorf("%s[%d]: %w", what, i, err)
		}
	}
	return nil
}

// random is where the generators of devices stand.
type random map[torch.Device][]byte

// currentRandom has the generators that a run draws from.
func currentRandom(device torch.Device) random {
	r := random{}
	for _, d := range generators(device) {
		r[d] = torch.DefaultGenerator(d).State()
	}
	return r
}

func (r random) state() State {
	s := State{}
	for d, raw := range r {
		s[d.String()] = torch.FromBytes(raw, torch.Uint8, int64(len(raw)))
	}
	return s
}

// readRandom is what state was made of; nil where there is none.
func readRandom(v any, device torch.Device) (random, error) {
	saved, ok := v.(State)
	if !ok {
		return nil, nil // written by PyMarlin, or on purpose without
	}
	r := random{}
	for _, d := range generators(device) {
		t, ok := saved[d.String()].(torch.Tensor)
		if !ok {
			return nil, fmt.Errorf("rng_state has no generator of %s: it was saved on another kind of device; set "+
				"Options.InexactResume to go on with the generators as they are", d)
		}
		if err := torch.Try(func() { r[d] = t.Bytes() }); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func generators(device torch.Device) []torch.Device {
	if device == torch.CPU {
		return []torch.Device{torch.CPU}
	}
	return []torch.Device{torch.CPU, device}
}

// setRandom puts the generators where they stood.
func setRandom(r random) error {
	err := torch.Try(func() {
		for d, raw := range r {
			torch.DefaultGenerator(d).SetState(raw)
		}
	})
	if err != nil {
		return fmt.Errorf("%w: the generators: %w", errNotLoaded, err)
	}
	return nil
}

// errNotLoaded marks a checkpoint that could be read and does not fit.
var errNotLoaded = errors.New("the checkpoint does not fit")
