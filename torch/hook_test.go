package torch_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

func TestHooksChangeAndRecordGradientsAsPythons(t *testing.T) {
	testenv.RequireTorch(t)
	g := golden.Load(t, "testdata/autograd.safetensors")
	x := g.Tensor("hook.x").Clone().RequiresGrad()
	h := x.MulScalar(2).RetainGrad()
	first := h.RegisterHook(torch.HookOptions{RecordNorm: true, RecordGradient: true})
	h.RegisterHook(torch.HookOptions{Scale: new(0.5)})
	last := h.RegisterHook(torch.HookOptions{RecordNorm: true, ClipNorm: 1.5, ClipValue: 0.6})
	if !h.RetainsGrad() || x.RetainsGrad() {
		t.Error("RetainsGrad does not tell the tensor that retains its gradient")
	}
	h.PowScalar(3).Sum(0).Backward()
	same(t, g, "hook.grad", x.Grad())
	same(t, g, "hook.h.grad", h.Grad())
	norms := torch.Values[float32](g.Tensor("hook.norms"))
	if got := append(first.Norms(), last.Norms()...); len(got) != 2 || float32(got[0]) != norms[0] ||
		float32(got[1]) != norms[1] {
		t.Errorf("norms %v, want %v", got, norms)
	}
	if again := first.Norms(); again != nil {
		t.Errorf("norms are told twice: %v", again)
	}
	golden.Close(t, "the recorded gradient", first.Gradient(), h.Detach().Square().MulScalar(3), 1e-5, 1e-6)
	if last.Gradient().Defined() {
		t.Error("a hook recorded a gradient without being told to")
	}
}

func TestARemovedHookDoesNothing(t *testing.T) {
	testenv.RequireTorch(t)
	x := torch.Ones(2).RequiresGrad()
	h := x.RegisterHook(torch.HookOptions{Scale: new(0.0)})
	x.Sum(0).Backward()
	golden.Bits(t, "scaled by 0", x.Grad(), torch.Zeros(2))
	h.Remove()
	h.Remove()
	x.SetGrad(torch.Tensor{}).Sum(0).Backward()
	golden.Bits(t, "without the hook", x.Grad(), torch.Ones(2))
	if err := torch.Try(func() { h.Norms() }); err == nil || !strings.Contains(err.Error(), "the hook was removed") {
		t.Errorf("error %v", err)
	}
	y := torch.Ones(2).RequiresGrad()
	gone := y.RegisterHook(torch.HookOptions{})
	y.Free()
	gone.Remove() // its tensor has been freed
}

// An in-place operation moves its tensor to another node of the graph, with a new list of hooks.
func TestAHookIsRemovedAfterItsTensorWasChangedInPlace(t *testing.T) {
	testenv.RequireTorch(t)
	x := torch.Ones(2).RequiresGrad()
	y := x.MulScalar(2)
	before := y.RegisterHook(torch.HookOptions{Scale: new(10.0)})
	y.MulScalar_(3)
	y.RegisterHook(torch.HookOptions{Scale: new(5.0)})
	before.Remove()
	y.Sum(0).Backward()
	golden.Bits(t, "gradient", x.Grad(), torch.Full(30.0, 2))
}

// Only one result of a split is used. The gradient of the other is None in Python, too.
func TestAHookOfATensorWithoutAGradientIsNotRun(t *testing.T) {
	testenv.RequireTorch(t)
	x := torch.Ones(4).RequiresGrad()
	parts := x.MulScalar(2).Unbind(0)
	unused := parts[0].RegisterHook(torch.HookOptions{RecordNorm: true, RecordGradient: true, Scale: new(0.5)})
	parts[1].MulScalar(3).Backward()
	golden.Bits(t, "gradient", x.Grad(), torch.From([]float32{0, 6, 0, 0}, 4))
	if unused.Norms() != nil || unused.Gradient().Defined() {
		t.Error("the hook recorded a gradient that never came")
	}
}

func TestAHookStaysWhenItsHandleIsDropped(t *testing.T) {
	testenv.RequireTorch(t)
	x := torch.Ones(2).RequiresGrad()
	x.RegisterHook(torch.HookOptions{Scale: new(3.0)})
	torch.Sweep()
	x.Sum(0).Backward()
	golden.Bits(t, "gradient", x.Grad(), torch.Full(3.0, 2))
}

func TestAnomalyDetectionNamesTheOperator(t *testing.T) {
	testenv.RequireTorch(t)
	bad := func() {
		x := torch.Zeros(1).RequiresGrad()
		x.Sqrt().MulScalar(0).Sum(0).Backward() // 0 * infinity
	}
	if err := torch.Try(bad); err != nil {
		t.Fatalf("without detection: %v", err)
	}
	torch.DetectAnomaly(func() {
		if err := torch.Try(bad); err == nil || !strings.Contains(err.Error(), "SqrtBackward0") {
			t.Errorf("error %v, want one that names SqrtBackward0", err)
		}
	})
	if err := torch.Try(bad); err != nil {
		t.Errorf("after detection: %v", err)
	}
}

func TestForkRNGPutsTheStreamBack(t *testing.T) {
	testenv.RequireTorch(t)
	torch.ManualSeed(4)
	want := torch.Rand(3)
	torch.ManualSeed(4)
	if err := torch.Try(func() {
		torch.ForkRNG(func() {
			torch.ManualSeed(99)
			torch.Rand(5)
			torch.Rand(-1) // panics
		})
	}); err == nil {
		t.Error("no panic came through")
	}
	golden.Bits(t, "the draw after", torch.Rand(3), want)
}

func TestAProfileIsATraceOfTheOperators(t *testing.T) {
	testenv.RequireTorch(t)
	path := filepath.Join(t.TempDir(), "trace.json")
	x := torch.Ones(8, 8).RequiresGrad()
	if err := torch.Profile(path, torch.ProfileOptions{Shapes: true, Memory: true}, func() {
		torch.Checkpoint(func(in tensors) tensors { return tensors{in[0].MatMul(in[0])} }, x)[0].Sum(0).Backward()
		if err := torch.Profile(path+"2", torch.ProfileOptions{}, func() {}); err == nil {
			t.Error("profiles nest")
		}
	}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var trace struct {
		TraceEvents []struct{ Name, Ph, Cat string }
	}
	if err := json.Unmarshal(b, &trace); err != nil {
		t.Fatalf("the trace is not JSON: %v", err)
	}
	seen := map[string]bool{}
	for _, e := range trace.TraceEvents {
		seen[e.Name] = true
	}
	for _, name := range []string{"aten::matmul", "aten::mm", "autograd::engine::evaluate_function: MmBackward0",
		"[memory]"} {
		if !seen[name] {
			t.Errorf("the trace has no event %q", name)
		}
	}
}

func TestAProfileThatCannotBeWrittenIsAnError(t *testing.T) {
	testenv.RequireTorch(t)
	ran := false
	err := torch.Profile(filepath.Join(t.TempDir(), "no", "such", "folder.json"), torch.ProfileOptions{}, func() {
		ran = true
	})
	if err == nil || ran {
		t.Errorf("error %v, and the region ran: %t", err, ran)
	}
}

func TestAPanicEndsTheProfile(t *testing.T) {
	testenv.RequireTorch(t)
	path := filepath.Join(t.TempDir(), "trace.json")
	for range 2 {
		if err := torch.Try(func() {
			_ = torch.Profile(path, torch.ProfileOptions{}, func() { torch.Ones(2).View(7) })
		}); err == nil || !strings.Contains(err.Error(), "View") {
			t.Errorf("error %v", err)
		}
	}
}

func ExampleCheckpoint() {
	w := torch.From([]float32{1, 2}).RequiresGrad()
	block := func(in []torch.Tensor) []torch.Tensor { return []torch.Tensor{in[0].Mul(w).Square()} }
	x := torch.From([]float32{3, 4})
	y := torch.Checkpoint(block, x)[0]
	y.Sum(torch.DefaultDType).Backward()
	fmt.Println(w.Grad())
	// Output: tensor([18., 64.])
}

func ExampleFunction() {
	// The step function, with the gradient of the identity.
	round := torch.Function{
		Forward:  func(in []torch.Tensor) []torch.Tensor { return []torch.Tensor{in[0].Round()} },
		Backward: func(_, _, gradients []torch.Tensor) []torch.Tensor { return gradients },
	}
	x := torch.From([]float32{0.2, 1.7}).RequiresGrad()
	y := round.Apply(x)[0]
	y.Sum(torch.DefaultDType).Backward()
	fmt.Println(torch.Values[float32](y), x.Grad())
	// Output: [0 2] tensor([1., 1.])
}

func ExampleTensor_RegisterHook() {
	x := torch.From([]float32{3, 4}).RequiresGrad()
	h := x.RegisterHook(torch.HookOptions{RecordNorm: true, ClipNorm: 1})
	x.Square().Sum(torch.DefaultDType).Backward()
	fmt.Println(h.Norms(), x.Grad())
	// Output: [10] tensor([0.6000, 0.8000])
}
