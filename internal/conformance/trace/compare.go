package trace

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/internal/conformance/spec"
)

const (
	rateRTol = 1e-12 // for learning rates, weight decay and epochs
	rateATol = 1e-15

	// ATol is the absolute tolerance for all other numbers.
	ATol = 1e-7
)

var (
	// exactly lists floats that must be equal.
	exactly = []string{"scale", "scale_after"}
	// rates lists numbers that follow from a formula.
	rates = []string{"lr", "lr_after", "learning_rate", "weight_decay", "epoch"}
	// ignored lists fields that are recorded for human readers.
	ignored = []string{"env", "_note"}
	// pythonOnly lists names and values that exist only in Python.
	pythonOnly = []string{"files", "text", "type", "trial_name", "trial_params", "total_flos", "is_hyper_param_search",
		"is_local_process_zero", "is_world_process_zero"}
)

// Verdict is the outcome of a comparison; lower is better.
type Verdict int

const (
	Equal    Verdict = iota // all values are integers, strings or booleans, and are equal
	Bitwise                 // all numbers are bitwise equal
	Within                  // all numbers are within the tolerance
	Mismatch                // some value is not
)

func (v Verdict) String() string {
	return [...]string{"equal", "bitwise", "within rtol", "MISMATCH"}[v]
}

// Row is the outcome for one top-level field, or for the final tensors.
type Row struct {
	Field   string
	Verdict Verdict
	Detail  string  // for humans: what differs, or how many numbers are not bitwise equal
	Worst   float64 // the largest relative difference
	Begins  string  // the first number that is not bitwise equal, such as "updates[3].grad_norm"
}

// Report is the outcome of a comparison by field.
type Report []Row

// Sum summarises a report in one row: the worst verdict, at best [Bitwise], the first mismatch, the
// largest difference, and the first number that is not bitwise equal.
func (r Report) Sum() Row {
	sum := Row{Verdict: Bitwise}
	for _, row := range r {
		if row.Verdict == Mismatch && sum.Verdict != Mismatch {
			sum.Field, sum.Detail = row.Field, row.Detail
		}
		sum.Verdict, sum.Worst = max(sum.Verdict, row.Verdict), max(sum.Worst, row.Worst)
		sum.Begins = cmp.Or(sum.Begins, row.Begins)
	}
	return sum
}

// Read reads the trace.json in the folder of a case.
func Read(dir string) (map[string]any, error) {
	path := filepath.Join(dir, "trace.json")
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	t, err := Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return t, nil
}

// Parse parses the text of a trace.json. Numbers are json.Number.
func Parse(text []byte) (map[string]any, error) {
	o, err := spec.ParseObject(text)
	if err != nil {
		return nil, err
	}
	return o.Map(), nil
}

// order lists fields in the order in which a run computes them, so that the first difference
// reported is the cause of the others.
var order = []string{"phases", "initial", "param_groups", "batches", "micro_losses", "updates", "events", "evaluations",
	"log_history"}

func fields(stored map[string]any) []string {
	all := slices.Sorted(maps.Keys(stored))
	known := slices.DeleteFunc(slices.Clone(order), func(name string) bool { return !slices.Contains(all, name) })
	return append(known, slices.DeleteFunc(all, func(name string) bool { return slices.Contains(order, name) })...)
}

// Compare compares a trace with a stored one. Numbers may differ by rtol, relatively. Fields that
// only got has are ignored; a field that it lacks is a mismatch.
func Compare(stored, got map[string]any, rtol float64) Report {
	var out Report
	refused, ours := truthy(stored["error"]), truthy(got["error"])
	switch {
	case refused:
		row := Row{Field: "error"}
		if !ours {
			row.Verdict, row.Detail = Mismatch, "the peer refused: "+short(stored["error"])
		}
		out = append(out, row)
		if e, ok := stored["error"].(map[string]any); ok && (e["where"] == "arguments" || e["where"] == "trainer" ||
			e["where"] == "setup") {
			return out
		}
	case ours:
		return Report{{Field: "error", Verdict: Mismatch, Detail: "the peer ran, this side: " + short(got["error"])}}
	}
	for _, name := range fields(stored) {
		a := stored[name]
		if slices.Contains(ignored, name) || name == "error" || empty(a) {
			continue
		}
		b, ok := got[name]
		if !ok || b == nil {
			out = append(out, Row{Field: name, Verdict: Mismatch, Detail: "missing"})
			continue
		}
		f := field{rtol: rtol}
		key := name
		if name == "events" {
			key = "epoch"
		}
		f.walk(name, key, a, b)
		out = append(out, f.row(name))
	}
	return out
}

// empty reports whether a value is null, an empty list or an empty object.
func empty(v any) bool {
	switch v := v.(type) {
	case nil:
		return true
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// field compares the values in one top-level field.
type field struct {
	rtol             float64
	worst            float64
	begins           string
	first            string // the first mismatch
	bad              int
	numbers, bitwise int
	hashes, same     int
}

func (f *field) fail(path string, a, b any) { f.failText(path, short(a), short(b)) }

func (f *field) failText(path, a, b string) {
	if f.bad == 0 {
		f.first = fmt.Sprintf("%s: stored %s, got %s", path, a, b)
	}
	f.bad++
}

// walk compares b with the stored value a; key is the name that determines the rule.
func (f *field) walk(path, key string, a, b any) {
	if slices.Contains(pythonOnly, key) {
		return
	}
	switch a := a.(type) {
	case map[string]any:
		f.walkObject(path, key, a, b)
		return
	case []any:
		list, ok := b.([]any)
		if !ok {
			f.failText(path, fmt.Sprintf("%d entries", len(a)), short(b))
			return
		}
		if len(a) != len(list) {
			f.failText(path, fmt.Sprintf("%d entries", len(a)), fmt.Sprintf("%d entries", len(list)))
			return
		}
		for i := range a {
			f.walk(fmt.Sprintf("%s[%d]", path, i), key, a[i], list[i])
		}
		return
	}
	if strings.Contains(key, "sha256") { // only decides "bitwise": see weights_norm
		f.hashes++
		if equal(a, b) {
			f.same++
		} else {
			f.begins = cmp.Or(f.begins, path)
		}
		return
	}
	if key == "error" { // only whether the run was refused matters, not the wording
		if truthy(a) != truthy(b) {
			f.fail(path, a, b)
		}
		return
	}
	f.scalar(path, key, a, b)
}

func (f *field) walkObject(path, key string, a map[string]any, b any) {
	other, ok := b.(map[string]any)
	if !ok {
		f.fail(path, a, b)
		return
	}
	for _, k := range slices.Sorted(maps.Keys(a)) {
		if slices.Contains(pythonOnly, k) {
			continue
		}
		v, ok := other[k]
		if !ok {
			f.failText(path+"."+k, short(a[k]), `"nothing"`)
			continue
		}
		rule := k
		if strings.HasPrefix(k, "checkpoint-") || strings.HasPrefix(k, "step_") || strings.HasPrefix(k, "epoch_") {
			rule = key // folder names do not determine the rule
		}
		f.walk(path+"."+k, rule, a[k], v)
	}
}

func (f *field) scalar(path, key string, a, b any) {
	x, xOK := number(a)
	y, yOK := number(b)
	if a == nil && key == "epoch" { // before the first epoch
		x, xOK = 0, true
		if !yOK {
			y, yOK = 0, true
		}
	}
	if !xOK || !yOK || isInt(a) || slices.Contains(exactly, key) {
		if !equal(a, b) && !(xOK && yOK && x == y) {
			f.fail(path, a, b)
		}
		return
	}
	f.numbers++
	if x == y || math.IsNaN(x) && math.IsNaN(y) {
		f.bitwise++
		return
	}
	f.begins = cmp.Or(f.begins, path)
	if math.IsNaN(x) || math.IsInf(x, 0) || math.IsNaN(y) || math.IsInf(y, 0) {
		f.fail(path, a, b)
		return
	}
	rtol, atol := f.rtol, ATol
	if slices.Contains(rates, key) {
		rtol, atol = rateRTol, rateATol
	}
	apart := math.Abs(x - y)
	relative := apart / max(math.Abs(x), math.Abs(y))
	f.worst = max(f.worst, relative)
	if relative > rtol && apart > atol {
		f.fail(path, a, b)
	}
}

func (f *field) row(name string) Row {
	r := Row{Field: name, Worst: f.worst, Begins: f.begins}
	switch {
	case f.bad > 0:
		r.Verdict, r.Detail = Mismatch, fmt.Sprintf("%d places, first %s", f.bad, f.first)
		return r
	case f.numbers != f.bitwise || f.hashes != f.same:
		r.Verdict = Within
		r.Detail = fmt.Sprintf("%d/%d numbers and %d/%d weight hashes bitwise, worst %.2e", f.bitwise, f.numbers,
			f.same, f.hashes, f.worst)
	case f.numbers > 0 || f.hashes > 0:
		r.Verdict = Bitwise
	}
	return r
}

// equal is Python's == for scalars: True equals 1, and 1 equals 1.0.
func equal(a, b any) bool { return plain(a) == plain(b) }

// plain converts booleans and JSON numbers to floats.
func plain(v any) any {
	switch n := v.(type) {
	case bool:
		if n {
			return 1.0
		}
		return 0.0
	case json.Number:
		f, _ := number(n)
		return f
	}
	return v
}

// truthy is Python's bool().
func truthy(v any) bool {
	switch v := v.(type) {
	case bool:
		return v
	case string:
		return v != ""
	case json.Number:
		f, _ := number(v)
		return f != 0
	}
	return !empty(v)
}

// short formats a value for messages.
func short(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	if len(text) >= 80 {
		return string(text[:77]) + "..."
	}
	return string(text)
}
