// Package nn has the layers that models are made of, and what is done with a whole model: list its
// parameters, save and load them, move it to a device, switch it between training and evaluation.
//
//	type Net struct {
//		Hidden  *nn.Linear  `module:"hidden"`
//		Dropout *nn.Dropout `module:"dropout"`
//		Out     *nn.Linear  `module:"out"`
//	}
//
//	func (n *Net) Forward(x torch.Tensor) torch.Tensor {
//		return n.Out.Forward(n.Dropout.Forward(n.Hidden.Forward(x).ReLU()))
//	}
//
//	net := &Net{nn.NewLinear(784, 256, nil), nn.NewDropout(0.1), nn.NewLinear(256, 10, nil)}
//	optimizer := optim.NewAdamW(nn.Params(net), optim.AdamW{LR: 1e-3})
//
// # Modules
//
// A module is a pointer to a struct; there is nothing to embed and nothing to register. Tags name
// what belongs to it:
//
//	Weight torch.Tensor `param:"weight"`        // from nn.Parameter: trained; undefined: left out, like None in PyTorch
//	Mean   torch.Tensor `buffer:"running_mean"` // saved, not trained; ",nonpersistent" is not saved, ",optional" may be missing in a file
//	Layers []*Block     `module:"layers"`       // layers.0, layers.1, ... like ModuleList
//	Heads  map[string]*Head `module:"heads"`    // heads.a, heads.b, ... like ModuleDict, sorted by key
//	Cache  *nn.Linear   `module:"-"`            // a module that belongs to somebody else
//
// A tensor that [Parameter] has not made gets no gradient: as a param it is frozen.
//
// A module's field is a struct, a pointer to one, an interface, or a slice or map of them; nil
// stands for none. Fields of embedded structs count as the module's own. Names are PyTorch's, hence
// also the names in a file: lower case, joined by dots. Wrong tags, a name used twice and a field
// that holds parameters but has no tag are mistakes in the program: the first walk panics with a
// [torch.Error] that names type and field. A module whose children or parameters depend on its
// options lists them by a method: [ModuleLister], [ParamLister].
//
// A layer has a constructor with PyTorch's positional arguments and an options struct, nil for
// PyTorch's defaults. Parameters are drawn from the default generator in PyTorch's order, so the
// same seed gives the same model. They outlive any scope. What copy.deepcopy is in Python is another
// module of the same constructor that takes the weights of the first: [LoadStateDict] from the
// [StateDict] as [Tensors].
//
// The layers and losses are those of torch.nn, under its names. Where a layer's zero value means
// PyTorch's defaults there is no constructor: [ReLU], [Upsample], [MSELoss]. A layer that takes
// more than one tensor, or returns more, says so in its Forward; only one to one is a [Layer]. What
// PyTorch asks for by a keyword that changes the results has a separate method, such as
// [LSTM.ForwardState], [MaxPool2d.ForwardIndices] and [MultiheadAttention.ForwardWeights]. Sizes
// are given, but for the layers in a [Lazy], which take them from their first input.
//
// # Training and evaluation
//
// Modules are in training mode until [SetTraining] says otherwise. Your own module whose Forward
// depends on it embeds [Mode].
//
// # Goroutines
//
// Many goroutines may run the same module at a time in evaluation mode. In training mode BatchNorm
// changes its buffers, and everything that changes a module must not run beside anything else that
// uses it.
package nn
