package modeltest

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// Train repeats a shuffled run of transformers' Trainer, in batches of four and at a rate of 0.001,
// with the losses and gradient norms of its updates.
func Train[S, B any](t *testing.T, task engine.Task[S, B], samples []S, accumulate int,
	losses, norms []string) *trainer.Trainer[S, B] {
	t.Helper()
	optimizer, err := optim.ByName("adamw_torch_fused", optim.Arguments{LearningRate: 1e-3})
	require.NoError(t, err)
	step, err := engine.New(task, engine.Options{Optimizer: optimizer})
	require.NoError(t, err)
	fit, err := trainer.New(step, trainer.Options{MaxSteps: len(losses), BatchSize: 4, Accumulate: accumulate,
		Log: trainer.Every(1, trainer.Update), Save: trainer.Never, Semantics: semantics.HuggingFace, Progress: io.Discard})
	require.NoError(t, err)
	result, err := fit.Fit(t.Context(), data.Slice[S](samples), nil)
	require.NoError(t, err)
	history := slices.DeleteFunc(result.History, func(l trainer.Logs) bool { _, ok := l["loss"]; return !ok })
	require.Len(t, history, len(losses))
	for i, h := range history {
		SameNumber(t, fmt.Sprintf("loss of update %d", i+1), h["loss"], losses[i])
		SameNumber(t, fmt.Sprintf("gradient norm of update %d", i+1), h["grad_norm"], norms[i])
	}
	return fit
}

// SameNumber compares a number with one that was recorded in hexadecimal.
func SameNumber(t *testing.T, name string, got any, want string) {
	t.Helper()
	w, err := strconv.ParseFloat(want, 64)
	require.NoError(t, err)
	g, _ := got.(float64)
	if testenv.SameBits() {
		assert.Equal(t, w, g, name)
	} else {
		assert.InDelta(t, w, g, 1e-3+math.Abs(w)*1e-3, name)
	}
}
