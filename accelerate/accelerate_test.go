package accelerate_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/accelerate"
	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/checkpoint"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/torch"
)

func TestWindows(t *testing.T) {
	testenv.RequireTorch(t)
	for _, c := range []struct {
		claim        string
		accumulation accelerate.Accumulation
		batches      int
		want         string // two passes: u for an update, - for none
	}{
		{"without accumulation every batch is an update", accelerate.Accumulation{}, 3, "uuu uuu"},
		{"a short last window is an update", accelerate.Accumulation{Steps: 2}, 3, "-uu -uu"},
		{"the next pass begins a new window", accelerate.Accumulation{Steps: 4}, 5, "---uu ---uu"},
		{"a loader shorter than a window", accelerate.Accumulation{Steps: 4}, 2, "-u -u"},
		{"the remainder is carried over", accelerate.Accumulation{Steps: 4, CarryOver: true}, 5, "---u- --u--"},
	} {
		r := newRun(t, accelerate.Options{Accumulation: c.accumulation}, accelerate.LoaderOptions{BatchSize: 2},
			2*c.batches, lr.Constant{}, 10)
		var passes []string
		for range 2 {
			var seen strings.Builder
			r.pass(t, r.train, func(int) {
				seen.WriteString(map[bool]string{true: "u", false: "-"}[r.acc.SyncGradients()])
			})
			passes = append(passes, seen.String())
		}
		if got := strings.Join(passes, " "); got != c.want {
			t.Errorf("%s: %s, want %s", c.claim, got, c.want)
		}
	}
}

// TestScheduleMoves compares with the rates of AcceleratedScheduler in the same loop (accelerate
// 1.15, one process).
func TestScheduleMoves(t *testing.T) {
	testenv.RequireTorch(t)
	for _, c := range []struct {
		claim    string
		options  accelerate.Options
		schedule lr.Schedule
		updates  int
		want     []float64 // rate after each of 6 batches
	}{
		{"once per update", accelerate.Options{Accumulation: accelerate.Accumulation{Steps: 2}}, lr.Linear{}, 4,
			[]float64{0.1, 0.075, 0.075, 0.05, 0.05, 0.025}},
		{"at every batch if it is free", accelerate.Options{Accumulation: accelerate.Accumulation{Steps: 2},
			FreeSchedule: true}, lr.Linear{}, 8,
			[]float64{0.0875, 0.075, 0.0625, 0.05, 0.0375, 0.025}},
		{"a cycle of fixed length stops at its end", accelerate.Options{}, lr.OneCycleLR{MaxLR: 0.1,
			TotalSteps: 4, FixedMomentum: true}, 4, nil},
	} {
		r := newRun(t, c.options, accelerate.LoaderOptions{BatchSize: 1}, 6, c.schedule, c.updates)
		var got []float64
		r.pass(t, r.train, func(int) { got = append(got, r.opt.Rate()) })
		if c.want == nil {
			if r.sched.Moves() != 4 || got[5] != got[3] || got[3] == got[2] {
				t.Errorf("%s: %d moves, rates %v; want 4 moves", c.claim, r.sched.Moves(), got)
			}
			continue
		}
		if diff := cmp.Diff(c.want, got,
			cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-15 })); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.claim, diff)
		}
	}
}

func TestScalerSkipsUpdatesAndTheSchedule(t *testing.T) {
	testenv.RequireTorch(t)
	scaler := amp.NewGradScaler(amp.GradScalerOptions{InitScale: 1024, GrowthInterval: 2})
	r := newRun(t, accelerate.Options{Scaler: scaler}, accelerate.LoaderOptions{BatchSize: 2}, 8, lr.Linear{}, 10)
	var trace []string
	i := 0
	for b, err := range r.train.Batches(context.Background()) {
		if err != nil {
			t.Fatal(err)
		}
		err = r.acc.Accumulate(func() error {
			loss := r.model.Forward(torch.From([]float32{b[0][0]}, 1, 1)).Sum(torch.DefaultDType)
			if i == 1 {
				loss = loss.MulScalar(math.Inf(1))
			}
			r.acc.Backward(loss)
			if err := r.opt.Step(); err != nil {
				return err
			}
			if err := r.sched.Step(); err != nil {
				return err
			}
			r.opt.ZeroGrad()
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		i++
		trace = append(trace, fmt.Sprintf("skipped=%v moves=%d scale=%g", r.acc.OptimizerStepWasSkipped(),
			r.sched.Moves(), scaler.GetScale()))
	}
	want := []string{"skipped=false moves=1 scale=1024", "skipped=true moves=1 scale=512",
		"skipped=false moves=2 scale=512", "skipped=false moves=3 scale=1024"}
	if diff := cmp.Diff(want, trace); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A fused kernel skips an update by itself, and Accelerate does not learn of it.
func TestFusedHidesSkips(t *testing.T) {
	testenv.RequireTorch(t)
	for _, c := range []struct {
		implementation optim.Implementation
		hides, skipped bool
	}{{optim.Fused, true, false}, {optim.Fused, false, true}, {optim.ForLoop, true, true}} {
		acc, err := accelerate.New(accelerate.Options{Scaler: amp.NewGradScaler(amp.GradScalerOptions{}),
			FusedHidesSkips: c.hides})
		if err != nil {
			t.Fatal(err)
		}
		w := nn.Parameter(torch.From([]float32{1}))
		opt := acc.PrepareOptimizer(optim.NewAdamW([]torch.Named{{Name: "w", Tensor: w}},
			optim.AdamW{Implementation: c.implementation}), 0.1)
		err = acc.Accumulate(func() error {
			acc.Backward(w.MulScalar(math.Inf(1)).Sum(torch.DefaultDType))
			return opt.Step()
		})
		if err != nil {
			t.Fatal(err)
		}
		if opt.StepWasSkipped() != c.skipped || w.Item() != 1 {
			t.Errorf("%q, FusedHidesSkips %v: skipped %v, weight %v; want %v, 1", c.implementation, c.hides,
				opt.StepWasSkipped(), w.Item(), c.skipped)
		}
	}
}

// base_lrs are part of the state of PyTorch's schedulers, so another rate in the program that
// resumes has no effect.
func TestLoadStateRestoresTheRateThatTheScheduleBeganWith(t *testing.T) {
	testenv.RequireTorch(t)
	dir := filepath.Join(t.TempDir(), "state")
	prepare := func(rate float64) (*accelerate.Accelerator, *accelerate.Optimizer, *accelerate.Schedule) {
		acc, err := accelerate.New(accelerate.Options{})
		if err != nil {
			t.Fatal(err)
		}
		w := nn.Parameter(torch.From([]float32{1}))
		opt := acc.PrepareOptimizer(optim.NewSGD([]torch.Named{{Name: "w", Tensor: w}}, optim.SGD{}), rate)
		sched, err := acc.PrepareSchedule(opt, lr.Linear{}, 4)
		if err != nil {
			t.Fatal(err)
		}
		return acc, opt, sched
	}
	rate := 0.8
	saved, _, _ := prepare(rate)
	if _, err := saved.SaveState(dir); err != nil {
		t.Fatal(err)
	}
	acc, opt, sched := prepare(0.1)
	if err := acc.LoadState(dir); err != nil {
		t.Fatal(err)
	}
	if err := acc.Accumulate(sched.Step); err != nil {
		t.Fatal(err)
	}
	if got, want := opt.Rate(), rate*0.75; got != want {
		t.Errorf("the rate after a step is %v, want %v", got, want)
	}
}

func TestOrders(t *testing.T) {
	testenv.RequireTorch(t)
	order := func(l *accelerate.Loader[int, []int]) (all []int) {
		for b, err := range l.Batches(context.Background()) {
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, b...)
		}
		return all
	}
	loader := func(o accelerate.LoaderOptions) *accelerate.Loader[int, []int] {
		acc, err := accelerate.New(accelerate.Options{})
		if err != nil {
			t.Fatal(err)
		}
		set := data.Func(10, func(i int) (int, error) { return i, nil })
		l, err := accelerate.PrepareLoader(acc, set, func(s []int) ([]int, error) { return s, nil }, o)
		if err != nil {
			t.Fatal(err)
		}
		return l
	}
	if err := accelerate.SetSeed(7); err != nil {
		t.Fatal(err)
	}
	// its seed is torch.initial_seed()
	seedable := loader(accelerate.LoaderOptions{BatchSize: 3, Shuffle: true, Seedable: true})
	for epoch := range 2 {
		if got, want := order(seedable), data.Permutation(7+uint64(epoch), 10); !slices.Equal(got, want) {
			t.Errorf("pass %d: %v, want %v", epoch, got, want)
		}
	}
	seedable.SetEpoch(1)
	if got, want := order(accelerate.SkipFirstBatches(seedable, 2)), data.Permutation(8, 10)[6:]; !slices.Equal(got,
		want) {
		t.Errorf("the rest of pass 1: %v, want %v", got, want)
	}
	if got := accelerate.SkipFirstBatches(seedable, 9).Len(); got != 0 {
		t.Errorf("%d batches are left after more were skipped than there are", got)
	}

	// DataLoader(shuffle=True) after torch.manual_seed(7), two passes, computed with torch 2.11.
	if err := accelerate.SetSeed(7); err != nil {
		t.Fatal(err)
	}
	shuffled := loader(accelerate.LoaderOptions{BatchSize: 4, Shuffle: true})
	for pass, want := range [][]int{{3, 2, 7, 8, 6, 1, 5, 9, 0, 4}, {1, 3, 5, 2, 8, 9, 6, 7, 4, 0}} {
		if got := order(shuffled); !slices.Equal(got, want) {
			t.Errorf("global generator, pass %d: %v, want %v", pass, got, want)
		}
	}
}

func TestStateContinuesBitForBit(t *testing.T) {
	testenv.RequireTorch(t)
	start := func() (*run, *count) {
		r := newRun(t, accelerate.Options{Accumulation: accelerate.Accumulation{Steps: 2, CarryOver: true},
			Scaler: amp.NewGradScaler(amp.GradScalerOptions{InitScale: 16})},
			accelerate.LoaderOptions{BatchSize: 2, Shuffle: true, Seedable: true}, 14, lr.Cosine{}, 7)
		c := new(count)
		r.acc.RegisterForCheckpointing(c)
		return r, c
	}
	dir := filepath.Join(t.TempDir(), "step_4 [*") // special characters of patterns
	whole, n := start()
	whole.pass(t, whole.train, func(batch int) {
		*n++
		if batch == 4 {
			if _, err := whole.acc.SaveState(dir); err != nil {
				t.Fatal(err)
			}
		}
	})
	resumed, m := start()
	torch.ManualSeed(999)
	if err := resumed.acc.LoadState(dir); err != nil {
		t.Fatal(err)
	}
	resumed.pass(t, accelerate.SkipFirstBatches(resumed.train, 4), func(int) { *m++ })
	if got, want := resumed.weights(), whole.weights(); got != want || *m != *n ||
		resumed.opt.Rate() != whole.opt.Rate() {
		t.Errorf("resumed: weights %v, count %d, rate %g; want %v, %d, %g", got, *m, resumed.opt.Rate(), want, *n,
			whole.opt.Rate())
	}

	// A flipped bit and a missing object are refused, and change nothing.
	before := resumed.weights()
	other, err := accelerate.New(accelerate.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := other.LoadState(dir); err == nil || !strings.Contains(err.Error(), "1 registered objects, and 0") {
		t.Errorf("a state with another number of registered objects: %v", err)
	}
	file := filepath.Join(dir, "optimizer.safetensors")
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	text[len(text)-1] ^= 1
	if err := os.WriteFile(file, text, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := resumed.acc.LoadState(dir); err == nil || !strings.Contains(err.Error(), "optimizer.safetensors") {
		t.Errorf("a damaged state was loaded: %v", err)
	}
	if resumed.weights() != before {
		t.Error("a refused state has changed the weights")
	}
}

// A state without that of a device's generator was made on another kind of device.
func TestAStateOfAnotherDeviceIsRefusedBeforeAnythingChanges(t *testing.T) {
	testenv.RequireTorch(t)
	start := func() *run {
		return newRun(t, accelerate.Options{}, accelerate.LoaderOptions{BatchSize: 2}, 8, lr.Constant{}, 4)
	}
	first := start()
	first.pass(t, first.train, func(int) {})
	saved, err := first.acc.SaveState(filepath.Join(t.TempDir(), "saved"))
	require.NoError(t, err)
	for name, want := range map[string]string{"cuda:0": "the generator of cpu is missing",
		"cpu": "no state of a generator"} {
		dir := filepath.Join(t.TempDir(), "other")
		require.NoError(t, checkpoint.WriteFolder(dir, func(dir string) error {
			if err := os.CopyFS(dir, os.DirFS(saved)); err != nil {
				return err
			}
			return errors.Join(os.Remove(filepath.Join(dir, "MANIFEST.json")), tensorio.Save(
				filepath.Join(dir, "random_states_0.safetensors"), []torch.Named{{Name: name,
					Tensor: torch.From([]uint8{1, 2, 3})}}, map[string]string{"step": "0"}))
		}))
		second := start()
		before, generator := second.weights(), torch.DefaultGenerator(torch.CPU).State()
		require.NotEqual(t, first.weights(), before)
		require.ErrorContains(t, second.acc.LoadState(dir), want)
		assert.Equal(t, before, second.weights(), name)
		assert.Equal(t, generator, torch.DefaultGenerator(torch.CPU).State(), name)
	}
}

func TestAStateInsideAWindowIsWarnedOf(t *testing.T) {
	testenv.RequireTorch(t)
	var said bytes.Buffer
	usual := slog.Default()
	t.Cleanup(func() { slog.SetDefault(usual) })
	slog.SetDefault(slog.New(slog.NewTextHandler(&said, nil)))
	r := newRun(t, accelerate.Options{Accumulation: accelerate.Accumulation{Steps: 2}},
		accelerate.LoaderOptions{BatchSize: 2}, 10, lr.Constant{}, 3)
	var warned []int // batches
	r.pass(t, r.train, func(batch int) {
		said.Reset()
		_, err := r.acc.SaveState(filepath.Join(t.TempDir(), "state"))
		require.NoError(t, err)
		if strings.Contains(said.String(), "inside an accumulation window") {
			warned = append(warned, batch)
		}
	})
	assert.Equal(t, []int{1, 3}, warned, "the fifth batch, the last, ends a window")
}

type count int

func (c *count) MarshalState() ([]byte, error) { return fmt.Append(nil, int(*c)), nil }
func (c *count) UnmarshalState(text []byte) error {
	_, err := fmt.Sscan(string(text), (*int)(c))
	return err
}

func TestAutomaticNaming(t *testing.T) {
	testenv.RequireTorch(t)
	dir := t.TempDir()
	project := accelerate.Project{Dir: dir, AutomaticNaming: true, TotalLimit: 2}
	r := newRun(t, accelerate.Options{Project: project}, accelerate.LoaderOptions{BatchSize: 2}, 4, lr.Constant{}, 10)
	for range 3 {
		if _, err := r.acc.SaveState(""); err != nil {
			t.Fatal(err)
		}
	}
	left, err := filepath.Glob(filepath.Join(dir, "checkpoints", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range left {
		left[i] = filepath.Base(left[i])
	}
	if want := []string{"checkpoint_1", "checkpoint_2"}; !slices.Equal(left, want) {
		t.Errorf("%v are left, want %v", left, want)
	}
	if err := r.acc.LoadState(""); err != nil {
		t.Errorf("the newest: %v", err)
	}
	if _, err := r.acc.SaveState("x"); err == nil {
		t.Error("a name was accepted though names are automatic")
	}
	// A resumed process that does not continue the count would overwrite a folder of the earlier
	// run. It gets an error and deletes nothing.
	again := newRun(t, accelerate.Options{Project: accelerate.Project{Dir: dir, AutomaticNaming: true, TotalLimit: 1,
		Iteration: 1}}, accelerate.LoaderOptions{BatchSize: 2}, 4, lr.Constant{}, 10)
	_, err = again.acc.SaveState("")
	require.ErrorContains(t, err, "exists already")
	require.DirExists(t, filepath.Join(dir, "checkpoints", "checkpoint_1"))
	project.TotalLimit = 0
	for iteration, want := range map[int]string{1: "exists already", 3: ""} {
		project.Iteration = iteration
		again := newRun(t, accelerate.Options{Project: project}, accelerate.LoaderOptions{BatchSize: 2}, 4,
			lr.Constant{}, 10)
		_, err := again.acc.SaveState("")
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("Iteration %d: %v, want %q", iteration, err, want)
		}
	}
}

// full is an object whose state cannot be saved.
type full struct{ object }

func (full) MarshalState() ([]byte, error) { return nil, syscall.ENOSPC }

func TestTheOldStateStaysUntilTheNewOneIsThere(t *testing.T) {
	testenv.RequireTorch(t)
	dir := t.TempDir()
	a, err := accelerate.New(accelerate.Options{Project: accelerate.Project{Dir: dir, AutomaticNaming: true,
		TotalLimit: 1}})
	require.NoError(t, err)
	first, err := a.SaveState("")
	require.NoError(t, err)
	a.RegisterForCheckpointing(full{})
	_, err = a.SaveState("")
	require.ErrorIs(t, err, syscall.ENOSPC)
	require.NoError(t, checkpoint.Verify(first))

	// The new state is kept even if its number is not the highest, and names continue as before.
	a, err = accelerate.New(accelerate.Options{Project: accelerate.Project{Dir: dir, AutomaticNaming: true,
		TotalLimit: 1, Iteration: 5}})
	require.NoError(t, err)
	_, err = a.SaveState("")
	require.NoError(t, err)
	require.NoDirExists(t, first)
	a, err = accelerate.New(accelerate.Options{Project: accelerate.Project{Dir: dir, AutomaticNaming: true,
		TotalLimit: 1}})
	require.NoError(t, err)
	first, err = a.SaveState("")
	require.NoError(t, err)
	require.DirExists(t, first)
	require.NoDirExists(t, filepath.Join(dir, "checkpoints", "checkpoint_5"))
}

func TestRefusals(t *testing.T) {
	testenv.RequireTorch(t)
	for _, c := range []struct {
		claim   string
		options accelerate.Options
		want    string
	}{
		{"fp16 needs a GPU", accelerate.Options{MixedPrecision: amp.FP16}, "needs a GPU"},
		{"a window has a length", accelerate.Options{Accumulation: accelerate.Accumulation{Steps: -1}}, "Steps is -1"},
		{"a precision that is none", accelerate.Options{MixedPrecision: 9}, "FP32, BF16 or FP16"},
		{"automatic names need a folder", accelerate.Options{Project: accelerate.Project{AutomaticNaming: true}},
			"Project.Dir"},
		{"a negative limit", accelerate.Options{Project: accelerate.Project{TotalLimit: -2}}, "TotalLimit is -2"},
		{"a negative iteration", accelerate.Options{Project: accelerate.Project{Iteration: -2}}, "Iteration is -2"},
	} {
		if _, err := accelerate.New(c.options); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", c.claim, err, c.want)
		}
	}
	r := newRun(t, accelerate.Options{}, accelerate.LoaderOptions{BatchSize: 2}, 4, lr.Constant{}, 10)
	if _, err := accelerate.PrepareLoader(r.acc, points(4), collate, accelerate.LoaderOptions{BatchSize: 2,
		Seedable: true}); err == nil {
		t.Error("a seedable order without shuffling was accepted")
	}
	if _, err := accelerate.PrepareLoader(r.acc, points(4), collate, accelerate.LoaderOptions{}); err == nil {
		t.Error("a loader without batch size was accepted")
	}
	if _, err := r.acc.SaveState(""); err == nil {
		t.Error("a state without name was saved")
	}
	if err := r.acc.LoadState(""); err == nil {
		t.Error("a state without name was loaded")
	}
	if _, err := r.acc.PrepareSchedule(r.opt, lr.StepLR{}, 10); err == nil {
		t.Error("a schedule with settings that cannot be was accepted")
	}
	if err := r.acc.PrepareModel(42); err == nil {
		t.Error("a number was accepted as a model")
	}
	part := nn.NewLinear(2, 2, nil)
	part.SetPart(&nn.LinearPart{Name: "part 0 of 2 of the output features"})
	if err := r.acc.PrepareModel(nn.Sequential{part}); err == nil || !strings.Contains(err.Error(),
		"only parts of the model are here (0, part 0 of 2 of the output features)") {
		t.Errorf("a model with a divided layer: %v", err)
	}
	err := r.acc.Accumulate(func() error {
		r.model.Forward(torch.Zeros(2, 3)) // has the wrong width
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "Linear") {
		t.Errorf("a mistake in the loop came back as %v", err)
	}
	if acc := r.acc; acc.NumProcesses() != 1 || acc.Device() != torch.CPU || len(acc.Gather(r.model.Weight)) != 1 {
		t.Error("one process gathers what it has")
	}
}

// The last batch of a stream, which is known only once it is there, ends its window; each pass
// begins at the first sample.
func TestStreams(t *testing.T) {
	testenv.RequireTorch(t)
	r := newRun(t, accelerate.Options{Accumulation: accelerate.Accumulation{Steps: 2}},
		accelerate.LoaderOptions{BatchSize: 2}, 4, lr.Constant{}, 10)
	stream := func(n int) data.Stream[[2]float32] { return data.StreamOf(points(n), nil) }
	l, err := accelerate.PrepareStream(r.acc, stream(5), collate, accelerate.LoaderOptions{BatchSize: 2})
	if err != nil {
		t.Fatal(err)
	}
	if l.Len() != -1 {
		t.Errorf("Len = %d, want -1", l.Len())
	}
	read := func(l *accelerate.Loader[[2]float32, [][2]float32]) (sizes []int, sync []bool) {
		for b, err := range l.Batches(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			sizes = append(sizes, len(b))
			if err := r.acc.Accumulate(func() error { return nil }); err != nil {
				t.Fatal(err)
			}
			sync = append(sync, r.acc.SyncGradients())
		}
		return sizes, sync
	}
	for pass := range 2 {
		if sizes, sync := read(l); !slices.Equal(sizes, []int{2, 2, 1}) || !slices.Equal(sync,
			[]bool{false, true, true}) {
			t.Errorf("pass %d: batches of %v, ends of windows %v", pass, sizes, sync)
		}
	}
	if sizes, _ := read(accelerate.SkipFirstBatches(l, 2)); !slices.Equal(sizes, []int{1}) {
		t.Errorf("after 2 skipped batches come batches of %v, want [1]", sizes)
	}
	short, err := accelerate.PrepareStream(r.acc, stream(1), collate, accelerate.LoaderOptions{BatchSize: 2,
		DropLast: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, err = range short.Batches(t.Context()) {
	}
	if err == nil || !strings.Contains(err.Error(), "no batch") {
		t.Errorf("a pass without a batch: %v, want an error", err)
	}
	if _, err := accelerate.PrepareStream(r.acc, stream(5), collate, accelerate.LoaderOptions{BatchSize: 2,
		Shuffle: true}); err == nil {
		t.Error("a shuffled stream was accepted")
	}
}

func TestALoaderThatIsLeftEarlyEndsNoWindow(t *testing.T) {
	testenv.RequireTorch(t)
	r := newRun(t, accelerate.Options{Accumulation: accelerate.Accumulation{Steps: 3}},
		accelerate.LoaderOptions{BatchSize: 1}, 2, lr.Constant{}, 10)
	for range r.train.Batches(context.Background()) {
		break
	}
	if err := r.acc.Accumulate(func() error { return nil }); err != nil || r.acc.SyncGradients() {
		t.Errorf("outside of any loader: window ends %v (%v), want not", r.acc.SyncGradients(), err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for _, err := range r.train.Batches(ctx) {
		if err == nil {
			t.Error("a cancelled context gave a batch")
		}
	}
}

// The two optimizers of a GAN take turns: each update clips the gradients of both.
func TestOptimizersThatTakeTurnsAreClippedWithoutTheScale(t *testing.T) {
	testenv.RequireTorch(t)
	acc, err := accelerate.New(accelerate.Options{Scaler: amp.NewGradScaler(amp.GradScalerOptions{InitScale: 1024})})
	require.NoError(t, err)
	var params [2][]torch.Named
	var optimizers [2]*accelerate.Optimizer
	for i := range params {
		params[i] = []torch.Named{{Name: "w", Tensor: torch.Ones(4).RequiresGrad()}}
		optimizers[i] = acc.PrepareOptimizer(optim.NewSGD(params[i], optim.SGD{}), 1)
	}
	for update := range 6 {
		i := update % 2
		acc.Backward(params[i][0].Tensor.Sum(torch.DefaultDType).MulScalar(3))
		norm, err := acc.ClipGradNorm(params[i], 1)
		require.NoError(t, err)
		assert.InDelta(t, 6, norm.Item(), 1e-5, "update %d: the norm of four threes", update)
		require.NoError(t, optimizers[i].Step())
		optimizers[i].ZeroGrad()
		assert.InDelta(t, 1-0.5*float64(update/2+1), params[i][0].Tensor.Detach().Select(0, 0).Item(), 1e-5)
	}
}

// As in PyTorch, whose scaler says that unscale_() has already been called.
func TestClippedGradientsWithoutAnUpdateAreAnErrorInTheNextWindow(t *testing.T) {
	testenv.RequireTorch(t)
	acc, err := accelerate.New(accelerate.Options{Scaler: amp.NewGradScaler(amp.GradScalerOptions{})})
	require.NoError(t, err)
	w := []torch.Named{{Name: "w", Tensor: torch.Ones(4).RequiresGrad()}}
	opt := acc.PrepareOptimizer(optim.NewSGD(w, optim.SGD{}), 1)
	clip := func() error {
		acc.Backward(w[0].Tensor.Sum(torch.DefaultDType))
		_, err := acc.ClipGradNorm(w, 1)
		return err
	}
	require.NoError(t, clip())
	opt.ZeroGrad()
	require.ErrorIs(t, clip(), amp.ErrUnscaledTwice)
}
