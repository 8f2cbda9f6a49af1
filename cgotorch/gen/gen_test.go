package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const folder = ".." // of package cgotorch

func read(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(folder, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// knownSchemas takes PyTorch's schemas from the generated code, so that the test does not need
// PyTorch. An operator that has not been generated yet is missing there, which parseTable reports.
func knownSchemas(t *testing.T) map[string]string {
	known := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^// \w+ is aten::(([\w.]+)\(.*)\.$`).FindAllStringSubmatch(read(t,
		"zz_ops.go"), -1) {
		known[m[2]] = m[1]
	}
	if len(known) < 150 {
		t.Fatalf("zz_ops.go quotes %d schemas; it was probably not read rightly", len(known))
	}
	return known
}

func TestGeneratedFilesAreCurrent(t *testing.T) {
	ops, err := parseTable(read(t, "ops.txt"), knownSchemas(t))
	if err != nil {
		t.Fatalf("%v; run make gen", err)
	}
	files, err := outputs(ops)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		if got := read(t, name); got != string(want) {
			t.Errorf("%s is not what ops.txt and gen give; run make gen", name)
		}
	}
}

func TestABINamesTheSourcesOfTheShim(t *testing.T) {
	sum, err := abiHash(folder)
	if err != nil {
		t.Fatal(err)
	}
	if want := `#define CT_ABI "` + sum + `"`; !strings.Contains(read(t, "zz_abi.h"), want) {
		t.Errorf("zz_abi.h does not say %s; run go run ./gen -abi in cgotorch", want)
	}
}

func TestABIChangesWithEverySourceAndWithNothingElse(t *testing.T) {
	dir := t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(folder)); err != nil {
		t.Fatal(err)
	}
	hash := func() string {
		sum, err := abiHash(dir)
		if err != nil {
			t.Fatal(err)
		}
		return sum
	}
	before := hash()
	for name, changes := range map[string]bool{
		"ct.h": true, "zz_ops.h": true, "src/guard.h": true, "src/call.cc": true, "src/Makefile": false,
		"core.go": false, "zz_call.h": false,
	} {
		path := filepath.Join(dir, name)
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, append(bytes.Clone(b), '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
		if got := hash() != before; got != changes {
			t.Errorf("a change of %s changes the ABI: %t, want %t", name, got, changes)
		}
		if err := os.WriteFile(path, b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestSchemasAreReadAsPyTorchWritesThem(t *testing.T) {
	for _, c := range []struct {
		schema, args, returns string
		inPlace               bool
	}{
		{"add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
			"Tensor self, Tensor other, Scalar alpha=1", "Tensor", false},
		{"add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
			"Tensor! self, Tensor other, Scalar alpha=1", "", true},
		{"view(Tensor(a) self, SymInt[] size) -> Tensor(a)", "Tensor self, SymInt[] size", "Tensor", false},
		{"max.dim(Tensor self, int dim, bool keepdim=False) -> (Tensor values, Tensor indices)",
			"Tensor self, int dim, bool keepdim=False", "Tensor, Tensor", false},
		{"split.Tensor(Tensor(a -> *) self, SymInt split_size, int dim=0) -> Tensor(a)[]",
			"Tensor self, SymInt split_size, int dim=0", "Tensor[]", false},
		{"max_pool2d(Tensor self, int[2] kernel_size, int[2] stride=[], bool ceil_mode=False) -> Tensor",
			"Tensor self, int[] kernel_size, int[] stride=[], bool ceil_mode=False", "Tensor", false},
		{"index.Tensor(Tensor self, Tensor?[] indices) -> Tensor", "Tensor self, Tensor?[] indices", "Tensor", false},
	} {
		o, err := parseSchema(c.schema)
		if err != nil {
			t.Errorf("%s: %v", c.schema, err)
			continue
		}
		var args []string
		for _, a := range o.args {
			text := a.typ + " " + a.name
			if a.def != "" {
				text += "=" + a.def
			}
			args = append(args, text)
		}
		if got := strings.Join(args, ", "); got != c.args {
			t.Errorf("%s: arguments %q, want %q", c.schema, got, c.args)
		}
		if got := strings.Join(o.returns, ", "); got != c.returns || o.inPlace != c.inPlace {
			t.Errorf("%s: returns %q, in place %t, want %q, %t", c.schema, got, o.inPlace, c.returns, c.inPlace)
		}
	}
}

func TestMistakesInTheTableNameTheirLine(t *testing.T) {
	known := map[string]string{
		"neg":        "neg(Tensor self) -> Tensor",
		"add.Tensor": "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
		"odd":        "odd(Storage s) -> Tensor",
		"broken":     "broken",
	}
	for _, c := range []struct{ name, table, want string }{
		{"a name alone", "Neg", "ops.txt:1: want a Go name and an operator"},
		{"an operator that PyTorch lacks", "\nNeg negate -- -t", `ops.txt:2: PyTorch has no operator "negate"`},
		{"a name twice", "Neg neg -- -t\nNeg neg -- -t", "ops.txt:2: the name Neg is taken"},
		{"an unknown option", "Neg neg fast -- -t", `unknown option "fast"`},
		{"an argument that is not there", "Neg neg hide=alpha -- -t", `has no argument "alpha" to hide`},
		{"an argument without a default", "Add add.Tensor hide=other -- +", "argument other has no default"},
		{"no sentence", "Neg neg", "needs its sentence after --"},
		{"variadic without a list", "Neg neg variadic -- -t", "cannot be variadic"},
		{"a type without a mapping", "Odd odd raw", "no mapping for the type Storage"},
		{"no schema", "B broken raw", "not a schema"},
	} {
		if _, err := parseTable(c.table, known); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
