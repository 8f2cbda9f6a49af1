package amp_test

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"strconv"
	"testing"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// recordedUpdate is an update in a recorded run of accelerate. Numbers are Python's float.hex(), or
// inf and nan.
type recordedUpdate struct {
	Loss       []string `json:"loss_window"`
	GradNorm   string   `json:"grad_norm"`
	LR         []string `json:"lr"`
	Skipped    bool     `json:"skipped"`
	Scale      string   `json:"scale"`
	ScaleAfter string   `json:"scale_after"`
	Tracker    int      `json:"growth_tracker"`
}

// A recorded run of accelerate's loop with a GradScaler, clipped gradients, and injected infinities
// and NaNs. Its AdamW has no fused kernel, so the weights agree closely but not to the last bit;
// scales and skipped steps agree exactly.
func TestRecordedRunOfAccelerate(t *testing.T) {
	const folder = "../../shared/conformance/cases/accelerate/scaler_skip_growth/"
	data, err := os.ReadFile(folder + "trace.json")
	if err != nil {
		t.Skipf("the recorded run is not here: %v", err)
	}
	testenv.RequireTorch(t)
	var trace struct {
		Batches [][]int64
		Updates []recordedUpdate
	}
	if err := json.Unmarshal(data, &trace); err != nil || len(trace.Updates) != 12 {
		t.Fatalf("the trace has %d updates (%v), want 12", len(trace.Updates), err)
	}
	init, rows, final := golden.Load(t, folder+"init.safetensors"), golden.Load(t, folder+"data.safetensors"),
		golden.Load(t, folder+"final.safetensors")
	var params []torch.Named
	p := map[string]torch.Tensor{}
	for _, name := range []string{"layers.0.weight", "layers.0.bias", "layers.1.weight", "layers.1.bias"} {
		p[name] = init.Tensor(name).RequiresGrad()
		params = append(params, torch.Named{Name: name, Tensor: p[name]})
	}
	opt := optim.NewAdamW(params, optim.AdamW{LR: 0.01})
	scaler := amp.NewGradScaler(amp.GradScalerOptions{InitScale: 1024, GrowthInterval: 3})
	inject := map[int]struct {
		param string
		value float32
	}{1: {"layers.0.weight", float32(math.Inf(1))}, 2: {"layers.1.bias", float32(math.NaN())}, 7: {"layers.1.weight",
		float32(math.Inf(-1))}}

	for k, want := range trace.Updates {
		torch.Scope(func() {
			batch := torch.From(trace.Batches[k])
			x, y := rows.Tensor("train.x").IndexSelect(0, batch), rows.Tensor("train.labels").IndexSelect(0, batch)
			out := x.Linear(p["layers.0.weight"], p["layers.0.bias"]).ReLU().Linear(p["layers.1.weight"],
				p["layers.1.bias"])
			loss := out.CrossEntropyLoss(y, torch.Tensor{}, torch.ReductionMean, -100, 0)
			near(t, fmt.Sprintf("loss %d", k), loss.Item(), want.Loss[0])
			near(t, fmt.Sprintf("scale %d", k), scaler.GetScale(), want.Scale)

			scaler.Scale(loss).Backward()
			if bad, ok := inject[k]; ok {
				p[bad.param].Grad().View(-1).SetAt(torch.ScalarTensor(bad.value), 0)
			}
			if err := scaler.Unscale_(opt); err != nil {
				t.Fatal(err)
			}
			near(t, fmt.Sprintf("norm %d", k), optim.ClipGradNorm(params, 0.5).Item(), want.GradNorm)
			applied, err := scaler.Step(opt, number(t, want.LR[0]))
			if err != nil || applied == want.Skipped {
				t.Errorf("update %d: applied %t, %v, want %t", k, applied, err, !want.Skipped)
			}
			if err := scaler.Update(); err != nil {
				t.Fatal(err)
			}
			opt.ZeroGrad()

			state := scaler.State()
			if state.Scale != number(t, want.ScaleAfter) || state.GrowthTracker != want.Tracker {
				t.Errorf("update %d: scale %g and tracker %d, want %s and %d", k, state.Scale, state.GrowthTracker,
					want.ScaleAfter, want.Tracker)
			}
		})
	}
	got := map[string]torch.Tensor{}
	for _, n := range params {
		got[n.Name] = n.Tensor
	}
	for _, n := range opt.State() {
		got["optim."+n.Name] = n.Tensor
	}
	for _, name := range final.Names() {
		golden.Close(t, name, got[name], final.Tensor(name), 1e-5, 1e-6)
	}
}

func number(t *testing.T, s string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// near compares with a recorded number, with a relative tolerance of 1e-5.
func near(t *testing.T, what string, got float64, recorded string) {
	t.Helper()
	want := number(t, recorded)
	if got != want && !(math.IsNaN(got) && math.IsNaN(want)) && !(math.Abs(got-want) <= 1e-5*math.Abs(want)) {
		t.Errorf("%s is %g, want %g", what, got, want)
	}
}
