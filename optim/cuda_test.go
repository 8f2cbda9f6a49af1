package optim_test

import (
	"testing"

	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// GPU kernels round in another order, so their results agree only closely with those of the CPU.
// Half of the parameters stay on the CPU.
func TestRunsOnAGPUAgree(t *testing.T) {
	testenv.RequireCUDA(t)
	g := golden.Load(t, "testdata/optim.safetensors")
	for _, c := range goldenCases {
		t.Run(c.name, func(t *testing.T) {
			r := start(t, g, c.builder, c.groups, c.dtypes)
			var groups []optim.Group
			for _, old := range r.opt.Groups() {
				group := optim.Group{WeightDecay: old.WeightDecay, LRScale: old.LRScale}
				for _, p := range old.Params {
					if p.Name != "bias" && p.Name != "late" {
						p.Tensor = p.Tensor.Detach().ToDevice(torch.CUDA(0)).SetRequiresGrad(p.Name != "frozen")
					}
					r.params[p.Name] = p.Tensor
					group.Params = append(group.Params, p)
				}
				groups = append(groups, group)
			}
			var err error
			if r.opt, err = c.builder.Build(groups); err != nil {
				t.Fatal(err)
			}
			for k := range updates {
				torch.Scope(func() {
					for name, p := range r.params {
						if grad := r.gradient(k, name); grad.Defined() {
							p.SetGrad(grad.ToDevice(p.Device()))
						}
					}
					r.opt.Step(peak * (float64(updates-k) / updates))
					r.opt.ZeroGrad()
				})
			}
			tolerance := func(d torch.DType) (rtol, atol float64) {
				if d == torch.BFloat16 {
					return 5e-2, 5e-2
				}
				return 1e-4, 1e-5
			}
			for name, p := range r.params {
				want := g.Tensor(c.name + "/param/" + name)
				rtol, atol := tolerance(want.DType())
				golden.Close(t, "parameter "+name, p.CPU(), want, rtol, atol)
			}
			for _, s := range r.opt.State() {
				want := g.Tensor(c.name + "/state/" + s.Name)
				rtol, atol := tolerance(want.DType())
				golden.Close(t, "state "+s.Name, s.Tensor.CPU(), want, rtol, atol)
			}
		})
	}
}

// A state from a file is on the CPU, but its parameter may be elsewhere.
func TestStateIsLoadedOntoTheGPU(t *testing.T) {
	testenv.RequireCUDA(t)
	stepped := func(d torch.Device) optim.Optimizer {
		w := torch.Ones(3).ToDevice(d).RequiresGrad()
		opt := optim.NewAdamW([]torch.Named{{Name: "w", Tensor: w}}, optim.AdamW{})
		w.Sum(0).Backward()
		opt.Step(0.1)
		return opt
	}
	source, opt := stepped(torch.CPU), stepped(torch.CUDA(0))
	if err := opt.LoadState(source.State(), 1); err != nil {
		t.Fatal(err)
	}
	for i, s := range opt.State() {
		if !s.Tensor.Device().IsCUDA() {
			t.Errorf("state %s is on %s", s.Name, s.Tensor.Device())
		}
		golden.Bits(t, s.Name, s.Tensor.CPU(), source.State()[i].Tensor)
	}
}
