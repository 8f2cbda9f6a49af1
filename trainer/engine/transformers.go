package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"reflect"
	"slices"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/internal/torchsave"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
)

// The files in which Hugging Face's Trainer keeps everything but the weights.
const (
	transformersOptimizer = "optimizer.pt"
	transformersSchedule  = "scheduler.pt"
	transformersRandom    = "rng_state.pth"
	transformersScaler    = "scaler.pt"
)

var _ trainer.TransformersStep = (*Step[int, int])(nil)

// SaveTransformers writes the state of the optimizer, the schedule, the generators and the scaler
// as Hugging Face's Trainer does. The generators of Python's modules random and numpy.random get
// the states they had in a checkpoint of transformers or, if there was none, those set by set_seed.
// The large file, the optimizer's state, is written from the copy that Save has just made if Save
// leaves it to o.Later.
func (s *core) SaveTransformers(dir string, at trainer.SchedulePosition, o trainer.SaveOptions) error {
	state, err := torchsave.StateDict(s.optimizer, at.Next)
	if err != nil {
		return err
	}
	groups := s.optimizer.Groups()
	for i, g := range state["param_groups"].([]any) { //nolint:forcetypeassert // StateDict has made it
		g := g.(map[string]any) //nolint:forcetypeassert // likewise
		g["initial_lr"] = at.Peak * torchsave.Scale(groups[i])
	}
	write := func() error { return torchsave.WriteFile(filepath.Join(dir, transformersOptimizer), state) }
	if copied := s.copies.underWay; o.Later != nil && copied.replace(state["state"]) {
		o.Later(func() ([]string, error) { return nil, errors.Join(copied.made(), write()) })
	} else if err := write(); err != nil {
		return err
	}
	if err := torchsave.WriteSchedule(filepath.Join(dir, transformersSchedule),
		torchsave.Schedule{Steps: at.Moves, Base: at.Peak, Rate: at.Next}, groups); err != nil {
		return err
	}
	if err := s.python.Write(filepath.Join(dir, transformersRandom), torchsave.TransformersRandom,
		s.devices()); err != nil {
		return err
	}
	if s.scaler == nil {
		return nil
	}
	scaler, err := torchsave.FromStruct(s.scaler.State())
	if err != nil {
		return err
	}
	return torchsave.WriteFile(filepath.Join(dir, transformersScaler), scaler)
}

// LoadTransformers continues from a checkpoint of Hugging Face's Trainer. All files are read and
// checked before anything is changed. The optimizer keeps the settings of the options, and a
// warning is given if those of the checkpoint differ.
func (s *core) LoadTransformers(dir string) (at trainer.SchedulePosition, err error) {
	s.copies.wait()
	if s.sharded != nil {
		return at, errors.New("the checkpoint is one of transformers, whose optimizer state is not divided: start a " +
			"new run from its weights, or leave engine.Options.Sharding out")
	}
	err = try(func() (err error) {
		at, err = s.loadTransformers(dir)
		return err
	})
	return at, err
}

func (s *core) loadTransformers(dir string) (at trainer.SchedulePosition, err error) {
	state, err := torchsave.ReadFile(filepath.Join(dir, transformersOptimizer))
	if err != nil {
		return at, fmt.Errorf("%s: %w", transformersOptimizer, err)
	}
	defer torchsave.EachTensor(state, func(t torch.Tensor) { t.Free() })
	schedule, err := torchsave.ReadSchedule(filepath.Join(dir, transformersSchedule), s.optimizer.Groups())
	if err != nil {
		return at, fmt.Errorf("%s: %w", transformersSchedule, err)
	}
	random, generators, err := s.readTransformersRandom(filepath.Join(dir, transformersRandom))
	if err != nil {
		return at, fmt.Errorf("%s: %w", transformersRandom, err)
	}
	scaler, err := s.readTransformersScaler(filepath.Join(dir, transformersScaler))
	if err != nil {
		return at, fmt.Errorf("%s: %w", transformersScaler, err)
	}
	if err := s.warnOfSettings(state); err != nil {
		return at, err
	}
	var before []torch.Named // restored if the weights do not fit
	defer func() { tensorio.Free(before) }()
	for _, n := range s.optimizer.State() {
		before = append(before, torch.Named{Name: n.Name, Tensor: n.Tensor.Clone().Keep()})
	}
	updates := s.optimizer.Updates()
	if _, err := torchsave.LoadStateDict(s.optimizer, state); err != nil {
		return at, fmt.Errorf("%s: %w; it must have the optimizer and the groups of parameters of this run",
			transformersOptimizer, err)
	}
	s.fresh = false
	if err := s.readWeights(s.weightsFile(dir)); err != nil {
		return at, errors.Join(err, s.optimizer.LoadState(before, updates))
	}
	if s.scaler != nil {
		if err := s.scaler.LoadState(scaler); err != nil {
			return at, err
		}
	}
	s.graphs.forget()
	s.zeroGrad()
	s.order.before = nil
	s.python = random
	for device, state := range generators {
		torch.DefaultGenerator(device).SetState(state)
	}
	return trainer.SchedulePosition{Moves: schedule.Steps, Peak: schedule.Base, Next: schedule.Rate}, nil
}

// readTransformersRandom reads the states of the generators of this run's devices. A generator
// without a state in the file is left as it is, with a warning.
func (s *core) readTransformersRandom(path string) (r torchsave.Random, found map[torch.Device][]byte,
	err error) {
	r, states, _, err := torchsave.ReadRandom(path, torchsave.TransformersRandom)
	if errors.Is(err, fs.ErrNotExist) {
		return r, nil, fmt.Errorf("%w: it was made by several processes, and this is one; continue from its weights "+
			"(engine.Options.InitWeightsFrom)", err)
	}
	if err != nil {
		return r, nil, err
	}
	found = map[torch.Device][]byte{}
	for _, d := range s.devices() {
		state, err := torchsave.GeneratorState(states, d)
		if err != nil {
			return r, nil, err
		}
		if state == nil {
			s.warn("%s has no state of a generator of %s, so the random numbers there start over", path, d)
			continue
		}
		found[d] = state
	}
	for _, name := range slices.Sorted(maps.Keys(s.taskGenerators())) {
		s.warn("%s has no state of the task's generator %q, which continues as it is", path, name)
	}
	return r, found, nil
}

// pythonRandom returns the states of Python's generators in a checkpoint of this step, if it has
// them.
func (s *core) pythonRandom(dir string) (torchsave.Random, error) {
	path := filepath.Join(dir, transformersRandom)
	r, _, _, err := torchsave.ReadRandom(path, torchsave.TransformersRandom)
	if errors.Is(err, fs.ErrNotExist) {
		return s.python, nil
	}
	if err != nil {
		return r, fmt.Errorf("%s: %w", path, err)
	}
	return r, nil
}

func (s *core) readTransformersScaler(path string) (state amp.GradScalerState, err error) {
	if s.scaler == nil {
		return state, nil
	}
	saved, err := torchsave.ReadFile(path)
	if err != nil {
		return state, fmt.Errorf("the checkpoint was made in another precision than %s: %w", s.options.Precision, err)
	}
	return state, torchsave.ToStruct(saved, &state)
}

// notSettings are the entries of a group that are not settings or do not change the outcome.
var notSettings = []string{"lr", "initial_lr", "params", "param_names", "foreach", "capturable", "differentiable"}

// warnOfSettings warns of settings of the optimizer that differ from those in a checkpoint.
func (s *core) warnOfSettings(saved map[string]any) error {
	own, err := torchsave.StateDict(s.optimizer, 0)
	if err != nil {
		return err
	}
	theirs, _ := saved["param_groups"].([]any)
	for i, g := range own["param_groups"].([]any) { //nolint:forcetypeassert // StateDict has made it
		if i >= len(theirs) {
			break // refused when the state is loaded
		}
		group, _ := theirs[i].(map[string]any)
		mine, _ := g.(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(mine)) {
			then, ok := group[key]
			if !ok || slices.Contains(notSettings, key) || same(then, mine[key]) {
				continue
			}
			s.warn("%s was made with %s %v in group %d, and this run has %v: the run's value applies",
				transformersOptimizer, key, then, i, mine[key])
		}
	}
	return nil
}

// same compares settings: numbers by their values, None as false.
func same(a, b any) bool {
	p, ok1 := a.([]any)
	q, ok2 := b.([]any)
	if ok1 && ok2 {
		return slices.EqualFunc(p, q, same)
	}
	return reflect.DeepEqual(settingValue(a), settingValue(b))
}

func settingValue(setting any) any {
	if x, ok := torchsave.Float(setting); ok {
		return x
	}
	if setting == nil {
		return false
	}
	return setting
}
