package nn_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// spec is how a golden file names its module: a constructor, its arguments, and the Go names of its options.
type spec struct {
	Type    string
	Args    []json.RawMessage
	Options json.RawMessage
	DType   string
}

// about is the metadata of a golden file.
type about struct {
	Module        spec
	Params, State []string
	Forwards      int
}

// read decodes JSON that a script of this repository wrote.
func read[T any](raw []byte) T {
	var v T
	if err := json.Unmarshal(raw, &v); err != nil {
		panic(fmt.Sprintf("%s: %v", raw, err))
	}
	return v
}

// build calls the constructor that a spec names.
func build(s spec) any {
	number := func(i int) int64 { return read[int64](s.Args[i]) }
	dims := func(i int) nn.Dims { return read[nn.Dims](s.Args[i]) }
	var factory torch.Options
	if s.DType == "float64" {
		factory.DType = torch.Float64
	}
	switch s.Type {
	case "Linear":
		o := read[nn.LinearOptions](s.Options)
		o.Factory = factory
		return nn.NewLinear(number(0), number(1), &o)
	case "Conv1d":
		return nn.NewConv1d(number(0), number(1), dims(2), new(read[nn.ConvOptions](s.Options)))
	case "Conv2d":
		return nn.NewConv2d(number(0), number(1), dims(2), new(read[nn.ConvOptions](s.Options)))
	case "BatchNorm1d":
		return nn.NewBatchNorm1d(number(0), new(read[nn.BatchNormOptions](s.Options)))
	case "BatchNorm2d":
		return nn.NewBatchNorm2d(number(0), new(read[nn.BatchNormOptions](s.Options)))
	case "LayerNorm":
		return nn.NewLayerNorm(dims(0), new(read[nn.LayerNormOptions](s.Options)))
	case "Embedding":
		return nn.NewEmbedding(number(0), number(1), new(read[nn.EmbeddingOptions](s.Options)))
	case "Dropout":
		return nn.NewDropout(read[float64](s.Args[0]))
	case "ReLU":
		return nn.ReLU{}
	case "SiLU":
		return nn.SiLU{}
	case "Tanh":
		return nn.Tanh{}
	case "Sigmoid":
		return nn.Sigmoid{}
	case "GELU":
		return read[nn.GELU](s.Options)
	case "Identity":
		return nn.Identity{}
	case "Flatten":
		f := nn.NewFlatten()
		if err := json.Unmarshal(s.Options, f); err != nil {
			panic(err)
		}
		return f
	case "MaxPool2d":
		return nn.NewMaxPool2d(dims(0), new(read[nn.MaxPool2dOptions](s.Options)))
	case "AvgPool2d":
		return nn.NewAvgPool2d(dims(0), new(read[nn.AvgPool2dOptions](s.Options)))
	case "LSTM":
		return nn.NewLSTM(number(0), number(1), new(read[nn.RNNOptions](s.Options)))
	case "GRU":
		return nn.NewGRU(number(0), number(1), new(read[nn.RNNOptions](s.Options)))
	case "Sequential":
		var layers nn.Sequential
		for _, arg := range s.Args {
			layers = append(layers, build(read[spec](arg)).(nn.Layer))
		}
		return layers
	}
	panic("no constructor for " + s.Type)
}

// forward runs a module on the inputs of a case and returns its outputs by the script's names.
func forward(m any, in map[string]torch.Tensor) map[string]torch.Tensor {
	switch m := m.(type) {
	case *nn.LSTM:
		y, h, c := m.ForwardState(in["x"], in["h0"], in["c0"])
		return map[string]torch.Tensor{"y": y, "h": h, "c": c}
	case *nn.GRU:
		y, h := m.ForwardState(in["x"], in["h0"])
		return map[string]torch.Tensor{"y": y, "h": h}
	}
	return map[string]torch.Tensor{"y": m.(nn.Layer).Forward(in["x"])}
}

// compare demands the same bits where the machine can give them.
func compare(t *testing.T, name string, got, want torch.Tensor) {
	t.Helper()
	if testenv.SameBits() {
		golden.Bits(t, name, got, want)
	} else {
		golden.Close(t, name, got, want, 1e-5, 1e-6)
	}
}

// section returns the tensors whose names begin with a prefix, by the rest.
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
		t.Run(strings.TrimSuffix(filepath.Base(path), ".safetensors"), func(t *testing.T) {
			torch.Scope(func() { testCase(t, golden.Load(t, path)) })
		})
	}
}

func testCase(t *testing.T, g *golden.File) {
	// What the constructor draws.
	about := read[about]([]byte(g.Metadata["case"]))
	torch.ManualSeed(11)
	var m any
	torch.Scope(func() { m = build(about.Module) }) // parameters outlive the scope
	rng := func(name string) {
		t.Helper()
		if !slices.Equal(torch.DefaultGenerator(torch.CPU).State(), g.Tensor(name).Bytes()) {
			t.Errorf("%s: the generator is elsewhere", name)
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
	in := map[string]torch.Tensor{}
	for _, name := range []string{"x", "h0", "c0"} {
		if g.Has(name) {
			in[name] = g.Tensor(name)
			if in[name].DType().IsFloatingPoint() {
				in[name].RequiresGrad()
			}
		}
	}
	torch.ManualSeed(13)
	var out map[string]torch.Tensor
	for range about.Forwards {
		out = forward(m, in)
	}
	rng("train.rng")
	var results, gradients []torch.Tensor
	for _, name := range []string{"y", "h", "c"} {
		if g.Has(name) {
			compare(t, name, out[name], g.Tensor(name))
			if out[name].NeedsGrad() {
				results, gradients = append(results, out[name]), append(gradients, g.Tensor("g"+name))
			}
		}
	}
	torch.Backward(torch.BackwardOptions{Gradients: gradients}, results...)
	for name, t2 := range in {
		if g.Has("grad." + name) {
			compare(t, "grad of "+name, t2.Grad(), g.Tensor("grad."+name))
		}
	}
	for _, p := range nn.Params(m) {
		compare(t, "grad of "+p.Name, p.Tensor.Grad(), g.Tensor("grad.param."+p.Name))
	}
	sameState("after")

	// The evaluation pass.
	nn.SetTraining(m, false)
	torch.NoGrad(func() { compare(t, "output of the evaluation", forward(m, in)["y"], g.Tensor("eval.y")) })
}
