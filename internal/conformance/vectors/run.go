package vectors

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"

	"github.com/gotrainer/gotrainer/internal/conformance/recorded"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/torch"
)

// Outcome is the result of one comparison.
type Outcome struct {
	Name   string
	Err    error   // the first difference; a *[spec.Unsupported] if it cannot be run
	Worst  float64 // the largest relative difference; 0: bitwise equal
	Begins string  // the first number that is not bitwise equal
}

// files are the names of a folder's index file, in order of precedence.
var files = []string{"result.json", "cases.json", "vectors.json"}

// Known reports whether a file name is that of an index of vectors.
func Known(name string) bool { return slices.Contains(files, name) }

// Run compares everything recorded in a folder. pictures is the folder of the pictures it refers
// to.
func Run(dir, pictures string) []Outcome {
	name := spec.CaseName(dir)
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
		return []Outcome{try(name, func(c *check) { forward(c, dir, decode[pass](text)) })}
	case has("image_processor"):
		return []Outcome{try(name, func(c *check) { ocr(c, dir, decode[recordedOCR](text), pictures) })}
	case has("pieces"):
		return []Outcome{try(name, func(c *check) { texts(c, decode[recordedTexts](text)) })}
	case has("cases"):
		return images(name, dir, text)
	case has("cer_wer"), has("padding"), has("ctc_greedy"):
		return functions(filepath.Base(name), fields)
	}
	return []Outcome{{Name: name, Err: spec.Unsupportedf("a recording that is neither a pass nor a data set, " +
		"pictures nor functions")}}
}

// try runs one comparison; a panic of the code under test makes it fail.
func try(name string, compare func(c *check)) Outcome {
	c := &check{}
	err := recorded.TryAll(func() { compare(c) })
	return Outcome{Name: name, Err: err, Worst: c.worst, Begins: c.begins}
}

// decode decodes a JSON value.
func decode[T any](text []byte) (v T) {
	spec.Check(json.Unmarshal(text, &v))
	return v
}

// load loads libtorch and sets it to one thread, as in the recordings.
func load() {
	recorded.Load()
	torch.SetThreads(1)
}

// tensorsOf reads the tensors of a folder.
func tensorsOf(dir string) map[string]torch.Tensor {
	load()
	return recorded.Tensors(filepath.Join(dir, "case.safetensors"))
}
