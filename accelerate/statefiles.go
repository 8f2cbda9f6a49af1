package accelerate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/internal/torchsave"
	"github.com/gotrainer/gotrainer/torch"
)

type optimizerState struct {
	tensors []torch.Named
	fill    func(into []torch.Named) error // reads the tensors that are still on torch.Meta
	updates int
	rate    float64

	python map[string]any // instead of the fields above: state_dict() of torch.optim
}

// load restores an optimizer.
func (s optimizerState) load(o *Optimizer) (err error) {
	if s.python == nil {
		if err := o.optimizer.LoadState(s.tensors, s.updates); err != nil {
			return err
		}
		o.rate = s.rate
		return s.fill(o.optimizer.State())
	}
	rate, err := torchsave.LoadStateDict(o.optimizer, s.python)
	if err == nil {
		o.rate = rate
	}
	return err
}

func readOptimizer(path string) (s optimizerState, err error) {
	var metadata map[string]string
	if s.tensors, metadata, s.fill, err = tensorio.Outline(path); err != nil {
		return s, err
	}
	var rateErr error
	s.updates, err = strconv.Atoi(metadata["updates"])
	s.rate, rateErr = strconv.ParseFloat(metadata["rate"], 64)
	if err != nil || rateErr != nil || s.updates < 0 {
		return s, fmt.Errorf("%s: want the number of updates and the rate in its metadata, found %q and %q", path,
			metadata["updates"], metadata["rate"])
	}
	return s, nil
}

// devices returns the devices whose generators a run draws from.
func (a *Accelerator) devices() []torch.Device { return torchsave.DevicesOf(a.options.Device) }

// gatherGenerators returns the generator states of all processes: for each process, those of its
// devices, concatenated.
func (a *Accelerator) gatherGenerators() ([][]byte, error) {
	var mine []byte
	err := torch.Try(func() {
		for _, d := range a.devices() {
			mine = append(mine, torch.DefaultGenerator(d).State()...)
		}
	})
	if err != nil {
		return nil, err
	}
	return a.options.Group.AllGather(context.Background(), mine)
}

// saveGenerators writes the states from gatherGenerators, a file for each process.
func (a *Accelerator) saveGenerators(dir string) error {
	var err error
	panicked := torch.Try(func() {
		torch.Scope(func() {
			for rank, state := range a.random {
				var states []torch.Named
				for _, d := range a.devices() {
					n := min(len(state), len(torch.DefaultGenerator(d).State()))
					states = append(states, torch.Named{Name: d.String(), Tensor: torch.FromBytes(state[:n],
						torch.Uint8, int64(n))})
					state = state[n:]
				}
				if err = tensorio.Save(filepath.Join(dir, fmt.Sprintf(randomName, rank)), states,
					map[string]string{"step": strconv.Itoa(a.step)}); err != nil {
					return
				}
			}
		})
	})
	return errors.Join(panicked, err)
}

// generatorStates returns the states of this process's generators, from the contents of a file.
func (a *Accelerator) generatorStates(saved []torch.Named) (torchsave.Generators, error) {
	found, mine := torchsave.Generators{}, torchsave.Generators{}
	for _, g := range saved {
		found[g.Name] = g.Tensor.Bytes()
	}
	for _, d := range a.devices() {
		name := fmt.Sprintf(randomName, a.ProcessIndex())
		state, ok := torchsave.GeneratorOf(found, d)
		if !ok {
			return nil, fmt.Errorf("%s: the state of the generator of %s is missing: it was saved on another kind of "+
				"device; want Options.Device to be of that kind", name, d)
		}
		if err := torch.Try(func() { torch.NewGeneratorOn(d, 0).SetState(state) }); err != nil {
			return nil, fmt.Errorf("%s: it holds no state of a generator of %s: %w", name, d, err)
		}
		mine[d.String()] = state
	}
	return mine, nil
}

func saveJSON(path string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o666)
}

func readJSON(path string, into any) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, into); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
