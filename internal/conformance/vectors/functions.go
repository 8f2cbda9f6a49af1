package vectors

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/gotrainer/gotrainer/compat/hezar/datasets"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/models/crnn"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/text/hezar"
)

// lists are the functions of vectors.json.
var lists = map[string]func(c *check, raw json.RawMessage) error{
	"cer_wer":             errorRates,
	"classification":      classification,
	"ctc_greedy":          greedy,
	"reverse_digits":      reverseDigits,
	"normalizer":          normalizer,
	"valid_text":          validText,
	"default_ocr_charset": charset,
	"padding":             padding,
	"shift_right":         shiftRight,
	"sampler":             sampler,
	"seqeval":             entities,
}

func functions(name string, fields map[string]json.RawMessage) (outcomes []Outcome) {
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if key == "env" {
			continue
		}
		compare, ok := lists[key]
		if !ok {
			outcomes = append(outcomes, Outcome{Name: name + "/" + key, Err: spec.Unsupportedf("the list %s", key)})
			continue
		}
		outcomes = append(outcomes, try(name+"/"+key, func(c *check) error { return compare(c, fields[key]) }))
	}
	return outcomes
}

// rows decodes a list and compares each row.
func rows[T any](raw json.RawMessage, each func(i int, row T)) error {
	var list []T
	if err := json.Unmarshal(raw, &list); err != nil {
		return err
	}
	if len(list) == 0 {
		return fmt.Errorf("the list is empty")
	}
	for i, row := range list {
		each(i, row)
	}
	return nil
}

// score is what a metric gives for a set, to so many decimals.
func score[P any](m metrics.Metric[P], predictions, references []P, key string, decimals int) float64 {
	for i := range predictions {
		m.Add(predictions[i], references[i])
	}
	return metrics.Round(m.Result()[key], decimals)
}

func errorRates(c *check, raw json.RawMessage) error {
	const decimals = 10 // of the recording
	type row struct {
		Predictions, References []string
		CER                     any
		CERConcatenated         any `json:"cer_concatenated"`
		WER                     any
		WERConcatenated         any `json:"wer_concatenated"`
		Rounded                 any `json:"cer_4_decimals"`
	}
	return rows(raw, func(i int, r row) {
		for len(r.Predictions) < len(r.References) { // only texts that are joined may differ in number
			r.Predictions = append(r.Predictions, "")
		}
		for len(r.References) < len(r.Predictions) {
			r.References = append(r.References, "")
		}
		// With concatenate_texts Hezar joins texts for the CER alone: jiwer sums the words of the
		// pairs.
		for name, k := range map[string]struct {
			m        metrics.Metric[string]
			decimals int
			want     any
		}{
			"cer": {&metrics.CER{CollapseSpaces: true}, decimals, r.CER},
			"cer_concatenated": {&metrics.Concatenated{Of: &metrics.CER{CollapseSpaces: true}}, decimals,
				r.CERConcatenated},
			"wer":              {&metrics.WER{}, decimals, r.WER},
			"wer_concatenated": {&metrics.WER{}, decimals, r.WERConcatenated},
			"cer_4_decimals":   {&metrics.CER{CollapseSpaces: true}, 4, r.Rounded},
		} {
			got, what := score(k.m, r.Predictions, r.References, k.m.Name(), k.decimals), fmt.Sprintf("row %d: %s", i,
				name)
			if want, ok := k.want.(float64); ok {
				c.metric(what, got, want)
			} else if math.IsNaN(got) || math.IsInf(got, 0) {
				// Hezar divides by zero; here the rate is the number of edits
				c.fail("%s is %v; want a number, where Hezar says %v", what, got, k.want)
			}
		}
	})
}

func classification(c *check, raw json.RawMessage) error {
	const decimals = 4 // Hezar's default
	type row struct {
		Predictions, Labels             []int
		Accuracy, Precision, Recall, F1 float64
	}
	return rows(raw, func(i int, r row) {
		of := func(key string, m metrics.Metric[int], want float64) {
			c.metric(fmt.Sprintf("row %d: %s", i, key), score(m, r.Predictions, r.Labels, key, decimals), want)
		}
		of("accuracy", &metrics.Accuracy[int]{}, r.Accuracy)
		of("precision", &metrics.F1{Average: metrics.Macro()}, r.Precision)
		of("recall", &metrics.F1{Average: metrics.Macro()}, r.Recall)
		of("f1", &metrics.F1{Average: metrics.Macro()}, r.F1)
	})
}

func entities(c *check, raw json.RawMessage) error {
	const decimals = 4
	type row struct {
		Predictions, References         [][]string
		Precision, Recall, F1, Accuracy float64
	}
	var list struct{ Rows json.RawMessage }
	if err := json.Unmarshal(raw, &list); err != nil {
		return err
	}
	return rows(list.Rows, func(i int, r row) {
		for key, want := range map[string]float64{"precision": r.Precision, "recall": r.Recall, "f1": r.F1,
			"accuracy": r.Accuracy} {
			c.metric(fmt.Sprintf("row %d: %s", i, key), score(&metrics.Seqeval{}, r.Predictions, r.References, key,
				decimals), want)
		}
	})
}

func greedy(c *check, raw json.RawMessage) error {
	type row struct{ Argmax, Greedy, Padded []int64 }
	return rows(raw, func(i int, r row) {
		got := crnn.Greedy(r.Argmax)
		c.equal(fmt.Sprintf("row %d: greedy", i), append([]int64{}, got...), append([]int64{}, r.Greedy...))
		c.equal(fmt.Sprintf("row %d: padded", i), append(append([]int64{}, got...),
			make([]int64, len(r.Argmax)-len(got))...), r.Padded)
	})
}

func reverseDigits(c *check, raw json.RawMessage) error {
	return rows(raw, func(_ int, r struct{ In, Out string }) {
		c.equal(fmt.Sprintf("%q reversed", r.In), text.ReverseDigits(r.In), r.Out)
	})
}

func normalizer(c *check, raw json.RawMessage) error {
	var list struct {
		Patterns hezar.Patterns
		Rows     json.RawMessage
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return err
	}
	plain, err := hezar.NewNormalizer(hezar.NormalizerConfig{})
	if err != nil {
		return err
	}
	with, err := hezar.NewNormalizer(hezar.NormalizerConfig{ReplacePatterns: list.Patterns})
	if err != nil {
		return err
	}
	type row struct {
		In, Default  string
		WithPatterns string `json:"with_patterns"`
	}
	return rows(list.Rows, func(_ int, r row) {
		c.equal(fmt.Sprintf("%q normalized", r.In), plain.Normalize(r.In), r.Default)
		c.equal(fmt.Sprintf("%q normalized with patterns", r.In), with.Normalize(r.In), r.WithPatterns)
	})
}

func validText(c *check, raw json.RawMessage) error {
	var list struct {
		Charset []string
		Rows    json.RawMessage
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return err
	}
	type row struct {
		In    string
		Valid bool
	}
	return rows(list.Rows, func(_ int, r row) {
		c.equal(fmt.Sprintf("whether %q is valid", r.In), datasets.IsTextValid(r.In, list.Charset), r.Valid)
	})
}

func charset(c *check, raw json.RawMessage) error {
	var want map[int]string
	if err := json.Unmarshal(raw, &want); err != nil {
		return err
	}
	got := datasets.DefaultCharset()
	c.equal("the number of labels", len(got), len(want))
	for i, label := range got {
		c.equal(fmt.Sprintf("label %d", i), label, want[i])
	}
	return nil
}

func padding(c *check, raw json.RawMessage) error {
	type row struct {
		Inputs     [][]int64
		Padding    any    // a text, nothing, or what Hezar refuses
		Side       string `json:"padding_side"`
		PadID      int64  `json:"pad_id"`
		MaxLength  *int   `json:"max_length"`
		Truncation *bool
		Out        json.RawMessage
	}
	return rows(raw, func(i int, r row) {
		if r.Padding == nil {
			r.Padding = ""
		}
		length := 0
		if r.MaxLength != nil {
			length = *r.MaxLength
		}
		got, err := datasets.PadBatch(r.Inputs, datasets.PadOptions{
			Padding: fmt.Sprint(r.Padding), Left: r.Side != "" && r.Side != "right", PadID: r.PadID, MaxLength: length,
			ZeroLength: r.MaxLength != nil && length == 0, NoTruncation: r.Truncation != nil && !*r.Truncation,
		})
		var want [][]int64
		if json.Unmarshal(r.Out, &want) != nil {
			if err == nil {
				c.fail("row %d: padded to %v; Hezar says %s", i, got, r.Out)
			}
			return
		}
		c.equal(fmt.Sprintf("row %d (error %v)", i, err), fmt.Sprint(got), fmt.Sprint(want))
	})
}

func shiftRight(c *check, raw json.RawMessage) error {
	type row struct {
		IDs        [][]int64
		Pad, Start int64
		Out        [][]int64
	}
	return rows(raw, func(i int, r row) {
		c.equal(fmt.Sprintf("row %d", i), datasets.ShiftTokensRight(r.IDs, r.Pad, r.Start), r.Out)
	})
}

func sampler(c *check, raw json.RawMessage) error {
	type row struct {
		N, Len     int
		BatchSize  int `json:"batch_size"`
		StartIndex int `json:"start_index"`
		Shuffle    bool
		Seed       uint64
		Batches    [][]int
	}
	return rows(raw, func(i int, r row) {
		var order data.Order = data.Sequential{}
		if r.Shuffle {
			order = data.PythonShuffled{Seed: r.Seed}
		}
		indices := order.Indices(0, r.N)
		c.equal(fmt.Sprintf("row %d: len", i), len(indices), r.Len)
		c.equal(fmt.Sprintf("row %d: batches", i),
			fmt.Sprint(slices.Collect(slices.Chunk(indices[min(r.StartIndex, r.N):], r.BatchSize))),
			fmt.Sprint(r.Batches))
	})
}
