package trainer

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The state is written in the bytes of encoding/json, however the log grows between checkpoints.
func TestHistoryTextIsThatOfJSON(t *testing.T) {
	var text historyText
	best := `runs/"log_history": []/checkpoint-3`
	s := savedState{BestModelCheckpoint: &best, LogHistory: []Logs{}}
	path := filepath.Join(t.TempDir(), stateFile)
	for _, rows := range []int{0, 1, 0, 3, 40} {
		for i := range rows {
			s.LogHistory = append(s.LogHistory, Logs{"loss": 1 / float64(i), "step": float64(len(s.LogHistory)),
				"a<b\xff\u2028": math.NaN(), fmt.Sprint(i): 1e-7})
		}
		require.NoError(t, writeJSON(path, s))
		want, err := os.ReadFile(path)
		require.NoError(t, err)
		require.NoError(t, text.writeState(path, s))
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.Equal(t, string(want), string(got))
		assert.Len(t, s.LogHistory, text.rows)
	}
}

// A checkpoint costs only the rows that are new, not the whole log.
func TestHistoryTextEncodesRowsOnce(t *testing.T) {
	var text historyText
	history := make([]Logs, 5000)
	for i := range history {
		history[i] = Logs{"loss": 1, "step": float64(i)}
	}
	require.NoError(t, text.encode(history))
	allocations := testing.AllocsPerRun(10, func() {
		history = append(history, Logs{"loss": 1, "step": 1})
		if err := text.encode(history); err != nil {
			panic(err)
		}
	})
	assert.Less(t, allocations, 100.0)
}

func BenchmarkStateOfALongLog(b *testing.B) {
	var text historyText
	s := savedState{LogHistory: make([]Logs, 50_000)}
	for i := range s.LogHistory {
		s.LogHistory[i] = Logs{"loss": 1.2345678901234, "grad_norm": 0.123456789012, "learning_rate": 1e-5,
			"epoch": float64(i) / 7, "step": float64(i)}
	}
	path := filepath.Join(b.TempDir(), stateFile)
	for b.Loop() {
		if err := text.writeState(path, s); err != nil {
			b.Fatal(err)
		}
	}
}
