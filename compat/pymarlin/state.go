package pymarlin

import (
	"errors"
	"fmt"
	"maps"

	"github.com/gotrainer/gotrainer/internal/torchsave"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// State is what a checkpoint holds of something: a dict in Python. Its values are nil, bool, int,
// float64, string, torch.Tensor, []any, State and map[int]any of these.
type State = map[string]any

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

func free(s ...State) { torchsave.EachTensor(anys(s), torch.Tensor.Free) }

// anys is a list as a [State] has it.
func anys[T any](list []T) []any {
	out := make([]any, len(list))
	for i, x := range list {
		out[i] = x
	}
	return out
}

// listOf is the inverse of anys; ok is false for anything else.
func listOf[T any](v any) (out []T, ok bool) {
	list, ok := v.([]any)
	out = make([]T, len(list))
	for i, x := range list {
		item, isItem := x.(T)
		out[i], ok = item, ok && isItem
	}
	return out, ok
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
	named, err := torchsave.Named(s)
	if err != nil {
		return err
	}
	_, err = nn.LoadStateDict(modelOf(m), nn.Tensors(named), nn.LoadOptions{})
	return err
}

// states collects the state of optimizers or schedulers.
func states[T interface{ State() (State, error) }](list []T) (out []any, err error) {
	out = make([]any, len(list))
	for i, x := range list {
		if out[i], err = x.State(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// loadStates hands a list of states out again. There must be as many as things.
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

// random is where the generators of devices stand.
type random map[torch.Device][]byte

// currentRandom has the generators that a run on a device draws from.
func currentRandom(device torch.Device) random {
	r := random{torch.CPU: nil, device: nil}
	for d := range r {
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
	r := random{torch.CPU: nil, device: nil}
	for d := range r {
		t, ok := saved[d.String()].(torch.Tensor)
		if !ok {
			return nil, fmt.Errorf("rng_state has no generator of %s: it was saved on another kind of device; set "+
				"Options.InexactResume to continue with the generators as they are", d)
		}
		if err := torch.Try(func() { r[d] = t.Bytes() }); err != nil {
			return nil, err
		}
	}
	return r, nil
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

// WriteState writes a state into a file, which is whole or not there: as torch.save does, or, if
// its name ends in .safetensors, as safetensors with what is no tensor as JSON in the header.
func WriteState(path string, s State) error {
	if err := torchsave.WriteFile(path, s); err != nil {
		return fmt.Errorf("pymarlin: write %s: %w", path, err)
	}
	return nil
}

// ReadState reads what WriteState or torch.save wrote; nothing in it is run. Its tensors are the
// caller's to free.
func ReadState(path string) (State, error) {
	s, err := torchsave.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("pymarlin: read %s: %w", path, err)
	}
	return s, nil
}

// place is where a run stands behind its module, optimizers and counts.
type place struct {
	random random // the generators
	stats  State  // that have not been written

	// inside an epoch:
	run     []byte    // the state of the loop; nil: it is between two epochs
	pass    random    // the generators as they were before the loader of the epoch was made
	outputs Collected // of the epoch, where it is its validation that was interrupted
}

// The keys of a place among those of a trainer's state.
const (
	randomKey = "rng_state"
	passKey   = "epoch_rng_state"
	statsKey  = "stats"
	runKey    = "run_state"
)

// here is where everything is now, between two epochs.
func (t *Trainer[B]) here() (*place, error) {
	p := &place{}
	err := torch.Try(func() { p.random, p.stats = currentRandom(t.device), t.stats.state() })
	return p, err
}

func (p *place) state() State {
	s := State{randomKey: p.random.state(), statsKey: p.stats}
	if p.run != nil {
		maps.Copy(s, State{runKey: string(p.run), passKey: p.pass.state(), outputsKey: p.outputs.state()})
	}
	return s
}

// readPlace is what state was made of, among other things. A state that PyMarlin has written has
// nothing of it.
func readPlace(s State, device torch.Device) (p *place, err error) {
	p = &place{}
	if p.random, err = readRandom(s[randomKey], device); err != nil {
		return nil, err
	}
	p.stats, _ = s[statsKey].(State)
	if s[runKey] == nil {
		return p, nil
	}
	run, ok := s[runKey].(string)
	if !ok {
		return nil, fmt.Errorf("%s is %T, want a text", runKey, s[runKey])
	}
	p.run = []byte(run)
	if pass, _ := s[passKey].(State); len(pass) > 0 {
		if p.pass, err = readRandom(pass, device); err != nil {
			return nil, err
		}
	}
	p.outputs, err = readCollected(s[outputsKey])
	return p, err
}
