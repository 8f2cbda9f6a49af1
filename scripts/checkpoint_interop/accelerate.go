package main

import (
	"fmt"
	"path/filepath"

	"github.com/gotrainer/gotrainer/accelerate"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/safetensors/pickle"
	"github.com/gotrainer/gotrainer/torch"
)

// continueState continues the loop of checkpoint_interop.py from a saved state, for the batches
// first to last-1 of batches.pt, and saves the next state.
func continueState(dir string, first, last int) error {
	acc, err := accelerate.New(accelerate.Options{Project: accelerate.Project{PythonFiles: true}})
	if err != nil {
		return err
	}
	model := nn.Sequential{nn.NewLinear(4, 8, nil), nn.NewDropout(0.3), nn.NewLinear(8, 3, nil)}
	if err := acc.PrepareModel(model); err != nil {
		return err
	}
	optimizer, err := optim.AdamW{Implementation: optim.Foreach}.Build([]optim.Group{{Params: nn.Params(model)}})
	if err != nil {
		return err
	}
	opt := acc.PrepareOptimizer(optimizer, 0.02)
	schedule, err := acc.PrepareSchedule(opt, lr.Linear{}, 9)
	if err != nil {
		return err
	}
	if err := acc.LoadState(filepath.Join(dir, fmt.Sprint("state-", first))); err != nil {
		return err
	}
	x, err := batches(filepath.Join(dir, "batches.pt"))
	if err != nil {
		return err
	}
	for i := first; i < last; i++ {
		failed := torch.Try(func() {
			acc.Backward(model.Forward(x.Select(0, int64(i))).Square().Mean(torch.Float32))
			if err = opt.Step(); err == nil {
				err = schedule.Step()
			}
			opt.ZeroGrad()
		})
		if failed != nil {
			return failed
		}
		if err != nil {
			return err
		}
	}
	_, err = acc.SaveState(filepath.Join(dir, fmt.Sprint("state-", last)))
	return err
}

// batches reads the tensor x of a file.
func batches(path string) (x torch.Tensor, err error) {
	f, err := pickle.Open(path)
	if err != nil {
		return x, err
	}
	defer f.Close() //nolint:errcheck // it was only read
	info, ok := f.Tensor("x")
	if !ok {
		return x, fmt.Errorf("%s has no tensor x", path)
	}
	raw, err := f.Read("x")
	if err != nil {
		return x, err
	}
	err = torch.Try(func() { x = torch.FromBytes(raw, torch.Float32, info.Shape...) })
	return x, err
}
