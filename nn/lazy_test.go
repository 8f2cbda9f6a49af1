package nn_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/torch"
)

func TestLazyLayersMakeTheirParametersAsPyTorchDoes(t *testing.T) {
	testenv.RequireTorch(t)
	g := golden.Load(t, "testdata/lazy.safetensors") // written by testdata/lazy.py
	three, two, one := nn.Dims{3}, nn.Dims{2}, nn.Dims{1}
	for name, build := range map[string]func() nn.Layer{
		"linear":        func() nn.Layer { return nn.NewLazyLinear(3, nil) },
		"linear_nobias": func() nn.Layer { return nn.NewLazyLinear(3, &nn.LinearOptions{NoBias: true}) },
		"conv1d":        func() nn.Layer { return nn.NewLazyConv1d(6, three, &nn.ConvOptions{Padding: one}) },
		"conv2d": func() nn.Layer {
			return nn.NewLazyConv2d(6, nn.Dims{3, 2}, &nn.ConvOptions{Stride: two, Groups: 2})
		},
		"conv2d_unbatched": func() nn.Layer {
			return nn.NewLazyConv2d(5, three, &nn.ConvOptions{Padding: one, PaddingMode: functional.PadReflect})
		},
		"conv3d": func() nn.Layer { return nn.NewLazyConv3d(4, two, &nn.ConvOptions{NoBias: true}) },
		"convtranspose1d": func() nn.Layer {
			return nn.NewLazyConvTranspose1d(6, three, &nn.ConvTransposeOptions{Stride: two})
		},
		"convtranspose2d": func() nn.Layer {
			return nn.NewLazyConvTranspose2d(6, three, &nn.ConvTransposeOptions{Stride: two, Padding: one,
				OutputPadding: one, Groups: 2})
		},
		"convtranspose3d": func() nn.Layer { return nn.NewLazyConvTranspose3d(3, two, nil) },
		"batchnorm1d":     func() nn.Layer { return nn.NewLazyBatchNorm1d(nil) },
		"batchnorm2d": func() nn.Layer {
			return nn.NewLazyBatchNorm2d(&nn.BatchNormOptions{Momentum: 0.3, Eps: 1e-3})
		},
		"batchnorm3d":    func() nn.Layer { return nn.NewLazyBatchNorm3d(&nn.BatchNormOptions{NoAffine: true}) },
		"instancenorm1d": func() nn.Layer { return nn.NewLazyInstanceNorm1d(&nn.InstanceNormOptions{Affine: true}) },
		"instancenorm2d": func() nn.Layer {
			return nn.NewLazyInstanceNorm2d(&nn.InstanceNormOptions{Affine: true, RunningStats: true})
		},
		"instancenorm3d": func() nn.Layer { return nn.NewLazyInstanceNorm3d(nil) },
		"model": func() nn.Layer {
			return nn.Sequential{nn.NewLazyConv2d(8, three, nil), nn.NewLazyBatchNorm2d(nil), nn.ReLU{},
				nn.NewLinear(6, 4, nil), nn.NewFlatten(),
				nn.NewLazyLinear(10, nil), nn.NewDropout(0.3), nn.NewLazyLinear(2, nil)}
		},
	} {
		t.Run(name, func(t *testing.T) {
			goldencount.Start(t, "lazy modules", name)
			torch.Scope(func() {
				torch.ManualSeed(31)
				m := build()
				y := m.Forward(g.Tensor(name + ".x"))
				golden.Recorded(t, "y", y, g.Tensor(name+".y"))
				if y.NeedsGrad() {
					y.Sum(torch.DefaultDType).MulScalar(0.5).Backward()
				}
				compared := 0
				for _, p := range nn.Params(m) {
					golden.Recorded(t, "gradient of "+p.Name, p.Tensor.Grad(), g.Tensor(name+".grad."+p.Name))
					compared++
				}
				for _, s := range nn.StateDict(m) {
					golden.Recorded(t, "state "+s.Name, s.Tensor, g.Tensor(name+".after."+s.Name))
					compared++
				}
				for _, n := range g.Names() {
					if strings.HasPrefix(n, name+".grad.") || strings.HasPrefix(n, name+".after.") {
						compared--
					}
				}
				if compared != 0 {
					t.Errorf("%d tensors more than PyTorch's", compared)
				}
			})
		})
	}
}

// Listing the parameters before they exist must fail, because training would miss them.
func TestALazyLayerWithoutInputHasNoParametersToList(t *testing.T) {
	testenv.RequireTorch(t)
	m := nn.Sequential{nn.NewLinear(3, 4, nil), nn.NewLazyLinear(2, nil)}
	want := `the module "1" is a LazyLinear that has seen no input yet`
	for name, f := range map[string]func(){
		"Params":    func() { nn.Params(m) },
		"Buffers":   func() { nn.Buffers(m) },
		"StateDict": func() { nn.StateDict(m) },
		"ToDevice":  func() { nn.ToDevice(m, torch.CPU) },
		"Summary":   func() { nn.Summary(m) },
	} {
		if err := torch.Try(f); !errors.Is(err, torch.ErrUndefined) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", name, err, want)
		}
	}
	if _, err := nn.LoadStateDict(m, nn.Tensors(nil), nn.LoadOptions{}); err == nil || !strings.Contains(err.Error(),
		want) {
		t.Errorf("LoadStateDict: got %v, want %q", err, want)
	}
	nn.SetTraining(m, false) // does not need the parameters
	text, err := nn.SummaryRun(m, func() { m.Forward(torch.Zeros(1, 3)) })
	if err != nil || !strings.Contains(text, "LazyLinear") {
		t.Errorf("a dry run gives %v and\n%s", err, text)
	}
	if got := len(nn.Params(m)); got != 4 {
		t.Errorf("there are %d parameters after a dry run, want 4", got)
	}
	for _, p := range nn.Params(m) {
		if !p.Tensor.NeedsGrad() {
			t.Errorf("%s is not trained", p.Name)
		}
	}
}

// A first input of the wrong shape leaves the layer unchanged, so that it can be called again.
func TestALazyLayerRefusesAnInputOfAnotherShape(t *testing.T) {
	testenv.RequireTorch(t)
	z := func(shape ...int64) torch.Tensor { return torch.Zeros(shape...) }
	for name, c := range map[string]struct {
		layer nn.Layer
		wrong torch.Tensor
		right torch.Tensor
		want  string
	}{
		"a number": {nn.NewLazyLinear(2, nil), z(), z(3), "LazyLinear: want [..., in], found a number"},
		"a matrix": {nn.NewLazyConv2d(2, nn.Dims{1}, nil), z(3, 3), z(3, 3, 3),
			"want 3 dimensions, or 4 with a batch, found [3 3]"},
		"odd channels": {nn.NewLazyConv1d(4, nn.Dims{1}, &nn.ConvOptions{Groups: 2}), z(1, 3, 5), z(1, 4, 5),
			"in (3) and out (4) must be divisible by Groups (2)"},
		"odd channels again": {nn.NewLazyConvTranspose1d(4, nn.Dims{1}, &nn.ConvTransposeOptions{Groups: 2}),
			z(1, 3, 5), z(1, 2, 5), "in (3) and out (4) must be divisible"},
		"a sequence": {nn.NewLazyBatchNorm2d(nil), z(2, 3, 4), z(2, 3, 4, 4), "found [2 3 4]"},
		"features":   {nn.NewLazyInstanceNorm2d(nil), z(2, 3), z(2, 3, 4, 4), "found [2 3]"},
	} {
		if err := torch.Try(func() { c.layer.Forward(c.wrong) }); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
		if err := torch.Try(func() { c.layer.Forward(c.right) }); err != nil {
			t.Errorf("%s: after it %v", name, err)
		}
	}
	layer := nn.NewLazyLinear(2, nil)
	if err := torch.Try(func() { torch.InferenceMode(func() { layer.Forward(z(1, 3)) }) }); err == nil ||
		!strings.Contains(err.Error(), "InferenceMode") {
		t.Errorf("in InferenceMode: got %v", err)
	}
	for name, f := range map[string]func(){
		"LazyLinear":          func() { nn.NewLazyLinear(0, nil) },
		"LazyConv1d":          func() { nn.NewLazyConv1d(3, nn.Dims{1}, &nn.ConvOptions{Groups: 2}) },
		"LazyConv2d":          func() { nn.NewLazyConv2d(3, nil, nil) },
		"LazyConvTranspose3d": func() { nn.NewLazyConvTranspose3d(0, nn.Dims{1}, nil) },
	} {
		if err := torch.Try(f); err == nil || !strings.Contains(err.Error(), "nn.New"+name) {
			t.Errorf("%s: got %v, want an error that names New%s", name, err, name)
		}
	}
}
