package engine

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"

	"github.com/gotrainer/gotrainer/checkpoint"
	"github.com/gotrainer/gotrainer/checkpoint/sharded"
	"github.com/gotrainer/gotrainer/dist/shard"
	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
)

// Checkpoints of a model of which each process has a part: see package checkpoint/sharded. All
// processes write and read them together. Weights alone are saved in a single file, like those of
// any model.

// stateMetadata returns the metadata of the optimizer in a checkpoint.
func (s *core) stateMetadata() map[string]string {
	metadata := map[string]string{"updates": strconv.Itoa(s.optimizer.Updates())}
	if settings := s.settings(); settings != "" {
		metadata["settings"] = settings
	}
	if s.momentum != nil {
		metadata["momentum"] = strconv.FormatFloat(*s.momentum, 'g', -1, 64)
	}
	return metadata
}

// saveParts is Save if each process has a part. If one process fails, all return an error.
func (s *core) saveParts(dir string, o trainer.SaveOptions) (err error) {
	ctx := context.Background()
	s.optimizerMode(false)
	switch updates := s.optimizer.Updates(); {
	case o.WeightsOnly:
		err = s.saveWhole(dir)
	case o.Later == nil:
		err = s.sharded.WriteTo(ctx, dir, updates, s.optimizer, s.stateMetadata())
	default:
		var write func() error
		var nonFinite []string
		if s.group.World() == 1 { // with several processes the loop has already checked
			if nonFinite, err = s.nonFiniteParts(); err != nil {
				return err
			}
		}
		if write, err = s.sharded.WriteLater(ctx, dir, updates, s.optimizer, s.stateMetadata()); err == nil {
			o.Later(func() ([]string, error) { return nonFinite, ofStorage(dir, write()) })
		}
	}
	if err = ofStorage(dir, err); err != nil || !s.group.Main() {
		return err
	}
	if err := s.saveTexts(dir, o); err != nil || o.WeightsOnly {
		return err
	}
	return tensorio.Save(filepath.Join(dir, generatorName), s.generators(), nil)
}

// ofStorage turns the full disk of another process into a save error, like a full disk of this
// process.
func ofStorage(dir string, err error) error {
	if errors.Is(err, syscall.ENOSPC) && !checkpoint.IsSaveError(err) {
		return &fs.PathError{Op: "save", Path: dir, Err: err}
	}
	return err
}

// saveWhole writes the weights of the whole model, on the main process.
func (s *core) saveWhole(dir string) error {
	return s.withWhole(func() error {
		if !s.group.Main() {
			return nil
		}
		weights, err := s.weights()
		if err != nil {
			return err
		}
		return writeFiles(dir, []tensorFile{weights}, 1)
	})
}

// withWhole calls f while the model has all its parameters.
func (s *core) withWhole(f func() error) error {
	summoned := s.sharded.Summoned()
	if err := s.summon(); err != nil {
		return err
	}
	err := f()
	if !summoned {
		err = errors.Join(err, s.sharded.Release())
	}
	return err
}

// loadParts is Load if each process has a part; the checkpoint may be of another number of
// processes. If one process fails, all return an error, and the weights and the optimizer are
// unchanged.
func (s *core) loadParts(dir string, o trainer.LoadOptions) error {
	s.fresh = false
	if o.WeightsOnly {
		if err := try(func() error { s.optimizerMode(false); return nil }); err != nil {
			return err
		}
	}
	if !isThere(filepath.Join(dir, sharded.IndexName)) {
		if o.WeightsOnly {
			return s.loadWhole(dir)
		}
		if name := s.weightsName(); name != weightsName {
			return fmt.Errorf("of the model, the checkpoint has only %s, from which a run with engine.Options.Sharding "+
				"cannot continue: leave Sharding out", name)
		}
		for _, name := range []string{averagesName, gradientsName} {
			if isThere(filepath.Join(dir, name)) {
				return fmt.Errorf("the checkpoint has %s, from which a run with engine.Options.Sharding cannot continue: "+
					"leave Sharding out, or start a new run from its weights", name)
			}
		}
	}
	ctx := context.Background()
	if o.WeightsOnly {
		_, _, err := s.sharded.Load(ctx, dir, nil)
		return err
	}
	generators, _, err := tensorio.Load(filepath.Join(dir, generatorName))
	defer func() { tensorio.Free(generators) }()
	var metadata map[string]string
	if err == nil {
		metadata, err = stateMetadataOf(dir)
	}
	if err == nil {
		err = try(func() error { return s.checkGenerators(generators) })
	}
	if err = s.together(ctx, err); err != nil { // no process loads what another cannot read
		return err
	}
	if err := s.keepingOptimizer(func() error {
		err := try(func() error { return errors.Join(s.loadSettings(metadata, o), s.loadScaler(dir)) })
		if err = s.together(ctx, err); err == nil {
			_, _, err = s.sharded.Load(ctx, dir, s.optimizer)
		}
		return err
	}); err != nil {
		return err
	}
	return torch.Try(func() {
		s.zeroGrad()
		s.putGenerators(generators)
	})
}

// together returns an error on all processes if one of them has one.
func (s *core) together(ctx context.Context, err error) error {
	_, _, err = s.exchange(ctx, message{}, nil, nil, err)
	return err
}

// stateMetadataOf returns the metadata of the optimizer in a checkpoint, whether sharded or written
// by a run in which each process had the whole model.
func stateMetadataOf(dir string) (map[string]string, error) {
	if !isThere(filepath.Join(dir, sharded.IndexName)) {
		return metadataOf(filepath.Join(dir, optimizerName))
	}
	r, err := sharded.Open(dir)
	if err != nil {
		return nil, err
	}
	return r.Metadata, r.Close()
}

// loadWhole loads the weights from a file that has all of them.
func (s *core) loadWhole(dir string) error {
	return s.withWhole(func() error {
		err := try(func() error { return s.readWeights(s.weightsFile(dir)) })
		return s.together(context.Background(), err)
	})
}

// loadShards is Load of a sharded checkpoint if each process has the whole model.
func (s *core) loadShards(dir string, o trainer.LoadOptions) error {
	whole, err := shard.ReadWhole(dir)
	if err != nil {
		return err
	}
	defer whole.Free()
	weights := func() error {
		s.fresh = false
		s.endsEval()
		if err := whole.LoadModel(s.task.Model()); err != nil {
			return err
		}
		return s.ema.begin(0)
	}
	if o.WeightsOnly {
		return try(func() error {
			s.optimizerMode(false)
			return weights()
		})
	}
	generators, _, err := tensorio.Load(filepath.Join(dir, generatorName))
	if err != nil {
		return err
	}
	defer tensorio.Free(generators)
	return try(func() error {
		if err := whole.CheckModel(s.task.Model()); err != nil {
			return err
		}
		return s.restore(dir, o, checkpointed{whole.State, nil, whole.Metadata, whole.Updates, generators, nil, nil, weights})
	})
}

// nonFiniteParts is NonFinite if each process checks its part.
func (s *core) nonFiniteParts() (names []string, err error) {
	var mine message
	err = torch.Try(func() {
		torch.Scope(func() {
			var parts []torch.Named
			for _, p := range s.sharded.Pieces() {
				parts = append(parts, torch.Named{Name: p.Name, Tensor: p.Tensor})
			}
			mine.NonFinite = nonFinite(append(parts, nn.Buffers(s.task.Model())...))
		})
	})
	all, _, err := s.exchange(context.Background(), mine, nil, nil, err)
	for _, n := range all {
		for _, name := range n.NonFinite {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names, err
}
