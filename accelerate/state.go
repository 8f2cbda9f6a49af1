package accelerate

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/checkpoint"
	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Stateful is an object of the loop's own that goes into saved states.
type Stateful interface {
	MarshalState() ([]byte, error)
	UnmarshalState(state []byte) error
}

// RegisterForCheckpointing has SaveState save these objects and LoadState restore them, in this
// order.
func (a *Accelerator) RegisterForCheckpointing(objects ...Stateful) {
	a.registered = append(a.registered, objects...)
}

// SaveIteration is the number that the next automatically named state gets.
func (a *Accelerator) SaveIteration() int { return a.iteration }

// SaveState writes everything that has been prepared or registered into the folder dir and returns
// its path. The folder is whole or not there: it is written aside, flushed to the disk and renamed;
// one that is there is replaced. With Project.AutomaticNaming dir must be empty: the folder is
// Project.Dir/checkpoints/checkpoint_N, and the oldest are deleted first so that TotalLimit stay;
// one of that name is an error, since it would be of another run: go on counting with
// Project.Iteration.
//
// With several processes all call it; the main one writes, and the random states of all are kept.
func (a *Accelerator) SaveState(dir string) (path string, err error) {
	if a.random, err = a.gatherGenerators(); err != nil {
		return "", fmt.Errorf("accelerate: SaveState: %w", err)
	}
	if a.IsMainProcess() {
		path, err = a.saveMain(dir)
	}
	if path, err = a.mainResult(path, err); err != nil {
		return "", err
	}
	a.iteration++
	return path, nil
}

// saveMain is SaveState of the main process.
func (a *Accelerator) saveMain(dir string) (path string, err error) {
	automatic := a.options.Project.AutomaticNaming
	switch {
	case automatic && dir != "":
		return "", fmt.Errorf("accelerate: SaveState(%q): want an empty name, since Options.Project.AutomaticNaming "+
			"is set", dir)
	case !automatic && dir == "":
		return "", errors.New("accelerate: SaveState: want the name of a folder, since " +
			"Options.Project.AutomaticNaming is not set")
	case automatic:
		if dir, err = a.nextFolder(); err != nil {
			return "", err
		}
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return "", fmt.Errorf("accelerate: %w", err)
	}
	if err := checkpoint.WriteFolder(dir, a.save); err != nil {
		return "", fmt.Errorf("accelerate: %w", err)
	}
	return dir, nil
}

// LoadState restores what SaveState wrote into the folder dir; the same things must have been
// prepared and registered in the same order. The rate is part of an optimizer's state: a schedule
// that is planned otherwise now takes effect from its next Step on, but from the rate that the one
// of the state was planned from (base_lrs). An empty dir means, with Project.AutomaticNaming, the
// newest. The folder is verified first: a damaged one is refused with a [*checkpoint.DamagedError].
func (a *Accelerator) LoadState(dir string) error {
	if dir == "" {
		if !a.options.Project.AutomaticNaming {
			return errors.New("accelerate: LoadState: want the name of a folder, since " +
				"Options.Project.AutomaticNaming is not set")
		}
		folders, err := a.folders()
		if err != nil {
			return err
		}
		if len(folders) == 0 {
			return fmt.Errorf("accelerate: LoadState: no state has been saved in %s", a.statesDir())
		}
		dir = a.folder(folders[len(folders)-1])
	}
	if err := checkpoint.Verify(dir); err != nil {
		return fmt.Errorf("accelerate: cannot load the state: %w", err)
	}
	var err error
	if panicked := torch.Try(func() { torch.Scope(func() { err = a.load(dir) }) }); panicked != nil {
		err = panicked
	}
	if err != nil {
		return fmt.Errorf("accelerate: cannot load the state %s: %w", dir, err)
	}
	return nil
}

func (a *Accelerator) statesDir() string {
	return filepath.Join(a.options.Project.Dir, "checkpoints")
}

func (a *Accelerator) folder(n int) string {
	return filepath.Join(a.statesDir(), "checkpoint_"+strconv.Itoa(n))
}

// folders returns the numbers of the automatically named states, oldest first.
func (a *Accelerator) folders() ([]int, error) {
	entries, err := os.ReadDir(a.statesDir())
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("accelerate: %w", err)
	}
	var numbers []int
	for _, e := range entries {
		digits, ok := strings.CutPrefix(e.Name(), "checkpoint_")
		if n, err := strconv.Atoi(digits); ok && err == nil && n >= 0 && e.IsDir() {
			numbers = append(numbers, n)
		}
	}
	slices.Sort(numbers)
	return numbers, nil
}

// nextFolder makes room for the next automatically named state and returns its path.
func (a *Accelerator) nextFolder() (string, error) {
	path := a.folder(a.iteration)
	folders, err := a.folders()
	if err != nil {
		return "", err
	}
	if limit := a.options.Project.TotalLimit; limit > 0 {
		for len(folders) >= limit {
			if err := os.RemoveAll(a.folder(folders[0])); err != nil {
				return "", fmt.Errorf("accelerate: cannot delete an old state: %w", err)
			}
			folders = folders[1:]
		}
	}
	if _, err := os.Lstat(path); err == nil {
		return "", fmt.Errorf("accelerate: SaveState: %s exists already; set Options.Project.Iteration to the number "+
			"to go on with", path)
	}
	return path, nil
}

// The files of a state. Where there are several of a kind, the second is model_1.safetensors and so
// on.
const (
	modelName      = "model"
	optimizerName  = "optimizer"
	scheduleName   = "scheduler"
	randomName     = "random_states_%d.safetensors" // of a process
	scalerName     = "scaler.json"
	registeredName = "custom_checkpoint"
)

func numbered(dir, name string, i int, extension string) string {
	if i > 0 {
		name += "_" + strconv.Itoa(i)
	}
	return filepath.Join(dir, name+extension)
}

func (a *Accelerator) save(dir string) error {
	for i, m := range a.models {
		path := numbered(dir, modelName, i, ".safetensors")
		if err := tensorio.Create(path, func(w io.Writer) error { return nn.Write(w, m, nil) }); err != nil {
			return err
		}
	}
	for i, o := range a.optimizers {
		metadata := map[string]string{"updates": strconv.Itoa(o.optimizer.Updates()),
			"rate": strconv.FormatFloat(o.rate, 'g', -1, 64)}
		if err := tensorio.Save(numbered(dir, optimizerName, i, ".safetensors"), o.optimizer.State(),
			metadata); err != nil {
			return err
		}
	}
	for i, s := range a.schedules {
		if err := saveJSON(numbered(dir, scheduleName, i, ".json"), scheduleState{s.moves, &s.peak}); err != nil {
			return err
		}
	}
	if a.scaler != nil {
		if err := saveJSON(filepath.Join(dir, scalerName), a.scaler.State()); err != nil {
			return err
		}
	}
	for i, object := range a.registered {
		state, err := object.MarshalState()
		if err != nil {
			return fmt.Errorf("the state of %T: %w", object, err)
		}
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%s_%d.state", registeredName, i)), state,
			0o666); err != nil {
			return err
		}
	}
	return a.saveGenerators(dir)
}

type scheduleState struct {
	Moves int      `json:"moves"`
	Base  *float64 `json:"base_lr,omitempty"` // Schedule.peak; states of earlier versions are without
}

// load reads all files before it changes anything but the models, whose own loading is all or
// nothing.
func (a *Accelerator) load(dir string) error {
	optimizers := make([]optimizerState, len(a.optimizers))
	for i := range a.optimizers {
		var err error
		if optimizers[i], err = readOptimizer(numbered(dir, optimizerName, i, ".safetensors")); err != nil {
			return err
		}
	}
	schedules := make([]scheduleState, len(a.schedules))
	for i := range schedules {
		if err := readJSON(numbered(dir, scheduleName, i, ".json"), &schedules[i]); err != nil {
			return err
		}
	}
	var scaler amp.GradScalerState
	if a.scaler != nil {
		if err := readJSON(filepath.Join(dir, scalerName), &scaler); err != nil {
			return err
		}
	}
	registered, err := a.readRegistered(dir)
	if err != nil {
		return err
	}
	randomName := fmt.Sprintf(randomName, a.ProcessIndex())
	generators, metadata, err := tensorio.Load(filepath.Join(dir, randomName))
	if errors.Is(err, fs.ErrNotExist) && a.ProcessIndex() > 0 {
		return fmt.Errorf("%s is not there: fewer processes have saved it than the %d that train now: %w", randomName,
			a.NumProcesses(), err)
	}
	if err != nil {
		return err
	}
	step, err := strconv.Atoi(metadata["step"])
	if err != nil || step < 0 {
		return fmt.Errorf("%s: want the number of batches in the window in its metadata, found %q", randomName,
			metadata["step"])
	}
	for i, m := range a.models {
		if _, err := nn.Load(numbered(dir, modelName, i, ".safetensors"), m, nn.LoadOptions{}); err != nil {
			return err
		}
	}
	for i, o := range a.optimizers {
		if err := o.optimizer.LoadState(optimizers[i].tensors, optimizers[i].updates); err != nil {
			return err
		}
		o.rate = optimizers[i].rate
	}
	for i, s := range a.schedules {
		s.moves = schedules[i].Moves
		if base := schedules[i].Base; base != nil && *base != s.peak {
			s.peak, s.rate = *base, s.schedule.Plan(*base, s.updates)
		}
		if err := s.applyMomentum(); err != nil {
			return err
		}
	}
	if a.scaler != nil {
		if err := a.scaler.LoadState(scaler); err != nil {
			return err
		}
	}
	for i, object := range a.registered {
		if err := object.UnmarshalState(registered[i]); err != nil {
			return fmt.Errorf("the state of %T: %w", object, err)
		}
	}
	a.step = step
	return a.setGenerators(generators)
}

// readRegistered reads the states of the registered objects, and refuses a folder that has more or
// fewer.
func (a *Accelerator) readRegistered(dir string) ([][]byte, error) {
	found, err := filepath.Glob(filepath.Join(dir, registeredName+"_*.state"))
	if err != nil {
		return nil, err
	}
	if len(found) != len(a.registered) {
		return nil, fmt.Errorf("it holds the states of %d registered objects, and %d are registered now", len(found),
			len(a.registered))
	}
	states := make([][]byte, len(found))
	for i := range states {
		if states[i], err = os.ReadFile(filepath.Join(dir, fmt.Sprintf("%s_%d.state", registeredName, i))); err != nil {
			return nil, err
		}
	}
	return states, nil
}
