package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
)

// The files of a saved step.
const (
	weightsName   = "model.safetensors"
	optimizerName = "optimizer.safetensors"
	generatorName = "rng_state.safetensors"
	scalerName    = "scaler.json" // only with amp.FP16
)

// orderState is the state of the CPU's generator before it gave the order of the running epoch,
// beside those of the devices.
const orderState = "order"

func weightsFile(path string) string {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return path
	}
	weights, older := filepath.Join(path, weightsName), filepath.Join(path, "pytorch_model.bin")
	if _, err := os.Stat(weights); errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Stat(older); err == nil {
			return older
		}
	}
	return weights
}

// Save writes the weights, the optimizer's state and the state of the random generators into dir,
// and what the task adds.
func (s *Step[S, B]) Save(dir string, o trainer.SaveOptions) error {
	if err := s.saveWeights(dir); err != nil || o.WeightsOnly {
		return err
	}
	metadata := map[string]string{"updates": strconv.Itoa(s.optimizer.Updates())}
	if settings := s.settings(); settings != "" {
		metadata["settings"] = settings
	}
	if s.momentum != nil {
		metadata["momentum"] = strconv.FormatFloat(*s.momentum, 'g', -1, 64)
	}
	if err := tensorio.Save(filepath.Join(dir, optimizerName), s.optimizer.State(), metadata); err != nil {
		return err
	}
	if err := s.saveScaler(filepath.Join(dir, scalerName)); err != nil {
		return err
	}
	return s.saveGenerators(filepath.Join(dir, generatorName))
}

// saveWeights writes the weights into dir, and what the task adds. Those of a schedule-free
// optimizer are the averages that are evaluated.
func (s *Step[S, B]) saveWeights(dir string) error {
	if err := torch.Try(func() { s.optimizerMode(false) }); err != nil {
		return err
	}
	err := tensorio.Create(filepath.Join(dir, weightsName), func(w io.Writer) error {
		return nn.Write(w, s.task.Model(), nil)
	})
	if err != nil {
		return err
	}
	if c, ok := s.task.(Configurer); ok {
		return c.WriteConfig(dir)
	}
	return nil
}

// Load reads back what Save wrote. Weights, optimizer and generators are all read and checked
// before any of them is changed. The optimizer keeps the settings of the options; with o.Settings
// it has those that it was saved with (weight decay, betas, those of each group), whatever the
// options say, as load_state_dict of torch.optim brings param_groups with it.
func (s *Step[S, B]) Load(dir string, o trainer.LoadOptions) (err error) {
	if o.WeightsOnly {
		return s.loadWeights(dir)
	}
	state, metadata, optimizerErr := tensorio.Load(filepath.Join(dir, optimizerName))
	generators, _, generatorErr := tensorio.Load(filepath.Join(dir, generatorName))
	if err := errors.Join(optimizerErr, generatorErr, wholeFile(filepath.Join(dir, weightsName))); err != nil {
		tensorio.Free(state)
		tensorio.Free(generators)
		return err
	}
	updates, err := strconv.Atoi(metadata["updates"])
	if err != nil || updates < 0 {
		return fmt.Errorf("%s: want the number of updates in its metadata, found %q", filepath.Join(dir, optimizerName),
			metadata["updates"])
	}
	if !o.Settings {
		delete(metadata, "settings")
	}
	if e := torch.Try(func() { err = s.restore(dir, state, metadata, updates, generators) }); e != nil {
		return e
	}
	return err
}

// wholeFile tells whether a safetensors file can be read, before anything is changed.
func wholeFile(path string) error {
	f, err := safetensors.Open(path)
	if err != nil {
		return err
	}
	return f.Close()
}

func (s *Step[S, B]) restore(dir string, state []torch.Named, metadata map[string]string, updates int,
	generators []torch.Named) error {
	defer tensorio.Free(state)
	defer tensorio.Free(generators)
	if err := s.checkGenerators(generators); err != nil {
		return err
	}
	if err := s.loadScaler(filepath.Join(dir, scalerName)); err != nil {
		return err
	}
	if err := s.restoreOptimizer(state, metadata, updates); err != nil {
		return fmt.Errorf("%s: %w", filepath.Join(dir, optimizerName), err)
	}
	// After the optimizer, whose states have the names and shapes of the weights too: of another
	// model neither is taken.
	if err := s.loadWeights(dir); err != nil {
		return err
	}
	s.order.before = nil
	for _, g := range generators {
		if g.Name == orderState {
			s.order.before = g.Tensor.Bytes()
			continue
		}
		if own := s.taskGenerators()[g.Name]; own != nil {
			own.SetState(g.Tensor.Bytes())
			continue
		}
		device, _ := torch.ParseDevice(g.Name)
		torch.DefaultGenerator(device).SetState(g.Tensor.Bytes())
	}
	return nil
}

// restoreOptimizer leaves the optimizer as it is if it fails.
func (s *Step[S, B]) restoreOptimizer(state []torch.Named, metadata map[string]string, updates int) (err error) {
	builder, optimizer, momentum := s.builder, s.optimizer, s.momentum
	defer func() {
		if err != nil {
			s.builder, s.optimizer, s.momentum = builder, optimizer, momentum
		}
	}()
	if err := s.takeSettings(metadata["settings"]); err != nil {
		return err
	}
	if err := s.loadMomentum(metadata["momentum"]); err != nil {
		return err
	}
	return s.optimizer.LoadState(state, updates)
}

// loadMomentum puts back what a schedule had made of the momentum. An optimizer that was made
// without momentum keeps buffers from then on.
func (s *Step[S, B]) loadMomentum(text string) error {
	if text == "" {
		return nil
	}
	momentum, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return fmt.Errorf("want a number for the momentum in its metadata, found %q", text)
	}
	return s.SetMomentum(momentum)
}

// loadWeights takes over the weights of a saved step and leaves everything else as it is.
func (s *Step[S, B]) loadWeights(dir string) error {
	s.fresh = false
	_, err := nn.Load(filepath.Join(dir, weightsName), s.task.Model(), nn.LoadOptions{})
	return err
}

// devices are those whose generators a run on the options' device draws from.
func (s *Step[S, B]) devices() []torch.Device {
	if s.options.Device == torch.CPU {
		return []torch.Device{torch.CPU}
	}
	return []torch.Device{torch.CPU, s.options.Device}
}

func (s *Step[S, B]) saveGenerators(path string) error {
	var states []torch.Named
	defer func() { tensorio.Free(states) }()
	err := torch.Try(func() {
		for _, d := range s.devices() {
			state := torch.DefaultGenerator(d).State()
			states = append(states, torch.Named{Name: d.String(), Tensor: torch.FromBytes(state, torch.Uint8,
				int64(len(state)))})
		}
		own := s.taskGenerators()
		for _, name := range slices.Sorted(maps.Keys(own)) {
			state := own[name].State()
			states = append(states, torch.Named{Name: name, Tensor: torch.FromBytes(state, torch.Uint8,
				int64(len(state)))})
		}
		if state := s.order.before; state != nil {
			states = append(states, torch.Named{Name: orderState, Tensor: torch.FromBytes(state, torch.Uint8,
				int64(len(state)))})
		}
	})
	if err != nil {
		return err
	}
	return tensorio.Save(path, states, nil)
}

func (s *Step[S, B]) checkGenerators(states []torch.Named) error {
	have := map[string]bool{}
	for _, g := range states {
		device := torch.CPU
		if g.Name != orderState && s.taskGenerators()[g.Name] == nil {
			var err error
			if device, err = torch.ParseDevice(g.Name); err != nil {
				return fmt.Errorf("%s: %w", generatorName, err)
			}
		}
		// A generator of its own finds out whether the bytes are a state.
		if err := torch.Try(func() { torch.NewGeneratorOn(device, 0).SetState(g.Tensor.Bytes()) }); err != nil {
			return fmt.Errorf("%s: %q is not the state of a generator of %s: %w", generatorName, g.Name, device, err)
		}
		have[g.Name] = true
	}
	for _, d := range s.devices() {
		if !have[d.String()] {
			return fmt.Errorf("%s: the state of the generator of %s is missing: the checkpoint was made on another "+
				"kind of device, and the run cannot continue bit for bit", generatorName, d)
		}
	}
	for name := range s.taskGenerators() {
		if !have[name] {
			return fmt.Errorf("%s: the state of the task's generator %q is missing: the checkpoint was made by another "+
				"task, and the run cannot continue bit for bit", generatorName, name)
		}
	}
	return nil
}

// taskGenerators are those that the task draws from besides the default ones.
func (s *Step[S, B]) taskGenerators() map[string]*torch.Generator {
	if o, ok := s.task.(GeneratorOwner); ok {
		return o.Generators()
	}
	return nil
}

func (s *Step[S, B]) saveScaler(path string) error {
	if s.scaler == nil {
		return nil
	}
	text, err := json.Marshal(s.scaler.State())
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o644)
}

func (s *Step[S, B]) loadScaler(path string) error {
	if s.scaler == nil {
		return nil
	}
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
