package optim_test

import (
	"crypto/sha256"
	encoding "encoding/hex"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// Optimizers of other packages, compared with the output of testdata/packages.py, which runs those
// packages.

const packageUpdates = 50

func init() {
	for _, b := range []optim.Builder{
		optim.AdamWScheduleFree{}, optim.RAdamScheduleFree{}, optim.SGDScheduleFree{}, optim.StableAdamW{},
		optim.GrokAdamW{}, optim.AdEMAMix{}, optim.AdEMAMix8bit{}, optim.AdamW8bit{}, optim.AdamW32bit{},
		optim.Lion8bit{}, optim.Lion32bit{}, optim.RMSprop8bit{}, optim.RMSprop32bit{}, optim.GaLoreAdamW8bit{},
		optim.APOLLOAdamW{}, optim.LOMO{}, optim.AdaLOMO{},
	} {
		packagesByName[reflect.TypeOf(b).Name()] = b
	}
	for name, b := range packagesByName {
		settingsByName[name] = b
	}
}

var packagesByName = map[string]optim.Builder{}

// packageInputs describes the parameters and gradients that testdata/packages.py draws.
var packageInputs = struct {
	names  []string
	shapes map[string][]int64
}{
	[]string{"weight", "bias", "scale", "late", "rare", "large", "odd", "frozen"},
	map[string][]int64{"weight": {23, 11}, "bias": {11}, "scale": {}, "late": {5, 3}, "rare": {33}, "large": {96, 64},
		"odd": {61, 70}, "frozen": {4}},
}

// packageCase is a file in testdata/packages.
type packageCase struct {
	name    string
	file    *golden.File
	builder optim.Builder
	peak    float64
	params  []string
	lowRank []string
	init    map[string]torch.Tensor
	grads   []map[string]torch.Tensor
}

func packageCases(t *testing.T) (cases []packageCase) {
	t.Helper()
	paths, err := filepath.Glob("testdata/packages/*.safetensors")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(paths), 58, "the files that testdata/packages.py writes")
	for _, path := range paths {
		f := golden.Load(t, path)
		c := packageCase{name: strings.TrimSuffix(filepath.Base(path), ".safetensors"), file: f}
		name, layered := strings.CutPrefix(f.Metadata["optimizer"], "LayerWise ")
		c.builder = decodeBuilder(t, name, f.Metadata["options"])
		if layered {
			c.builder = optim.LayerWise{Optimizer: c.builder}
		}
		if g, ok := c.builder.(optim.GrokAdamW); ok && g.GrokkingSignalDecayRate != nil {
			g.GrokkingSignal = func() float64 { return 0.5 }
			c.builder = g
		}
		c.peak, err = strconv.ParseFloat(f.Metadata["peak"], 64)
		require.NoError(t, err)
		var dtypes map[string]string
		decode(t, f.Metadata["params"], &c.params)
		decode(t, f.Metadata["dtypes"], &dtypes)
		decode(t, f.Metadata["low_rank"], &c.lowRank)
		c.draw(dtypes)
		cases = append(cases, c)
	}
	return cases
}

// draw makes the inputs, which outlive the scope of an update.
func (c *packageCase) draw(dtypes map[string]string) {
	g := torch.NewGenerator(2024)
	uniform := func(name string) torch.Tensor {
		t := torch.TensorOptions{Generator: g}.Rand(packageInputs.shapes[name]...).MulScalar(2).SubScalar(1)
		return t.Keep()
	}
	cast := func(all map[string]torch.Tensor) map[string]torch.Tensor {
		for name, d := range dtypes {
			all[name] = all[name].ToDType(map[string]torch.DType{"bfloat16": torch.BFloat16}[d]).Keep()
		}
		return all
	}
	c.init = map[string]torch.Tensor{}
	for _, name := range packageInputs.names {
		c.init[name] = uniform(name)
	}
	cast(c.init)
	for k := range 5 {
		grads := map[string]torch.Tensor{}
		for _, name := range packageInputs.names {
			if name != "frozen" {
				grads[name] = uniform(name)
			}
		}
		for _, name := range []string{"late", "large", "odd"} {
			left := grads[name].Narrow(1, 0, min(4, packageInputs.shapes[name][1]))
			left.Mul_(torch.From([]float32{16, 12, 9, 7}).Narrow(0, 0, left.Shape()[1]))
		}
		if k == 1 || k == 2 {
			grads["bias"].Narrow(0, 0, 3).Zero_()
			grads["large"].Narrow(0, 0, 8).Zero_()
		}
		c.grads = append(c.grads, cast(grads))
	}
}

func (c *packageCase) start(t *testing.T) *run {
	t.Helper()
	r := &run{t: t, params: map[string]torch.Tensor{}}
	groups := []optim.Group{{}, {LowRank: true}}
	for _, name := range c.params {
		p := c.init[name].Clone().SetRequiresGrad(name != "frozen")
		r.params[name] = p
		g := &groups[0]
		if slices.Contains(c.lowRank, name) {
			g = &groups[1]
		}
		g.Params = append(g.Params, torch.Named{Name: name, Tensor: p})
	}
	if len(groups[1].Params) == 0 {
		groups = groups[:1]
	}
	var err error
	r.opt, err = c.builder.Build(groups)
	require.NoError(t, err)
	t.Cleanup(func() {
		if l, ok := r.opt.(optim.BackwardUpdater); ok {
			l.RemoveHooks()
		}
	})
	return r
}

func (c *packageCase) gradient(update int, name string) torch.Tensor {
	if name == "frozen" || name == "late" && update < 4 || name == "rare" && update%2 == 1 {
		return torch.Tensor{}
	}
	return c.grads[update%5][name]
}

// updates makes the updates from..to, during the backward pass for optimizers that work that way.
func (c *packageCase) updates(r *run, from, to int) {
	r.opt.(optim.ModeSwitcher).Train()
	for k := from; k < to; k++ {
		rate := c.peak * (float64(packageUpdates-k) / packageUpdates)
		torch.Scope(func() {
			if l, ok := r.opt.(optim.BackwardUpdater); ok {
				l.BeforeBackward(rate)
				var loss torch.Tensor
				for name, p := range r.params {
					if g := c.gradient(k, name); g.Defined() {
						part := p.Mul(g).Sum(torch.DefaultDType).ToDType(torch.Float32)
						if loss.Defined() {
							part = loss.Add(part)
						}
						loss = part
					}
				}
				loss.Backward()
			} else {
				for name, p := range r.params {
					g := c.gradient(k, name)
					if g.Defined() {
						g = g.Clone()
					}
					p.SetGrad(g)
				}
			}
			r.opt.Step(rate)
			r.opt.ZeroGrad()
		})
	}
}

func (c *packageCase) compare(r *run) {
	r.t.Helper()
	for _, name := range c.params {
		c.same(r.t, "param/"+name, r.params[name])
	}
	var got, want []string
	turned := c.turned(r.opt.State())
	for _, s := range r.opt.State() {
		if s.Name == "param_groups.0.step_num" { // AdaLomo keeps it outside its state
			assert.EqualValues(r.t, packageUpdates, s.Tensor.Item(), s.Name)
			continue
		}
		got = append(got, "state/"+s.Name)
		switch key := "state/" + s.Name; {
		case !c.file.Has(key):
		case turned && slices.Contains(c.lowRank, key[len("state/"):strings.LastIndexByte(key, '.')]):
			c.sameBesidesSigns(r.t, key, s.Tensor)
		default:
			c.same(r.t, key, s.Tensor)
		}
	}
	for _, n := range c.file.Names() {
		if strings.HasPrefix(n, "state/") {
			want = append(want, n)
		}
	}
	slices.Sort(got)
	assert.Equal(r.t, want, got, "the names of the states")
	r.opt.(optim.ModeSwitcher).Eval()
	for _, n := range c.file.Names() {
		if name, ok := strings.CutPrefix(n, "eval/"); ok {
			c.same(r.t, n, r.params[name])
		}
	}
}

// turned reports whether singular vectors have the opposite sign of the recorded ones. Both signs
// are correct, and MKL and the LAPACK in libtorch for ARM return different ones. Weights do not
// depend on the signs, because what is projected is projected back.
func (c *packageCase) turned(states []torch.Named) bool {
	for _, s := range states {
		key := "state/" + s.Name
		if _, large := c.file.Metadata["sha256/"+key]; large || !strings.Contains(key, ".projector") ||
			testenv.SameBits() || !c.file.Has(key) {
			continue
		}
		if want := c.file.Tensor(key); want.Numel() > 0 && s.Tensor.Sub(want).Abs().Max().Item() > 0.1 {
			return true
		}
	}
	return false
}

// sameBesidesSigns is like same, for states of a parameter whose singular vectors have opposite
// signs.
func (c *packageCase) sameBesidesSigns(t *testing.T, key string, got torch.Tensor) {
	t.Helper()
	want := c.file.Tensor(key)
	if _, large := c.file.Metadata["sha256/"+key]; large {
		got = got.Contiguous().View(-1).Slice(0, 0, got.Numel(), 41)
	}
	if got.DType() == torch.Uint8 || got.DType() == torch.Bool || want.Numel() == 0 {
		return // values of an asymmetric quantization map
	}
	largest := max(1, want.Abs().Max().Item())
	golden.Close(t, key, got.Contiguous().Abs(), want.Abs(), 1e-3, 1e-3*largest)
}

// same compares a tensor, or for large ones every 41st element and a hash of all. It compares bit
// for bit if libtorch and MKL take the same code paths as when the file was written, and closely
// otherwise.
func (c *packageCase) same(t *testing.T, key string, got torch.Tensor) {
	t.Helper()
	bits := testenv.SameBits() && os.Getenv("MKL_CBWR") == c.file.Metadata["mkl_cbwr"]
	want := c.file.Tensor(key)
	hash, large := c.file.Metadata["sha256/"+key]
	if large && bits {
		sum := sha256.Sum256(got.Bytes())
		assert.Equal(t, hash, encoding.EncodeToString(sum[:]), key)
	}
	if large {
		got = got.Contiguous().View(-1).Slice(0, 0, got.Numel(), 41)
	}
	largest := max(1, want.ToDType(torch.Float32).Abs().Max().Item())
	switch got = got.Contiguous(); {
	case bits:
		golden.Bits(t, key, got, want)
	case got.DType() == torch.Uint8: // different rounding may result in the neighbouring value of the map
		golden.Close(t, key, got.ToDType(torch.Float32), want.ToDType(torch.Float32), 0, 1)
	case c.half(key): // a parameter that is sometimes rounded differently also changes its states
		golden.Close(t, key, got, want, 2e-2, 1e-2*largest)
	// Neighbouring values of the map differ by up to a hundredth, which is multiplied by the rate.
	case strings.Contains(c.name, "8bit"):
		golden.Close(t, key, got, want, 1e-3, 1e-3*largest)
	default: // moments are sums of products, whose errors are relative to the largest
		golden.Close(t, key, got, want, 1e-5, 1e-6*largest)
	}
}

// half reports whether an entry belongs to a parameter in bfloat16.
func (c *packageCase) half(key string) bool {
	name, _, _ := strings.Cut(key[strings.IndexByte(key, '/')+1:], ".")
	p, ok := c.init[name]
	return ok && p.DType() == torch.BFloat16
}

func TestOptimizersOfOtherPackagesEqualThem(t *testing.T) {
	testenv.RequireTorch(t)
	for _, c := range packageCases(t) {
		t.Run(c.name, func(t *testing.T) {
			goldencount.Start(t, "optimizers of other packages, 50 updates", "packages/"+c.name)
			r := c.start(t)
			c.updates(r, 0, packageUpdates)
			c.compare(r)
		})
	}
}

// A run that is saved after 3 updates, before a parameter has had its first gradient, and after 25,
// and continued by a new optimizer each time, equals 50 updates of the package.
func TestOptimizersOfOtherPackagesResumeToTheBit(t *testing.T) {
	testenv.RequireTorch(t)
	for _, c := range packageCases(t) {
		t.Run(c.name, func(t *testing.T) {
			r, done := c.start(t), 0
			for _, stop := range []int{3, 25} {
				c.updates(r, done, stop)
				next := c.start(t)
				for name, p := range next.params {
					torch.NoGrad(func() { p.Copy_(r.params[name]) })
				}
				require.NoError(t, next.opt.LoadState(r.opt.State(), stop))
				assert.Equal(t, stop, next.opt.Updates())
				c.updates(r, stop, stop+1) // must not affect the next optimizer
				r, done = next, stop
			}
			c.updates(r, done, packageUpdates)
			c.compare(r)
		})
	}
}

// The layout of PyTorch's state_dict contains everything that is needed to continue a run.
func TestOptimizersOfOtherPackagesResumeFromPythonsLayout(t *testing.T) {
	testenv.RequireTorch(t)
	for _, c := range packageCases(t) {
		if !slices.Contains([]string{"schedulefree_radam_options", "stableadamw_dtypes", "bnb_ademamix_8bit",
			"galore_adamw_8bit_layerwise", "apollo_std", "grokadamw", "adalomo"}, c.name) {
			continue
		}
		t.Run(c.name, func(t *testing.T) {
			first, second := c.start(t), c.start(t)
			c.updates(first, 0, 25)
			tensors, groups, err := optim.ToPyTorch(first.opt)
			require.NoError(t, err)
			for name, p := range second.params {
				torch.NoGrad(func() { p.Copy_(first.params[name]) })
			}
			require.NoError(t, optim.FromPyTorch(second.opt, tensors, groups))
			assert.Equal(t, 25, second.opt.Updates())
			c.updates(second, 25, packageUpdates)
			c.compare(second)
		})
	}
}

// A state that lacks the state of a group, or contains values of another quantization map, is
// refused as a whole.
func TestStatesThatCannotBeContinuedAreRefused(t *testing.T) {
	testenv.RequireTorch(t)
	w := func() []optim.Group { return []optim.Group{{Params: []torch.Named{param("w", 4, 4)}}} }
	made := func(b optim.Builder) optim.Optimizer {
		groups := w()
		o, err := b.Build(groups)
		require.NoError(t, err)
		ready(o)
		groups[0].Params[0].Tensor.SetGrad(torch.Ones(4, 4))
		o.Step(0.1)
		return o
	}
	free, eight := optim.AdamWScheduleFree{}, optim.AdamW8bit{EightBit: optim.EightBit{MinSize: 1}}
	for _, c := range []struct {
		claim, want string
		builder     optim.Builder
		change      func(s torch.Named) (torch.Named, bool)
	}{
		{"no sum of weights", `"param_groups.0.weight_sum" is missing`, free, func(s torch.Named) (torch.Named, bool) {
			return s, s.Name != "param_groups.0.weight_sum"
		}},
		{"a count of several numbers", `"param_groups.0.k" is no single number`, free,
			func(s torch.Named) (torch.Named, bool) {
				if s.Name == "param_groups.0.k" {
					s.Tensor = torch.Ones(2)
				}
				return s, true
			}},
		{"another map", `"w.qmap2" has other values`, eight, func(s torch.Named) (torch.Named, bool) {
			if s.Name == "w.qmap2" {
				s.Tensor = s.Tensor.MulScalar(2)
			}
			return s, true
		}},
	} {
		state := made(c.builder).State()
		var changed []torch.Named
		for _, s := range state {
			if s, keep := c.change(s); keep {
				changed = append(changed, s)
			}
		}
		fresh, err := c.builder.Build(w())
		require.NoError(t, err)
		err = fresh.LoadState(changed, 1)
		assert.ErrorIs(t, err, optim.ErrState, c.claim)
		assert.ErrorContains(t, err, c.want, c.claim)
		assert.Empty(t, fresh.State(), c.claim)
		require.NoError(t, fresh.LoadState(state, 1), c.claim)
	}
}

func TestEveryOptimizerOfAnotherPackageHasACase(t *testing.T) {
	testenv.RequireTorch(t)
	seen := map[string]bool{}
	for _, c := range packageCases(t) {
		b := c.builder
		if l, ok := b.(optim.LayerWise); ok {
			b = l.Optimizer
		}
		seen[reflect.TypeOf(b).Name()] = true
	}
	for name := range packagesByName {
		assert.True(t, seen[name], "no file is of %s", name)
	}
}
