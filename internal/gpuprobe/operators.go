package main

import (
	"math"

	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/torch/cuda"
)

// operator is an operator to be computed on the CPU and on the device, with the same inputs.
type operator struct {
	name   string
	inputs []torch.Tensor
	call   func(x []torch.Tensor) torch.Tensor
}

// operators compares values and gradients in float32, without TF32.
func operators(m machine) (a answer) {
	defer withoutTF32(m)()
	worst := map[string]float64{}
	torch.ManualSeed(1)
	torch.Scope(func() {
		for _, o := range operatorsToCompare() {
			err := torch.Try(func() {
				want, wantGradients := o.run(torch.CPU)
				got, gradients := o.run(m.device)
				d := distance(got, want)
				for i := range gradients {
					d = max(d, distance(gradients[i], wantGradients[i]))
				}
				worst[o.name] = d
			})
			a.expect(err == nil, "%s: %v", o.name, err)
			a.expect(worst[o.name] < 1e-4, "%s is %.2g away from the CPU's", o.name, worst[o.name])
		}
	})
	a.found = worst
	return a
}

func operatorsToCompare() []operator {
	random := func(shape ...int64) torch.Tensor { return torch.Randn(shape...).MulScalar(0.5) }
	on := func(t torch.Tensor, like []torch.Tensor) torch.Tensor { return t.ToDevice(like[0].Device()) }
	labels, ids := torch.RandInt(0, 10, 32), torch.RandInt(0, 100, 8, 16)
	targets, lengths := torch.RandInt(1, 20, 4, 6), torch.From([]int64{6, 6, 6, 6})
	frames := torch.From([]int64{32, 32, 32, 32})
	mask := torch.TensorOptions{DType: torch.Bool}.Ones(8, 1, 16, 16)
	heads := func() []torch.Tensor {
		return []torch.Tensor{random(8, 4, 16, 32), random(8, 4, 16, 32), random(8, 4, 16, 32)}
	}
	lstm := nn.NewLSTM(24, 16, &nn.RNNOptions{Bidirectional: true, Layers: 2})
	return []operator{
		{"linear", []torch.Tensor{random(64, 128), random(96, 128), random(96)}, func(x []torch.Tensor) torch.Tensor {
			return x[0].Linear(x[1], x[2])
		}},
		{"conv2d", []torch.Tensor{random(8, 16, 32, 32), random(32, 16, 3, 3)}, func(x []torch.Tensor) torch.Tensor {
			return x[0].Conv2d(x[1], torch.Tensor{}, torch.ConvOptions{Padding: []int64{1, 1}})
		}},
		{"layer_norm", []torch.Tensor{random(64, 128), random(128), random(128)}, func(x []torch.Tensor) torch.Tensor {
			return x[0].LayerNorm([]int64{128}, x[1], x[2], 1e-12)
		}},
		{"gelu", []torch.Tensor{random(64, 128)}, func(x []torch.Tensor) torch.Tensor { return x[0].GELU("none") }},
		{"softmax", []torch.Tensor{random(64, 128)}, func(x []torch.Tensor) torch.Tensor {
			return x[0].Softmax(-1, torch.DefaultDType)
		}},
		{"attention", heads(), func(x []torch.Tensor) torch.Tensor {
			return x[0].ScaledDotProductAttention(x[1], x[2], torch.Tensor{}, 0, false, 0)
		}},
		{"attention, masked", heads(), func(x []torch.Tensor) torch.Tensor {
			return x[0].ScaledDotProductAttention(x[1], x[2], on(mask, x), 0, false, 0)
		}},
		{"cross_entropy", []torch.Tensor{random(32, 10)}, func(x []torch.Tensor) torch.Tensor {
			return x[0].CrossEntropyLoss(on(labels, x), torch.Tensor{}, torch.ReductionMean, -100, 0)
		}},
		{"embedding", []torch.Tensor{random(100, 64)}, func(x []torch.Tensor) torch.Tensor {
			return on(ids, x).Embedding(x[0], 0)
		}},
		{"ctc_loss", []torch.Tensor{random(32, 4, 20)}, func(x []torch.Tensor) torch.Tensor {
			return x[0].LogSoftmax(2, torch.DefaultDType).CTCLoss(on(targets, x), frames, lengths, 0,
				torch.ReductionMean, true)
		}},
		{"lstm", []torch.Tensor{random(12, 4, 24)}, func(x []torch.Tensor) torch.Tensor {
			nn.To(lstm, torch.TensorOptions{Device: x[0].Device()})
			return lstm.Forward(x[0])
		}},
	}
}

// run returns the value, and the gradients of the sum of its squares.
func (o operator) run(d torch.Device) (value torch.Tensor, gradients []torch.Tensor) {
	var leaves []torch.Tensor
	for _, t := range o.inputs {
		leaves = append(leaves, t.ToDevice(d).Detach().Clone().RequiresGrad())
	}
	value = o.call(leaves)
	value.Square().Sum(torch.DefaultDType).Backward()
	for _, l := range leaves {
		gradients = append(gradients, l.Grad())
	}
	return value, gradients
}

// distance returns |a-b| / |b|.
func distance(a, b torch.Tensor) (d float64) {
	torch.Scope(func() {
		a, b := a.Detach().CPU().ToDType(torch.Float64), b.Detach().CPU().ToDType(torch.Float64)
		d = a.Sub(b).Norm(2).Item() / math.Max(b.Norm(2).Item(), 1e-30)
	})
	return d
}

// withoutTF32 disables TF32 and returns a function that restores the setting.
func withoutTF32(m machine) (restore func()) {
	if !m.device.IsCUDA() {
		return func() {}
	}
	products, convolutions := cuda.TF32()
	cuda.SetTF32(false)
	return func() {
		cuda.SetTF32(products)
		s := cuda.CuDNNSettings()
		s.TF32 = convolutions
		cuda.SetCuDNN(s)
	}
}
