package hub

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// AddTrainerState fills in Results and History from the content of a checkpoint's
// trainer_state.json, namely its log_history, by the rules of Hugging Face's Trainer. A state
// without evaluations changes nothing.
func (c *ModelCard) AddTrainerState(state []byte) error {
	var file struct {
		LogHistory []json.RawMessage `json:"log_history"`
	}
	if err := json.Unmarshal(state, &file); err != nil {
		return fmt.Errorf("hub: not a trainer_state.json: %w", err)
	}
	var logs []Values
	for i, raw := range file.LogHistory {
		entry, err := orderedObject(raw)
		if err != nil {
			return fmt.Errorf("hub: entry %d of log_history: %w", i, err)
		}
		logs = append(logs, entry)
	}
	c.addLogs(logs)
	return nil
}

// addLogs is parse_log_history of transformers.
func (c *ModelCard) addLogs(logs []Values) {
	last := -1 // the last evaluation
	end := len(logs)
	for i, entry := range logs {
		if _, ok := entry.Get("eval_loss"); ok {
			last = i
		}
		if _, ok := entry.Get("train_runtime"); ok && end == len(logs) {
			end = i // evaluations after training are not rows of the table
		}
	}
	if last < 0 {
		return
	}
	var training any = "No log"
	c.History = nil
	for _, entry := range logs[:end] {
		if loss, ok := entry.Get("loss"); ok {
			training = loss
		}
		if _, ok := entry.Get("eval_loss"); ok {
			c.History = append(c.History, historyRow(training, entry))
		}
	}
	c.Results = nil
	for _, v := range logs[last] {
		name := strings.TrimPrefix(v.Name, "eval_")
		switch name {
		case "runtime", "samples_per_second", "steps_per_second", "epoch", "step":
		default:
			c.Results = append(c.Results, Value{capitalized(strings.Split(name, "_")), v.Value})
		}
	}
}

// historyRow returns an evaluation as a row of the table.
func historyRow(training any, entry Values) Values {
	epoch, _ := entry.Get("epoch")
	step, _ := entry.Get("step")
	row := Values{{"Training Loss", training}, {"Epoch", epoch}, {"Step", step}}
	for _, v := range entry {
		switch v.Name {
		case "total_flos", "epoch", "step", "eval_runtime", "eval_samples_per_second", "eval_steps_per_second":
		case "eval_loss":
			row = append(row, Value{"Validation Loss", v.Value})
		default:
			parts := strings.Split(v.Name, "_")
			row = append(row, Value{capitalized(parts[1:]), v.Value})
		}
	}
	return row
}

// capitalized joins words, each capitalized as by Python's str.capitalize.
func capitalized(words []string) string {
	out := make([]string, len(words))
	for i, w := range words {
		first, size := utf8.DecodeRuneInString(w)
		if size > 0 {
			out[i] = string(unicode.ToTitle(first)) + strings.ToLower(w[size:])
		}
	}
	return strings.Join(out, " ")
}

// orderedObject reads a JSON object and keeps the order of its keys, which a Go map would lose.
// Numbers with a point or an exponent become floats.
func orderedObject(raw []byte) (Values, error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	start, err := decoder.Token()
	if err != nil {
		return nil, err
	}
	if start != json.Delim('{') {
		return nil, fmt.Errorf("want an object, found %v", start)
	}
	var out Values
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return nil, err
		}
		var value any
		if err := decoder.Decode(&value); err != nil {
			return nil, err
		}
		if n, ok := value.(json.Number); ok {
			if value, err = plainNumber(n); err != nil {
				return nil, err
			}
		}
		name, _ := key.(string) // keys are strings: Token has checked that
		out = append(out, Value{name, value})
	}
	return out, nil
}

func plainNumber(n json.Number) (any, error) {
	if strings.ContainsAny(n.String(), ".eE") {
		return n.Float64()
	}
	if i, err := n.Int64(); err == nil {
		return i, nil
	}
	return n.Float64()
}
