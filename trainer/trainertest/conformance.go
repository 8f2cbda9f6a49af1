package trainertest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/gotrainer/gotrainer/trainer"
)

// TestStep checks that a Step behaves as the training loop requires. newStep makes a new step, with
// the same weights and the same generator state each time. samples are at least four samples of its
// data set. Optional abilities are tested only if the step's About says that it has them.
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
			err := c.run(&bench[S, B]{t: t, newStep: newStep, samples: samples})
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

// run returns what the check has found, or the error of a call of the step.
func (c check[S, B]) run(b *bench[S, B]) (err error) {
	defer func() {
		switch p := recover().(type) {
		case nil:
		case failure:
			err = p.error
		default:
			panic(p)
		}
	}()
	return c.check(b)
}

// failure is the panic with which must ends a check. Must does not call t.Fatal, since the checks
// are tested themselves.
type failure struct{ error }

// must ends the check if a call of the step has failed.
func must(call string, err error) {
	if err != nil {
		panic(failure{fmt.Errorf("%s: %w", call, err)})
	}
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
		{"an out-of-memory error is not any error", (*bench[S, B]).checksOutOfMemory},
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

func (b *bench[S, B]) step() trainer.Step[S, B] {
	s := b.newStep(b.t)
	b.seed(s, trainer.SeedOptions{})
	return s
}

// seed seeds the random numbers and begins a pass over the training set.
func (b *bench[S, B]) seed(s trainer.Step[S, B], o trainer.SeedOptions) {
	must("Seed", s.Seed(42, o))
	must("StartLoader", s.StartLoader(true))
}

func (b *bench[S, B]) collate(s trainer.Step[S, B], samples []S) B {
	batch, err := s.Collate(samples)
	must("Collate", err)
	return batch
}

func (b *bench[S, B]) report(s trainer.Step[S, B]) trainer.Report {
	r, err := s.Report(context.Background())
	must("Report", err)
	return r
}

// windows trains updates with windows of two micro-batches and returns the loss and the norm
// reported after each.
func (b *bench[S, B]) windows(s trainer.Step[S, B], updates int) []float64 {
	return b.windowsOf(s, updates, s.Train)
}

// windowsOf is windows with another function instead of Train.
func (b *bench[S, B]) windowsOf(s trainer.Step[S, B], updates int,
	train func(context.Context, B, trainer.Window) error) (losses []float64) {
	ctx, half := context.Background(), len(b.samples)/2
	for range updates {
		batches := []B{b.collate(s, b.samples[:half]), b.collate(s, b.samples[half:])}
		items := s.Count(batches[0]).Items + s.Count(batches[1]).Items
		for i, batch := range batches {
			must("Train", train(ctx, batch, trainer.Window{Index: i, Len: 2, Divisor: 2, Items: items}))
		}
		must("Clip", s.Clip(ctx))
		_, err := s.Update(ctx, rate)
		must("Update", err)
		r := b.report(s)
		losses = append(losses, r.LossSum, r.GradNorm)
	}
	return losses
}

func (b *bench[S, B]) evaluate(s trainer.Step[S, B]) float64 {
	must("StartLoader", s.StartLoader(false))
	must("Eval", s.Eval(context.Background(), b.collate(s, b.samples)))
	m, err := s.Metrics(context.Background())
	must("Metrics", err)
	loss, ok := m["loss"]
	if !ok {
		panic(failure{fmt.Errorf("the metrics %v have no \"loss\"", m)})
	}
	return loss
}

// same compares lists of numbers to the last bit.
func same(what string, want, got []float64) error {
	bits := func(x, y float64) bool { return math.Float64bits(x) == math.Float64bits(y) }
	if !slices.EqualFunc(want, got, bits) {
		return fmt.Errorf("%s: losses and norms are %v, want %v", what, got, want)
	}
	return nil
}

// twice compares what two steps compute; run does to the second something that should make no
// difference.
func (b *bench[S, B]) twice(what string, run func(s trainer.Step[S, B], second bool) []float64) error {
	return same(what, run(b.step(), false), run(b.step(), true))
}

func (b *bench[S, B]) repeatable() error {
	return b.twice("the second run", func(s trainer.Step[S, B], _ bool) []float64 { return b.windows(s, 3) })
}

func (b *bench[S, B]) reportStartsOver() error {
	s := b.step()
	b.windows(s, 1) // windows ends with a report
	if r := b.report(s); r.LossSum != 0 {
		return fmt.Errorf("a report right after a report has the loss %v, want 0", r.LossSum)
	}
	return nil
}

func (b *bench[S, B]) divides() error {
	var sums [2]float64
	for i, divisor := range []float64{1, 4} {
		s := b.step()
		batch := b.collate(s, b.samples)
		if s.Count(batch).Items > 0 {
			return skipped("the step divides by its items")
		}
		must("Train", s.Train(context.Background(), batch, trainer.Window{Len: 1, Divisor: divisor}))
		sums[i] = b.report(s).LossSum
	}
	if want := sums[0] / 4; math.Abs(sums[1]-want) > 1e-6*math.Abs(want) {
		return fmt.Errorf("with divisor 4 the loss is %v, want a quarter of %v", sums[1], sums[0])
	}
	return nil
}

func (b *bench[S, B]) evaluationIsPure() error {
	return b.twice("with an evaluation after the first update", func(s trainer.Step[S, B], second bool) []float64 {
		first := b.windows(s, 1)
		if second {
			b.evaluate(s)
		} else { // the loader may draw a number; the evaluation itself must not
			must("StartLoader", s.StartLoader(false))
		}
		return append(first, b.windows(s, 2)...)
	})
}

func (b *bench[S, B]) metricsStartOver() error {
	s := b.step()
	return same("the second evaluation", []float64{b.evaluate(s)}, []float64{b.evaluate(s)})
}

func (b *bench[S, B]) continues() error {
	s := b.step()
	if !s.About().Saves {
		return errCannotSave
	}
	b.windows(s, 2)
	dir := b.t.TempDir()
	must("Save", s.Save(dir, trainer.SaveOptions{}))
	want := b.windows(s, 3)
	other := b.step()
	b.windows(other, 1) // Load does not require a fresh step
	must("Load", other.Load(dir, trainer.LoadOptions{}))
	return same("after Load", want, b.windows(other, 3))
}

func (b *bench[S, B]) refusedLoadIsPure() error {
	if !b.step().About().Saves {
		return errCannotSave
	}
	return b.twice("after a Load that failed", func(s trainer.Step[S, B], second bool) []float64 {
		b.windows(s, 1)
		if second && s.Load(b.t.TempDir(), trainer.LoadOptions{}) == nil {
			panic(failure{errors.New("Load of an empty folder: no error")})
		}
		return b.windows(s, 2)
	})
}

func (b *bench[S, B]) loadsWeights() error {
	s := b.step()
	if !s.About().Saves {
		return errCannotSave
	}
	dir := b.t.TempDir()
	must("Save", s.Save(dir, trainer.SaveOptions{}))
	before := b.evaluate(s)
	b.windows(s, 2)
	if b.evaluate(s) == before {
		return fmt.Errorf("two updates left the evaluation loss at %v: this check would not notice wrong weights", before)
	}
	must("Load of the weights", s.Load(dir, trainer.LoadOptions{WeightsOnly: true}))
	return same("the evaluation of loaded weights", []float64{before}, []float64{b.evaluate(s)})
}

// reseeds checks that the model is not made again: in that case the losses would be those of the
// beginning.
func (b *bench[S, B]) reseeds() error {
	s := b.step()
	before := b.windows(s, 2)
	b.seed(s, trainer.SeedOptions{KeepModel: true})
	if after := b.windows(s, 2); same("", before, after) == nil {
		return fmt.Errorf("after Seed with KeepModel the losses and norms are those of the beginning, %v: the model "+
			"was made again", after)
	}
	return nil
}

func (b *bench[S, B]) zeroesGradients() error {
	return b.twice("after ZeroGrad", func(s trainer.Step[S, B], second bool) []float64 {
		if second { // a window without an update
			window := trainer.Window{Len: 2, Divisor: 2}
			must("Train", s.Train(context.Background(), b.collate(s, b.samples), window))
			must("ZeroGrad", s.ZeroGrad())
			b.report(s)
			b.seed(s, trainer.SeedOptions{})
		}
		return b.windows(s, 1)
	})
}

func (b *bench[S, B]) checksOutOfMemory() error {
	s := b.step()
	if s.OutOfMemory(nil) || s.OutOfMemory(errors.New("out of luck")) {
		return errors.New("OutOfMemory takes any error for one of memory")
	}
	return nil
}
