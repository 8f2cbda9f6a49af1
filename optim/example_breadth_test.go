package optim_test

import (
	"fmt"
	"log"
	"strings"

	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// LBFGS evaluates the loss itself, as often as it needs to. The valley of Rosenbrock's function has
// its lowest point at 1, 1.
func ExampleLBFGS() {
	p := torch.From([]float64{-1.2, 1}).RequiresGrad()
	opt := optim.NewLBFGS([]torch.Named{{Name: "p", Tensor: p}}, optim.LBFGS{StrongWolfe: true, MaxIter: 100})
	opt.Step(func() float64 {
		opt.ZeroGrad()
		x, y := p.Select(0, 0), p.Select(0, 1)
		loss := x.RSubScalar(1).Square().Add(y.Sub(x.Square()).Square().MulScalar(100))
		loss.Backward()
		return loss.Item()
	})
	fmt.Printf("%.4f\n", torch.Values[float64](p.Detach()))
	// Output:
	// [1.0000 1.0000]
}

// The moments of the attention's weights are kept at rank 4. Which modules are linear layers a
// model knows.
func ExampleLowRankGroups() {
	params := []torch.Named{
		{Name: "embed.weight", Tensor: torch.Ones(50, 16).RequiresGrad()},
		{Name: "layers.0.attn.query.weight", Tensor: torch.Ones(16, 32).RequiresGrad()},
		{Name: "layers.0.attn.query.bias", Tensor: torch.Ones(16).RequiresGrad()},
		{Name: "head.weight", Tensor: torch.Ones(3, 16).RequiresGrad()},
	}
	modules := []optim.Module{{Name: "embed"}, {Name: "layers.0.attn.query", Linear: true},
		{Name: "head", Linear: true}}
	groups, _, err := optim.LowRankGroups(params, modules, optim.Targets{Parts: []string{"attn"}})
	if err != nil {
		log.Fatal(err)
	}
	opt := optim.NewGaLoreAdamW(groups, optim.GaLoreAdamW{LR: 1e-3, LowRank: optim.LowRank{Rank: 4}})
	for _, p := range params {
		torch.Scope(func() { p.Tensor.SetGrad(p.Tensor.RandnLike()) })
	}
	opt.Step(1e-3)
	for _, s := range opt.State() {
		if strings.HasSuffix(s.Name, ".exp_avg") {
			fmt.Println(s.Name, s.Tensor.Shape())
		}
	}
	// Output:
	// embed.weight.exp_avg [50 16]
	// layers.0.attn.query.bias.exp_avg [16]
	// head.weight.exp_avg [3 16]
	// layers.0.attn.query.weight.exp_avg [4 32]
}

// An exponential moving average of the weights is updated after each step, and swapped in to
// evaluate.
func ExampleAveraged() {
	params := []torch.Named{{Name: "w", Tensor: torch.Full(1.0, 1).RequiresGrad()}}
	opt := optim.NewSGD(params, optim.SGD{})
	average := optim.NewAveraged(params, optim.Averaging{Decay: 0.9})
	for range 3 {
		torch.Scope(func() {
			params[0].Tensor.Sum(torch.DefaultDType).Backward()
			opt.Step(0.1)
			opt.ZeroGrad()
		})
		average.Update()
	}
	average.Swap(func() { fmt.Printf("evaluated with %.3f\n", params[0].Tensor.Item()) })
	fmt.Printf("trained on with %.3f\n", params[0].Tensor.Item())
	// Output:
	// evaluated with 0.871
	// trained on with 0.700
}

// Layers further from the head have a lower learning rate, and biases have no weight decay.
func ExampleLayerDecay() {
	var params []torch.Named
	for _, name := range []string{"embeddings.weight", "layer.0.weight", "layer.0.bias", "layer.1.weight",
		"head.weight"} {
		params = append(params, torch.Named{Name: name})
	}
	for _, g := range optim.LayerDecay(optim.NoDecay(params, 0.01), 0.5, optim.TransformerLayer) {
		fmt.Printf("%-16s decay %-4g rate x%g\n", g.Name, *g.WeightDecay, g.LRScale)
	}
	// Output:
	// decay layer 0    decay 0.01 rate x0.125
	// decay layer 1    decay 0.01 rate x0.25
	// decay layer 2    decay 0.01 rate x0.5
	// decay layer 3    decay 0.01 rate x1
	// no_decay layer 1 decay 0    rate x0.25
}

// Two optimizers for one model: Muon updates the matrices of hidden layers, AdamW the embeddings
// and all other parameters. The same groups can be those of engine.Options.
func ExampleByPattern() {
	params := []torch.Named{
		{Name: "embed.weight", Tensor: torch.Ones(50, 16).RequiresGrad()},
		{Name: "layers.0.weight", Tensor: torch.Ones(16, 16).RequiresGrad()},
		{Name: "layers.0.bias", Tensor: torch.Ones(16).RequiresGrad()},
	}
	groups, err := optim.ByPattern(params, optim.Pattern{Name: "AdamW", Match: "embed|bias$",
		Optimizer: optim.AdamW{LR: 3e-4, Beta2: new(0.95)}})
	if err != nil {
		log.Fatal(err)
	}
	opt, err := optim.Muon{LR: 0.02}.Build(groups)
	if err != nil {
		log.Fatal(err)
	}
	for _, g := range opt.Groups() {
		fmt.Printf("%s: %d parameters, rate x%.3g, decay %g\n", g.Name, len(g.Params), g.LRScale, *g.WeightDecay)
	}
	// Output:
	// AdamW: 2 parameters, rate x0.015, decay 0.01
	// rest: 1 parameters, rate x1, decay 0.1
}

// A run of PyTorch continues here, and the other way round: the tensors fit into a safetensors
// file, the rest is JSON.
func ExampleToPyTorch() {
	w := torch.Named{Name: "w", Tensor: torch.Full(1.0, 1).RequiresGrad()}
	opt := optim.NewSGD([]torch.Named{w}, optim.SGD{LR: 0.5, Momentum: 0.5})
	w.Tensor.SetGrad(torch.Full(1.0, 1))
	opt.Step(0.5)
	tensors, groups, err := optim.ToPyTorch(opt)
	if err != nil {
		log.Fatal(err)
	}
	for _, t := range tensors {
		fmt.Println(t.Name, t.Tensor.Item())
	}
	again := optim.NewSGD([]torch.Named{w}, optim.SGD{LR: 0.5, Momentum: 0.5})
	fmt.Println(optim.FromPyTorch(again, tensors, groups), len(again.State()))
	// Output:
	// state.0.momentum_buffer 1
	// <nil> 1
}

// An embedding with sparse gradients has an optimizer of its own; an update touches the rows that
// the batch used, and no others.
func ExampleSparseAdam() {
	words := torch.Ones(5, 2).RequiresGrad() // the weight of nn.NewEmbedding(5, 2, &nn.EmbeddingOptions{Sparse: true})
	opt := optim.NewSparseAdam([]torch.Named{{Name: "words", Tensor: words}}, optim.SparseAdam{LR: 0.1})
	torch.Scope(func() {
		// what its Forward does
		rows := torch.Call("aten::embedding", words, torch.From([]int64{1, 3}), -1, false, true)[0]
		rows.Sum(torch.DefaultDType).Backward()
		opt.Step(0.1)
	})
	fmt.Println(words.Detach())
	// Output:
	// tensor([[1.0000, 1.0000],
	//         [0.9000, 0.9000],
	//         [1.0000, 1.0000],
	//         [0.9000, 0.9000],
	//         [1.0000, 1.0000]])
}
