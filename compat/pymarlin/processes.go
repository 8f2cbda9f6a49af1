package pymarlin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"

	"github.com/gotrainer/gotrainer/compat/internal/loops"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/internal/torchsave"
	"github.com/gotrainer/gotrainer/trainer"
)

// This file holds what a trainer needs for several processes.

func (t *Trainer[B]) group() *dist.Group { return t.options.Group }

// IsDistributed reports whether several processes train the model.
func (t *Trainer[B]) IsDistributed() bool { return t.group().World() > 1 }

// IsMainProcess reports whether this process is the one that writes checkpoints and stats.
func (t *Trainer[B]) IsMainProcess() bool { return t.group().Main() }

// printsHere reports whether this process logs and shows a progress line: one per machine does.
func (t *Trainer[B]) printsHere() bool { return t.group().LocalRank() == 0 }

// checkRanks refuses arguments that contradict the group.
func (t *Trainer[B]) checkRanks() error {
	g, given := t.group(), t.args.DistributedTrainingArgs
	if err := loops.Started(g); err != nil {
		return argumentf("%w", err)
	}
	if given == nil {
		return nil
	}
	here := DistributedTrainingArguments{LocalRank: g.LocalRank(), GlobalRank: g.Rank(), WorldSize: g.World()}
	want := *given
	if want.WorldSize = cmp.Or(want.WorldSize, 1); want != here {
		return argumentf("DistributedTrainingArgs says process %d of %d (local rank %d), and Options.Group %d of %d "+
			"(local rank %d); leave the arguments nil, and set Options.Group to what dist.Init returns", want.GlobalRank,
			want.WorldSize, want.LocalRank, here.GlobalRank, here.WorldSize, here.LocalRank)
	}
	return nil
}

// fromMain runs f on the main process and returns its result on all processes. err is an earlier
// error of this process; an error of any process is returned on all.
func (t *Trainer[B]) fromMain(err error, f func() (path string, err error)) (path string, _ error) {
	if err = loops.Together(t.group(), err); err == nil && t.IsMainProcess() {
		path, err = f()
	}
	if err = loops.Together(t.group(), err); err != nil {
		return "", err
	}
	all, err := t.group().AllGather(context.Background(), []byte(path))
	if err != nil {
		return "", err
	}
	return string(all[0]), nil
}

// checkSameRun refuses processes that would train differently: because they have read different
// checkpoints, or their loaders have different lengths.
func (t *Trainer[B]) checkSameRun() error {
	own := fmt.Sprintf("last_epoch %d, %d updates, %d batches; %d batches in an epoch", t.lastEpoch,
		t.GlobalStepsFinished(), t.TotalStepsFinished(), t.batches)
	all, err := t.group().AllGather(context.Background(), []byte(own))
	if err != nil {
		return err
	}
	for rank, other := range all {
		if string(other) != string(all[0]) {
			return fmt.Errorf("pymarlin: the processes stand at different places: rank 0 at %s, rank %d at %s; all must "+
				"read the same checkpoint, from a folder that they share, and have loaders with as many batches", all[0], rank,
				other)
		}
	}
	return nil
}

// countBatches asks the module for the number of batches per epoch on this process, without
// changing the state of the generators.
func (t *Trainer[B]) countBatches() error {
	if !t.IsDistributed() || t.batches == 0 {
		return nil
	}
	before := t.generators()
	loader, err := t.module.TrainDataloader(t.backend.TrainSampler(), t.TrainStepBatchSize())
	if err != nil {
		return err
	}
	if loader == nil {
		return errNoLoader
	}
	t.batches = loader.Len()
	return t.setGenerators(before)
}

// Close closes the writers. The trainer must not be used afterwards. All processes must call it.
func (t *Trainer[B]) Close() (err error) {
	if c, ok := t.backend.(io.Closer); ok {
		err = c.Close()
	}
	if !t.IsMainProcess() { // its Stats have no writers
		err = errors.Join(err, closeWriters(t.args.CustomWriters))
	}
	return errors.Join(err, t.stats.Finish())
}

// processesKey is the key in a state of what is specific to each process.
const processesKey = "processes"

// gatherStates returns the states of all processes, by rank. err is an earlier error of this
// process; an error of any process is returned on all.
func gatherStates(g *dist.Group, own State, err error) ([]any, error) {
	var raw []byte
	if err == nil {
		raw, err = torchsave.Marshal(own)
	}
	if err = loops.Together(g, err); err != nil {
		return nil, err
	}
	all, err := g.AllGather(context.Background(), raw)
	if err != nil {
		return nil, err
	}
	shares := make([]any, len(all))
	for rank, raw := range all {
		if shares[rank], err = torchsave.Unmarshal(raw); err != nil {
			return nil, fmt.Errorf("the state of rank %d: %w", rank, err)
		}
	}
	return shares, nil
}

// addOwn adds what is specific to each process to a state. err is an earlier error of this process.
func addOwn(g *dist.Group, s, own State, err error) error {
	if g.World() == 1 {
		maps.Copy(s, own)
		return err
	}
	shares, err := gatherStates(g, own, err)
	if err == nil {
		s[processesKey] = shares
	}
	return err
}

// ownOf returns what addOwn has added for this process; with one process, that is the state itself.
// A state without such values, such as PyMarlin's, fits any number of processes.
func ownOf(g *dist.Group, s State) (State, error) {
	shares, _ := s[processesKey].([]any)
	n := max(1, len(shares))
	_, exact := s[randomKey]
	_, open := s[gradientsKey]
	if len(shares) == 0 && !exact && !open {
		return s, nil
	}
	if n != g.World() {
		return nil, fmt.Errorf("%w: it was written by %d processes, and there are %d now; set Options.InexactResume to "+
			"continue without their random numbers and open windows", trainer.ErrOtherRun, n, g.World())
	}
	if len(shares) == 0 {
		return s, nil
	}
	own, ok := shares[g.Rank()].(State)
	if !ok {
		return nil, fmt.Errorf("%s[%d] is %T, want a dictionary", processesKey, g.Rank(), shares[g.Rank()])
	}
	return own, nil
}
