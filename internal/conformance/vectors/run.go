package vectors

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"

	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/torch"
)

// Options configures [Run].
type Options struct {
	Data string // the folder of the pictures that recordings mention
}

// Outcome is how one recorded thing compared.
type Outcome struct {
	Name   string
	Err    error   // the first difference; a *[spec.Unsupported] if it cannot be tried
	Worst  float64 // the largest relative difference of a number; 0: bitwise
	Begins string  // the first number that is not bitwise
}

// files are the names of the index of a folder, in the order in which they are looked for.
var files = []string{"result.json", "cases.json", "vectors.json"}

// Known tells whether a file begins a folder of vectors.
func Known(name string) bool {
	for _, f := range files {
		if f == name {
			return true
		}
	}
	return false
}

// Run compares all that a folder holds.
func Run(dir string, o Options) []Outcome {
	name := filepath.Base(dir)
	if abs, err := filepath.Abs(dir); err == nil {
		name = filepath.Base(filepath.Dir(abs)) + "/" + filepath.Base(abs)
	}
	var text []byte
	err := os.ErrNotExist
	for _, f := range files {
		if text, err = os.ReadFile(filepath.Join(dir, f)); !errors.Is(err, os.ErrNotExist) {
			break
		}
	}
	var fields map[string]json.RawMessage
	if err == nil {
		err = json.Unmarshal(text, &fields)
	}
	if err != nil {
		return []Outcome{{Name: name, Err: err}}
	}
	has := func(key string) bool { return fields[key] != nil }
	switch {
	case has("gradient_stats"):
		return []Outcome{try(name, func(c *check) error { return forward(c, dir, text) })}
	case has("image_processor"):
		return []Outcome{try(name, func(c *check) error { return ocr(c, dir, text, o) })}
	case has("pieces"):
		return []Outcome{try(name, func(c *check) error { return texts(c, text) })}
	case has("cases"):
		return images(name, dir, text)
	case has("cer_wer"), has("padding"), has("ctc_greedy"):
		return functions(filepath.Base(name), fields)
	}
	return []Outcome{{Name: name, Err: spec.Unsupportedf("a recording that is neither a pass nor a data set, " +
		"pictures nor functions")}}
}

// try compares one thing; a panic of the code under test is a failure of it, and no more.
func try(name string, compare func(c *check) error) (o Outcome) {
	c := &check{}
	defer func() {
		if p := recover(); p != nil {
			o = Outcome{Name: name, Err: fmt.Errorf("panic: %v\n%s", p, debug.Stack())}
		}
	}()
	err := compare(c)
	if err == nil {
		err = c.err
	}
	return Outcome{Name: name, Err: err, Worst: c.worst, Begins: c.begins}
}

// loaded makes sure that there is a libtorch, with one thread as in the recordings.
func loaded() error {
	if err := torch.Load(); err != nil {
		return spec.Unsupportedf("libtorch cannot be loaded: %v", err)
	}
	torch.SetThreads(1)
	return nil
}
