package nn_test

import (
	"path"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gotrainer/gotrainer/internal/golden"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

func TestToKeepsTheTensorsAndTheirGradients(t *testing.T) {
	testenv.RequireTorch(t)
	m := nn.Sequential{nn.NewLinear(3, 3, nil), nn.NewBatchNorm1d(3, nil)}
	x := torch.Randn(4, 3)
	m.Forward(x).Square().Sum(0).Backward()
	before := nn.Params(m)
	weight := before[0].Tensor.Detach().Clone()
	grad := before[0].Tensor.Grad().Clone()
	torch.Scope(func() { nn.To(m, torch.TensorOptions{DType: torch.Float64}) })
	for i, p := range nn.Params(m) {
		if !p.Tensor.Is(before[i].Tensor) || p.Tensor.DType() != torch.Float64 || !p.Tensor.IsLeaf() ||
			!p.Tensor.NeedsGrad() {
			t.Errorf("%s: the same tensor %t, %s, leaf %t, gradients %t", p.Name, p.Tensor.Is(before[i].Tensor),
				p.Tensor.DType(), p.Tensor.IsLeaf(), p.Tensor.NeedsGrad())
		}
	}
	golden.Bits(t, "weight", before[0].Tensor, weight.ToDType(torch.Float64))
	golden.Bits(t, "grad", before[0].Tensor.Grad(), grad.ToDType(torch.Float64))
	for _, b := range nn.Buffers(m) {
		want := torch.Float64
		if path.Ext(b.Name) == ".num_batches_tracked" {
			want = torch.Int64 // integers are not converted
		}
		if b.Tensor.DType() != want {
			t.Errorf("%s is %s, want %s", b.Name, b.Tensor.DType(), want)
		}
	}
	m.Forward(x.ToDType(torch.Float64)).Sum(0).Backward() // accumulates into gradients that had another dtype before
	nn.ToDevice(m, torch.CPU)
	nn.To(m, torch.TensorOptions{})
	if d := before[0].Tensor.DType(); d != torch.Float64 {
		t.Errorf("zero options have changed the dtype to %s", d)
	}
}

func TestRecurrentWeightsAreConvertedInPlace(t *testing.T) {
	testenv.RequireTorch(t)
	l := nn.NewLSTM(3, 2, nil)
	nn.To(l, torch.TensorOptions{DType: torch.Float64})
	if y := l.Forward(torch.TensorOptions{DType: torch.Float64}.Randn(4, 1, 3)); y.DType() != torch.Float64 {
		t.Errorf("output is %s", y.DType())
	}
}

func TestFreezeByName(t *testing.T) {
	testenv.RequireTorch(t)
	newModel := func() any {
		return map[string]nn.Layer{"encoder": nn.Sequential{nn.NewLinear(1, 1, nil), nn.NewLinear(1, 1, nil)},
			"head": nn.NewLinear(1, 1, nil)}
	}
	tests := []struct {
		name     string
		patterns []string
		trained  string
		err      string
	}{
		{"a star crosses dots", []string{"encoder.*"}, "head.weight head.bias", ""},
		{"several patterns", []string{"*.bias", "head.weight"}, "encoder.0.weight encoder.1.weight", ""},
		{"no pattern means all", nil, "", ""},
		{"a pattern that matches nothing is a mistake", []string{"*.bias", "decoder.*"},
			"encoder.0.weight encoder.0.bias encoder.1.weight encoder.1.bias head.weight head.bias",
			`no parameter's name matches the pattern "decoder.*"; there are 6, the first is "encoder.0.weight"`},
		{"a malformed pattern is a mistake", []string{"[a"}, "encoder.0.weight encoder.0.bias encoder.1.weight " +
			"encoder.1.bias head.weight head.bias", "syntax error in pattern"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			m := newModel()
			err := nn.Freeze(m, test.patterns...)
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("Freeze(%q) = %v, want %q", test.patterns, err, test.err)
			}
			var trained []string
			for _, p := range nn.Params(m) {
				if p.Tensor.NeedsGrad() {
					trained = append(trained, p.Name)
				}
			}
			if diff := cmp.Diff(strings.Fields(test.trained), trained, cmp.Transformer("list",
				func(s []string) string { return strings.Join(s, " ") })); diff != "" {
				t.Errorf("trained afterwards (-want +got)\n%s", diff)
			}
			if err := nn.Unfreeze(m); err != nil {
				t.Fatal(err)
			}
			if total, trainable := nn.CountParams(m); total != 6 || trainable != 6 {
				t.Errorf("after Unfreeze %d of %d are trained, want 6 of 6", trainable, total)
			}
		})
	}
}

func TestMemoryFormatKeepsTheValues(t *testing.T) {
	testenv.RequireTorch(t)
	m := nn.Sequential{nn.NewConv2d(1, 4, nn.Dims{3}, nil), nn.NewBatchNorm2d(4, nil), nn.NewFlatten(),
		nn.NewLinear(4, 2, nil)}
	nn.SetTraining(m, false)
	weight := nn.Params(m)[0].Tensor
	before := weight.Detach().Clone()
	x := torch.Randn(2, 1, 3, 3)
	want := m.Forward(x)
	nn.ToMemoryFormat(m, torch.ChannelsLast)
	if !nn.Params(m)[0].Tensor.Is(weight) || !cmp.Equal(weight.Stride(), []int64{9, 1, 3, 1}) {
		t.Errorf("the same tensor %t, strides %v, want those of channels last", nn.Params(m)[0].Tensor.Is(weight),
			weight.Stride())
	}
	golden.Bits(t, "weight", weight, before)
	golden.Close(t, "output", m.Forward(x), want, 1e-5, 1e-6)
	nn.ToMemoryFormat(m, torch.ContiguousFormat)
	if !cmp.Equal(weight.Stride(), []int64{9, 9, 3, 1}) {
		t.Errorf("strides %v, want the contiguous ones again", weight.Stride())
	}
}
