package trainer_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/semantics"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// watcher is a member that records its batches.
type watcher struct {
	member
	seen [][]int
}

func (w *watcher) Train(ctx context.Context, b []int, in trainer.Window) error {
	w.seen = append(w.seen, b)
	return w.Step.Train(ctx, b, in)
}

// cancelsAfter cancels a run after the given number of updates.
type cancelsAfter struct {
	steps  int
	cancel func()
}

func (c cancelsAfter) StepEnd(r *trainer.Run) error {
	if r.GlobalStep == c.steps {
		c.cancel()
	}
	return nil
}

func TestProcessesShareAStreamAndContinueInsideOfIt(t *testing.T) {
	// 11 samples in batches of 2: the samples that do not fill a batch for both are divided evenly,
	// filled up with the first one
	pass := [][][]int{{{0, 1}, {4, 5}, {8, 9}}, {{2, 3}, {6, 7}, {10, 0}}}
	dir := t.TempDir()
	for rank, err := range inGroup(t, 2, 0, func(g *dist.Group) error {
		var want [][]int
		for range 3 {
			want = append(want, pass[g.Rank()]...)
		}
		want = want[:8] // the fifth update has two batches
		run := func(resume string, cancelAt int) ([][]int, error) {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			w := &watcher{member: member{Step: new(trainertest.Step)}}
			o := shareOptions(g, trainer.Options{BatchSize: 2, Accumulate: 2, MaxSteps: 5, LearningRate: 1,
				OutputDir: dir, Save: trainer.Never, SaveInterrupted: true, ResumeFrom: resume, Eval: trainer.Never})
			if cancelAt > 0 && g.Rank() == 1 { // rank 0 is not cancelled
				o.Callbacks = []any{cancelsAfter{cancelAt, cancel}}
			}
			tr, err := trainer.New(w, o)
			if err != nil {
				return nil, err
			}
			_, err = tr.FitStream(ctx, data.StreamOf(trainertest.Samples(11), nil), nil)
			return w.seen, err
		}
		first, err := run("", 3)
		if !errors.As(err, new(*trainer.InterruptedError)) {
			return fmt.Errorf("not interrupted: %w", err)
		}
		rest, err := run(trainer.Latest, 0)
		if err != nil {
			return err
		}
		if seen := append(first, rest...); !reflect.DeepEqual(seen, want) || len(first) != 5 {
			return fmt.Errorf("%v and then %v, want %v", first, rest, want)
		}
		return nil
	}) {
		assert.NoError(t, err, "rank %d", rank)
	}
}

func TestTheEndOfAStreamIsFilledUpToFullBatchesWhereNobodyDispatches(t *testing.T) {
	// 9 samples in batches of 3: each process reads the stream itself, and the first three samples
	// of a pass fill up its end
	pass := [][][]int{{{0, 1, 2}, {6, 7, 8}}, {{3, 4, 5}, {0, 1, 2}}}
	for rank, err := range inGroup(t, 2, 0, func(g *dist.Group) error {
		w := &watcher{member: member{Step: new(trainertest.Step)}}
		o := shareOptions(g, trainer.Options{BatchSize: 3, MaxSteps: 4, LearningRate: 1, Save: trainer.Never,
			Eval: trainer.Never, NoDispatchBatches: true})
		tr, err := trainer.New(w, o)
		if err != nil {
			return err
		}
		if _, err = tr.FitStream(context.Background(), data.StreamOf(trainertest.Samples(9), nil), nil); err != nil {
			return err
		}
		if want := slices.Concat(pass[g.Rank()], pass[g.Rank()]); !reflect.DeepEqual(w.seen, want) {
			return fmt.Errorf("%v, want %v", w.seen, want)
		}
		o.Semantics = semantics.HuggingFace
		if tr, err = trainer.New(&sharer{member: member{Step: new(trainertest.Step)}}, o); err != nil {
			return err
		}
		_, err = tr.Evaluate(context.Background(),
			trainer.EvalStream[int]{Stream: data.StreamOf(trainertest.Samples(9), nil)})
		if err == nil || !strings.Contains(err.Error(), "NoDispatchBatches") {
			return fmt.Errorf("the evaluation has ended: %w", err)
		}
		return nil
	}) {
		assert.NoError(t, err, "rank %d", rank)
	}
}

func TestStreamsThatDifferEndAllProcesses(t *testing.T) {
	for rank, err := range inGroup(t, 2, 0, func(g *dist.Group) error {
		tr, err := trainer.New(&watcher{member: member{Step: new(trainertest.Step)}},
			shareOptions(g, trainer.Options{BatchSize: 2, MaxSteps: 50, LearningRate: 1, Save: trainer.Never,
				Eval: trainer.Never, Accumulate: 3}))
		if err != nil {
			return err
		}
		_, err = tr.FitStream(context.Background(), data.StreamOf(trainertest.Samples(12+8*g.Rank()), nil), nil)
		return err
	}) {
		assert.ErrorIs(t, err, dist.ErrMismatch, "rank %d", rank)
	}
}
