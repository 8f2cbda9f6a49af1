package accelerate

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/dist/shard"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// Models of which each process has a part: Options.Sharding.

func (o *Options) checkSharding() error {
	err := shard.CheckLayered("accelerate", o.Sharding, o.ShardingReplicas, o.Distributed)
	switch {
	case err != nil || o.Sharding == 0:
		return err
	case o.Group == nil:
		return fmt.Errorf("accelerate: Options.Sharding is %s, but Options.Group is nil: set it to what dist.Init "+
			"returns", o.Sharding)
	case o.Project.PythonFiles:
		return fmt.Errorf("accelerate: Options.Project.PythonFiles cannot be combined with Options.Sharding: the state " +
			"of an optimizer is divided")
	}
	return nil
}

// shard divides a model among the processes.
func (a *Accelerator) shard(model any) (err error) {
	if a.sharded != nil {
		return errors.New("Options.Sharding divides a single model, and one has already been prepared; put both " +
			"into one struct")
	}
	o := a.options
	a.sharded, err = shard.NewLayered(context.Background(), o.Group, model, o.Sharding, o.ShardingReplicas,
		o.Distributed)
	return err
}

// BuildOptimizer makes an optimizer for the parameters of all prepared models and prepares it, as
// PrepareOptimizer does. With Options.Sharding, the optimizer has only this process's parts of the
// parameters. Groups then divide the parameters by name, and optimizers that need more than single
// elements of a parameter are refused. Nil groups: one group.
func (a *Accelerator) BuildOptimizer(b optim.Builder, groups []optim.Group, rate float64) (*Optimizer, error) {
	var o optim.Optimizer
	var err error
	panicked := torch.Try(func() {
		switch {
		case a.sharded != nil && len(a.optimizers) > 0:
			err = errors.New("with Options.Sharding there is one optimizer, and it has already been prepared; use groups")
		case a.sharded != nil:
			o, err = a.sharded.Optimizer(b, groups)
		default:
			if groups == nil {
				groups = []optim.Group{{}}
				for _, m := range a.models {
					for _, p := range nn.Params(m) {
						if p.Tensor.NeedsGrad() {
							groups[0].Params = append(groups[0].Params, p)
						}
					}
				}
			}
			o, err = b.Build(groups)
		}
	})
	if err = errors.Join(err, panicked); err != nil {
		return nil, fmt.Errorf("accelerate: BuildOptimizer: %w", err)
	}
	prepared := a.PrepareOptimizer(o, rate)
	prepared.parts = a.sharded != nil
	return prepared, nil
}

// Summon gives all processes the complete parameters of a model that Options.Sharding divides,
// until the next Accumulate or BeginBatch. Use it before an evaluation or to save the model by
// itself. All processes must call it. Without sharding it does nothing.
func (a *Accelerator) Summon() error {
	if a.sharded == nil {
		return nil
	}
	if err := a.sharded.Summon(context.Background()); err != nil {
		return fmt.Errorf("accelerate: Summon: %w", err)
	}
	return nil
}

// checkParts refuses an optimizer that has whole parameters.
func (o *Optimizer) checkParts() error {
	if o.accelerator.sharded != nil && !o.parts {
		return errors.New("accelerate: Options.Sharding divides the model, and this optimizer has undivided " +
			"parameters: make it with Accelerator.BuildOptimizer")
	}
	return nil
}

// agreeOnInf makes all processes skip an update if one of them has a gradient that is not finite.
func (a *Accelerator) agreeOnInf(o amp.Optimizer) error {
	if a.sharded == nil || a.NumProcesses() == 1 {
		return nil
	}
	return ddp.AllReduce(context.Background(), a.options.Group, dist.Max, a.scaler.FoundInf(o)...)
}

// spread sends the parameters that a step has changed here to the other processes.
func (o *Optimizer) spread() error {
	if !o.parts {
		return nil
	}
	return o.accelerator.sharded.Spread(context.Background())
}

// shareFolder passes the folder that the main process has created to all processes; empty: it has
// failed.
func (a *Accelerator) shareFolder(folder string) (string, error) {
	all, err := a.options.Group.AllGather(context.Background(), []byte(folder))
	if err != nil {
		return "", fmt.Errorf("accelerate: %w", err)
	}
	return string(all[0]), nil
}

// saveTogether is SaveState if each process writes its part.
func (a *Accelerator) saveTogether(dir string) (path string, err error) {
	if a.IsMainProcess() {
		a.folderShared = false
		path, err = a.saveMain(dir)
		if !a.folderShared { // the other processes are waiting for a folder
			_, shareErr := a.shareFolder("")
			err = errors.Join(err, shareErr)
		}
		return path, err
	}
	folder, err := a.shareFolder("")
	if err != nil || folder == "" {
		return "", err
	}
	return "", a.saveParts(folder)
}

// saveParts writes this process's part of the model and its optimizer. If one process fails, all
// return an error.
func (a *Accelerator) saveParts(folder string) error {
	metadata := map[string]string{}
	var o optim.Optimizer
	updates := 0
	if len(a.optimizers) > 0 {
		o, updates = a.optimizers[0].optimizer, a.optimizers[0].optimizer.Updates()
		metadata["rate"] = strconv.FormatFloat(a.optimizers[0].rate, 'g', -1, 64)
	}
	return a.sharded.WriteTo(context.Background(), folder, updates, o, metadata)
}

// loadParts loads them; the state may be of another number of processes.
func (a *Accelerator) loadParts(dir string) error {
	var o optim.Optimizer
	if len(a.optimizers) > 0 {
		o = a.optimizers[0].optimizer
	}
	_, metadata, err := a.sharded.Load(context.Background(), dir, o)
	if err != nil || o == nil {
		return err
	}
	if a.optimizers[0].rate, err = strconv.ParseFloat(metadata["rate"], 64); err != nil {
		return fmt.Errorf("%s: want the rate of the optimizer, found %q", filepath.Base(dir), metadata["rate"])
	}
	return nil
}

// wholeModels and wholeOptimizers return those that this process has completely.
func (a *Accelerator) wholeModels() []any {
	if a.sharded != nil {
		return nil
	}
	return a.models
}

func (a *Accelerator) wholeOptimizers() []*Optimizer {
	if a.sharded != nil {
		return nil
	}
	return a.optimizers
}
