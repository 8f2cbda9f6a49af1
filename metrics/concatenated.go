package metrics

import (
	"errors"
	"strings"
)

// Concatenated scores all texts of the set as one: the predictions joined, against the references
// joined. It is concatenate_texts of Hezar's CER (its WER sums the pairs nevertheless), and what
// [CER] and [WER] of jiwer compute for texts that are split at different places. White space
// around the texts is removed first, and empty texts are skipped.
type Concatenated struct {
	Of        Metric[string] // required
	Delimiter string         // between texts; empty means a space

	predictions, references []string
}

// Name returns the name of the metric.
func (c *Concatenated) Name() string { return c.Of.Name() }

// Add keeps one pair of texts.
func (c *Concatenated) Add(prediction, reference string) {
	keep := func(list []string, text string) []string {
		if text = strip(text); text == "" {
			return list
		}
		return append(list, text)
	}
	c.predictions, c.references = keep(c.predictions, prediction), keep(c.references, reference)
}

// Result returns the metric of the two long texts.
func (c *Concatenated) Result() map[string]float64 {
	delimiter := c.Delimiter
	if delimiter == "" {
		delimiter = " "
	}
	c.Of.Reset()
	c.Of.Add(strings.Join(c.predictions, delimiter), strings.Join(c.references, delimiter))
	return c.Of.Result()
}

// Reset forgets all texts.
func (c *Concatenated) Reset() {
	c.Of.Reset()
	c.predictions, c.references = nil, nil
}

// State implements [Merger].
func (c *Concatenated) State() ([]byte, error) {
	return pack(c.kind(), texts{c.predictions, c.references})
}

// Merge implements [Merger]. The texts of the other metric are appended.
func (c *Concatenated) Merge(state []byte) error {
	var o texts
	if err := unpack(state, c.kind(), &o); err != nil {
		return err
	}
	c.predictions, c.references = append(c.predictions, o.Predictions...), append(c.references, o.References...)
	return nil
}

type texts struct{ Predictions, References []string }

func (c *Concatenated) kind() string { return c.Name() + " of concatenated texts" }

// All is a list of metrics that get the same pairs, named after the first.
type All[P any] []Metric[P]

// Name returns the name of the first metric.
func (a All[P]) Name() string {
	if len(a) == 0 {
		return "nothing"
	}
	return a[0].Name()
}

// Add counts one pair in each metric.
func (a All[P]) Add(prediction, reference P) {
	for _, m := range a {
		m.Add(prediction, reference)
	}
}

// Result returns the numbers of all metrics. If two have the same name, the later one is returned.
func (a All[P]) Result() map[string]float64 {
	result := map[string]float64{}
	for _, m := range a {
		for name, value := range m.Result() {
			result[name] = value
		}
	}
	return result
}

// Reset resets all metrics.
func (a All[P]) Reset() {
	for _, m := range a {
		m.Reset()
	}
}

// State implements [Merger].
func (a All[P]) State() ([]byte, error) {
	states := make([][]byte, len(a))
	for i, m := range a {
		merger, ok := m.(Merger)
		if !ok {
			return nil, errors.New("metrics: state of All: " + m.Name() + " cannot be merged: it has no methods " +
				"State and Merge")
		}
		var err error
		if states[i], err = merger.State(); err != nil {
			return nil, err
		}
	}
	return pack("all", states)
}

// Merge implements [Merger]. After an error, the metrics before the one that failed are already
// merged, so the list must not be used any more.
func (a All[P]) Merge(state []byte) error {
	var states [][]byte
	if err := unpack(state, "all", &states); err != nil {
		return err
	}
	if len(states) != len(a) {
		return impossible("all", "another number of metrics")
	}
	for i, m := range a {
		merger, ok := m.(Merger)
		if !ok {
			return errors.New("metrics: merge of All: " + m.Name() + " cannot be merged: it has no methods State and " +
				"Merge")
		}
		if err := merger.Merge(states[i]); err != nil {
			return err
		}
	}
	return nil
}
