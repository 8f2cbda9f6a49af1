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

// lists maps the names in vectors.json to the functions that check them.
var lists = map[string]func(c *check, raw json.RawMessage){
	"cer_wer":             rows(errorRates),
	"classification":      rows(classification),
	"ctc_greedy":          rows(greedy),
	"reverse_digits":      rows(reverseDigits),
	"normalizer":          normalizer,
	"valid_text":          validText,
	"default_ocr_charset": charset,
	"padding":             rows(padding),
	"shift_right":         rows(shiftRight),
	"sampler":             rows(sampler),
	"seqeval":             seqeval,
}

func functions(name string, fields map[string]json.RawMessage) (outcomes []Outcome) {
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		if key == "env" {
			continue
		}
		outcomes = append(outcomes, try(name+"/"+key, func(c *check) {
			compare, ok := lists[key]
			if !ok {
				spec.Refusef("the list %s", key)
			}
			compare(c, fields[key])
		}))
	}
	return outcomes
}

// rows decodes a list and checks each row; at identifies the row in messages.
func rows[T any](each func(c *check, at string, row T)) func(c *check, raw json.RawMessage) {
	return func(c *check, raw json.RawMessage) {
		list := decode[[]T](raw)
		if len(list) == 0 {
			spec.Failf("the list is empty")
		}
		for i, row := range list {
			each(c, fmt.Sprintf("row %d", i), row)
		}
	}
}

// score returns the metric over a set, rounded.
func score[P any](m metrics.Metric[P], predictions, references []P, key string, decimals int) float64 {
	for i := range predictions {
		m.Add(predictions[i], references[i])
	}
	return metrics.Round(m.Result()[key], decimals)
}

func errorRates(c *check, at string, r struct {
	Predictions, References []string
	CER                     any
	CERConcatenated         any `json:"cer_concatenated"`
	WER                     any
	WERConcatenated         any `json:"wer_concatenated"`
	Rounded                 any `json:"cer_4_decimals"`
}) {
	const decimals = 10 // as in the recording

	// Only joined texts may differ in number.
	for len(r.Predictions) < len(r.References) {
		r.Predictions = append(r.Predictions, "")
	}
	for len(r.References) < len(r.Predictions) {
		r.References = append(r.References, "")
	}
	// With concatenate_texts, Hezar joins texts only for the CER: for the WER, jiwer sums over the
	// pairs.
	cer := &metrics.CER{CollapseSpaces: true}
	for name, k := range map[string]struct {
		m        metrics.Metric[string]
		decimals int
		want     any
	}{
		"cer":              {&metrics.CER{CollapseSpaces: true}, decimals, r.CER},
		"cer_concatenated": {&metrics.Concatenated{Of: cer}, decimals, r.CERConcatenated},
		"wer":              {&metrics.WER{}, decimals, r.WER},
		"wer_concatenated": {&metrics.WER{}, decimals, r.WERConcatenated},
		"cer_4_decimals":   {&metrics.CER{CollapseSpaces: true}, 4, r.Rounded},
	} {
		got := score(k.m, r.Predictions, r.References, k.m.Name(), k.decimals)
		if want, ok := k.want.(float64); ok {
			c.metric(at+": "+name, got, want)
		} else if math.IsNaN(got) || math.IsInf(got, 0) {
			// Where Hezar divides by zero, the rate here is the number of edits.
			spec.Failf("%s: %s is %v; want a number, where Hezar says %v", at, name, got, k.want)
		}
	}
}

func classification(c *check, at string, r struct {
	Predictions, Labels             []int
	Accuracy, Precision, Recall, F1 float64
}) {
	for key, want := range map[string]float64{"accuracy": r.Accuracy, "precision": r.Precision, "recall": r.Recall,
		"f1": r.F1} {
		var m metrics.Metric[int] = &metrics.F1{Average: metrics.Macro()}
		if key == "accuracy" {
			m = &metrics.Accuracy[int]{}
		}
		c.metric(at+": "+key, score(m, r.Predictions, r.Labels, key, hezarDecimals), want)
	}
}

// hezarDecimals is the number of decimals that Hezar rounds metrics to by default.
const hezarDecimals = 4

func seqeval(c *check, raw json.RawMessage) {
	rows(func(c *check, at string, r struct {
		Predictions, References         [][]string
		Precision, Recall, F1, Accuracy float64
	}) {
		for key, want := range map[string]float64{"precision": r.Precision, "recall": r.Recall, "f1": r.F1,
			"accuracy": r.Accuracy} {
			c.metric(at+": "+key, score(&metrics.Seqeval{}, r.Predictions, r.References, key, hezarDecimals), want)
		}
	})(c, decode[struct{ Rows json.RawMessage }](raw).Rows)
}

func greedy(c *check, at string, r struct{ Argmax, Greedy, Padded []int64 }) {
	got := append([]int64{}, crnn.Greedy(r.Argmax)...)
	c.equal(at+": greedy", got, append([]int64{}, r.Greedy...))
	c.equal(at+": padded", append(got, make([]int64, len(r.Argmax)-len(got))...), r.Padded)
}

func reverseDigits(c *check, _ string, r struct{ In, Out string }) {
	c.equal(fmt.Sprintf("%q reversed", r.In), text.ReverseDigits(r.In), r.Out)
}

func normalizer(c *check, raw json.RawMessage) {
	list := decode[struct {
		Patterns hezar.Patterns
		Rows     json.RawMessage
	}](raw)
	plain := spec.Must(hezar.NewNormalizer(hezar.NormalizerConfig{}))
	with := spec.Must(hezar.NewNormalizer(hezar.NormalizerConfig{ReplacePatterns: list.Patterns}))
	rows(func(c *check, _ string, r struct {
		In, Default  string
		WithPatterns string `json:"with_patterns"`
	}) {
		c.equal(fmt.Sprintf("%q normalized", r.In), plain.Normalize(r.In), r.Default)
		c.equal(fmt.Sprintf("%q normalized with patterns", r.In), with.Normalize(r.In), r.WithPatterns)
	})(c, list.Rows)
}

func validText(c *check, raw json.RawMessage) {
	list := decode[struct {
		Charset []string
		Rows    json.RawMessage
	}](raw)
	rows(func(c *check, _ string, r struct {
		In    string
		Valid bool
	}) {
		c.equal(fmt.Sprintf("whether %q is valid", r.In), datasets.IsTextValid(r.In, list.Charset), r.Valid)
	})(c, list.Rows)
}

func charset(c *check, raw json.RawMessage) {
	want := decode[map[int]string](raw)
	got := datasets.DefaultCharset()
	c.equal("the number of labels", len(got), len(want))
	for i, label := range got {
		c.equal(fmt.Sprintf("label %d", i), label, want[i])
	}
}

func padding(c *check, at string, r struct {
	Inputs     [][]int64
	Padding    any    // a string, null, or something that Hezar refuses
	Side       string `json:"padding_side"`
	PadID      int64  `json:"pad_id"`
	MaxLength  *int   `json:"max_length"`
	Truncation *bool
	Out        json.RawMessage
}) {
	if r.Padding == nil {
		r.Padding = ""
	}
	o := datasets.PadOptions{Padding: fmt.Sprint(r.Padding), Left: r.Side != "" && r.Side != "right", PadID: r.PadID,
		NoTruncation: r.Truncation != nil && !*r.Truncation}
	if r.MaxLength != nil {
		o.MaxLength, o.ZeroLength = *r.MaxLength, *r.MaxLength == 0
	}
	got, err := datasets.PadBatch(r.Inputs, o)
	var want [][]int64
	if json.Unmarshal(r.Out, &want) == nil {
		c.equal(fmt.Sprintf("%s (error %v)", at, err), fmt.Sprint(got), fmt.Sprint(want))
	} else if err == nil {
		spec.Failf("%s: padded to %v; Hezar says %s", at, got, r.Out)
	}
}

func shiftRight(c *check, at string, r struct {
	IDs        [][]int64
	Pad, Start int64
	Out        [][]int64
}) {
	c.equal(at, datasets.ShiftTokensRight(r.IDs, r.Pad, r.Start), r.Out)
}

func sampler(c *check, at string, r struct {
	N, Len     int
	BatchSize  int `json:"batch_size"`
	StartIndex int `json:"start_index"`
	Shuffle    bool
	Seed       uint64
	Batches    [][]int
}) {
	var order data.Order = data.Sequential{}
	if r.Shuffle {
		order = data.PythonShuffled{Seed: r.Seed}
	}
	indices := order.Indices(0, r.N)
	c.equal(at+": len", len(indices), r.Len)
	c.equal(at+": batches", fmt.Sprint(slices.Collect(slices.Chunk(indices[min(r.StartIndex, r.N):], r.BatchSize))),
		fmt.Sprint(r.Batches))
}
