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
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// Train repeats a shuffled run of transformers' Trainer with batches of four and a learning rate of
// 0.001, and compares the losses and gradient norms of all updates.
func Train[S, B any](t *testing.T, task engine.Task[S, B], samples []S, accumulate int,
	losses, norms []string) *trainer.Trainer[S, B] {
	t.Helper()
	return TrainIn(t, torch.Float32, task, samples, accumulate, losses, norms)
}

// TrainIn is [Train] for a model whose weights have the given dtype, which determines the tolerance
// on other machines.
func TrainIn[S, B any](t *testing.T, d torch.DType, task engine.Task[S, B], samples []S, accumulate int,
	losses, norms []string) *trainer.Trainer[S, B] {
	t.Helper()
	share := 1e-3
	if d == torch.BFloat16 || d == torch.Float16 {
		share = 5e-2 // 16-bit floats have two or three digits, and each update rounds to them
	}
	return TrainWithin(t, share, task, samples, accumulate, losses, norms)
}

// TrainWithin is [Train] with the given relative tolerance on other machines.
func TrainWithin[S, B any](t *testing.T, share float64, task engine.Task[S, B], samples []S, accumulate int,
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
		sameNumber(t, fmt.Sprintf("loss of update %d", i+1), h["loss"], losses[i], share)
		sameNumber(t, fmt.Sprintf("gradient norm of update %d", i+1), h["grad_norm"], norms[i], share)
	}
	return fit
}

// SameNumber compares a number with a recorded one in hexadecimal.
func SameNumber(t *testing.T, name string, got any, want string) {
	t.Helper()
	sameNumber(t, name, got, want, 1e-3)
}

// sameNumber is SameNumber with the given tolerance on other machines.
func sameNumber(t *testing.T, name string, got any, want string, share float64) {
	t.Helper()
	w, err := strconv.ParseFloat(want, 64)
	require.NoError(t, err)
	g, _ := got.(float64)
	if testenv.SameBits() {
		assert.Equal(t, w, g, name)
	} else {
		assert.InDelta(t, w, g, share+math.Abs(w)*share, name)
	}
}
