package nn_test

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Net is a module: a struct with tags.
type Net struct {
	Hidden  *nn.Linear  `module:"hidden"`
	Dropout *nn.Dropout `module:"dropout"`
	Out     *nn.Linear  `module:"out"`
}

func NewNet() *Net {
	return &Net{nn.NewLinear(4, 8, nil), nn.NewDropout(0.1), nn.NewLinear(8, 2, nil)}
}

func (n *Net) Forward(x torch.Tensor) torch.Tensor {
	return n.Out.Forward(n.Dropout.Forward(n.Hidden.Forward(x).ReLU()))
}

func Example() {
	net := NewNet()
	y := net.Forward(torch.Ones(3, 4))
	y.Square().Mean(0).Backward()
	fmt.Println(y.Shape())
	for _, p := range nn.Params(net) {
		fmt.Println(p.Name, p.Tensor.Shape(), p.Tensor.Grad().Shape())
	}
	// Output:
	// [3 2]
	// hidden.weight [8 4] [8 4]
	// hidden.bias [8] [8]
	// out.weight [2 8] [2 8]
	// out.bias [2] [2]
}

func ExampleSequential() {
	net := nn.Sequential{
		nn.NewConv2d(1, 8, nn.Dims{3}, &nn.ConvOptions{Padding: nn.Dims{1}}),
		nn.NewBatchNorm2d(8, nil),
		nn.ReLU{},
		nn.NewMaxPool2d(nn.Dims{2}, nil),
		nn.NewFlatten(),
		nn.NewLinear(8*14*14, 10, nil),
	}
	fmt.Println(net.Forward(torch.Zeros(2, 1, 28, 28)).Shape())
	// Output: [2 10]
}

func ExampleSummary() {
	net := nn.Sequential{nn.NewConv2d(1, 8, nn.Dims{3}, nil), nn.NewBatchNorm2d(8, nil),
		nn.NewLinear(8, 10, &nn.LinearOptions{NoBias: true})}
	if err := nn.Freeze(net, "0.*"); err != nil {
		fmt.Println(err)
	}
	fmt.Print(nn.Summary(net))
	// Output:
	// name                            module          shape      dtype    count  MB
	// 0.weight (frozen)               nn.Conv2d       [8 1 3 3]  float32  72     0.000
	// 0.bias (frozen)                 nn.Conv2d       [8]        float32  8      0.000
	// 1.weight                        nn.BatchNorm2d  [8]        float32  8      0.000
	// 1.bias                          nn.BatchNorm2d  [8]        float32  8      0.000
	// 1.running_mean (buffer)         nn.BatchNorm2d  [8]        float32  8      0.000
	// 1.running_var (buffer)          nn.BatchNorm2d  [8]        float32  8      0.000
	// 1.num_batches_tracked (buffer)  nn.BatchNorm2d  []         int64    1      0.000
	// 2.weight                        nn.Linear       [10 8]     float32  80     0.000
	// 176 parameters, 96 of them trained; 17 numbers in buffers; 0.001 MB
}

func ExampleLoad() {
	dir, err := os.MkdirTemp("", "nn")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "model.safetensors")
	if err := nn.Save(path, NewNet(), nil); err != nil {
		fmt.Println(err)
		return
	}

	// A net with another head takes the rest of the weights.
	net := NewNet()
	net.Out = nn.NewLinear(8, 5, nil)
	report, err := nn.Load(path, net, nn.LoadOptions{IgnoreMismatched: true})
	fmt.Println(err)
	fmt.Print(report)
	// Output:
	// <nil>
	// 2 tensors fit
	//   mismatched  out.weight  want [5 8], found [2 8]
	//   mismatched  out.bias    want [5], found [2]
}

func ExampleFreeze() {
	net := NewNet()
	if err := nn.Freeze(net, "hidden.*"); err != nil {
		fmt.Println(err)
	}
	total, trainable := nn.CountParams(net)
	fmt.Println(total, trainable)
	// Output: 58 18
}

// Scale is a layer of your own with a parameter, a buffer, and a Forward that depends on the mode.
type Scale struct {
	nn.Mode

	Factor torch.Tensor `param:"factor"`
	Calls  torch.Tensor `buffer:"calls"`
}

func (s *Scale) Forward(x torch.Tensor) torch.Tensor {
	if s.Training() {
		s.Calls.AddScalar_(1)
	}
	return x.Mul(s.Factor)
}

func ExampleParameter() {
	net := nn.Sequential{nn.Identity{}, &Scale{Factor: nn.Parameter(torch.Full(2.0, 3)),
		Calls: nn.Buffer(torch.Zeros(1))}}
	net.Forward(torch.Ones(3))
	nn.SetTraining(net, false)
	fmt.Println(torch.Values[float32](net.Forward(torch.Ones(3))))
	for _, t := range nn.StateDict(net) {
		fmt.Println(t.Name, torch.Values[float32](t.Tensor))
	}
	// Output:
	// [2 2 2]
	// 1.factor [2 2 2]
	// 1.calls [1]
}
