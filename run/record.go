package run

import (
	"bytes"
	"encoding/json"
	"os"
	"strconv"
	"time"
)

// Record is the last line on standard error, as JSON.
type Record struct {
	Time       time.Time `json:"time"`
	ExitCode   Code      `json:"exit_code"`
	Kind       string    `json:"kind"`                 // ok, training, configuration, ..., terminated
	Error      string    `json:"error,omitempty"`      // the message
	Checkpoint string    `json:"checkpoint,omitempty"` // where an interrupted run was saved
	Update     *int      `json:"update,omitempty"`     // updates made so far, if the error says so

	stack []byte // stack of a panic
}

// line returns the record without a newline.
func (r Record) line() []byte {
	var text bytes.Buffer
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)              // people read it too, and errors have <names> in them
	if err := encoder.Encode(r); err != nil { // strings and numbers only: it cannot fail
		return []byte(`{}`)
	}
	return bytes.TrimSuffix(text.Bytes(), []byte("\n"))
}

// writeTorchrunError writes a failure in the form of ErrorHandler.record_exception of
// torch.distributed.elastic; torchrun prints what is in place of the call stack. An end by a signal
// is not a failure.
func (r Record) writeTorchrunError(path string) error {
	if path == "" || r.Error == "" || r.ExitCode == OK || r.ExitCode > 128 {
		return nil
	}
	type extra struct {
		CallStack string `json:"py_callstack"`
		Timestamp string `json:"timestamp"` // seconds, as text
	}
	type message struct {
		Message   string `json:"message"`
		ExtraInfo extra  `json:"extraInfo"`
		ErrorCode Code   `json:"errorCode"`
	}
	stack := r.Error
	if r.stack != nil {
		stack += "\n" + string(r.stack)
	}
	text, err := json.Marshal(map[string]message{"message": {r.Kind + ": " + r.Error,
		extra{stack, strconv.FormatInt(r.Time.Unix(), 10)}, r.ExitCode}})
	if err != nil {
		return err
	}
	return os.WriteFile(path, text, 0o600)
}
