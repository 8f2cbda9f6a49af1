package shard_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
	"github.com/gotrainer/gotrainer/dist/shard"
	"github.com/gotrainer/gotrainer/internal/ranktest"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

func TestMain(m *testing.M) {
	testenv.PinBits()
	if os.Getenv(runFolder) != "" {
		if err := process(); err != nil {
			fmt.Println(err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	os.Exit(testenv.Run(m))
}

// together runs f as each rank, in goroutines of this process.
func together(t *testing.T, world int, f func(ctx context.Context, g *dist.Group) error) []error {
	t.Helper()
	testenv.RequireTorch(t)
	return ranktest.Together(t, world, nil, func(ctx context.Context, g *dist.Group) (err error) {
		if failed := torch.Try(func() { err = f(ctx, g) }); failed != nil {
			err = failed
		}
		return err
	})
}

func all(t *testing.T, errs []error) {
	t.Helper()
	for rank, err := range errs {
		assert.NoError(t, err, "rank %d", rank)
	}
}

// net has shared weights (embed, head), uneven sizes, a frozen layer, and a layer that is used by
// all, some or none of the processes.
type net struct {
	Embed  *nn.Linear `module:"embed"`
	Hidden *nn.Linear `module:"hidden"`
	Frozen *nn.Linear `module:"frozen"`
	Extra  *nn.Linear `module:"extra"`
	Head   *nn.Linear `module:"head"`

	ends, middle, extra *shard.Unit
}

var building sync.Mutex // guards the generator that the ranks of a test share

func newNet(dtype torch.DType, tied bool) *net {
	building.Lock()
	defer building.Unlock()
	torch.ManualSeed(7)
	m := &net{Embed: nn.NewLinear(5, 5, nil), Hidden: nn.NewLinear(5, 5, nil), Frozen: nn.NewLinear(5, 5, nil),
		Extra: nn.NewLinear(5, 5, nil), Head: nn.NewLinear(5, 5, nil)}
	nn.To(m, torch.TensorOptions{DType: dtype})
	if tied {
		m.Head.Weight = m.Embed.Weight
	}
	for _, p := range nn.Params(m.Frozen) {
		p.Tensor.SetRequiresGrad(false)
	}
	return m
}

// forward uses the extra layer if told to.
func (m *net) forward(x torch.Tensor, extra bool) torch.Tensor {
	layer := func(u *shard.Unit, layers ...*nn.Linear) {
		x = u.Run(func(in []torch.Tensor) []torch.Tensor {
			y := in[0]
			for _, l := range layers {
				y = l.Forward(y).Tanh()
			}
			return []torch.Tensor{y}
		}, x)[0]
	}
	layer(m.ends, m.Embed)
	layer(m.middle, m.Hidden, m.Frozen)
	if extra {
		layer(m.extra, m.Extra)
	}
	layer(m.ends, m.Head)
	return x.Square().Mean(torch.DefaultDType)
}

// input returns the batch of one rank at one step.
func input(rank, step int, dtype torch.DType) torch.Tensor {
	v := make([]float64, 15)
	for i := range v {
		v[i] = math.Sin(float64(100*rank + 31*step + i))
	}
	return torch.From(v, 3, 5).ToDType(dtype)
}

// result holds the outcome of a training run: parameters by name, and norms.
type result map[string][]float64

const maxNorm = 0.05

// byDDP trains with package dist/ddp.
func byDDP(ctx context.Context, g *dist.Group, dtype torch.DType, o run) (result, error) {
	m := newNet(dtype, !o.untied)
	p, err := ddp.New(ctx, g, m, ddp.Options{FindUnusedParameters: true})
	if err != nil {
		return nil, err
	}
	defer p.Close()
	var trained []torch.Named
	for _, p := range nn.Params(m) {
		if p.Tensor.NeedsGrad() {
			trained = append(trained, p)
		}
	}
	opt, err := o.optimizer.Build(o.groups(trained))
	if err != nil {
		return nil, err
	}
	got := result{}
	for step := range 4 {
		for i := range o.window() {
			if err := p.BeforeForward(ctx, i == o.window()-1); err != nil {
				return nil, err
			}
			loss := m.forward(input(g.Rank(), 10*step+i, dtype), o.extra(g.Rank()))
			if err := p.Backward(ctx, loss.Backward, loss); err != nil {
				return nil, err
			}
		}
		if o.clip {
			got["norm"] = append(got["norm"], optim.ClipGradNorm(trained, maxNorm).Item())
		}
		opt.Step(o.optimizer.LearningRate())
		opt.ZeroGrad()
	}
	for _, p := range trained {
		got[p.Name] = torch.Values[float64](p.Tensor.Detach().ToDType(torch.Float64))
	}
	return got, nil
}

// groups returns two parameter groups, divided by name.
func (o run) groups(params []torch.Named) []optim.Group {
	decay := new(0.5)
	if _, ok := o.optimizer.(optim.Rprop); ok { // Rprop has no weight decay
		decay = nil
	}
	all, err := optim.ByPattern(params, optim.Pattern{Match: `bias$`, WeightDecay: decay, LRScale: 2})
	if err != nil {
		panic(err)
	}
	return all
}

// run is the configuration that a test varies.
type run struct {
	optimizer  optim.Builder
	clip       bool
	accumulate bool
	used       func(rank int) bool // whether a rank uses the extra layer; nil: all do
	bucket     float64
	untied     bool // no shared weights
	shards     int  // per replica; 0: one replica
}

func (o run) extra(rank int) bool { return o.used == nil || o.used(rank) }

func (o run) window() int {
	if o.accumulate {
		return 3
	}
	return 1
}

// byShards trains the same run with a sharding strategy.
func byShards(ctx context.Context, g *dist.Group, dtype torch.DType, o run, s shard.Strategy) (result, error) {
	m := newNet(dtype, !o.untied)
	params := nn.Params(m)
	var trained []torch.Named
	for _, p := range params {
		if p.Tensor.NeedsGrad() {
			trained = append(trained, p)
		}
	}
	options := shard.Options{Strategy: s, FindUnusedParameters: true, BucketCapMB: o.bucket}
	parts := g
	if o.shards > 0 {
		mesh, err := dist.NewMesh(ctx, g, o.shards)
		if err != nil {
			return nil, err
		}
		defer mesh.Close() //nolint:errcheck // it is over
		options.Mesh, parts = mesh, mesh.Shard
	}
	if s == shard.FullShard {
		for _, u := range []struct {
			unit    **shard.Unit
			modules []any
		}{{&m.ends, []any{m.Embed, m.Head}}, {&m.middle, []any{m.Hidden, m.Frozen}}, {&m.extra, []any{m.Extra}}} {
			unit, err := shard.FullyShard(ctx, parts, u.modules...)
			if err != nil {
				return nil, err
			}
			*u.unit = unit
			options.Units = append(options.Units, unit)
		}
	}
	p, err := shard.New(ctx, g, m, options)
	if err != nil {
		return nil, err
	}
	defer p.Close()
	opt, err := p.Optimizer(o.optimizer, o.groups(trained))
	if err != nil {
		return nil, err
	}
	got := result{}
	for step := range 4 {
		for i := range o.window() {
			if err := p.BeforeForward(ctx, i == o.window()-1); err != nil {
				return nil, err
			}
			loss := m.forward(input(g.Rank(), 10*step+i, dtype), o.extra(g.Rank()))
			if err := p.Backward(ctx, loss.Backward, loss); err != nil {
				return nil, err
			}
		}
		if o.clip {
			norm, err := p.ClipGradNorm(ctx, maxNorm)
			if err != nil {
				return nil, err
			}
			got["norm"] = append(got["norm"], norm.Item())
		}
		if err := p.Step(ctx, opt, o.optimizer.LearningRate()); err != nil {
			return nil, err
		}
		p.ZeroGrad()
	}
	for _, piece := range p.Pieces() {
		all, err := ddp.AllGather(ctx, parts, piece.Tensor.Detach().ToDType(torch.Float64))
		if err != nil {
			return nil, err
		}
		got[piece.Name] = torch.Values[float64](torch.Cat(all, 0))
	}
	return got, nil
}

// compare returns an error for each value where two results differ by more than a tolerance.
func compare(got, want result, tolerance float64) (errs error) {
	if len(got) != len(want) {
		errs = fmt.Errorf("%d parameters, want %d", len(got), len(want))
	}
	for name, values := range want {
		if len(got[name]) != len(values) {
			return fmt.Errorf("%s has %d elements, want %d", name, len(got[name]), len(values))
		}
		for i, v := range values {
			if d := math.Abs(got[name][i] - v); !(d <= tolerance) {
				errs = errors.Join(errs, fmt.Errorf("element %d of %s is %v, want %v: %g", i, name, got[name][i], v, d))
				break
			}
		}
	}
	return errs
}

var strategies = []shard.Strategy{shard.ZeroRedundancyOptimizer, shard.ShardGradOp, shard.FullShard}

func TestShardedIsWhatDDPComputes(t *testing.T) {
	adamw := optim.AdamW{LR: 0.01}
	for name, o := range map[string]run{
		"AdamW":                    {optimizer: adamw},
		"replicas of 2 shards":     {optimizer: adamw, clip: true, accumulate: true, shards: 2},
		"SGD with momentum":        {optimizer: optim.SGD{LR: 0.1, Momentum: 0.9}},
		"clipped":                  {optimizer: adamw, clip: true},
		"accumulated":              {optimizer: adamw, accumulate: true},
		"many buckets":             {optimizer: adamw, bucket: 1e-5},
		"a layer that nobody uses": {optimizer: adamw, used: func(int) bool { return false }},
		"RMSprop":                  {optimizer: optim.RMSprop{LR: 0.01}},
	} {
		for _, s := range strategies {
			for world := 1; world <= 4; world++ {
				if world == 4 && name != "AdamW" && o.shards == 0 || o.shards > 0 && world%o.shards != 0 {
					continue
				}
				t.Run(fmt.Sprintf("%s/%s/%d", name, s, world), func(t *testing.T) {
					all(t, together(t, world, func(ctx context.Context, g *dist.Group) error {
						want, err := byDDP(ctx, g, torch.Float64, o)
						if err != nil {
							return err
						}
						got, err := byShards(ctx, g, torch.Float64, o, s)
						if err != nil {
							return err
						}
						return compare(got, want, 1e-12)
					}))
				})
			}
		}
	}
}

// With two processes, sums have only one order, except for weights shared by two runs of units.
func TestOfTwoProcessesTheBitsAreThoseOfDDP(t *testing.T) {
	for _, s := range strategies {
		t.Run(s.String(), func(t *testing.T) {
			all(t, together(t, 2, func(ctx context.Context, g *dist.Group) error {
				o := run{optimizer: optim.AdamW{LR: 0.01}, untied: true}
				want, err := byDDP(ctx, g, torch.Float32, o)
				if err != nil {
					return err
				}
				got, err := byShards(ctx, g, torch.Float32, o, s)
				if err != nil {
					return err
				}
				if !testenv.Pinned() {
					return compare(got, want, 1e-6)
				}
				return compare(got, want, 0)
			}))
		})
	}
}

func TestALayerThatOnlySomeProcessesUse(t *testing.T) {
	o := run{optimizer: optim.AdamW{LR: 0.01}, used: func(rank int) bool { return rank == 1 }}
	for _, s := range strategies {
		t.Run(s.String(), func(t *testing.T) {
			errs := together(t, 2, func(ctx context.Context, g *dist.Group) error {
				want, err := byDDP(ctx, g, torch.Float64, o)
				if err != nil {
					return err
				}
				got, err := byShards(ctx, g, torch.Float64, o, s)
				if err != nil {
					return err
				}
				return compare(got, want, 1e-12)
			})
			if s != shard.FullShard {
				all(t, errs)
				return
			}
			for rank, err := range errs { // its units are collectives
				require.Error(t, err, "rank %d", rank)
				assert.ErrorContains(t, err, "the processes make different calls", "rank %d", rank)
				assert.ErrorContains(t, err, "gathering unit 2, extra.weight and others", "rank %d", rank)
			}
		})
	}
}

// deep is a stack of layers of equal size, each of which is a unit.
type deep struct {
	Layers []*nn.Linear `module:"layers"`

	units []*shard.Unit
}

func (m *deep) forward(x torch.Tensor) torch.Tensor {
	for i, l := range m.Layers {
		x = m.units[i].Run(func(in []torch.Tensor) []torch.Tensor {
			return []torch.Tensor{l.Forward(in[0]).Tanh()}
		}, x)[0]
	}
	return x.Square().Mean(torch.DefaultDType)
}

// newDeep creates and shards one layer after the other.
func newDeep(ctx context.Context, g *dist.Group, layers int, width int64) (m *deep, err error) {
	m = &deep{Layers: make([]*nn.Linear, layers), units: make([]*shard.Unit, layers)}
	for i := range m.Layers {
		m.Layers[i] = nn.NewLinear(width, width, nil)
		if m.units[i], err = shard.FullyShard(ctx, g, m.Layers[i]); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func step(ctx context.Context, p *shard.Model, m *deep, opt optim.Optimizer, x torch.Tensor) error {
	if err := p.BeforeForward(ctx, true); err != nil {
		return err
	}
	var loss torch.Tensor
	if err := torch.Try(func() { loss = m.forward(x) }); err != nil {
		return err
	}
	if err := p.Backward(ctx, loss.Backward, loss); err != nil {
		return err
	}
	if err := p.Step(ctx, opt, 0.01); err != nil {
		return err
	}
	p.ZeroGrad()
	return nil
}

func TestEachProcessKeepsItsPart(t *testing.T) {
	const layers, width = 6, 33
	whole := int64(layers * (width*width + width) * 4)
	for world := int64(1); world <= 4; world++ {
		all(t, together(t, int(world), func(ctx context.Context, g *dist.Group) error {
			m, err := newDeep(ctx, g, layers, width)
			if err != nil {
				return err
			}
			p, err := shard.New(ctx, g, m, shard.Options{Strategy: shard.FullShard, Units: m.units})
			if err != nil {
				return err
			}
			opt, err := p.Optimizer(optim.AdamW{}, nil)
			if err != nil {
				return err
			}
			if err := step(ctx, p, m, opt, torch.Ones(2, width)); err != nil {
				return err
			}
			var held, moments int64
			for _, piece := range p.Pieces() {
				held += piece.Tensor.Numel() * 4
			}
			for _, s := range opt.State() {
				if s.Tensor.Dim() > 0 { // except counts
					moments += s.Tensor.Numel() * 4
				}
			}
			if limit := whole/world + layers*4; held > limit || moments > 2*limit {
				return fmt.Errorf("%d bytes of parameters and %d of moments; want at most %d and %d", held, moments, limit,
					2*limit)
			}
			for _, q := range nn.Params(m) {
				return fmt.Errorf("%s is whole between two passes", q.Name)
			}
			return nil
		}))
	}
}

// Layers that are sharded as soon as they are created have the same weights as in a single process.
func TestWeightsAreThoseOfTheSeed(t *testing.T) {
	testenv.RequireTorch(t)
	for _, world := range []int{1, 3} {
		all(t, together(t, world, func(ctx context.Context, g *dist.Group) error {
			var want []torch.Tensor
			var m *deep
			var err error
			torch.ForkRNG(func() { // this rank has its own generator
				torch.ManualSeed(3)
				for range 3 {
					want = append(want, nn.NewLinear(4, 4, nil).Weight)
				}
				torch.ManualSeed(3)
				m, err = newDeep(ctx, g, 3, 4)
			})
			if err != nil {
				return err
			}
			p, err := shard.New(ctx, g, m, shard.Options{Strategy: shard.FullShard, Units: m.units})
			if err != nil {
				return err
			}
			i := 0
			for _, piece := range p.Pieces() {
				parts, err := ddp.AllGather(ctx, g, piece.Tensor.Detach())
				if err != nil {
					return err
				}
				if len(piece.Shape) == 2 {
					if !torch.Cat(parts, 0).Reshape(4, 4).Equal(want[i].Detach()) {
						return fmt.Errorf("layer %d has other weights than in one process", i)
					}
					i++
				}
			}
			return nil
		}))
	}
}

func TestMistakesAreNamed(t *testing.T) {
	all(t, together(t, 1, func(ctx context.Context, g *dist.Group) error {
		_, statistics := shard.FullyShard(ctx, g, nn.NewBatchNorm1d(3, nil))
		_, lstm := shard.FullyShard(ctx, g, nn.NewLSTM(2, 2, nil))
		_, nothing := shard.FullyShard(ctx, g)
		layer := nn.NewLinear(2, 2, nil)
		_, strategy := shard.New(ctx, g, layer, shard.Options{})
		_, units := shard.New(ctx, g, layer, shard.Options{Strategy: shard.FullShard})
		u, err := shard.FullyShard(ctx, g, nn.NewLinear(2, 2, nil))
		if err != nil {
			return err
		}
		_, without := shard.New(ctx, g, layer, shard.Options{Strategy: shard.FullShard, Units: []*shard.Unit{u}})
		_, mixed := shard.New(ctx, g, layer, shard.Options{Strategy: shard.ShardGradOp, Units: []*shard.Unit{u}})
		_, bucket := shard.New(ctx, g, layer, shard.Options{Strategy: shard.ShardGradOp, BucketCapMB: -1})
		for _, q := range nn.Params(layer) {
			q.Tensor.SetRequiresGrad(false)
		}
		one, other := nn.NewLinear(2, 2, nil), nn.NewLinear(2, 2, nil)
		other.Weight = one.Weight
		if _, err := shard.FullyShard(ctx, g, one); err != nil {
			return err
		}
		_, twice := shard.FullyShard(ctx, g, other)
		_, elsewhere := shard.New(ctx, g, other, shard.Options{Strategy: shard.FullShard, Units: []*shard.Unit{u}})
		again, err := dist.Split(ctx, g, 0)
		if err != nil {
			return err
		}
		defer again.Close() //nolint:errcheck // it is over
		_, otherGroup := shard.New(ctx, again, layer, shard.Options{Strategy: shard.FullShard, Units: []*shard.Unit{u},
			Mesh: &dist.Mesh{Shard: again, Replicate: again}})
		_, stranger := shard.New(ctx, g, layer, shard.Options{Strategy: shard.FullShard, Units: []*shard.Unit{u}})
		for want, err := range map[string]error{
			"module 0 updates running_mean in a forward pass": statistics,
			"the module is a nn.LSTM, whose parameters are not fields, and so cannot be taken out of the model between " +
				"passes; use the strategy ShardGradOp": lstm,
			"the modules have no parameters":                          nothing,
			"want ZeroRedundancyOptimizer, ShardGradOp or FullShard":  strategy,
			"weight of module 0 is in another unit already":           twice,
			"parameter weight is in a unit under another name":        elsewhere,
			"FullShard needs Options.Units":                           units,
			"parameter weight, one of 2, is trained but in no unit":   without,
			"Units[0] is nil: false, but the strategy is ShardGradOp": mixed,
			"BucketCapMB is -1":                                       bucket,
			"weight of unit 0 is no parameter of the model":           stranger,
			"unit 0 was made in another group":                        otherGroup,
		} {
			assert.ErrorContains(t, err, want)
		}
		return nil
	}))
}

func TestOptimizersThatNeedWholeParametersAreRefused(t *testing.T) {
	all(t, together(t, 1, func(ctx context.Context, g *dist.Group) error {
		p, err := shard.New(ctx, g, nn.NewLinear(2, 2, nil), shard.Options{Strategy: shard.ShardGradOp})
		if err != nil {
			return err
		}
		for name, b := range map[string]optim.Builder{"LAMB": optim.LAMB{}, "Adafactor": optim.Adafactor{},
			"GaLoreAdamW": optim.GaLoreAdamW{}, "AdamW8bit": optim.AdamW8bit{}, "Muon": optim.Muon{},
			"AdamWScheduleFree": optim.AdamWScheduleFree{}, "StableAdamW": optim.StableAdamW{}} {
			_, err := p.Optimizer(b, nil)
			assert.ErrorContains(t, err, "shard: "+name+" cannot be sharded; an optimizer must update each element by itself")
		}
		_, err = p.Optimizer(optim.AdamW{}, []optim.Group{{Optimizer: optim.Muon{}}})
		assert.ErrorContains(t, err, "shard: Muon cannot be sharded")
		_, err = p.Optimizer(optim.AdamW{}, []optim.Group{{Params: []torch.Named{{Name: "no.such"}}}})
		assert.ErrorContains(t, err, `"no.such" of group 0 is no trained parameter`)
		_, err = p.ClipGradNorm(ctx, 0)
		assert.ErrorContains(t, err, "want a positive number")
		return nil
	}))
}

func TestAllElementwiseOptimizersTakePiecesThatAreEmpty(t *testing.T) {
	for name, b := range map[string]optim.Builder{"AdamW": optim.AdamW{}, "Adam": optim.Adam{}, "SGD": optim.SGD{LR: 0.1,
		Momentum: 0.9}, "Adagrad": optim.Adagrad{}, "Adadelta": optim.Adadelta{}, "Adamax": optim.Adamax{},
		"NAdam": optim.NAdam{}, "RAdam": optim.RAdam{}, "RMSprop": optim.RMSprop{}, "Rprop": optim.Rprop{},
		"ASGD": optim.ASGD{}, "Lion": optim.Lion{}, "AdEMAMix": optim.AdEMAMix{}} {
		t.Run(name, func(t *testing.T) {
			all(t, together(t, 4, func(ctx context.Context, g *dist.Group) error {
				want, err := byDDP(ctx, g, torch.Float64, run{optimizer: b}) // 4 ranks do not divide 5 elements
				if err != nil {
					return err
				}
				got, err := byShards(ctx, g, torch.Float64, run{optimizer: b, bucket: 1e-5}, shard.ShardGradOp)
				if err != nil {
					return err
				}
				return compare(got, want, 1e-12)
			}))
		})
	}
}

func TestAParameterWithoutAGradientIsNamed(t *testing.T) {
	for rank, err := range together(t, 2, func(ctx context.Context, g *dist.Group) error {
		m := newNet(torch.Float32, true)
		p, err := shard.New(ctx, g, m, shard.Options{Strategy: shard.ShardGradOp})
		if err != nil {
			return err
		}
		if err := p.BeforeForward(ctx, true); err != nil {
			return err
		}
		loss := m.forward(input(g.Rank(), 0, torch.Float32), false)
		return p.Backward(ctx, loss.Backward, loss)
	}) {
		require.Error(t, err, "rank %d", rank)
		assert.ErrorContains(t, err, "extra.bias, extra.weight had no part in the loss")
		assert.ErrorContains(t, err, "FindUnusedParameters")
	}
}

func TestAPassLearnsWhoHasGone(t *testing.T) {
	errs := together(t, 3, func(ctx context.Context, g *dist.Group) error {
		m, err := newDeep(ctx, g, 2, 3)
		if err != nil {
			return err
		}
		p, err := shard.New(ctx, g, m, shard.Options{Strategy: shard.FullShard, Units: m.units})
		if err != nil {
			return err
		}
		opt, err := p.Optimizer(optim.SGD{LR: 0.1}, nil)
		if err != nil {
			return err
		}
		if err := step(ctx, p, m, opt, torch.Ones(1, 3)); err != nil || g.Rank() == 2 {
			return err
		}
		return step(ctx, p, m, opt, torch.Ones(1, 3))
	})
	require.NoError(t, errs[2])
	for rank, err := range errs[:2] {
		require.Error(t, err, "rank %d", rank)
		assert.ErrorContains(t, err, "rank 2: it has closed its group", "rank %d", rank)
	}
}
