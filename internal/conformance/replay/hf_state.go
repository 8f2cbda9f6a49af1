package replay

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gotrainer/gotrainer/internal/conformance/trace"
	"github.com/gotrainer/gotrainer/trainer"
)

// hfState is trainer_state.json of a checkpoint, without the log and the states of callbacks.
type hfState map[string]any

func readState(checkpoint string) (hfState, error) {
	path := filepath.Join(checkpoint, "trainer_state.json")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	state, err := trace.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	delete(state, "log_history")
	delete(state, "stateful_callbacks")
	if best, ok := state["best_model_checkpoint"].(string); ok {
		state["best_model_checkpoint"] = filepath.Base(best)
	}
	return state, nil
}

func (s hfState) int(name string) (int64, error) {
	v, ok := s[name]
	if !ok {
		return 0, nil
	}
	n, ok := v.(json.Number)
	i, err := n.Int64()
	if !ok || err != nil {
		return 0, fmt.Errorf("trainer_state.json: %s is %v, want a whole number", name, v)
	}
	return i, nil
}

// readLog is the log of a checkpoint.
func readLog(checkpoint string) ([]any, error) {
	text, err := os.ReadFile(filepath.Join(checkpoint, "trainer_state.json"))
	if err != nil {
		return nil, err
	}
	var state struct {
		Log []trainer.Logs `json:"log_history"`
	}
	if err := json.Unmarshal(text, &state); err != nil {
		return nil, fmt.Errorf("%s: %w", checkpoint, err)
	}
	rows := []any{}
	for _, row := range state.Log {
		rows = append(rows, logRow(row))
	}
	return rows, nil
}
