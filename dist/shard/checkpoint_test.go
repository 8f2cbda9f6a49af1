package shard_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/checkpoint/sharded"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/dist/shard"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// trained is a model with three layers, one of them frozen, and its optimizer.
type trained struct {
	*shard.Model

	layers *deep
	opt    optim.Optimizer
}

func newTrained(ctx context.Context, g *dist.Group, s shard.Strategy) (t trained, err error) {
	t.layers = &deep{units: make([]*shard.Unit, 3)}
	building.Lock()
	torch.ManualSeed(5)
	for range 3 {
		l := nn.NewLinear(5, 5, nil)
		nn.To(l, torch.TensorOptions{DType: torch.Float64})
		t.layers.Layers = append(t.layers.Layers, l)
	}
	building.Unlock()
	for _, p := range nn.Params(t.layers.Layers[1]) {
		p.Tensor.SetRequiresGrad(false)
	}
	o := shard.Options{Strategy: s}
	if s == shard.FullShard {
		for i, l := range t.layers.Layers {
			if t.layers.units[i], err = shard.FullyShard(ctx, g, l); err != nil {
				return t, err
			}
		}
		o.Units = t.layers.units
	}
	if t.Model, err = shard.New(ctx, g, t.layers, o); err != nil {
		return t, err
	}
	t.opt, err = t.Optimizer(optim.AdamW{LR: 0.01}, nil)
	return t, err
}

// train makes updates with the same samples for any number of processes.
func (t trained) train(ctx context.Context, updates int) error {
	for range updates {
		if err := step(ctx, t.Model, t.layers, t.opt, input(0, t.opt.Updates(), torch.Float64)); err != nil {
			return err
		}
	}
	return nil
}

// weights returns all trainable parameters.
func (t trained) weights(ctx context.Context, g *dist.Group) (result, error) {
	got := result{}
	for _, p := range t.Pieces() {
		parts, err := ddp.AllGather(ctx, g, p.Tensor.Detach())
		if err != nil {
			return nil, err
		}
		got[p.Name] = torch.Values[float64](torch.Cat(parts, 0))
	}
	return got, nil
}

func TestARunContinuesAtAnyNumberOfProcesses(t *testing.T) {
	want := result{}
	all(t, together(t, 1, func(ctx context.Context, g *dist.Group) error { // the uninterrupted run
		m, err := newTrained(ctx, g, shard.ShardGradOp)
		if err != nil {
			return err
		}
		if err := m.train(ctx, 8); err != nil {
			return err
		}
		want, err = m.weights(ctx, g)
		return err
	}))
	folder, former := t.TempDir(), ""
	for i, world := range []int{4, 2, 1, 3} {
		path := filepath.Join(folder, fmt.Sprint("step-", 2*i+2))
		s := []shard.Strategy{shard.FullShard, shard.ZeroRedundancyOptimizer, shard.FullShard, shard.FullShard}[i]
		all(t, together(t, world, func(ctx context.Context, g *dist.Group) error {
			m, err := newTrained(ctx, g, s)
			if err != nil {
				return err
			}
			if former != "" {
				step, metadata, err := m.Load(ctx, former, m.opt)
				if err != nil {
					return err
				}
				if step != 2*i || fmt.Sprint(metadata) != "map[by:me]" || m.opt.Updates() != 2*i {
					return fmt.Errorf("step %d, %v, %d updates", step, metadata, m.opt.Updates())
				}
			}
			if err := m.train(ctx, 2); err != nil {
				return err
			}
			if world == 3 {
				got, err := m.weights(ctx, g)
				return errors.Join(err, compare(got, want, 1e-12))
			}
			return m.Save(ctx, path, 2*i+2, m.opt, map[string]string{"by": "me"})
		}))
		former = path
	}
	out := t.TempDir()
	require.NoError(t, sharded.Convert(filepath.Join(folder, "step-4"), out))
	file := golden.Load(t, filepath.Join(out, "model.safetensors"))
	all(t, together(t, 2, func(ctx context.Context, g *dist.Group) error {
		m, err := newTrained(ctx, g, shard.ShardGradOp)
		if err != nil {
			return err
		}
		if _, _, err := m.Load(ctx, filepath.Join(folder, "step-4"), nil); err != nil {
			return err
		}
		for _, p := range nn.StateDict(m.layers) {
			if !p.Tensor.Detach().Equal(file.Tensor(p.Name)) {
				return fmt.Errorf("%s differs in model.safetensors", p.Name)
			}
		}
		return nil
	}))
}

// The trainer derives its exit code from checkpoint.IsStorageError.
func TestAFaultOfTheDiskOfOneProcessIsTheSameOnAll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "step-1")
	former := *shard.WriteFile
	t.Cleanup(func() { *shard.WriteFile = former })
	for _, fault := range []syscall.Errno{syscall.EDQUOT, syscall.EIO, syscall.EROFS, syscall.EFBIG, syscall.ESTALE} {
		*shard.WriteFile = func(folder string, rank, world int, id string, e []sharded.Entry) (sharded.Written, error) {
			if rank == 1 {
				return sharded.Written{}, &os.PathError{Op: "write", Path: folder, Err: fault}
			}
			return former(folder, rank, world, id, e)
		}
		for rank, err := range together(t, 3, func(ctx context.Context, g *dist.Group) error {
			m, err := newTrained(ctx, g, shard.FullShard)
			if err != nil {
				return err
			}
			return m.Save(ctx, path, 1, m.opt, nil)
		}) {
			require.ErrorIs(t, err, fault, "rank %d", rank)
			assert.ErrorContains(t, err, "shard: rank 1: ", "rank %d", rank)
		}
	}
}

// The disk of one process fills up in the middle of its file.
func TestAFullDiskOfOneProcessIsNamedOnAll(t *testing.T) {
	path := filepath.Join(t.TempDir(), "step-1")
	full := 0
	former := *shard.WriteFile
	t.Cleanup(func() { *shard.WriteFile = former })
	*shard.WriteFile = func(folder string, rank, world int, id string, e []sharded.Entry) (sharded.Written, error) {
		if rank == full {
			write := e[0].Data
			e[0].Data = func(w io.Writer) error {
				disk, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
				if err != nil {
					return err
				}
				defer disk.Close() //nolint:errcheck // it takes nothing
				return errors.Join(write(w), write(disk))
			}
		}
		return former(folder, rank, world, id, e)
	}
	save := func(ctx context.Context, g *dist.Group) error {
		m, err := newTrained(ctx, g, shard.FullShard)
		if err != nil {
			return err
		}
		if err := m.train(ctx, 1); err != nil {
			return err
		}
		failed := m.Save(ctx, path, 1, m.opt, nil)
		return errors.Join(failed, m.train(ctx, 1)) // the group still works
	}
	for full = range 3 {
		for rank, err := range together(t, 3, save) {
			require.ErrorIs(t, err, syscall.ENOSPC, "rank %d", rank)
			for _, part := range []string{fmt.Sprintf("shard: rank %d: rank-%05d-of-00003.safetensors of step 1 cannot be "+
				"written", full, full), "make room", "no space left on device"} {
				assert.ErrorContains(t, err, part, "rank %d", rank)
			}
		}
		left, err := os.ReadDir(filepath.Dir(path))
		require.NoError(t, err)
		assert.Empty(t, left, "what was written of a checkpoint that failed")
	}
	full = -1
	all(t, together(t, 3, save))
	for rank, err := range together(t, 3, save) {
		require.ErrorContains(t, err, "already exists", "rank %d", rank)
	}
}

func TestACheckpointThatDoesNotFitIsRefusedOnAll(t *testing.T) {
	folder := t.TempDir()
	fresh := func(t *testing.T, name string) string {
		path := filepath.Join(folder, name)
		all(t, together(t, 2, func(ctx context.Context, g *dist.Group) error {
			m, err := newTrained(ctx, g, shard.FullShard)
			if err != nil {
				return err
			}
			return errors.Join(m.train(ctx, 1), m.Save(ctx, path, 1, m.opt, nil))
		}))
		return path
	}
	load := func(path string, o optim.Builder) func(ctx context.Context, g *dist.Group) error {
		return func(ctx context.Context, g *dist.Group) error {
			m, err := newTrained(ctx, g, shard.FullShard)
			if err != nil {
				return err
			}
			before, err := m.weights(ctx, g)
			if err != nil {
				return err
			}
			opt, err := m.Optimizer(o, nil)
			if err != nil {
				return err
			}
			_, _, failed := m.Load(ctx, path, opt)
			after, err := m.weights(ctx, g)
			if err := errors.Join(err, compare(after, before, 0)); err != nil {
				return fmt.Errorf("something has changed: %w", err)
			}
			return failed
		}
	}
	for name, c := range map[string]struct {
		damage    func(path string) error
		optimizer optim.Builder
		want      string
	}{
		"missing file": {func(path string) error {
			return os.Remove(filepath.Join(path, "rank-00001-of-00002.safetensors"))
		}, optim.AdamW{}, "the file of rank 1: rank-00001-of-00002.safetensors is missing"},
		"of another step": {func(path string) error {
			const name = "rank-00001-of-00002.safetensors"
			text, err := os.ReadFile(filepath.Join(fresh(t, "other"), name))
			return errors.Join(err, os.WriteFile(filepath.Join(path, name), text, 0o600))
		}, optim.AdamW{}, "the file of rank 1: rank-00001-of-00002.safetensors is rank 1 of another checkpoint than the " +
			"index, which is of step 1: copy both from one folder, or load an earlier checkpoint"},
		"truncated": {func(path string) error {
			return os.Truncate(filepath.Join(path, "rank-00000-of-00002.safetensors"), 1000)
		}, optim.AdamW{}, "has 1000 bytes, the index says"},
		"another optimizer": {func(string) error { return nil }, optim.SGD{LR: 0.1, Momentum: 0.9},
			"is not a state that this SGD keeps"},
	} {
		t.Run(name, func(t *testing.T) {
			path := fresh(t, name)
			require.NoError(t, c.damage(path))
			for rank, err := range together(t, 3, load(path, c.optimizer)) {
				require.ErrorContains(t, err, c.want, "rank %d", rank)
				assert.ErrorContains(t, err, "shard: rank 0: ", "rank %d", rank)
			}
		})
	}
	path := fresh(t, "whole")
	for rank, err := range together(t, 2, func(ctx context.Context, g *dist.Group) error {
		m, err := shard.New(ctx, g, nn.NewLinear(5, 5, nil), shard.Options{Strategy: shard.ShardGradOp})
		if err != nil {
			return err
		}
		_, _, err = m.Load(ctx, path, nil)
		return err
	}) {
		require.ErrorContains(t, err, `the checkpoint has no tensor "model.bias"`, "rank %d", rank)
	}
}
