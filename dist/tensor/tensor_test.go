package tensor_test

import (
	"context"
	"fmt"
	"math"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/tensor"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/ranktest"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	os.Exit(testenv.Run(m))
}

// together runs f as each rank, in goroutines of this process, each with its own random generator.
func together(t *testing.T, world int, f func(ctx context.Context, g *dist.Group) error) []error {
	t.Helper()
	testenv.RequireTorch(t)
	return ranktest.Together(t, world, nil, func(ctx context.Context, g *dist.Group) (err error) {
		torch.ForkRNG(func() {
			torch.ManualSeed(3)
			if failed := torch.Try(func() { err = f(ctx, g) }); failed != nil {
				err = failed
			}
		})
		return err
	})
}

func all(t *testing.T, errs []error) {
	t.Helper()
	for rank, err := range errs {
		assert.NoError(t, err, "rank %d", rank)
	}
}

// block is the module that the model of the golden file has twice.
type block struct {
	Norm    *nn.LayerNorm `module:"norm"`
	Up      *nn.Linear    `module:"up"`
	Dropout *nn.Dropout   `module:"dropout"`
	Down    *nn.Linear    `module:"down"`
}

func (b *block) forward(x torch.Tensor) torch.Tensor {
	return x.Add(b.Down.Forward(b.Dropout.Forward(b.Up.Forward(b.Norm.Forward(x)).GELU("none"))))
}

type net struct {
	Inlet  *nn.Linear `module:"inlet"`
	Blocks []*block   `module:"blocks"`
	Outlet *nn.Linear `module:"outlet"`

	checkpoints bool
}

var plan = tensor.Plan{"blocks.*.up": tensor.Colwise, "blocks.*.down": tensor.Rowwise}

func newNet(inner int64) *net {
	m := &net{Inlet: nn.NewLinear(5, 6, nil)}
	for range 2 {
		m.Blocks = append(m.Blocks, &block{Norm: nn.NewLayerNorm(nn.Dims{6}, nil), Up: nn.NewLinear(6, inner, nil),
			Dropout: nn.NewDropout(0), Down: nn.NewLinear(inner, 6, nil)})
	}
	m.Outlet = nn.NewLinear(6, 2, &nn.LinearOptions{NoBias: true})
	return m
}

func (m *net) forward(x torch.Tensor) torch.Tensor {
	x = m.Inlet.Forward(x)
	for _, b := range m.Blocks {
		if m.checkpoints {
			x = torch.Checkpoint(func(in []torch.Tensor) []torch.Tensor {
				return []torch.Tensor{b.forward(in[0])}
			}, x)[0]
			continue
		}
		x = b.forward(x)
	}
	return m.Outlet.Forward(x)
}

// input returns the batch of a step.
func input(step int) torch.Tensor {
	v := make([]float64, 60)
	for i := range v {
		v[i] = math.Sin(float64(100*step + i))
	}
	return torch.From(v, 4, 3, 5)
}

// result holds the outcome of a training run: tensors by name.
type result map[string][]float64

func (r result) add(prefix string, ts []torch.Named) {
	for _, t := range ts {
		if t.Tensor.Defined() {
			r[prefix+t.Name] = append(r[prefix+t.Name], torch.Values[float64](t.Tensor.Detach().ToDType(torch.Float64))...)
		}
	}
}

// compare returns an error if two results differ by more than a tolerance, relative to the largest
// element of each tensor.
func compare(got, want result, relative float64) error {
	if len(got) != len(want) {
		return fmt.Errorf("there are %d results, want %d", len(got), len(want))
	}
	for name, w := range want {
		if len(got[name]) != len(w) {
			return fmt.Errorf("%s: there are %d numbers, want %d", name, len(got[name]), len(w))
		}
		greatest := 0.0
		for _, x := range w {
			greatest = max(greatest, math.Abs(x))
		}
		for i, x := range w {
			if !(math.Abs(got[name][i]-x) <= relative*greatest) {
				return fmt.Errorf("%s: number %d is %v, want %v", name, i, got[name][i], x)
			}
		}
	}
	return nil
}

// run is a training configuration.
type run struct {
	inner       int64 // features between up and down
	optimizer   optim.Builder
	checkpoints bool
	frozen      string // pattern of frozen parameters
	deferred    bool
}

// train makes four updates in float64, with clipping. The gradients in the result are those of the
// first pass, for parameters that are not divided.
func (o run) train(ctx context.Context, g *dist.Group) (result, error) {
	var m *net
	make := func() { m = newNet(o.inner) }
	if o.deferred {
		nn.Defer(make)
	} else {
		make()
	}
	nn.To(m, torch.TensorOptions{DType: torch.Float64})
	m.checkpoints = o.checkpoints
	if o.frozen != "" {
		if err := nn.Freeze(m, o.frozen); err != nil {
			return nil, err
		}
	}
	p, err := tensor.Parallelize(ctx, g, m, plan)
	if err != nil {
		return nil, err
	}
	var trained []torch.Named
	for _, q := range nn.Params(m) {
		if q.Tensor.NeedsGrad() {
			trained = append(trained, q)
		}
	}
	opt, err := o.optimizer.Build([]optim.Group{{Params: trained}})
	if err != nil {
		return nil, err
	}
	got := result{}
	for step := range 4 {
		y := m.forward(input(step))
		loss := y.SubScalar(1).Square().Mean(torch.DefaultDType)
		loss.Backward()
		if step == 0 {
			got.add("gradient of ", []torch.Named{{Name: "inlet.weight", Tensor: m.Inlet.Weight.Grad()},
				{Name: "blocks.0.down.bias", Tensor: m.Blocks[0].Down.Bias.Grad()}})
		}
		norm, err := p.GradNorm(ctx)
		if err != nil {
			return nil, err
		}
		before, err := p.ClipGradNorm(ctx, 0.3)
		if err != nil {
			return nil, err
		}
		after, err := p.GradNorm(ctx)
		if err != nil {
			return nil, err
		}
		got.add("", []torch.Named{{Name: "output", Tensor: y}, {Name: "norm", Tensor: norm},
			{Name: "norm before", Tensor: before}, {Name: "norm after", Tensor: after}})
		opt.Step(o.optimizer.LearningRate())
		opt.ZeroGrad()
	}
	if err := p.Summon(ctx); err != nil {
		return nil, err
	}
	got.add("", nn.Params(m))
	return got, p.Release()
}

// alone runs f in a group of one process.
func alone[T any](f func(ctx context.Context, g *dist.Group) (T, error)) (got T, err error) {
	torch.ForkRNG(func() {
		torch.ManualSeed(3)
		if failed := torch.Try(func() { got, err = f(context.Background(), nil) }); failed != nil {
			err = failed
		}
	})
	return got, err
}

// Outputs, gradients, norms and weights equal those of the undivided model up to the order of
// summation.
func TestTrainingIsThatOfOneProcess(t *testing.T) {
	testenv.RequireTorch(t)
	for name, o := range map[string]run{
		"SGD":              {optimizer: optim.SGD{LR: 0.1, Momentum: 0.9}},
		"AdamW":            {optimizer: optim.AdamW{LR: 0.01}},
		"checkpoints":      {optimizer: optim.SGD{LR: 0.1}, checkpoints: true},
		"frozen layers":    {optimizer: optim.SGD{LR: 0.1}, frozen: "blocks.0.*"},
		"a frozen inlet":   {optimizer: optim.SGD{LR: 0.1}, frozen: "inlet.*"},
		"a deferred model": {optimizer: optim.SGD{LR: 0.1}, deferred: true},
	} {
		t.Run(name, func(t *testing.T) {
			o.inner = 12
			if o.deferred {
				o.inner = 600 // weights of 16 KiB or more are deferred
				eager := o
				eager.deferred = false
				want, err := alone(eager.train)
				require.NoError(t, err)
				got, err := alone(o.train)
				require.NoError(t, err)
				require.NoError(t, compare(got, want, 0), "one process")
			}
			want, err := alone(o.train)
			require.NoError(t, err)
			if o.frozen != "inlet.*" {
				require.Contains(t, want, "gradient of inlet.weight")
			}
			for _, world := range []int{2, 3} {
				all(t, together(t, world, func(ctx context.Context, g *dist.Group) error {
					got, err := o.train(ctx, g)
					if err != nil {
						return err
					}
					return compare(got, want, 1e-12)
				}))
			}
		})
	}
}

// whole fills a tensor with small integers.
func whole(t torch.Tensor, seed int) {
	v := make([]float64, t.Numel())
	for i := range v {
		v[i] = float64((i*i+7*i+3*seed)%7 - 2)
	}
	torch.NoGrad(func() { t.Copy_(torch.From(v, t.Shape()...)) })
}

// Sums of small integers are exact in any order, so two passes and updates must be equal in every
// bit.
func TestWholeNumbersAreExact(t *testing.T) {
	testenv.RequireTorch(t)
	train := func(ctx context.Context, g *dist.Group) (result, error) {
		m := nn.Sequential{nn.NewLinear(4, 6, nil), nn.ReLU{}, nn.NewLinear(6, 4, nil), nn.NewLinear(4, 6, nil), nn.ReLU{},
			nn.NewLinear(6, 3, nil)}
		nn.To(m, torch.TensorOptions{DType: torch.Float64})
		for i, p := range nn.Params(m) {
			whole(p.Tensor, i+g.Rank()) // differs by rank; the weights of rank 0 count
		}
		p, err := tensor.Parallelize(ctx, g, m, tensor.Plan{"0": tensor.Colwise, "2": tensor.Rowwise, "3": tensor.Colwise,
			"5": tensor.Rowwise})
		if err != nil {
			return nil, err
		}
		opt, err := optim.SGD{LR: 1}.Build([]optim.Group{{Params: nn.Params(m)}})
		if err != nil {
			return nil, err
		}
		x := torch.From(make([]float64, 8), 2, 4).RequiresGrad()
		whole(x, 11)
		got := result{}
		for range 2 {
			y := m.Forward(x)
			y.Sum(torch.DefaultDType).Backward()
			got.add("", []torch.Named{{Name: "output", Tensor: y}, {Name: "gradient of the input", Tensor: x.Grad()}})
			opt.Step(1)
			opt.ZeroGrad()
		}
		if err := p.Summon(ctx); err != nil {
			return nil, err
		}
		got.add("", nn.Params(m))
		return got, nil
	}
	want, err := alone(train)
	require.NoError(t, err)
	for _, name := range []string{"output", "gradient of the input"} {
		for i, x := range want[name] {
			require.NotZero(t, x, "%s, number %d", name, i)
		}
	}
	for _, world := range []int{2, 3} {
		all(t, together(t, world, func(ctx context.Context, g *dist.Group) error {
			got, err := train(ctx, g)
			if err != nil {
				return err
			}
			return compare(got, want, 0)
		}))
	}
}

// Two processes compute what two processes in PyTorch do, except in the last bits: PyTorch adds the
// bias on the first process before the sum.
func TestTrainingIsThatOfPyTorchsTensorParallel(t *testing.T) {
	testenv.RequireTorch(t)
	file := golden.Load(t, "testdata/parallel.safetensors")
	const rtol, atol = 1e-5, 1e-6
	var comparing sync.Mutex
	all(t, together(t, 2, func(ctx context.Context, g *dist.Group) error {
		m := newNet(8)
		torch.NoGrad(func() {
			for _, p := range nn.Params(m) {
				p.Tensor.Copy_(file.Tensor("start." + p.Name))
			}
		})
		p, err := tensor.Parallelize(ctx, g, m, plan)
		if err != nil {
			return err
		}
		opt, err := optim.SGD{LR: 0.05, Momentum: 0.9}.Build([]optim.Group{{Params: nn.Params(m)}})
		if err != nil {
			return err
		}
		check := func(name string, got torch.Tensor, dim int64) {
			want := file.Tensor("parallel." + name)
			if dim >= 0 {
				want = want.Narrow(dim, int64(g.Rank())*4, 4).Contiguous()
			}
			comparing.Lock()
			defer comparing.Unlock()
			golden.Close(t, name, got.Detach(), want, rtol, atol)
		}
		parts := map[string]int64{"up.weight": 0, "up.bias": 0, "down.weight": 1}
		for step := range 3 {
			y := m.forward(file.Tensor("x"))
			loss := y.Sub(file.Tensor("y")).Square().Mean(torch.DefaultDType)
			loss.Backward()
			check(fmt.Sprint("loss.", step), loss, -1)
			if step == 0 {
				check("output", y, -1)
				for _, q := range nn.Params(m) {
					dim, ok := parts[q.Name[min(len("blocks.0."), len(q.Name)):]]
					if !ok {
						dim = -1
					}
					check("grad."+q.Name, q.Tensor.Grad(), dim)
				}
			}
			opt.Step(0.05)
			opt.ZeroGrad()
		}
		if err := p.Summon(ctx); err != nil {
			return err
		}
		for _, q := range nn.Params(m) {
			check("end."+q.Name, q.Tensor, -1)
		}
		return nil
	}))
}
