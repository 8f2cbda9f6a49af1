package nn_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// about is the metadata of a golden file; testdata/case.py describes the fields.
type about struct {
	Module        spec
	Params, State []string
	Forwards      int
	Inputs        []string // with gradients
	Method        string   // empty means Forward, or ForwardState if the module has it
	Call          []json.RawMessage
}

// read decodes JSON that a script of this repository wrote.
func read[T any](raw []byte) T {
	var v T
	if err := json.Unmarshal(raw, &v); err != nil {
		panic(fmt.Sprintf("%s: %v", raw, err))
	}
	return v
}

// forward calls a module's method on the tensors of a case and returns the results under the names
// that the scripts use.
func forward(m any, a about, in map[string]torch.Tensor) map[string]torch.Tensor {
	method := a.Method
	if method == "" {
		method = "Forward"
		if _, ok := reflect.TypeOf(m).MethodByName("ForwardState"); ok {
			method = "ForwardState"
		}
	}
	f := reflect.ValueOf(m).MethodByName(method)
	var args []reflect.Value
	for i := range f.Type().NumIn() {
		arg := reflect.New(f.Type().In(i)).Elem()
		if i < len(a.Call) { // states that are not given stay undefined
			fill(arg, a.Call[i], in)
		}
		args = append(args, arg)
	}
	out := map[string]torch.Tensor{}
	for i, r := range f.Call(args) {
		out[[]string{"y", "h", "c"}[i]] = r.Interface().(torch.Tensor)
	}
	return out
}

// compare compares bit for bit on machines that reproduce the recorded bits.
func compare(t *testing.T, name string, got, want torch.Tensor) {
	t.Helper()
	golden.Recorded(t, name, got, want)
}

// section returns the tensors whose names start with a prefix, by the rest of the name.
func section(g *golden.File, prefix string) []torch.Named {
	var ts []torch.Named
	for _, name := range g.Names() {
		if rest, ok := strings.CutPrefix(name, prefix); ok && rest != "rng" {
			ts = append(ts, torch.Named{Name: rest, Tensor: g.Tensor(name)})
		}
	}
	return ts
}

func names(ts []torch.Named) []string {
	list := []string{}
	for _, t := range ts {
		list = append(list, t.Name)
	}
	return list
}

func tensors(ts []torch.Named) map[string]torch.Tensor {
	m := map[string]torch.Tensor{}
	for _, t := range ts {
		m[t.Name] = t.Tensor
	}
	return m
}

func TestLayersAreThoseOfPyTorch(t *testing.T) {
	testenv.RequireTorch(t)
	files, err := filepath.Glob("testdata/layers/*.safetensors")
	if err != nil || len(files) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, path := range files {
		name := strings.TrimSuffix(filepath.Base(path), ".safetensors")
		t.Run(name, func(t *testing.T) {
			goldencount.Start(t, "modules, both passes", name)
			torch.Scope(func() { testCase(t, golden.Load(t, path)) })
		})
	}
}

func testCase(t *testing.T, g *golden.File) {
	// What the constructor draws.
	about := read[about]([]byte(g.Metadata["case"]))
	torch.ManualSeed(11)
	var m any
	in := map[string]torch.Tensor{}
	for _, name := range g.Names() {
		if !strings.Contains(name, ".") {
			in[name] = g.Tensor(name)
		}
	}
	torch.Scope(func() { m = build(about.Module, in) }) // parameters outlive the scope
	rng := func(name string) {
		t.Helper()
		if sum := sha256.Sum256(torch.DefaultGenerator(torch.CPU).State()); !slices.Equal(sum[:],
			g.Tensor(name).Bytes()) {
			t.Errorf("%s: the generator has another state", name)
		}
	}
	rng("init.rng")
	if diff := cmp.Diff(about.Params, names(nn.Params(m))); diff != "" {
		t.Errorf("names of the parameters (-PyTorch +here):\n%s", diff)
	}
	if diff := cmp.Diff(about.State, names(nn.StateDict(m))); diff != "" {
		t.Errorf("names of the state (-PyTorch +here):\n%s", diff)
	}
	sameState := func(when string) {
		t.Helper()
		state := tensors(nn.StateDict(m))
		for _, want := range section(g, when+".") {
			compare(t, when+" "+want.Name, state[want.Name], want.Tensor)
		}
	}
	sameState("init")

	// The training pass.
	if _, err := nn.LoadStateDict(m, nn.Tensors(section(g, "state.")), nn.LoadOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, name := range about.Inputs {
		if in[name].DType().IsFloatingPoint() {
			in[name].RequiresGrad()
		}
	}
	torch.ManualSeed(13)
	var out map[string]torch.Tensor
	for range about.Forwards {
		out = forward(m, about, in)
	}
	rng("train.rng")
	var results, gradients []torch.Tensor
	for _, name := range []string{"y", "h", "c"} {
		if _, ok := out[name]; ok && g.Has(name) {
			compare(t, name, out[name], g.Tensor(name))
			if out[name].NeedsGrad() {
				results, gradients = append(results, out[name]), append(gradients, g.Tensor("g"+name))
			}
		}
	}
	if len(results) > 0 {
		torch.Backward(torch.BackwardOptions{Gradients: gradients}, results...)
	}
	for _, name := range about.Inputs {
		if g.Has("grad." + name) {
			compare(t, "grad of "+name, in[name].Grad(), g.Tensor("grad."+name))
		}
	}
	for _, p := range nn.Params(m) {
		if name := "grad.param." + p.Name; p.Tensor.Grad().Defined() || g.Has(name) {
			compare(t, "grad of "+p.Name, p.Tensor.Grad(), g.Tensor(name))
		}
	}
	sameState("after")

	// The evaluation pass.
	nn.SetTraining(m, false)
	torch.NoGrad(func() { compare(t, "output of the evaluation", forward(m, about, in)["y"], g.Tensor("eval.y")) })
}
