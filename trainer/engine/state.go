package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/checkpoint/sharded"
	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/internal/torchsave"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
)

// The files of a saved step.
const (
	weightsName   = "model.safetensors" // an [Adapted] model has another file
	optimizerName = "optimizer.safetensors"
	generatorName = "rng_state.safetensors"
	scalerName    = "scaler.json"           // only with amp.FP16
	gradientsName = "gradients.safetensors" // only for an unfinished window
	taskName      = "task.safetensors"      // only for a [StateOwner]
)

// taskState is the name of a [StateOwner]'s state in its file.
const taskState = "state"

// orderState is the name, beside those of the devices, for the state of the CPU's generator before
// it gave the order of the current epoch.
const orderState = "order"

// Save writes the weights, the optimizer's state, the state of the random generators and what the
// task adds to dir. It leaves the tensors to o.Later. Those that only an update changes are copied
// while training continues, and the next call that may change them waits for the copy.
func (s *core) Save(dir string, o trainer.SaveOptions) error {
	save := s.save
	if s.sharded != nil {
		save = s.saveParts
	}
	return inScope(func() error { return save(dir, o) })
}

func (s *core) save(dir string, o trainer.SaveOptions) error {
	files, err := s.saved(o)
	if err != nil {
		return err
	}
	if o.Later == nil {
		err = writeFiles(dir, files, runtime.GOMAXPROCS(0))
	} else {
		copied := s.copies.take(files, s.still(files), s.lossSum)
		o.Later(func() (nonFinite []string, err error) {
			if err := copied.made(); err != nil {
				return nil, err
			}
			if nonFinite, err = nonFiniteWeights(files); err != nil {
				return nil, err
			}
			// one at a time, since training continues
			return nonFinite, errors.Join(writeFiles(dir, files, 1), copied.unchanged())
		})
	}
	if err != nil {
		return err
	}
	return s.saveTexts(dir, o)
}

// saveTexts writes the files of a save that hold no tensors.
func (s *core) saveTexts(dir string, o trainer.SaveOptions) error {
	if c, ok := s.task.given.(Configurer); ok {
		if err := c.WriteConfig(dir); err != nil {
			return err
		}
	}
	if o.WeightsOnly || s.scaler == nil {
		return nil
	}
	text, err := json.Marshal(s.scaler.State())
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, scalerName), text, 0o644)
}

// saved returns the tensor files of a save. Schedule-free optimizers save the averaged weights,
// with which they are evaluated.
func (s *core) saved(o trainer.SaveOptions) ([]tensorFile, error) {
	s.endsEval()
	s.optimizerMode(false)
	weights, err := s.weights()
	if err != nil {
		return nil, err
	}
	files := s.ema.files(s.task.Model(), weights)
	if o.WeightsOnly {
		return files[:1], nil
	}
	files = append(files, tensorFile{optimizerName, s.optimizer.State(), s.stateMetadata()})
	if o.Gradients {
		files = append(files, tensorFile{gradientsName, s.gradients(), nil})
	}
	if t, ok := s.task.given.(StateOwner); ok {
		state, err := t.State()
		if err != nil {
			return nil, err
		}
		files = append(files, tensorFile{taskName, []torch.Named{{Name: taskState,
			Tensor: torch.FromBytes(state, torch.Uint8, int64(len(state)))}}, nil})
	}
	return append(files, tensorFile{generatorName, s.generators(), nil}), nil
}

// still returns the tensors of a save that change in updates but not in passes: the trained
// weights, their averages and the optimizer's state.
func (s *core) still(files []tensorFile) map[torch.Tensor]bool {
	still := map[torch.Tensor]bool{}
	for _, p := range nn.Params(s.task.Model()) {
		still[p.Tensor] = p.Tensor.NeedsGrad()
	}
	for _, t := range s.Average() {
		still[t.Tensor] = true
	}
	for _, f := range files {
		for _, t := range f.tensors {
			still[t.Tensor] = still[t.Tensor] || f.name == optimizerName
		}
	}
	return still
}

// gradients returns the accumulated gradients of the current window.
func (s *core) gradients() (list []torch.Named) {
	for _, p := range nn.Params(s.task.Model()) {
		if g := p.Tensor.Grad(); g.Defined() {
			list = append(list, torch.Named{Name: p.Name, Tensor: g})
		}
	}
	return list
}

// checkGradients returns the parameters for which gradients were saved, in the same order.
func (s *core) checkGradients(gradients []torch.Named) ([]torch.Tensor, error) {
	params := map[string]torch.Tensor{}
	for _, p := range nn.Params(s.task.Model()) {
		params[p.Name] = p.Tensor
	}
	var list []torch.Tensor
	for _, g := range gradients {
		p, ok := params[g.Name]
		if !ok || !slices.Equal(p.Shape(), g.Tensor.Shape()) || p.DType() != g.Tensor.DType() {
			return nil, fmt.Errorf("%s: the model has no parameter %s of type %v and shape %v", gradientsName, g.Name,
				g.Tensor.DType(), g.Tensor.Shape())
		}
		list = append(list, p)
	}
	return list, nil
}

// Load reads what Save wrote. The names, shapes and dtypes in all files, and the generators'
// states, are checked before anything is changed. Weights and moments are then read directly into
// their own memory; if the disk fails at that point, they are undefined. The optimizer keeps the
// settings of the options. With o.Settings it gets the settings that were saved (weight decay,
// betas and those of each group), whatever the options say, just as load_state_dict of torch.optim
// restores param_groups.
func (s *core) Load(dir string, o trainer.LoadOptions) (err error) {
	s.copies.wait()
	s.order.keep = o.KeepOrder
	if s.sharded != nil {
		return s.loadParts(dir, o)
	}
	if isThere(filepath.Join(dir, sharded.IndexName)) {
		return s.loadShards(dir, o)
	}
	if o.WeightsOnly {
		return try(func() error { return s.loadWeights(dir, false) })
	}
	state, metadata, fill, optimizerErr := tensorio.Outline(filepath.Join(dir, optimizerName))
	generators, _, generatorErr := tensorio.Load(filepath.Join(dir, generatorName))
	gradients, _, gradientErr := tensorio.Load(filepath.Join(dir, gradientsName))
	own, _, ownErr := tensorio.Load(filepath.Join(dir, taskName))
	random, randomErr := s.pythonRandom(dir)
	defer func() {
		tensorio.Free(own)
		tensorio.Free(state)
		tensorio.Free(generators)
		tensorio.Free(gradients)
	}()
	err = errors.Join(optimizerErr, generatorErr, ifThere(gradientErr), ifThere(ownErr), randomErr)
	_, unreadable := metadataOf(filepath.Join(dir, s.weightsName()))
	err = errors.Join(err, unreadable)
	for _, name := range []string{averagesName, trainedName} {
		_, unreadable := metadataOf(filepath.Join(dir, name))
		err = errors.Join(err, ifThere(unreadable))
	}
	if err != nil {
		return err
	}
	updates, err := strconv.Atoi(metadata["updates"])
	if err != nil || updates < 0 {
		return fmt.Errorf("%s: want the number of updates in its metadata, found %q", filepath.Join(dir, optimizerName),
			metadata["updates"])
	}
	err = try(func() error {
		weights := func() error { return s.loadWeights(dir, true) }
		return s.restore(dir, o, checkpointed{state, fill, metadata, updates, generators, gradients, own, weights})
	})
	if err == nil {
		s.python = random
	}
	return err
}

// metadataOf reads the metadata of a safetensors file. It returns an error if the file cannot be
// read.
func metadataOf(path string) (map[string]string, error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	return f.Metadata(), f.Close()
}

// ifThere returns the error of reading an optional file: nil if the file does not exist.
func ifThere(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// checkpointed is a checkpoint that has been read.
type checkpointed struct {
	state      []torch.Named                  // state of the optimizer
	fill       func(into []torch.Named) error // reads the tensors of state that are still on torch.Meta
	metadata   map[string]string              // metadata of the optimizer's file
	updates    int
	generators []torch.Named
	gradients  []torch.Named // of an unfinished window
	task       []torch.Named // the state of a StateOwner
	weights    func() error  // loads the weights
}

// restore checks a checkpoint that was read and loads it into the step.
func (s *core) restore(dir string, o trainer.LoadOptions, c checkpointed) error {
	if err := s.checkGenerators(c.generators); err != nil {
		return err
	}
	params, err := s.checkGradients(c.gradients)
	if err != nil {
		return err
	}
	putTask, err := s.checkTaskState(c.task)
	if err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(dir, taskName), err)
	}
	if err := s.loadScaler(dir); err != nil {
		return err
	}
	if err := s.keepingOptimizer(func() error {
		if err := s.loadSettings(c.metadata, o); err != nil {
			return err
		}
		if err := s.optimizer.LoadState(c.state, c.updates); err != nil {
			return err
		}
		if c.fill == nil {
			return nil
		}
		return c.fill(s.optimizer.State())
	}); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(dir, optimizerName), err)
	}
	// After the optimizer: its states have the names and shapes of the weights, so that nothing of
	// another model's checkpoint is loaded.
	if err := c.weights(); err != nil {
		return err
	}
	putTask()
	s.graphs.forget()
	s.zeroGrad()
	for i, p := range params {
		p.SetGrad(c.gradients[i].Tensor.ToDevice(p.Device()))
	}
	if len(params) > 0 {
		s.graphs.gradients(true)
	}
	s.putGenerators(c.generators)
	return nil
}

// checkTaskState checks the state of a StateOwner and returns a function that restores it.
func (s *core) checkTaskState(state []torch.Named) (put func(), err error) {
	t, ok := s.task.given.(StateOwner)
	if !ok {
		return func() {}, nil
	}
	if len(state) != 1 || state[0].Name != taskState || state[0].Tensor.DType() != torch.Uint8 {
		return nil, fmt.Errorf("the state of %T is missing: the checkpoint was made by another task, and the run cannot "+
			"continue bit for bit", s.task.given)
	}
	return t.LoadState(state[0].Tensor.Bytes())
}

// putGenerators restores the states of generators, which have been checked.
func (s *core) putGenerators(generators []torch.Named) {
	s.order.put(nil)
	for _, g := range generators {
		if _, put, _ := s.generatorOf(g.Name); put != nil {
			put(g.Tensor.Bytes())
		}
	}
	s.warnOfGenerators(generators)
}

// keepingOptimizer calls f and restores the optimizer if f fails.
func (s *core) keepingOptimizer(f func() error) error {
	builder, optimizer, momentum := s.builder, s.optimizer, s.momentum
	err := f()
	if err != nil {
		s.builder, s.optimizer, s.momentum = builder, optimizer, momentum
	}
	return err
}

// loadSettings restores what a checkpoint says about the optimizer: its settings if o asks for
// them, and the momentum that a schedule has set. An optimizer made without momentum keeps momentum
// buffers from then on.
func (s *core) loadSettings(metadata map[string]string, o trainer.LoadOptions) error {
	if o.Settings {
		if err := s.takeSettings(metadata["settings"]); err != nil {
			return err
		}
	}
	text := metadata["momentum"]
	if text == "" {
		return nil
	}
	momentum, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return fmt.Errorf("want a number for the momentum in its metadata, found %q", text)
	}
	return s.SetMomentum(momentum)
}

// devices returns the devices whose generators a run on the options' device draws from.
func (s *core) devices() []torch.Device { return torchsave.DevicesOf(s.options.Device) }

// generators returns the states of the generators that a run draws from.
func (s *core) generators() (states []torch.Named) {
	add := func(name string, state []byte) {
		states = append(states, torch.Named{Name: name, Tensor: torch.FromBytes(state, torch.Uint8, int64(len(state)))})
	}
	for _, d := range s.devices() {
		add(d.String(), torch.DefaultGenerator(d).State())
	}
	own := s.taskGenerators()
	for _, name := range slices.Sorted(maps.Keys(own)) {
		add(name, own[name].State())
	}
	if state := s.order.before; state != nil {
		add(orderState, state)
	}
	return states
}

func (s *core) checkGenerators(states []torch.Named) error {
	have := map[string]bool{}
	for _, g := range states {
		device, put, err := s.generatorOf(g.Name)
		if err != nil {
			return err
		}
		if put == nil {
			continue
		}
		// Setting the state of a new generator shows whether the bytes are valid.
		if err := torch.Try(func() { torch.NewGeneratorOn(device, 0).SetState(g.Tensor.Bytes()) }); err != nil {
			return fmt.Errorf("%s: %q is not the state of a generator of %s: %w", generatorName, g.Name, device, err)
		}
		have[g.Name] = true
	}
	if !have[torch.CPU.String()] {
		return fmt.Errorf("%s: the state of the generator of cpu is missing, and the run cannot continue bit for bit",
			generatorName)
	}
	for name := range s.taskGenerators() {
		if !have[name] {
			return fmt.Errorf("%s: the state of the task's generator %q is missing: the checkpoint was made by another "+
				"task, and the run cannot continue bit for bit", generatorName, name)
		}
	}
	return nil
}

// deviceName matches the names of the default generators' states.
var deviceName = regexp.MustCompile(`^(cpu|cuda:\d+)$`)

// generatorOf returns the device of a saved state, and a function that restores the state. The
// state of a GPU's generator is restored on this run's GPU, whatever its index; if this run has no
// GPU, put is nil.
func (s *core) generatorOf(name string) (device torch.Device, put func([]byte), err error) {
	own := s.taskGenerators()[name]
	switch {
	case name == orderState:
		return torch.CPU, s.order.put, nil
	case own != nil:
		return torch.CPU, own.SetState, nil
	case !deviceName.MatchString(name):
		return device, nil, fmt.Errorf("%s: %q is neither a device nor a generator of the task", generatorName, name)
	case name != torch.CPU.String():
		if device = s.options.Device; !device.IsCUDA() {
			return device, nil, nil
		}
	}
	return device, torch.DefaultGenerator(device).SetState, nil
}

// warnOfGenerators warns of generators that could not be restored because the checkpoint was made
// on another kind of device.
func (s *core) warnOfGenerators(states []torch.Named) {
	found := false
	for _, g := range states {
		if !strings.HasPrefix(g.Name, "cuda:") || s.taskGenerators()[g.Name] != nil {
			continue
		}
		if found = true; !s.options.Device.IsCUDA() {
			s.warn("the checkpoint was made on %s, and this run is on %s: the state of the generator of %s is not "+
				"restored, so random numbers (dropout) differ from those of the uninterrupted run", g.Name, s.options.Device,
				g.Name)
		}
	}
	if !found && s.options.Device.IsCUDA() {
		s.warn("the checkpoint was made on cpu, and this run is on %[1]s: it holds no state of the generator of %[1]s, "+
			"which is left unchanged, so random numbers (dropout) differ from those of the uninterrupted run", s.options.Device)
	}
}

func (s *core) taskGenerators() map[string]*torch.Generator {
	if o, ok := s.task.given.(GeneratorOwner); ok {
		return o.Generators()
	}
	return nil
}

func (s *core) loadScaler(dir string) error {
	if s.scaler == nil {
		return nil
	}
	path := filepath.Join(dir, scalerName)
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("the checkpoint was made in another precision than %s: %w", s.options.Precision, err)
	}
	var state amp.GradScalerState
	if err := json.Unmarshal(text, &state); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return s.scaler.LoadState(state)
}
