package expected

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/torch"
)

// Options configures [Read].
type Options struct {
	Data        string // the folder that holds the models and data sets that files mention: models/, mnist/
	PlateReader string // the folder of a CRNN that reads licence plates
}

// Entry is one claim of a file.
type Entry struct {
	Name string
	Run  func() error // nil: it holds; an [*Unsupported]: it cannot be tried; else the first difference
}

// Unsupported says why an entry cannot be tried.
type Unsupported = spec.Unsupported

func unsupported(format string, args ...any) error { return spec.Unsupportedf(format, args...) }

// document is a file by its outermost fields.
type document struct {
	fields  map[string]json.RawMessage
	options Options
}

// form is one kind of content. A file may have several.
type form struct {
	marks   []string // a file with one of these fields has this form
	details []string // further fields that belong to it
	read    func(d *document) ([]Entry, error)
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
	{[]string{"hf_trainer", "accelerate", "pytorch_accelerated", "hezar", "pymarlin"}, nil, readPeers},
}

// Read reads a file and finds its entries. An error means that it is no JSON, or of no known form.
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

// Parse is Read for the content of a file.
func Parse(text []byte, o Options) ([]Entry, error) {
	d := &document{options: o}
	if err := json.Unmarshal(text, &d.fields); err != nil {
		return nil, err
	}
	known := map[string]bool{}
	var entries []Entry
	found := false
	for _, f := range forms {
		if len(d.matching(f.marks)) == 0 {
			continue
		}
		found = true
		for _, name := range d.matching(append(slices.Clone(f.marks), f.details...)) {
			known[name] = true
		}
		more, err := f.read(d)
		if err != nil {
			return nil, err
		}
		entries = append(entries, more...)
	}
	if !found {
		return nil, fmt.Errorf("no known form: the fields are %q", names(d.fields))
	}
	for _, name := range names(d.fields) {
		if text := bytes.TrimSpace(d.fields[name]); !known[name] && text[0] != '"' {
			entries = append(entries, Entry{name, func() error {
				return unsupported("the form has no field %q", name)
			}})
		}
	}
	for i, e := range entries {
		entries[i].Run = func() error { return tried(e.Run) }
	}
	return entries, nil
}

// tried returns the mistake that an operator panics with, such as a wrong shape, as an error.
func tried(run func() error) (err error) {
	if mistake := torch.Try(func() { err = run() }); mistake != nil {
		return mistake
	}
	return err
}

// matching returns the fields whose names match one of the patterns: exactly, or with a star for
// the rest. "[0-9]" stands for a digit.
func (d *document) matching(patterns []string) []string {
	var list []string
	for _, name := range names(d.fields) {
		if slices.ContainsFunc(patterns, func(p string) bool {
			stem, open := strings.CutSuffix(p, "*")
			if stem, digit := strings.CutSuffix(stem, "[0-9]"); digit {
				rest, ok := strings.CutPrefix(name, stem)
				return ok && rest != "" && rest[0] >= '0' && rest[0] <= '9'
			}
			return name == stem || open && strings.HasPrefix(name, stem)
		}) {
			list = append(list, name)
		}
	}
	return list
}

// entriesOf makes an entry of each member of a field, strictly decoded.
func entriesOf[T any](d *document, field string, run func(name string, v T) error) ([]Entry, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(d.fields[field], &members); err != nil {
		return nil, fmt.Errorf("field %q: %w", field, err)
	}
	var entries []Entry
	for _, name := range names(members) {
		entries = append(entries, Entry{field + "/" + name, func() error {
			v, err := decode[T](members[name])
			if err != nil {
				return err
			}
			return run(name, v)
		}})
	}
	return entries, nil
}

// decode reads a value and refuses fields that it does not have.
func decode[T any](raw []byte) (v T, err error) {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&v); err != nil {
		return v, unsupported("%s", strings.TrimPrefix(err.Error(), "json: "))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return v, unsupported("there is more text after the value")
	}
	return v, nil
}

// names returns the keys in order.
func names[V any](m map[string]V) []string {
	list := make([]string, 0, len(m))
	for name := range m {
		list = append(list, name)
	}
	slices.Sort(list)
	return list
}
