package spec

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const good = `{"name": "a", "peer": "hf", "shows": "", "threads": 1, "model": {"kind": "mlp", "sizes": [8, 4], "freeze": ["layers.0"]}, "init": {"seed": 5},
 "data": {"kind": "vectors", "trim": true, "eval_sets": ["a"]}, "args": {"learning_rate": 0.1, "num_train_epochs": 2},
 "metrics": ["mae"], "rtol": 0.5,
 "callbacks": [{"kind": "control", "step": 3}], "phases": [{"do": "train", "stop_after_update": 0, "args": {"num_train_epochs": 3}}, {"do": "train", "resume": true}, {"do": "train", "resume": "checkpoint-4"}]}`

func TestParse(t *testing.T) {
	s, err := Parse([]byte(good))
	if err != nil {
		t.Fatal(err)
	}
	if *s.Init.Seed != 5 || s.Tolerance() != 0.5 || !s.Data.Trim || s.Model.Freeze[0] != "layers.0" ||
		s.Callbacks[0].Kind != "control" || !s.HasMetrics {
		t.Errorf("%+v", s)
	}
	if p := s.Phases; *p[0].StopAfterUpdate != 0 || !p[1].ResumeNewest || p[2].Resume != "checkpoint-4" {
		t.Errorf("%+v", p)
	}
	args := s.PhaseArgs(s.Phases[0])
	if args.Float("num_train_epochs", 0) != 3 || args.Float("learning_rate", 0) != 0.1 || args.Done() != nil {
		t.Error("the arguments of a phase override those of the case")
	}
	if s.Args.Float("num_train_epochs", 0) != 2 {
		t.Error("the arguments of the case have changed")
	}
}

func TestMistakesAreNamed(t *testing.T) {
	for _, c := range []struct{ claim, from, to, want string }{
		{"a string for a number", `"threads": 1`, `"threads": "x"`, `threads is "x", want a whole number`},
		{"a fraction of a thread", `"threads": 1`, `"threads": 1.5`, `threads is 1.5, want a whole number`},
		{"no thread at all", `"threads": 1`, `"threads": 0`, "threads is 0"},
		{"a list for an object", `"model": {"kind": "mlp", "sizes": [8, 4], "freeze": ["layers.0"]}`, `"model": []`,
			"model is a list of 0, want an object"},
		{"no peer", `"peer": "hf", `, ``, "peer is missing"},
		{"no kind", `"kind": "mlp", `, ``, "model.kind is missing"},
		{"an unknown init", `{"seed": 5}`, `"zeros"`, `init is "zeros"`},
		{"init of no type", `{"seed": 5}`, `5`, "init is 5, want a string or an object"},
		{"more beside the seed", `{"seed": 5}`, `{"seed": 5, "gain": 1}`, "init.gain is not known"},
		{"an unknown phase", `"do": "train", "resume": true`, `"do": "dance"`, `phases[1].do is "dance"`},
		{"resume of no type", `"resume": true`, `"resume": 3`, "phases[1].resume is 3"},
		{"no phase", `"phases": [`, `"phases": [], "x": [`, "phases is empty"},
		{"a key twice", `"name": "a"`, `"name": "a", "name": "b"`, `the key "name" occurs twice`},
		{"something behind it", `"checkpoint-4"}]}`, `"checkpoint-4"}]} 1`, "behind the first value"},
		{"cut off", `"checkpoint-4"}]}`, `"check`, "unexpected EOF"},
		{"an unknown loss", `"rtol"`, `"loss_func": "other", "rtol"`, `loss_func is "other"`},
		{"a metric that is no string", `["mae"]`, `[1]`, "metrics is a list of 1, want a list of strings"},
		{"callbacks that are no objects", `[{"kind": "control", "step": 3}]`, `[1]`, "want a list of objects"},
	} {
		text := strings.Replace(good, c.from, c.to, 1)
		if text == good {
			t.Fatalf("%s: nothing was replaced", c.claim)
		}
		if _, err := Parse([]byte(text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", c.claim, err, c.want)
		}
	}
	if _, err := Parse([]byte(strings.Repeat("[", 100))); err == nil || !strings.Contains(err.Error(), "deeper than") {
		t.Errorf("a hundred brackets: %v", err)
	}
}

func TestWhatNobodyHasTakenIsUnsupported(t *testing.T) {
	o, err := ParseObject([]byte(`{"a": 1, "b": null, "more": {"c": [1.0, 2], "d": true}}`))
	if err != nil {
		t.Fatal(err)
	}
	if o.FloatOrNil("b") != nil || o.Int("b", 7) != 7 || o.String("none", "x") != "x" {
		t.Error("null and what is absent have the default")
	}
	more := o.Object("more")
	if more.Bool("d", false); more.Err() != nil {
		t.Fatal(more.Err())
	}
	for object, want := range map[*Object]string{o: "the field a is not known", more: "the field more.c is not known"} {
		var u *Unsupported
		if err := object.Done(); !errors.As(err, &u) || u.What != want {
			t.Errorf("%v, want %q", err, want)
		}
	}
	if got := more.Ints("c"); got != nil || o.Err() == nil {
		t.Errorf("1.0 in a list of whole numbers: %v, %v", got, o.Err())
	}
	var typed *TypeError
	if !errors.As(o.Done(), &typed) || typed.Field != "more.c" {
		t.Errorf("a mistake within shows outside too: %v", o.Done())
	}
	if (*Object)(nil).Done() != nil || len((*Object)(nil).Merge().Names()) != 0 {
		t.Error("an absent object is empty")
	}
	if names := o.Names(); !slices.Equal(names, []string{"a", "b", "more"}) {
		t.Errorf("names %v", names)
	}
	if err := o.OneOf("a", "", "x"); err != "" {
		t.Errorf("a number is no string: %q", err)
	}
}

func TestTolerance(t *testing.T) {
	for args, want := range map[string]float64{`{}`: 1e-4, `{"bf16": true}`: 2e-2, `{"mixed_precision": "fp16"}`: 2e-2,
		`{"mixed_precision": "no"}`: 1e-4, `{"bf16": false}`: 1e-4} {
		s, err := Parse([]byte(`{"peer": "hf", "model": {"kind": "mlp"}, "data": {}, "args": ` + args + `}`))
		if err != nil {
			t.Fatal(err)
		}
		if got := s.Tolerance(); got != want || len(s.Phases) != 1 {
			t.Errorf("%s: %g, want %g", args, got, want)
		}
	}
}

func TestRead(t *testing.T) {
	dir := t.TempDir()
	if _, err := Read(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an empty folder: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "spec.json"), []byte("{"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("the error does not name the file: %v", err)
	}
}

// FuzzParse looks for specifications that make the parser panic, or for which it cannot list the
// fields that are not taken.
func FuzzParse(f *testing.F) {
	f.Add([]byte(good))
	f.Add([]byte(`{"peer": "hf", "model": {"kind": 1}, "init": {"formula": {}}, "data": {"trim": 3}}`))
	f.Add([]byte(`{"phases": [{"do": "train", "resume": 1e400}], "args": {"x": -0}}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		s, err := Parse(text)
		if err != nil {
			return
		}
		_ = s.Tolerance()
		for _, p := range s.Phases {
			args := s.PhaseArgs(p)
			for _, name := range args.Names() {
				args.Int(name, 0)
				args.Strings(name)
				args.OneOf(name, "a", "b")
			}
			_ = args.Done()
			_ = p.Options.Done()
		}
		_ = s.More.Done()
	})
}
