package trainer

import (
	"bytes"
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/internal/pyfloat"
)

// Logs is one row of the log. The names are those of Hugging Face's Trainer: "loss",
// "eval_accuracy", "epoch", "step". JSON has no NaN and no infinities; in files they are the
// strings "nan", "inf" and "-inf".
type Logs map[string]float64

// Keys returns the names in the order in which they are shown: first the loss and the numbers that
// belong to it, then the others sorted by name, then epoch and step.
func (l Logs) Keys() []string {
	return slices.SortedFunc(maps.Keys(l), compareKeys)
}

// compareKeys orders the names of log entries as [Logs.Keys] does.
func compareKeys(a, b string) int { return cmp.Or(keyRank(a)-keyRank(b), strings.Compare(a, b)) }

func keyRank(key string) int {
	first, last := []string{"loss", "grad_norm", "learning_rate", "train_loss"}, []string{"epoch", "step"}
	switch {
	case slices.Contains(first, key):
		return slices.Index(first, key)
	case slices.Contains(last, key):
		return 8 + slices.Index(last, key)
	case isTiming(key):
		return 7
	case strings.HasSuffix(key, "_loss"):
		return 4
	default:
		return 5
	}
}

func isTiming(name string) bool {
	return strings.HasSuffix(name, "_runtime") || strings.HasSuffix(name, "_per_second")
}

// MarshalJSON writes the row with its names in the order of Keys.
func (l Logs) MarshalJSON() ([]byte, error) {
	out := []byte{'{'}
	for i, k := range l.Keys() {
		if i > 0 {
			out = append(out, ',')
		}
		name, err := json.Marshal(k)
		if err != nil {
			return nil, err
		}
		value, err := jsonFloat(l[k]).MarshalJSON()
		if err != nil {
			return nil, err
		}
		if k == "step" || k == "num_input_tokens_seen" { // these two are whole numbers in Python
			value = bytes.TrimSuffix(value, []byte(".0"))
		}
		out = append(append(append(out, name...), ':'), value...)
	}
	return append(out, '}'), nil
}

// UnmarshalJSON reads rows written by MarshalJSON and by Hugging Face's Trainer.
func (l *Logs) UnmarshalJSON(text []byte) error {
	var row map[string]jsonFloat
	if err := json.Unmarshal(text, &row); err != nil {
		return err
	}
	*l = make(Logs, len(row))
	for k, v := range row {
		(*l)[k] = float64(v)
	}
	return nil
}

type jsonFloat = pyfloat.JSON
