package accelerate_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/accelerate"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/internal/torchsave"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/optim/lr"
	"github.com/gotrainer/gotrainer/torch"
)

// stateRun is the run of testdata/state.py.
type stateRun struct {
	acc   *accelerate.Accelerator
	model nn.Sequential
	opt   *accelerate.Optimizer
	sched *accelerate.Schedule
	x     torch.Tensor
}

func newStateRun(t *testing.T, x torch.Tensor, p accelerate.Project) *stateRun {
	t.Helper()
	acc, err := accelerate.New(accelerate.Options{Project: p})
	require.NoError(t, err)
	r := &stateRun{acc: acc, x: x}
	require.NoError(t, accelerate.SetSeed(99))
	r.model = nn.Sequential{nn.NewLinear(4, 8, nil), nn.NewDropout(0.3), nn.NewLinear(8, 3, nil)}
	require.NoError(t, acc.PrepareModel(r.model))
	optimizer, err := optim.AdamW{Implementation: optim.Foreach}.Build([]optim.Group{{Params: nn.Params(r.model)}})
	require.NoError(t, err)
	r.opt = acc.PrepareOptimizer(optimizer, 0.02)
	r.sched, err = acc.PrepareSchedule(r.opt, lr.StepLR{StepSize: 2, Gamma: 0.5}, 9)
	require.NoError(t, err)
	return r
}

// train makes the updates from to to-1.
func (r *stateRun) train(t *testing.T, from, to int64) {
	t.Helper()
	for i := from; i < to; i++ {
		require.NoError(t, torch.Try(func() {
			torch.Scope(func() {
				r.acc.Backward(r.model.Forward(r.x.Select(0, i)).Square().Mean(torch.Float32))
				require.NoError(t, r.opt.Step())
				require.NoError(t, r.sched.Step())
				r.opt.ZeroGrad()
			})
		}))
	}
}

func (r *stateRun) bytes() (all []byte) {
	for _, p := range append(nn.StateDict(r.model), r.opt.Optimizer().State()...) {
		all = append(all, p.Tensor.Bytes()...)
	}
	return append(all, torch.DefaultGenerator(torch.CPU).State()...)
}

func savedByPython(t *testing.T) (dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "[1] saved") // special characters of patterns
	require.NoError(t, os.CopyFS(dir, os.DirFS("testdata/state/saved")))
	return dir
}

func TestStateOfPythonContinuesBitForBit(t *testing.T) {
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	g := golden.Load(t, "testdata/state/expected.safetensors")
	r := newStateRun(t, g.Tensor("x"), accelerate.Project{})
	require.NoError(t, r.acc.LoadState(savedByPython(t)))
	assert.Equal(t, 3, r.sched.Moves())
	assert.InDelta(t, 0.01, r.opt.Rate(), 1e-17)
	r.train(t, 3, 9)
	for _, p := range nn.StateDict(r.model) {
		golden.Recorded(t, p.Name, p.Tensor, g.Tensor("weights/"+p.Name))
	}
	moments, _, err := optim.ToPyTorch(r.opt.Optimizer())
	require.NoError(t, err)
	for _, m := range moments {
		golden.Recorded(t, m.Name, m.Tensor, g.Tensor("moments/"+m.Name[len("state."):]))
	}
	golden.Bits(t, "the next random numbers", torch.Rand(4), g.Tensor("next"))
}

// Files written for Python are read as if Python had written them.
func TestStateForPythonIsReadBack(t *testing.T) {
	testenv.RequireTorch(t)
	torch.SetThreads(1)
	x := golden.Load(t, "testdata/state/expected.safetensors").Tensor("x")
	whole := newStateRun(t, x, accelerate.Project{PythonFiles: true})
	from := savedByPython(t)
	require.NoError(t, whole.acc.LoadState(from))
	whole.train(t, 3, 6)
	dir, err := whole.acc.SaveState(filepath.Join(t.TempDir(), "six"))
	require.NoError(t, err)
	whole.train(t, 6, 9)

	start, _, _, err := torchsave.ReadRandom(filepath.Join(from, "random_states_0.pkl"), torchsave.AccelerateRandom)
	require.NoError(t, err)
	for _, keep := range []bool{true, false} {
		if !keep { // files that Python does not write
			for _, name := range []string{"MANIFEST.json", "optimizer.safetensors", "scheduler.json",
				"random_states_0.safetensors"} {
				require.NoError(t, os.Remove(filepath.Join(dir, name)))
			}
		}
		resumed := newStateRun(t, x, accelerate.Project{PythonFiles: true})
		require.NoError(t, resumed.acc.LoadState(dir))
		resumed.train(t, 6, 9)
		assert.Equal(t, whole.bytes(), resumed.bytes())
		last, err := resumed.acc.SaveState(filepath.Join(t.TempDir(), "nine"))
		require.NoError(t, err)
		got, _, _, err := torchsave.ReadRandom(filepath.Join(last, "random_states_0.pkl"), torchsave.AccelerateRandom)
		require.NoError(t, err)
		assert.Equal(t, start, got, "Python's generators, from which nothing was drawn")
		if keep {
			torch.ManualSeed(99)
			whole = newStateRun(t, x, accelerate.Project{})
			require.NoError(t, whole.acc.LoadState(dir))
			whole.train(t, 6, 9)
		}
	}
}

// object is an object that is registered for checkpointing.
type object struct{}

func (object) MarshalState() ([]byte, error) { return []byte("{}"), nil }
func (object) UnmarshalState([]byte) error   { return nil }

func TestStatesOfPythonThatDoNotFit(t *testing.T) {
	testenv.RequireTorch(t)
	x := golden.Load(t, "testdata/state/expected.safetensors").Tensor("x")
	for _, c := range []struct {
		claim  string
		change func(t *testing.T, dir string, r *stateRun)
		want   string
	}{
		{"no optimizer", func(t *testing.T, dir string, _ *stateRun) {
			t.Helper()
			require.NoError(t, os.Remove(filepath.Join(dir, "optimizer.bin")))
		}, "optimizer.bin"},
		{"a damaged schedule", func(t *testing.T, dir string, _ *stateRun) {
			t.Helper()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "scheduler.bin"), []byte("PK"), 0o600))
		}, "scheduler.bin"},
		{"a registered object of Python", func(t *testing.T, dir string, _ *stateRun) {
			t.Helper()
			require.NoError(t, os.WriteFile(filepath.Join(dir, "custom_checkpoint_0.pkl"), nil, 0o600))
		}, "custom_checkpoint_0.pkl is a pickled Python object"},
		{"a registered object here", func(_ *testing.T, _ string, r *stateRun) {
			r.acc.RegisterForCheckpointing(object{})
		}, "1 objects are registered for checkpointing"},
		{"no random states", func(t *testing.T, dir string, _ *stateRun) {
			t.Helper()
			require.NoError(t, os.Remove(filepath.Join(dir, "random_states_0.pkl")))
		}, "MANIFEST.json"},
	} {
		t.Run(c.claim, func(t *testing.T) {
			dir := savedByPython(t)
			r := newStateRun(t, x, accelerate.Project{})
			c.change(t, dir, r)
			before := r.bytes()
			require.ErrorContains(t, r.acc.LoadState(dir), c.want)
			assert.Equal(t, before, r.bytes(), "something has changed")
		})
	}
	r := newStateRun(t, x, accelerate.Project{PythonFiles: true})
	r.acc.RegisterForCheckpointing(object{})
	_, err := r.acc.SaveState(filepath.Join(t.TempDir(), "state"))
	assert.ErrorContains(t, err, "Options.Project.PythonFiles: 1 objects are registered")
}
