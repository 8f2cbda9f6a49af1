package engine

import (
	"context"
	"encoding/json"
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
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
)

// Checkpoints of a model of which each process has a part: see package checkpoint/sharded. All
// processes write and read them together; the weights alone are one file, as those of any model.

// stateMetadata is what is said of the optimizer in a checkpoint.
func (s *Step[S, B]) stateMetadata() map[string]string {
	metadata := map[string]string{"updates": strconv.Itoa(s.optimizer.Updates())}
	if settings := s.settings(); settings != "" {
		metadata["settings"] = settings
	}
	if s.momentum != nil {
		metadata["momentum"] = strconv.FormatFloat(*s.momentum, 'g', -1, 64)
	}
	return metadata
}

// saveParts is Save where each process has a part. Where one fails, all have an error.
func (s *Step[S, B]) saveParts(dir string, o trainer.SaveOptions) (err error) {
	ctx := context.Background()
	if e := torch.Try(func() { s.optimizerMode(false) }); e != nil {
		return e
	}
	switch updates := s.optimizer.Updates(); {
	case o.WeightsOnly:
		err = s.saveWhole(dir)
	case o.Later == nil:
		err = s.sharded.WriteTo(ctx, dir, updates, s.optimizer, s.stateMetadata())
	default:
		var write func() error
		var nonFinite []string
		if s.group.World() == 1 { // of several the loop has asked before
			if nonFinite, err = s.nonFiniteParts(); err != nil {
				return err
			}
		}
		if write, err = s.sharded.WriteLater(ctx, dir, updates, s.optimizer, s.stateMetadata()); err == nil {
			o.Later(func() ([]string, error) { return nonFinite, ofStorage(dir, write()) })
		}
	}
	err = ofStorage(dir, err)
	if err != nil || !s.group.Main() {
		return err
	}
	if c, ok := s.task.(Configurer); ok {
		if err := c.WriteConfig(dir); err != nil {
			return err
		}
	}
	if o.WeightsOnly {
		return nil
	}
	generators, err := s.generators()
	if err != nil {
		return err
	}
	defer tensorio.Free(generators)
	return errors.Join(tensorio.Save(filepath.Join(dir, generatorName), generators, nil),
		s.saveScaler(filepath.Join(dir, scalerName)))
}

// ofStorage makes the full disk of another process a failure to save, as one of this process is.
func ofStorage(dir string, err error) error {
	if errors.Is(err, syscall.ENOSPC) && !checkpoint.IsSaveError(err) {
		return &fs.PathError{Op: "save", Path: dir, Err: err}
	}
	return err
}

// saveWhole has the main process write the weights of the whole model.
func (s *Step[S, B]) saveWhole(dir string) error {
	summoned := s.sharded.Summoned()
	if err := s.summon(); err != nil {
		return err
	}
	err := func() error {
		if !s.group.Main() {
			return nil
		}
		weights, metadata, err := nn.Saved(s.task.Model())
		if err != nil {
			return err
		}
		return tensorio.Save(filepath.Join(dir, weightsName), weights, metadata)
	}()
	if !summoned {
		err = errors.Join(err, s.sharded.Release())
	}
	return err
}

// loadParts is Load where each process has a part, by as many processes as there are now. Where one
// fails all have an error, and the weights and the optimizer are as they were.
func (s *Step[S, B]) loadParts(dir string, o trainer.LoadOptions) error {
	s.fresh = false
	if !isThere(filepath.Join(dir, sharded.IndexName)) {
		if o.WeightsOnly {
			return s.loadWhole(dir)
		}
		for _, name := range []string{averagesName, gradientsName} {
			if isThere(filepath.Join(dir, name)) {
				return fmt.Errorf("the checkpoint has %s, which a run with engine.Options.Sharding cannot continue with: "+
					"leave Sharding out, or begin a new run from its weights", name)
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
		metadata, err = s.readMetadata(dir, o)
	}
	if err == nil {
		failed := torch.Try(func() { err = s.checkGenerators(generators) })
		err = errors.Join(err, failed)
	}
	if err = s.together(ctx, err); err != nil { // nobody reads what another cannot
		return err
	}
	return s.restoreParts(ctx, dir, metadata, generators)
}

// together returns an error on all processes where one has one.
func (s *Step[S, B]) together(ctx context.Context, err error) error {
	text := ""
	if err != nil {
		text = err.Error()
	}
	all, groupErr := s.group.AllGather(ctx, []byte(text))
	if err != nil || groupErr != nil {
		return errors.Join(err, groupErr)
	}
	for rank, t := range all {
		if len(t) > 0 {
			return fmt.Errorf("rank %d: %s", rank, t)
		}
	}
	return nil
}

// readMetadata is what the checkpoint says of the optimizer.
func (s *Step[S, B]) readMetadata(dir string, o trainer.LoadOptions) (map[string]string, error) {
	var found map[string]string
	if isThere(filepath.Join(dir, sharded.IndexName)) {
		r, err := sharded.Open(dir)
		if err != nil {
			return nil, err
		}
		found = r.Metadata
		if err := r.Close(); err != nil {
			return nil, err
		}
	} else { // of a run whose processes had the whole model each
		f, err := safetensors.Open(filepath.Join(dir, optimizerName))
		if err != nil {
			return nil, err
		}
		found = f.Metadata()
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
	metadata := map[string]string{"momentum": found["momentum"]}
	if o.Settings {
		metadata["settings"] = found["settings"]
	}
	return metadata, nil
}

func (s *Step[S, B]) restoreParts(ctx context.Context, dir string, metadata map[string]string,
	generators []torch.Named) (err error) {
	builder, optimizer, momentum := s.builder, s.optimizer, s.momentum
	defer func() {
		if err != nil {
			s.builder, s.optimizer, s.momentum = builder, optimizer, momentum
		}
	}()
	failed := torch.Try(func() {
		err = errors.Join(s.takeSettings(metadata["settings"]), s.loadMomentum(metadata["momentum"]),
			s.loadScaler(filepath.Join(dir, scalerName)))
	})
	if err = s.together(ctx, errors.Join(err, failed)); err != nil {
		return err
	}
	if _, _, err = s.sharded.Load(ctx, dir, s.optimizer); err != nil {
		return err
	}
	return torch.Try(func() {
		s.zeroGrad()
		s.putGenerators(generators)
	})
}

// loadWhole takes the weights from a file that has all of them.
func (s *Step[S, B]) loadWhole(dir string) error {
	summoned := s.sharded.Summoned()
	if err := s.summon(); err != nil {
		return err
	}
	var err error
	failed := torch.Try(func() { _, err = nn.Load(weightsFile(dir), s.task.Model(), nn.LoadOptions{}) })
	err = s.together(context.Background(), errors.Join(err, failed))
	if !summoned {
		err = errors.Join(err, s.sharded.Release())
	}
	return err
}

// loadShards is Load of a sharded checkpoint where each process has the whole model.
func (s *Step[S, B]) loadShards(dir string, o trainer.LoadOptions) error {
	whole, err := shard.ReadWhole(dir)
	if err != nil {
		return err
	}
	defer whole.Free()
	put := func() error {
		s.fresh = false
		s.endsEval()
		if err := whole.LoadModel(s.task.Model()); err != nil {
			return err
		}
		return s.ema.begin(0)
	}
	if o.WeightsOnly {
		failed := torch.Try(func() { err = put() })
		return errors.Join(err, failed)
	}
	generators, _, err := tensorio.Load(filepath.Join(dir, generatorName))
	if err != nil {
		return err
	}
	defer tensorio.Free(generators)
	metadata := whole.Metadata
	if !o.Settings {
		delete(metadata, "settings")
	}
	failed := torch.Try(func() {
		if err = errors.Join(s.checkGenerators(generators), whole.CheckModel(s.task.Model())); err != nil {
			return
		}
		if err = s.loadScaler(filepath.Join(dir, scalerName)); err != nil {
			return
		}
		if err = s.restoreOptimizer(whole.State, metadata, whole.Updates); err != nil {
			return
		}
		if err = put(); err != nil {
			return
		}
		s.graphs.forget()
		s.zeroGrad()
		s.putGenerators(generators)
	})
	return errors.Join(err, failed)
}

// nonFiniteParts is NonFinite where each process looks at its part.
func (s *Step[S, B]) nonFiniteParts() (names []string, err error) {
	var mine []string
	failed := torch.Try(func() {
		torch.Scope(func() {
			var parts []torch.Named
			for _, p := range s.sharded.Pieces() {
				parts = append(parts, torch.Named{Name: p.Name, Tensor: p.Tensor})
			}
			mine = nonFinite(append(parts, nn.Buffers(s.task.Model())...))
		})
	})
	text, err := json.Marshal(mine)
	if err = errors.Join(failed, err); err != nil {
		return nil, err
	}
	all, err := s.group.AllGather(context.Background(), text)
	if err != nil {
		return nil, err
	}
	for _, text := range all {
		var some []string
		if err := json.Unmarshal(text, &some); err != nil {
			return nil, err
		}
		for _, name := range some {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names, nil
}
