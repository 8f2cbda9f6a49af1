package modeltest

import (
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// TRLSettings are the settings of one of TRL's trainers that say how it runs.
type TRLSettings struct {
	MaxSteps      int `json:"max_steps"`
	Accumulate    int `json:"gradient_accumulation_steps"`
	Logging       int `json:"logging_steps"`
	BF16          bool
	Checkpointing bool `json:"gradient_checkpointing"`
}

// TRLRun trains a task as one of TRL's trainers does, and evaluates it. It returns the rows of the
// log, and the metrics.
func TRLRun[S, B any](t *testing.T, task engine.Task[S, B], s TRLSettings, train, eval []S) (rows []trainer.Logs,
	metrics map[string]float64) {
	t.Helper()
	optimizer, err := optim.ByName("adamw_torch_fused", optim.Arguments{LearningRate: 1e-3})
	require.NoError(t, err)
	o := engine.Options{Optimizer: optimizer, GradientCheckpointing: s.Checkpointing}
	if s.BF16 {
		o.Precision = amp.BF16
	}
	step, err := engine.New(task, o)
	require.NoError(t, err)
	fit, err := trainer.New(step, trainer.Options{MaxSteps: s.MaxSteps, BatchSize: 4, EvalBatchSize: 8,
		Accumulate: max(1, s.Accumulate), Log: trainer.Every(max(1, s.Logging), trainer.Update), Save: trainer.Never,
		Semantics: semantics.HuggingFace, Progress: io.Discard})
	require.NoError(t, err)
	result, err := fit.Fit(t.Context(), data.Slice[S](train), nil)
	require.NoError(t, err)
	metrics, err = fit.Evaluate(t.Context(), data.Slice[S](eval))
	require.NoError(t, err)
	rows = slices.DeleteFunc(result.History, func(l trainer.Logs) bool { _, ok := l["loss"]; return !ok })
	return rows, metrics
}

// SameTRLRun is [TRLRun] that compares: logs are the recorded rows of the training and, last, the
// evaluation; final are the recorded weights that were trained.
func SameTRLRun[S, B any](t *testing.T, task engine.Task[S, B], s TRLSettings, train, eval []S,
	logs []map[string]string, final map[string]string) {
	t.Helper()
	share := 1e-3
	if s.BF16 {
		share = 5e-2
	}
	rows, metrics := TRLRun(t, task, s, train, eval)
	require.Len(t, rows, len(logs)-1)
	for i, row := range rows {
		SameNumbers(t, logs[i], row, share)
	}
	if testenv.SameBits() {
		assert.Equal(t, final, Trained(task.Model()))
		share = 1e-5
	}
	// The mean over all samples or tokens has another order of sums.
	CloseNumbers(t, logs[len(rows)], metrics, share)
}

// CloseNumbers compares recorded numbers of a log or of an evaluation, whose names begin with eval_,
// within a share of 1 and of themselves.
func CloseNumbers(t *testing.T, recorded map[string]string, got map[string]float64, share float64) {
	t.Helper()
	for name, want := range recorded {
		w, err := strconv.ParseFloat(want, 64)
		require.NoError(t, err)
		assert.InDelta(t, w, got[strings.TrimPrefix(name, "eval_")], share*(1+max(w, -w)), name)
	}
}
