package accelerate

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/checkpoint"
	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/internal/torchsave"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Stateful is an object of the training loop that is included in saved states.
type Stateful interface {
	MarshalState() ([]byte, error)
	UnmarshalState(state []byte) error
}

// RegisterForCheckpointing makes SaveState save these objects and LoadState restore them, in this
// order.
func (a *Accelerator) RegisterForCheckpointing(objects ...Stateful) {
	a.registered = append(a.registered, objects...)
}

// SaveIteration returns the number of the next automatically named state.
func (a *Accelerator) SaveIteration() int { return a.iteration }

// SaveState writes everything that has been prepared or registered to the folder dir and returns
// its path. The folder is either complete or not there: it is written under another name, flushed
// to the disk and renamed. An existing folder is replaced.
//
// With Project.AutomaticNaming, dir must be empty. The folder is
// Project.Dir/checkpoints/checkpoint_N, and once it is there the oldest are deleted so that
// TotalLimit remain. If a folder of that name exists, it must be of another run, and SaveState
// returns an error; continue counting with Project.Iteration.
//
// A state has no gradients: see "State" in the documentation of the package.
//
// With several processes, all must call it; the main one writes, and the random states of all are
// saved. With Options.Sharding each process writes its part, and the state can be loaded by any
// number of processes that it has random states for.
func (a *Accelerator) SaveState(dir string) (path string, err error) {
	if open := a.step % a.options.Accumulation.Steps; open > 0 && !a.sync && a.IsMainProcess() {
		slog.Warn("accelerate: SaveState: it is called inside an accumulation window, whose gradients are not part of "+
			"a state: the first update of a run that loads it lacks them; save when SyncGradients is true",
			"batches of the window so far", open)
	}
	if a.random, err = a.gatherGenerators(); err != nil {
		return "", fmt.Errorf("accelerate: SaveState: %w", err)
	}
	if a.sharded != nil {
		path, err = a.saveTogether(dir)
	} else if a.IsMainProcess() {
		path, err = a.saveMain(dir)
	}
	if path, err = a.mainResult(path, err); err != nil {
		return "", err
	}
	a.iteration++
	return path, nil
}

// saveMain is SaveState on the main process.
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
	if automatic {
		a.deleteOldest()
	}
	return dir, nil
}

// LoadState restores what SaveState wrote to the folder dir. The same things must have been
// prepared and registered in the same order. The learning rate is part of an optimizer's state: if
// the schedule is now planned differently, it takes effect from its next Step on, but starts from
// the rate that the saved schedule was planned from (base_lrs). With Project.AutomaticNaming, an
// empty dir means the newest state. The folder is verified first; a damaged one is refused with a
// [*checkpoint.DamagedError].
//
// With three or more processes and no Options.Sharding, the first update after it may differ in the
// last bit from that of an uninterrupted run: PyTorch's reducer sums its buckets in the order of
// the parameters before its first pass, and in the order of their gradients after it.
//
// A folder of Accelerate's save_state (optimizer.bin, scheduler.bin, scaler.pt,
// random_states_0.pkl) can also be loaded. It has no checksums to verify.
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
	if err := checkpoint.Verify(dir); err != nil && !fromPython(dir) { // a folder of Accelerate has no checksums
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

// nextFolder returns the path of the next automatically named state.
func (a *Accelerator) nextFolder() (string, error) {
	path := a.folder(a.iteration)
	if _, err := os.Lstat(path); err == nil {
		return "", fmt.Errorf("accelerate: SaveState: %s exists already; set Options.Project.Iteration to the number "+
			"to continue with", path)
	}
	return path, nil
}

// deleteOldest deletes states beyond TotalLimit. It is called only after the new state has been
// written: until then the older ones are all that a run has if the disk is full or the process is
// killed.
func (a *Accelerator) deleteOldest() {
	limit := a.options.Project.TotalLimit
	if limit == 0 {
		return
	}
	folders, err := a.folders()
	folders = slices.DeleteFunc(folders, func(n int) bool { return n == a.iteration })
	for _, n := range folders[:max(0, len(folders)+1-limit)] {
		err = errors.Join(err, os.RemoveAll(a.folder(n)))
	}
	if err != nil { // not a reason to end the run
		slog.Warn("accelerate: SaveState: old states could not be deleted", "reason", err.Error())
	}
}

// The files of a state. If there are several of a kind, the second is called model_1.safetensors,
// and so on.
const (
	modelName      = "model"
	optimizerName  = "optimizer"
	scheduleName   = "scheduler"
	randomName     = "random_states_%d.safetensors" // one for each process
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
	if a.sharded != nil {
		a.folderShared = true
		if _, err := a.shareFolder(dir); err != nil {
			return err
		}
		if err := a.saveParts(dir); err != nil {
			return err
		}
	}
	for i, m := range a.wholeModels() {
		path := numbered(dir, modelName, i, ".safetensors")
		if err := tensorio.Create(path, func(w io.Writer) error { return nn.Write(w, m, nil) }); err != nil {
			return err
		}
	}
	for i, o := range a.wholeOptimizers() {
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
	if a.options.Project.PythonFiles {
		if err := a.savePython(dir); err != nil {
			return err
		}
	}
	return a.saveGenerators(dir)
}

type scheduleState struct {
	Moves int      `json:"moves"`
	Base  *float64 `json:"base_lr,omitempty"` // Schedule.peak; missing in states of earlier versions
}

// savedState is the contents of a state's files, except for the models.
type savedState struct {
	optimizers []optimizerState
	schedules  []scheduleState
	scaler     amp.GradScalerState
	registered [][]byte
	generators []torch.Named
	step       int // batches in the window

	python *torchsave.Random // Python's generators, if Accelerate has written the state
	kept   []torch.Tensor    // tensors of Accelerate's optimizer states, to be freed
}

// load reads all files before it changes anything except the models, each of which is loaded
// completely or not at all.
func (a *Accelerator) load(dir string) error {
	read := a.read
	if fromPython(dir) && a.sharded != nil {
		return errors.New("it was saved by Accelerate in Python, whose optimizer state is not divided; leave " +
			"Options.Sharding out")
	}
	if fromPython(dir) {
		read = a.readPython
	}
	saved, err := read(dir)
	defer func() {
		for _, t := range saved.kept {
			t.Free()
		}
	}()
	if err != nil {
		return err
	}
	generators, err := a.generatorStates(saved.generators)
	if err != nil {
		return err
	}
	if a.sharded != nil {
		if err := a.loadParts(dir); err != nil {
			return err
		}
	}
	for i, m := range a.wholeModels() {
		if _, err := nn.Load(weightsPath(dir, i), m, nn.LoadOptions{}); err != nil {
			return err
		}
	}
	for i, o := range a.wholeOptimizers() {
		if err := saved.optimizers[i].load(o); err != nil {
			return err
		}
	}
	for i, s := range a.schedules {
		s.moves = saved.schedules[i].Moves
		if base := saved.schedules[i].Base; base != nil && *base != s.peak {
			s.peak, s.rate = *base, s.schedule.Plan(*base, s.updates)
		}
		if err := s.applyMomentum(); err != nil {
			return err
		}
	}
	if a.scaler != nil {
		if err := a.scaler.LoadState(saved.scaler); err != nil {
			return err
		}
	}
	for i, object := range a.registered {
		if err := object.UnmarshalState(saved.registered[i]); err != nil {
			return fmt.Errorf("the state of %T: %w", object, err)
		}
	}
	a.step = saved.step
	a.keepPython(dir, saved)
	generators.Restore(a.devices())
	return nil
}

// read reads the files of a state, except for the models.
func (a *Accelerator) read(dir string) (saved savedState, err error) {
	saved.optimizers = make([]optimizerState, len(a.optimizers))
	for i := range a.wholeOptimizers() {
		if saved.optimizers[i], err = readOptimizer(numbered(dir, optimizerName, i, ".safetensors")); err != nil {
			return saved, err
		}
	}
	saved.schedules = make([]scheduleState, len(a.schedules))
	for i := range a.schedules {
		if err := readJSON(numbered(dir, scheduleName, i, ".json"), &saved.schedules[i]); err != nil {
			return saved, err
		}
	}
	if a.scaler != nil {
		if err := readJSON(filepath.Join(dir, scalerName), &saved.scaler); err != nil {
			return saved, err
		}
	}
	if saved.registered, err = a.readRegistered(dir); err != nil {
		return saved, err
	}
	saved.generators, saved.step, err = a.readGenerators(dir)
	return saved, err
}

// readGenerators reads the random states of this process, and the number of batches in the window
// from the same file.
func (a *Accelerator) readGenerators(dir string) (generators []torch.Named, step int, err error) {
	name := fmt.Sprintf(randomName, a.ProcessIndex())
	generators, metadata, err := tensorio.Load(filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) && a.ProcessIndex() > 0 {
		return nil, 0, fmt.Errorf("%s is not there: fewer processes have saved it than the %d that train now: %w", name,
			a.NumProcesses(), err)
	}
	if err != nil {
		return nil, 0, err
	}
	if step, err = strconv.Atoi(metadata["step"]); err != nil || step < 0 {
		return nil, 0, fmt.Errorf("%s: want the number of batches in the window in its metadata, found %q", name,
			metadata["step"])
	}
	return generators, step, nil
}

// readRegistered reads the states of the registered objects. It refuses a folder with another
// number of them.
func (a *Accelerator) readRegistered(dir string) ([][]byte, error) {
	found, err := fs.Glob(os.DirFS(dir), registeredName+"_*.state")
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
