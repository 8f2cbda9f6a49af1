package trainer_test

import (
	"context"
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// shapeError is a panic like those of package torch.
type shapeError struct{}

func (shapeError) Error() string { return "add: the shapes do not fit" }
func (shapeError) TorchError()   {}

type miscalculates struct{}

func (miscalculates) AfterUpdate(*trainer.Run) error { panic(shapeError{}) }

func TestAnErrorOfATensorInAHookNamesTheHook(t *testing.T) {
	fit, err := trainer.New[int, []int](new(trainertest.Step), trainer.Options{MaxSteps: 2, Progress: io.Discard,
		Callbacks: []any{miscalculates{}}})
	require.NoError(t, err)
	_, err = fit.Fit(t.Context(), trainertest.Samples(10), nil)
	var hook *trainer.HookError
	require.ErrorAs(t, err, &hook)
	assert.Equal(t, "trainer_test.miscalculates", hook.Hook)
	assert.Equal(t, "AfterUpdate", hook.Event)
	assert.ErrorAs(t, err, new(shapeError))
}

type miscalculating struct{ trainertest.Step }

func (*miscalculating) Train(context.Context, []int, trainer.Window) error { panic(shapeError{}) }

// A hook around an epoch contains the loop: a tensor's error in it is an error of the step.
func TestAnErrorOfATensorPassesThroughHooksAroundTheEpoch(t *testing.T) {
	fit, err := trainer.New[int, []int](new(miscalculating), trainer.Options{MaxSteps: 2, Progress: io.Discard,
		Callbacks: []any{&aroundEpoch{}}})
	require.NoError(t, err)
	_, err = fit.Fit(t.Context(), trainertest.Samples(10), nil)
	assert.ErrorAs(t, err, new(shapeError))
	assert.NotErrorAs(t, err, new(*trainer.HookError))
}
