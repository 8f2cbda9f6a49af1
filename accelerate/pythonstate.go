package accelerate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/checkpoint"
	"github.com/gotrainer/gotrainer/internal/torchsave"
	"github.com/gotrainer/gotrainer/torch"
)

// The files of Accelerate's save_state except for the weights, which are the same as ours.
const (
	pythonExtension  = ".bin" // for optimizers and schedulers
	pythonScalerName = "scaler.pt"
	pythonRandomName = "random_states_0.pkl"
	pythonCustom     = "custom_checkpoint_*.pkl"
)

// seeded is the seed of the process's generators. Python's generators begin with it, too.
var seeded atomic.Uint64

// fromPython reports whether a folder was written only by Accelerate: it has its random states, but
// no manifest of ours.
func fromPython(dir string) bool {
	has := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}
	return has(pythonRandomName) && !has(checkpoint.ManifestName)
}

// checkPython refuses what a folder of Accelerate cannot hold.
func (a *Accelerator) checkPython() error {
	switch {
	case a.NumProcesses() > 1:
		return fmt.Errorf("the files of Accelerate are for one process, and there are %d", a.NumProcesses())
	case len(a.registered) > 0:
		return fmt.Errorf("%d objects are registered for checkpointing, whose states Python pickles in its own "+
			"format; register none, and save them separately", len(a.registered))
	}
	return nil
}

// savePython writes the files of Accelerate's save_state that differ from ours.
func (a *Accelerator) savePython(dir string) error {
	if err := a.checkPython(); err != nil {
		return fmt.Errorf("Options.Project.PythonFiles: %w", err)
	}
	for i, o := range a.optimizers {
		state, err := torchsave.StateDict(o.optimizer, o.rate)
		if err != nil {
			return err
		}
		groups := o.optimizer.Groups()
		for j, g := range state["param_groups"].([]any) { //nolint:forcetypeassert // StateDict has made it
			g.(map[string]any)["initial_lr"] = o.peak * torchsave.Scale(groups[j]) //nolint:forcetypeassert // likewise
		}
		if err := torchsave.WriteFile(numbered(dir, optimizerName, i, pythonExtension), state); err != nil {
			return err
		}
	}
	for i, s := range a.schedules {
		if err := torchsave.WriteSchedule(numbered(dir, scheduleName, i, pythonExtension),
			torchsave.Schedule{Steps: s.moves, Base: s.peak, Rate: s.optimizer.rate},
			s.optimizer.optimizer.Groups()); err != nil {
			return err
		}
	}
	if a.scaler != nil {
		state, err := torchsave.FromStruct(a.scaler.State())
		if err == nil {
			err = torchsave.WriteFile(filepath.Join(dir, pythonScalerName), state)
		}
		if err != nil {
			return err
		}
	}
	random := a.python
	if random == nil {
		random = new(torchsave.SeedRandom(seeded.Load()))
	}
	return random.Write(filepath.Join(dir, pythonRandomName), torchsave.AccelerateRandom, a.devices(), "step", a.step)
}

// readPython reads the files of Accelerate's save_state, except for the models. The tensors belong
// to the caller's scope.
func (a *Accelerator) readPython(dir string) (saved savedState, err error) {
	if err := a.checkPython(); err != nil {
		return saved, err
	}
	if custom, _ := fs.Glob(os.DirFS(dir), pythonCustom); len(custom) > 0 { // the pattern is valid
		return saved, fmt.Errorf("%s is a pickled Python object, which cannot be read; move it away to "+
			"continue without it", custom[0])
	}
	for i := range a.optimizers {
		path := numbered(dir, optimizerName, i, pythonExtension)
		state, err := torchsave.ReadFile(path)
		if err != nil {
			return saved, fmt.Errorf("%s: %w", path, err)
		}
		torchsave.EachTensor(state, func(t torch.Tensor) { saved.kept = append(saved.kept, t) })
		saved.optimizers = append(saved.optimizers, optimizerState{python: state})
	}
	for i, s := range a.schedules {
		path := numbered(dir, scheduleName, i, pythonExtension)
		state, err := torchsave.ReadSchedule(path, s.optimizer.optimizer.Groups())
		if err != nil {
			return saved, fmt.Errorf("%s: %w", path, err)
		}
		saved.schedules = append(saved.schedules, scheduleState{Moves: state.Steps, Base: &state.Base})
	}
	if a.scaler != nil {
		if saved.scaler, err = readPythonScaler(filepath.Join(dir, pythonScalerName)); err != nil {
			return saved, err
		}
	}
	return saved, a.readPythonRandom(filepath.Join(dir, pythonRandomName), &saved)
}

func readPythonScaler(path string) (s amp.GradScalerState, err error) {
	state, err := torchsave.ReadFile(path)
	if err == nil {
		err = torchsave.ToStruct(state, &s)
	}
	if err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// readPythonRandom reads the random states, and the number of batches in the window.
func (a *Accelerator) readPythonRandom(path string, saved *savedState) error {
	random, generators, rest, err := torchsave.ReadRandom(path, torchsave.AccelerateRandom)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	saved.python = &random
	if step, ok := rest.Get("step"); ok {
		n, ok := step.(int64)
		if !ok || n < 0 {
			return fmt.Errorf("%s: want the number of batches in the window under step, found %v", path, step)
		}
		saved.step = int(n)
	}
	for _, d := range a.devices() {
		state, err := torchsave.GeneratorState(generators, d)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if state == nil {
			continue // generatorStates reports it as missing
		}
		saved.generators = append(saved.generators, torch.Named{Name: d.String(), Tensor: torch.FromBytes(state,
			torch.Uint8, int64(len(state)))})
	}
	return nil
}

// keepPython keeps the states of Python's generators from a folder of Accelerate, or from one of
// ours that also has them.
func (a *Accelerator) keepPython(dir string, saved savedState) {
	if a.python = saved.python; a.python != nil {
		return
	}
	random, _, _, err := torchsave.ReadRandom(filepath.Join(dir, pythonRandomName), torchsave.AccelerateRandom)
	if err == nil {
		a.python = &random
	}
}

// weightsPath returns the file of a model's weights in a saved state.
func weightsPath(dir string, i int) string {
	path := numbered(dir, modelName, i, ".safetensors")
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) && fromPython(dir) {
		return numbered(dir, "pytorch_model", i, ".bin") // safe_serialization=False
	}
	return path
}
