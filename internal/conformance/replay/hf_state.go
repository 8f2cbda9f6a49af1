package replay

import (
	"encoding/json"
	"os"
	"path/filepath"

	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/internal/conformance/trace"
	"github.com/gotrainer/gotrainer/trainer"
)

// hfState is trainer_state.json of a checkpoint, without the log and the states of callbacks.
type hfState map[string]any

func readState(checkpoint string) hfState {
	state := spec.Must(trace.Parse(spec.Must(os.ReadFile(filepath.Join(checkpoint, "trainer_state.json")))))
	delete(state, "log_history")
	delete(state, "stateful_callbacks")
	if best, ok := state["best_model_checkpoint"].(string); ok {
		state["best_model_checkpoint"] = filepath.Base(best)
	}
	return state
}

// int is a whole number of the state; 0 if it is absent.
func (s hfState) int(name string) int64 {
	v, ok := s[name]
	if !ok {
		return 0
	}
	n, _ := v.(json.Number)
	i, err := n.Int64()
	if err != nil {
		spec.Failf("trainer_state.json: %s is %v, want a whole number", name, v)
	}
	return i
}

// readLog is the log of a checkpoint.
func readLog(checkpoint string) []any {
	var state struct {
		Log []trainer.Logs `json:"log_history"`
	}
	text := spec.Must(os.ReadFile(filepath.Join(checkpoint, "trainer_state.json")))
	spec.Check(json.Unmarshal(text, &state))
	return logRows(state.Log)
}
