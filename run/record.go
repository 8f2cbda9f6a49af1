package run

import (
	"encoding/json"
	"time"
)

// Record is the last line on standard error, as JSON.
type Record struct {
	Time       time.Time `json:"time"`
	ExitCode   Code      `json:"exit_code"`
	Kind       string    `json:"kind"`                 // ok, training, configuration, ..., terminated
	Error      string    `json:"error,omitempty"`      // the message
	Checkpoint string    `json:"checkpoint,omitempty"` // where an interrupted run was saved
	Update     *int      `json:"update,omitempty"`     // updates until then, where the error says so

	stack []byte // of a panic
}

// line is the record without its line end.
func (r Record) line() []byte {
	text, err := json.Marshal(r)
	if err != nil { // strings and numbers only: it cannot fail
		return []byte(`{}`)
	}
	return text
}
