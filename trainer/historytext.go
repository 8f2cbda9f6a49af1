package trainer

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
)

// historyText is the log as trainer_state.json has it. Every checkpoint holds the whole log, so
// each row is encoded once and kept: encoding 40,000 rows again takes longer than 100 updates of a
// small model.
type historyText struct {
	text bytes.Buffer // the rows, indented, with commas between them
	rows int          // how many
}

// encode adds the rows that history has gained since the last call.
func (t *historyText) encode(history []Logs) error {
	for _, row := range history[t.rows:] {
		text, err := row.MarshalJSON()
		if err != nil {
			return err
		}
		if t.rows > 0 {
			t.text.WriteByte(',')
		}
		t.text.WriteString("\n    ")
		if err := json.Indent(&t.text, text, "    ", "  "); err != nil {
			return err
		}
		t.rows++
	}
	return nil
}

var errNoHistory = errors.New("it has no place for the log")

// writeState writes s, whose log is that of t, as writeJSON would.
func (t *historyText) writeState(path string, s savedState) error {
	err := t.encode(s.LogHistory)
	if err != nil {
		return fmt.Errorf("%s: %w", stateFile, err)
	}
	if t.rows == 0 {
		return writeJSON(path, s)
	}
	s.LogHistory = []Logs{}
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return fmt.Errorf("%s: %w", stateFile, err)
	}
	// no string of JSON contains this, since its quotes would be escaped
	head, tail, ok := bytes.Cut(text, []byte(`"log_history": []`))
	if !ok {
		return fmt.Errorf("%s: %w", stateFile, errNoHistory)
	}
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	for _, part := range [][]byte{head, []byte(`"log_history": [`), t.text.Bytes(), []byte("\n  ]"), tail, {'\n'}} {
		if err == nil {
			_, err = f.Write(part)
		}
	}
	return errors.Join(err, f.Close())
}
