package expected

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/internal/conformance/recorded"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
)

// Options configures [Read].
type Options struct {
	Data        string // folder of the models and data sets that files refer to: models/, mnist/
	PlateReader string // folder of a CRNN that reads licence plates
}

// Entry is one claim of a file.
type Entry struct {
	Name string
	Run  func() error // nil: it holds; an [*Unsupported]: it cannot be tested; otherwise the first difference
}

// Unsupported says why an entry cannot be tested.
type Unsupported = spec.Unsupported

func unsupported(format string, args ...any) { spec.Refusef(format, args...) }

// supported returns v, or makes the entry unsupported because of err.
func supported[T any](v T, err error) T {
	if err != nil {
		unsupported("%v", err)
	}
	return v
}

// document holds the top-level fields of a file.
type document struct {
	fields  map[string]json.RawMessage
	options Options
}

// form is a format. A file may contain several.
type form struct {
	marks   []string // a file with any of these fields has this format
	details []string // further fields of the format
	read    func(d *document) []Entry
}

var forms = []form{
	{[]string{"schedules"}, nil, readSchedules},
	{[]string{"plateau"}, nil, readPlateau},
	{[]string{"optimizers"}, []string{"initial_parameters"}, readOptimizers},
	{[]string{"trajectories"}, []string{"datasets"}, readTrajectories},
	{[]string{"evaluate_cases"}, []string{"datasets"}, readEvaluations},
	{[]string{"architecture"}, []string{"correct", "total", "logprobs_first*"}, readMNIST},
	{[]string{"dev_first*", "train[0-9]*"}, []string{"config"}, readTinyBERT},
	{[]string{"cases", "dev"}, []string{"stats"}, readTokens},
	{peers, nil, readPeers},
}

// Read reads the entries of a file. It returns an error if the file is not JSON or has no known
// format.
func Read(path string, o Options) ([]Entry, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	entries, err := Parse(text, o)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return entries, nil
}

// Parse is like Read, for the contents of a file.
func Parse(text []byte, o Options) (entries []Entry, err error) {
	err = spec.Try(func() { entries = parse(text, o) })
	return entries, err
}

func parse(text []byte, o Options) (entries []Entry) {
	d := &document{options: o}
	spec.Check(json.Unmarshal(text, &d.fields))
	known := map[string]bool{}
	found := false
	for _, f := range forms {
		if len(d.matching(f.marks)) == 0 {
			continue
		}
		found = true
		for _, name := range d.matching(slices.Concat(f.marks, f.details)) {
			known[name] = true
		}
		entries = append(entries, f.read(d)...)
	}
	if !found {
		spec.Failf("no known form: the fields are %q", names(d.fields))
	}
	for _, name := range names(d.fields) {
		if text := bytes.TrimSpace(d.fields[name]); !known[name] && text[0] != '"' {
			entries = append(entries, entry(name, func() { unsupported("the form has no field %q", name) }))
		}
	}
	return entries
}

// entry returns an entry that is tested by run.
func entry(name string, run func()) Entry {
	return Entry{name, func() error { return recorded.Try(run) }}
}

// matching returns the fields whose names match one of the patterns of path.Match, such as
// "dev_first[0-9]" or "train*".
func (d *document) matching(patterns []string) []string {
	return slices.DeleteFunc(names(d.fields), func(name string) bool {
		return !slices.ContainsFunc(patterns, func(p string) bool {
			ok, err := path.Match(p, name)
			return ok && err == nil
		})
	})
}

// fieldOf decodes a top-level field.
func fieldOf[T any](d *document, name string) (v T) {
	if err := json.Unmarshal(d.fields[name], &v); err != nil {
		spec.Failf("field %q: %w", name, err)
	}
	return v
}

// textOf decodes a top-level field that may be absent.
func textOf(d *document, name, absent string) string {
	if d.fields[name] == nil {
		return absent
	}
	return fieldOf[string](d, name)
}

// entriesOf makes an entry of each member of a field, decoded strictly.
func entriesOf[T any](d *document, field string, run func(name string, v T)) (entries []Entry) {
	members := fieldOf[map[string]json.RawMessage](d, field)
	for _, name := range names(members) {
		entries = append(entries, entry(field+"/"+name, func() { run(name, decode[T](members[name])) }))
	}
	return entries
}

// decode decodes a value; unknown fields make the entry unsupported.
func decode[T any](raw []byte) (v T) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&v); err != nil {
		unsupported("%s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		unsupported("there is more text after the value")
	}
	return v
}

// names returns the keys in sorted order.
func names[V any](m map[string]V) []string {
	return append([]string{}, slices.Sorted(maps.Keys(m))...)
}

// near requires |got-want| <= atol + rtol*|want|. what describes the value, for example "rate of
// update 3".
func near(what string, got, want, rtol, atol float64) {
	if !(math.Abs(got-want) <= atol+rtol*math.Abs(want)) {
		spec.Failf("%s is %v, want %v (rtol %g, atol %g)", what, got, want, rtol, atol)
	}
}

// allNear compares lists element by element.
func allNear(what string, got func(i int) float64, want []float64, rtol, atol float64) {
	for i, w := range want {
		near(fmt.Sprintf("%s %d", what, i), got(i), w, rtol, atol)
	}
}

// at returns a function for allNear that returns the elements of a list.
func at[T float32 | float64](list []T) func(i int) float64 {
	return func(i int) float64 { return float64(list[i]) }
}

func equal[T comparable](what string, got, want T) {
	if got != want {
		spec.Failf("%s is %v, want %v", what, got, want)
	}
}
