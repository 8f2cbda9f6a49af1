package torch_test

import (
	"bufio"
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

// procStatus reads a size in bytes from /proc/self/status.
func procStatus(t *testing.T, field string) int64 {
	f, err := os.Open("/proc/self/status")
	if err != nil {
		t.Skip("memory is read from /proc")
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if rest, ok := strings.CutPrefix(lines.Text(), field+":"); ok {
			var kib int64
			if _, err := fmt.Sscan(rest, &kib); err != nil {
				t.Fatal(err)
			}
			return kib << 10
		}
	}
	t.Fatalf("/proc/self/status has no %s", field)
	return 0
}

func TestTrainingStepsInAScopeKeepMemoryFlat(t *testing.T) {
	testenv.RequireTorch(t)
	steps, warmUp := 10000, 2000
	if testing.Short() {
		steps, warmUp = 1500, 500
	}
	// Losing one 32 x 32 activation per step would add up to 4 KiB * 8,000 = 32 MiB. Losing one
	// handle of 64 bytes, 0.5 MiB, would show in Live.
	const allowed = 8 << 20
	g := torch.NewGenerator(1)
	o := torch.TensorOptions{Generator: g}
	leaf := func(shape ...int64) torch.Tensor { return o.Randn(shape...).MulScalar(0.1).Keep().RequiresGrad() }
	w1, b1, w2, b2 := leaf(32, 32), leaf(32), leaf(4, 32), leaf(4)
	params := torch.NewList(w1, b1, w2, b2)
	var m, v, s []torch.Tensor
	for _, p := range params.Tensors() {
		m, v, s = append(m, p.Detach().ZerosLike()), append(v, p.Detach().ZerosLike()), append(s, torch.Zeros())
	}
	ms, vs, ss := torch.NewList(m...), torch.NewList(v...), torch.NewList(s...)
	step := func() (loss float64) {
		torch.Scope(func() {
			x := o.Randn(32, 32)
			y := x.Linear(w1, b1).ReLU().Linear(w2, b2)
			l := y.MSELoss(x.Narrow(1, 0, 4), torch.ReductionMean)
			params.ZeroGrad(false)
			l.Backward()
			params.ClipGradNorm(1, 2)
			params.FusedAdam(ms, vs, nil, ss, torch.FusedOptions{LR: 1e-3, Beta1: 0.9, Beta2: 0.999, Eps: 1e-8,
				WeightDecay: 0.01, Decoupled: true})
			loss = l.Item()
		})
		return loss
	}
	defer runtime.KeepAlive([]*torch.List{params, ms, vs, ss})
	first := step()
	for range warmUp {
		step()
	}
	live := settled()
	var last float64
	// Memory that the process takes only once, such as heap that Go had returned before, does not
	// grow in every window, but a leak in each step does.
	for window := 1; ; window++ {
		resident := procStatus(t, "VmRSS")
		for range steps - warmUp {
			last = step()
		}
		if got := settled(); got > live { // fewer: leftovers of earlier tests have been freed
			t.Errorf("Live() = %d after %d windows of %d steps, was %d before", got, window, steps-warmUp, live)
		}
		grown := procStatus(t, "VmRSS") - resident
		t.Logf("resident memory grew by %d KiB in %d steps", grown>>10, steps-warmUp)
		if grown <= allowed {
			break
		}
		if window == 4 {
			t.Errorf("resident memory grew by %d KiB in the last %d steps, and no less than %d KiB in any window before",
				grown>>10, steps-warmUp, allowed>>10)
			break
		}
	}
	if math.IsNaN(last) || last > first/2 {
		t.Errorf("the loss went from %v to %v: nothing was learned", first, last)
	}
}

func TestTensorsWithoutAScopeStayWithinTheGarbageBudget(t *testing.T) {
	testenv.RequireTorch(t)
	const size = 4 << 20
	torch.Relieve()
	before := torch.CollectedBytes()
	for i := range 1000 { // 4 GiB in all
		torch.Ones(size / 4)
		if waiting := torch.CollectedBytes() - before; waiting > torch.GarbageBudget+size {
			t.Fatalf("%d MiB wait for the garbage collector after %d tensors; the budget is %d MiB", waiting>>20, i+1,
				int64(torch.GarbageBudget)>>20)
		}
	}
	torch.Sweep()
	if got := torch.CollectedBytes(); got > before {
		t.Errorf("%d bytes are still counted when all tensors are gone", got-before)
	}
}

func TestTensorsThatAreKeptRaiseTheGarbageBudget(t *testing.T) {
	testenv.RequireTorch(t)
	var kept []torch.Tensor
	for range 80 { // 320 MiB
		kept = append(kept, torch.Empty(1<<20))
	}
	if got := torch.CollectedBytes(); got < 320<<20 {
		t.Errorf("%d bytes are counted while 320 MiB are held", got)
	}
	for _, x := range kept {
		x.Free()
	}
}
