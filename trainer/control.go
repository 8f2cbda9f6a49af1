package trainer

import "encoding/json"

// Control holds the decisions that hooks may change. It is Hugging Face's TrainerControl, with the
// same names and lifetimes. The loop sets what is due before it calls the hooks of an event, so a
// hook can also clear a decision.
type Control struct {
	ShouldTrainingStop bool `json:"should_training_stop"` // end the run after this update; never cleared within a run
	// ShouldEpochStop ends the epoch after this update; it is cleared when an epoch begins.
	ShouldEpochStop bool `json:"should_epoch_stop"`
	ShouldSave      bool `json:"should_save"` // these three are cleared when a window begins
	ShouldEvaluate  bool `json:"should_evaluate"`
	ShouldLog       bool `json:"should_log"`
}

// exported returns the control as transformers writes it among the states of its callbacks. A
// resume here uses the position of the loop instead.
func (c Control) exported() (json.RawMessage, error) {
	return json.Marshal(map[string]any{"args": c, "attributes": struct{}{}})
}
