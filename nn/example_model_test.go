package nn_test

import (
	"fmt"

	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/torch"
)

// Experts shows what takes the place of ModuleList and ModuleDict: a slice and a map.
type Experts struct {
	Blocks []*nn.Linear          `module:"blocks"` // blocks.0, blocks.1
	Heads  map[string]*nn.Linear `module:"heads"`  // heads.age, heads.name
}

func (e *Experts) Forward(x torch.Tensor, head string) torch.Tensor {
	for _, b := range e.Blocks {
		x = b.Forward(x).ReLU()
	}
	return e.Heads[head].Forward(x)
}

func Example_moduleListAndModuleDict() {
	model := &Experts{Heads: map[string]*nn.Linear{"age": nn.NewLinear(4, 1, nil), "name": nn.NewLinear(4, 9, nil)}}
	for range 2 {
		model.Blocks = append(model.Blocks, nn.NewLinear(4, 4, &nn.LinearOptions{NoBias: true}))
	}
	fmt.Println(model.Forward(torch.Zeros(3, 4), "name").Shape())
	for _, p := range nn.Params(model) {
		fmt.Println(p.Name, p.Tensor.Shape())
	}
	// Output:
	// [3 9]
	// blocks.0.weight [4 4]
	// blocks.1.weight [4 4]
	// heads.age.weight [1 4]
	// heads.age.bias [1]
	// heads.name.weight [9 4]
	// heads.name.bias [9]
}

func ExampleSummaryRun() {
	net := nn.Sequential{
		nn.NewConv2d(1, 8, nn.Dims{3}, &nn.ConvOptions{Same: true}),
		nn.NewGroupNorm(2, 8, nil),
		nn.Mish{},
		nn.NewAdaptiveAvgPool2d(nn.Dims{1}),
		nn.NewFlatten(),
		nn.NewLinear(8, 10, nil),
	}
	table, err := nn.SummaryRun(net, func() { net.Forward(torch.Zeros(1, 1, 28, 28)) })
	fmt.Print(table, err)
	// Output:
	// name  module        in           out          parameters  MB
	// 0     nn.Conv2d     [1 1 28 28]  [1 8 28 28]  80          0.000
	// 1     nn.GroupNorm  [1 8 28 28]  [1 8 28 28]  16          0.000
	// 5     nn.Linear     [1 8]        [1 10]       90          0.000
	// 186 parameters, 186 of them trained; 0.001 MB
	// <nil>
}

func ExampleModulesMatching() {
	net := nn.NewTransformer(8, 2, 2, 2, nil)
	norms, err := nn.ModulesMatching(net, "decoder.layers.?.norm1", "*.norm")
	if err != nil {
		fmt.Println(err)
	}
	for _, n := range norms {
		fmt.Println(n.Name)
	}
	// Output:
	// encoder.norm
	// decoder.layers.0.norm1
	// decoder.layers.1.norm1
	// decoder.norm
}

func ExampleTransformerEncoder() {
	layer := nn.NewTransformerEncoderLayer(16, 4, &nn.TransformerOptions{FeedForward: 32, BatchFirst: true,
		Activation: nn.GELU{}})
	encoder := nn.NewTransformerEncoder(layer, 2, nil)
	padding := torch.From([]bool{false, false, false, false, false, true}, 2, 3) // the second sentence has two words
	y := encoder.Forward(torch.Randn(2, 3, 16), nn.AttentionMask{KeyPadding: padding})
	fmt.Println(y.Shape())
	// Output: [2 3 16]
}

func ExamplePackPaddedSequence() {
	lstm := nn.NewLSTM(4, 8, &nn.RNNOptions{Bidirectional: true, BatchFirst: true})
	sentences := torch.Randn(3, 5, 4) // padded to five words
	packed := nn.PackPaddedSequence(sentences, []int64{2, 5, 3}, true, false)
	packed, _, _ = lstm.ForwardPacked(packed, torch.Tensor{}, torch.Tensor{})
	y, lengths := packed.Pad(true, 0, 0)
	fmt.Println(y.Shape(), lengths)
	// Output: [3 5 16] [2 5 3]
}

func ExampleNewWeightNorm() {
	layer := nn.NewWeightNorm(nn.NewLinear(3, 2, nil), 0)
	for _, p := range nn.Params(layer) {
		fmt.Println(p.Name, p.Tensor.Shape())
	}
	// Output:
	// bias [2]
	// parametrizations.weight.original0 [2 1]
	// parametrizations.weight.original1 [2 3]
}

func ExampleCrossEntropyLoss() {
	loss := &nn.CrossEntropyLoss{LabelSmoothing: 0.1, Reduction: functional.Sum}
	logits, labels := torch.From([]float32{2, 0, 0, 0, 0, 2}, 2, 3), torch.From([]int64{0, 2})
	fmt.Printf("%.4f\n", loss.Forward(logits, labels).Item())
	// Output: 0.7458
}

// Queries attend to keys: here a sequence of 3 words to itself, each word to those before it only.
func ExampleMultiheadAttention() {
	torch.ManualSeed(0)
	attention := nn.NewMultiheadAttention(8, 2, &nn.MultiheadAttentionOptions{BatchFirst: true})
	nn.SetTraining(attention, false)
	x := torch.Randn(1, 3, 8) // a batch of one sequence
	torch.NoGrad(func() {
		y, weights := attention.ForwardWeights(x, x, x, nn.AttentionMask{Mask: nn.CausalMask(3, torch.TensorOptions{})})
		fmt.Println(y.Shape())
		fmt.Println(weights.At(0, 0, 0)) // of the first head, what the first word sees: itself
		fmt.Println(weights.At(0, 0, 2).GtScalar(0))
	})
	// Output:
	// [1 3 8]
	// tensor([1., 0., 0.])
	// tensor([True, True, True])
}

// A lazy layer takes the number of its features from its first input, so that it need not be
// computed for a layer after convolutions.
func ExampleLazy() {
	net := nn.Sequential{
		nn.NewConv2d(1, 4, nn.Dims{3}, nil),
		nn.NewMaxPool2d(nn.Dims{2}, nil),
		nn.NewFlatten(),
		nn.NewLazyLinear(10, nil),
	}
	fmt.Println(torch.Try(func() { nn.Params(net) }))
	torch.NoGrad(func() { net.Forward(torch.Zeros(1, 1, 28, 28)) }) // before an optimizer is made
	for _, p := range nn.Params(net) {
		fmt.Println(p.Name, p.Tensor.Shape())
	}
	// Output:
	// torch: nn.Params: the module "3" is a LazyLinear that has seen no input yet, and so has no parameters to list, load or train; call Forward once before
	// 0.weight [4 1 3 3]
	// 0.bias [4]
	// 3.weight [10 676]
	// 3.bias [10]
}

// A state dict is the list of a module's tensors by name; another module takes it.
func ExampleStateDict() {
	from, to := nn.NewLinear(2, 1, nil), nn.NewLinear(2, 1, nil)
	for _, t := range nn.StateDict(from) {
		fmt.Println(t.Name, t.Tensor.Shape())
	}
	report, err := nn.LoadStateDict(to, nn.Tensors(nn.StateDict(from)), nn.LoadOptions{})
	fmt.Print(report)
	fmt.Println(err, to.Weight.Equal(from.Weight))
	// Output:
	// weight [1 2]
	// bias [1]
	// 2 tensors fit
	// <nil> true
}
