package trainertest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"testing"

	"github.com/gotrainer/gotrainer/trainer"
)

// TestStep holds a Step to what the training loop relies upon. newStep makes a fresh step, always
// the same one: same weights, same generator. samples are at least four samples of its data set.
// What a step need not be able to do is tested where its About says that it can.
//
//	func TestMyStep(t *testing.T) {
//		trainertest.TestStep(t, func(t *testing.T) trainer.Step[Sample, Batch] { return newStep(t) }, samples)
//	}
func TestStep[S, B any](t *testing.T, newStep func(t *testing.T) trainer.Step[S, B], samples []S) {
	t.Helper()
	if len(samples) < 4 {
		t.Fatalf("trainertest: TestStep needs at least 4 samples, got %d", len(samples))
	}
	for _, c := range checks[S, B]() {
		t.Run(c.claim, func(t *testing.T) {
			err := c.check(&bench[S, B]{t: t, newStep: newStep, samples: samples})
			var skip skipped
			if errors.As(err, &skip) {
				t.Skip(err)
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
}

type check[S, B any] struct {
	claim string
	check func(*bench[S, B]) error
}

// skipped says why a check does not apply.
type skipped string

func (s skipped) Error() string { return string(s) }

const errCannotSave = skipped("About().Saves is false")

func checks[S, B any]() []check[S, B] {
	return []check[S, B]{
		{"the same run twice gives the same numbers", (*bench[S, B]).repeatable},
		{"a report starts over", (*bench[S, B]).reportStartsOver},
		{"a loss is divided by the divisor of its window", (*bench[S, B]).divides},
		{"an evaluation leaves training as it was", (*bench[S, B]).evaluationIsPure},
		{"metrics start over and have a loss", (*bench[S, B]).metricsStartOver},
		{"a saved step continues as the one that was not", (*bench[S, B]).continues},
		{"a folder that cannot be loaded changes nothing", (*bench[S, B]).refusedLoadIsPure},
		{"loaded weights are the saved ones", (*bench[S, B]).loadsWeights},
		{"what is written later is as of the save", (*bench[S, B]).savesLater},
		{"forward and backward are a training step in two parts", (*bench[S, B]).splits},
		{"seeds that begin again leave the model", (*bench[S, B]).reseeds},
		{"gradients that are zeroed leave nothing", (*bench[S, B]).zeroesGradients},
		{"an out-of-memory error is not any error", (*bench[S, B]).judgesMemory},
		{"a decorator around the step changes nothing", (*bench[S, B]).decorates},
	}
}

// bench makes steps and drives them as the loop does.
type bench[S, B any] struct {
	t       *testing.T
	newStep func(*testing.T) trainer.Step[S, B]
	samples []S
}

const rate = 1e-3

func (b *bench[S, B]) step() (trainer.Step[S, B], error) {
	s := b.newStep(b.t)
	if err := s.Seed(42, trainer.SeedOptions{}); err != nil {
		return nil, fmt.Errorf("Seed: %w", err)
	}
	return s, b.startLoader(s, true)
}

func (b *bench[S, B]) startLoader(s trainer.Step[S, B], train bool) error {
	if err := s.StartLoader(train); err != nil {
		return fmt.Errorf("StartLoader: %w", err)
	}
	return nil
}

// windows trains updates with windows of two micro-batches and returns the loss reported after
// each.
func (b *bench[S, B]) windows(s trainer.Step[S, B], updates int) (losses []float64, err error) {
	return b.windowsOf(s, updates, s.Train)
}

// windowsOf is windows with a training step of its own.
func (b *bench[S, B]) windowsOf(s trainer.Step[S, B], updates int, train func(context.Context, B,
	trainer.Window) error) (losses []float64, err error) {
	half := len(b.samples) / 2
	for range updates {
		var batches []B
		var items int64
		for _, part := range [][]S{b.samples[:half], b.samples[half:]} {
			batch, err := s.Collate(part)
			if err != nil {
				return nil, fmt.Errorf("Collate: %w", err)
			}
			items += s.Count(batch).Items
			batches = append(batches, batch)
		}
		for i, batch := range batches {
			if err := train(context.Background(), batch, trainer.Window{Index: i, Len: 2, Divisor: 2,
				Items: items}); err != nil {
				return nil, fmt.Errorf("Train: %w", err)
			}
		}
		if err := s.Clip(context.Background()); err != nil {
			return nil, fmt.Errorf("Clip: %w", err)
		}
		if _, err := s.Update(context.Background(), rate); err != nil {
			return nil, fmt.Errorf("Update: %w", err)
		}
		r, err := s.Report(context.Background())
		if err != nil {
			return nil, fmt.Errorf("Report: %w", err)
		}
		losses = append(losses, r.LossSum, r.GradNorm)
	}
	return losses, nil
}

func (b *bench[S, B]) evaluate(s trainer.Step[S, B]) (trainer.Metrics, error) {
	if err := b.startLoader(s, false); err != nil {
		return nil, err
	}
	batch, err := s.Collate(b.samples)
	if err != nil {
		return nil, fmt.Errorf("Collate: %w", err)
	}
	if err := s.Eval(context.Background(), batch); err != nil {
		return nil, fmt.Errorf("Eval: %w", err)
	}
	return s.Metrics(context.Background())
}

// same compares lists of numbers to the last bit.
func same(what string, want, got []float64) error {
	if len(want) != len(got) {
		return fmt.Errorf("%s: %d numbers, want %d", what, len(got), len(want))
	}
	for i := range want {
		if math.Float64bits(want[i]) != math.Float64bits(got[i]) {
			return fmt.Errorf("%s: losses and norms are %v, want %v", what, got, want)
		}
	}
	return nil
}

func (b *bench[S, B]) repeatable() error {
	var runs [2][]float64
	for i := range runs {
		s, err := b.step()
		if err != nil {
			return err
		}
		if runs[i], err = b.windows(s, 3); err != nil {
			return err
		}
	}
	return same("the second run", runs[0], runs[1])
}

func (b *bench[S, B]) reportStartsOver() error {
	s, err := b.step()
	if err != nil {
		return err
	}
	if _, err := b.windows(s, 1); err != nil { // ends with a report
		return err
	}
	r, err := s.Report(context.Background())
	if err != nil {
		return err
	}
	if r.LossSum != 0 {
		return fmt.Errorf("a report right after a report has the loss %v, want 0", r.LossSum)
	}
	return nil
}

func (b *bench[S, B]) divides() error {
	var sums [2]float64
	for i, divisor := range []float64{1, 4} {
		s, err := b.step()
		if err != nil {
			return err
		}
		batch, err := s.Collate(b.samples)
		if err != nil {
			return fmt.Errorf("Collate: %w", err)
		}
		if s.Count(batch).Items > 0 {
			return skipped("the step divides by its items")
		}
		if err := s.Train(context.Background(), batch, trainer.Window{Len: 1, Divisor: divisor}); err != nil {
			return fmt.Errorf("Train: %w", err)
		}
		r, err := s.Report(context.Background())
		if err != nil {
			return fmt.Errorf("Report: %w", err)
		}
		sums[i] = r.LossSum
	}
	if want := sums[0] / 4; math.Abs(sums[1]-want) > 1e-6*math.Abs(want) {
		return fmt.Errorf("with divisor 4 the loss is %v, want a quarter of %v", sums[1], sums[0])
	}
	return nil
}

func (b *bench[S, B]) evaluationIsPure() error {
	var runs [2][]float64
	for i := range runs {
		s, err := b.step()
		if err != nil {
			return err
		}
		first, err := b.windows(s, 1)
		if err != nil {
			return err
		}
		if i == 1 {
			if _, err := b.evaluate(s); err != nil {
				return err
			}
		} else if err := b.startLoader(s, false); err != nil {
			// the loader may draw a number; the evaluation itself must not
			return err
		}
		rest, err := b.windows(s, 2)
		if err != nil {
			return err
		}
		runs[i] = append(first, rest...)
	}
	return same("with an evaluation after the first update", runs[0], runs[1])
}

func (b *bench[S, B]) metricsStartOver() error {
	s, err := b.step()
	if err != nil {
		return err
	}
	var losses []float64
	for range 2 {
		m, err := b.evaluate(s)
		if err != nil {
			return err
		}
		loss, ok := m["loss"]
		if !ok {
			return fmt.Errorf("the metrics %v have no \"loss\"", m)
		}
		losses = append(losses, loss)
	}
	return same("the second evaluation", losses[:1], losses[1:])
}

func (b *bench[S, B]) continues() error {
	s, err := b.step()
	if err != nil {
		return err
	}
	if !s.About().Saves {
		return errCannotSave
	}
	if _, err := b.windows(s, 2); err != nil {
		return err
	}
	dir := b.t.TempDir()
	if err := s.Save(dir, trainer.SaveOptions{}); err != nil {
		return fmt.Errorf("Save: %w", err)
	}
	want, err := b.windows(s, 3)
	if err != nil {
		return err
	}
	other, err := b.step()
	if err != nil {
		return err
	}
	if _, err := b.windows(other, 1); err != nil { // it need not be fresh
		return err
	}
	if err := other.Load(dir, trainer.LoadOptions{}); err != nil {
		return fmt.Errorf("Load: %w", err)
	}
	got, err := b.windows(other, 3)
	if err != nil {
		return err
	}
	return same("after Load", want, got)
}

func (b *bench[S, B]) refusedLoadIsPure() error {
	var runs [2][]float64
	for i := range runs {
		s, err := b.step()
		if err != nil {
			return err
		}
		if !s.About().Saves {
			return errCannotSave
		}
		if _, err := b.windows(s, 1); err != nil {
			return err
		}
		if i == 1 && s.Load(b.t.TempDir(), trainer.LoadOptions{}) == nil {
			return errors.New("Load of an empty folder: no error")
		}
		if runs[i], err = b.windows(s, 2); err != nil {
			return err
		}
	}
	return same("after a Load that failed", runs[0], runs[1])
}

func (b *bench[S, B]) loadsWeights() error {
	s, err := b.step()
	if err != nil {
		return err
	}
	if !s.About().Saves {
		return errCannotSave
	}
	dir := b.t.TempDir()
	if err := s.Save(dir, trainer.SaveOptions{}); err != nil {
		return fmt.Errorf("Save: %w", err)
	}
	before, err := b.evaluate(s)
	if err != nil {
		return err
	}
	if _, err := b.windows(s, 2); err != nil {
		return err
	}
	trained, err := b.evaluate(s)
	if err != nil {
		return err
	}
	if err := s.Load(dir, trainer.LoadOptions{WeightsOnly: true}); err != nil {
		return fmt.Errorf("Load of the weights: %w", err)
	}
	after, err := b.evaluate(s)
	if err != nil {
		return err
	}
	if trained["loss"] == before["loss"] {
		return fmt.Errorf("two updates left the evaluation loss at %v: this check would not notice wrong weights",
			before["loss"])
	}
	return same("the evaluation of loaded weights", []float64{before["loss"]}, []float64{after["loss"]})
}
