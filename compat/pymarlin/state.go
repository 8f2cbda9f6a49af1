package pymarlin

import (
	"errors"
	"fmt"

	"github.com/gotrainer/gotrainer/internal/torchsave"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// State is the content of a part of a checkpoint: a dict in Python. Its values are nil, bool, int,
// float64, string, torch.Tensor, []any, State and map[int]any of these.
type State = map[string]any

// Checkpoint is what is saved and loaded together. Files have the fields under PyMarlin's names.
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

func free(s ...State) { torchsave.EachTensor(toAny(s), torch.Tensor.Free) }

// toAny converts a list to the form it has in a [State].
func toAny[T any](list []T) []any {
	out := make([]any, len(list))
	for i, x := range list {
		out[i] = x
	}
	return out
}

// listOf is the inverse of toAny; ok is false if v is anything else.
func listOf[T any](v any) (out []T, ok bool) {
	list, ok := v.([]any)
	out = make([]T, len(list))
	for i, x := range list {
		item, isItem := x.(T)
		out[i], ok = item, ok && isItem
	}
	return out, ok
}

// moduleState returns the module's own state, or the state_dict of its model.
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

// updateModule is the inverse of moduleState; names and shapes must match.
func updateModule(m any, s State) error {
	if m, ok := m.(Stateful); ok {
		return m.UpdateState(s)
	}
	named, err := torchsave.Named(s)
	if err != nil {
		return err
	}
	_, err = nn.LoadStateDict(modelOf(m), nn.Tensors(named), nn.LoadOptions{})
	return err
}

// states returns the states of optimizers or schedulers.
func states[T interface{ State() (State, error) }](list []T) (out []any, err error) {
	out = make([]any, len(list))
	for i, x := range list {
		if out[i], err = x.State(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// loadStates is the inverse of states. The numbers must match.
func loadStates[T interface{ LoadState(State) error }](what string, list []T, saved any) error {
	states, ok := listOf[State](saved)
	switch {
	case !ok:
		return fmt.Errorf("want a list of dictionaries %s, found %T", what, saved)
	case len(states) != len(list):
		return fmt.Errorf("it has %d %s, and the module has %d", len(states), what, len(list))
	}
	for i, x := range list {
		if err := x.LoadState(states[i]); err != nil {
			return fmt.Errorf("%s[%d]: %w", what, i, err)
		}
	}
	return nil
}

// generators returns the states of the random generators that a run draws from, by device.
func (t *Trainer[B]) generators() State {
	s := State{}
	for device, state := range torchsave.GeneratorsOf(t.devices()) {
		s[device] = torch.FromBytes(state, torch.Uint8, int64(len(state))).Keep()
	}
	return s
}

// generatorIn returns the state of a device's generator from the result of generators.
func generatorIn(s State, d torch.Device) (state torch.Tensor, ok bool) {
	v, _ := torchsave.GeneratorOf(s, d)
	state, ok = v.(torch.Tensor)
	return state, ok
}

func (t *Trainer[B]) devices() []torch.Device { return torchsave.DevicesOf(t.device) }

// setGenerators restores the generators that saved has a state for.
func (t *Trainer[B]) setGenerators(saved any) error {
	s, _ := saved.(State)
	err := torch.Try(func() {
		for _, d := range t.devices() {
			if state, ok := generatorIn(s, d); ok {
				torch.DefaultGenerator(d).SetState(state.Bytes())
			}
		}
	})
	if err != nil {
		return fmt.Errorf("%w: the generators: %w", errNotLoaded, err)
	}
	return nil
}

// errNotLoaded is wrapped by errors for a checkpoint that was read but does not match.
var errNotLoaded = errors.New("the checkpoint does not fit")

// WriteState atomically writes a state to a file. If its name ends in .safetensors, it is a
// safetensors file with everything that is not a tensor as JSON in the header; otherwise it is one
// like those of torch.save.
func WriteState(path string, s State) error {
	if err := torchsave.WriteFile(path, s); err != nil {
		return fmt.Errorf("pymarlin: write %s: %w", path, err)
	}
	return nil
}

// ReadState reads a file written by WriteState or torch.save without running any code in it. The
// caller must free the tensors.
func ReadState(path string) (State, error) {
	s, err := torchsave.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("pymarlin: read %s: %w", path, err)
	}
	return s, nil
}

// The keys of a run's position in the trainer's state, next to its module, optimizers and counts.
// The last two are present only inside an epoch.
const (
	randomKey = "rng_state"       // the random generators
	statsKey  = "stats"           // values that have not been written yet
	runKey    = "run_state"       // the state of the loop
	passKey   = "epoch_rng_state" // the generators before the loader of the epoch was made
	// outputsKey is present, too, if the validation was interrupted.
)

// currentPlace returns the current position, between two epochs.
func (t *Trainer[B]) currentPlace() (place State, err error) {
	err = torch.Try(func() { place = State{randomKey: t.generators(), statsKey: t.stats.state()} })
	return place, err
}

// extractPlace removes the position from a trainer's state and returns it. States written by
// PyMarlin have none.
func (t *Trainer[B]) extractPlace(s State) (State, error) {
	place := State{}
	for _, key := range []string{randomKey, statsKey, runKey, passKey, outputsKey} {
		if v, ok := s[key]; ok {
			place[key] = v
			delete(s, key) // so that its tensors are not freed with the others
		}
	}
	for _, key := range []string{randomKey, passKey} {
		generators, _ := place[key].(State)
		for _, d := range t.devices() {
			if _, ok := generatorIn(generators, d); !ok && len(generators) > 0 {
				return nil, fmt.Errorf("%s has no generator of %s: it was saved on another kind of device; set "+
					"Options.InexactResume to continue with the generators as they are", key, d)
			}
		}
	}
	if run, ok := place[runKey]; ok {
		if _, ok := run.(string); !ok {
			return nil, fmt.Errorf("%s is %T, want a text", runKey, run)
		}
	}
	outputs, err := readCollected(place[outputsKey])
	outputs.free()
	return place, err
}
