package trainer

import (
	"context"
	"fmt"

	"github.com/gotrainer/gotrainer/data"
)

// BaseStep is what a [Step] embeds that has only the six methods of the arithmetic: Collate, Train,
// Update, Report, Eval and Metrics. Its About is the zero value, Save, Load and SetMomentum return
// an error, and the other methods do nothing.
type BaseStep[S, B any] struct{}

// About is the zero value: the step can do nothing but the arithmetic.
func (BaseStep[S, B]) About() About { return About{} }

// Loader leaves it to the trainer.
func (BaseStep[S, B]) Loader(data.Dataset[S], LoaderOptions) (BatchLoader[B], error) { return nil, nil }

// Count counts nothing.
func (BaseStep[S, B]) Count(B) Counts { return Counts{} }

// Around calls body: the step has no settings of its thread.
func (BaseStep[S, B]) Around(body func() error) error { return body() }

// Seed does nothing: the step draws no random numbers.
func (BaseStep[S, B]) Seed(uint64, SeedOptions) error { return nil }

// StartLoader does nothing: the step has no generator from which a loader draws.
func (BaseStep[S, B]) StartLoader(bool) error { return nil }

// ZeroGrad does nothing: the step keeps no gradients from one run to the next.
func (BaseStep[S, B]) ZeroGrad() error { return nil }

// Clip does nothing: the step clips in Update, if at all.
func (BaseStep[S, B]) Clip(context.Context) error { return nil }

// SetMomentum is an error: the step has no momentum.
func (BaseStep[S, B]) SetMomentum(float64) error { return errBase("SetMomentum", "SetsMomentum") }

// StartEval does nothing: all evaluations are alike.
func (BaseStep[S, B]) StartEval(Evaluation) error { return nil }

// Save is an error: the step cannot be saved.
func (BaseStep[S, B]) Save(string, SaveOptions) error { return errBase("Save", "Saves") }

// Load is an error: the step cannot be loaded.
func (BaseStep[S, B]) Load(string, LoadOptions) error { return errBase("Load", "Saves") }

// NonFinite names none: the step cannot tell.
func (BaseStep[S, B]) NonFinite() ([]string, error) { return nil, nil }

// EmptyCache does nothing: the step keeps no memory for later.
func (BaseStep[S, B]) EmptyCache() error { return nil }

// OutOfMemory is false: the step cannot tell.
func (BaseStep[S, B]) OutOfMemory(error) bool { return false }

func errBase(method, flag string) error {
	return fmt.Errorf("trainer: the step has only the method %s of trainer.BaseStep: implement its own, and set "+
		"About().%s only then", method, flag)
}
