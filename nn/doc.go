// Package nn has the layers that models are made of, and the operations on a whole model: list its
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
// A module is a pointer to a struct; there is nothing to embed or register. Tags name what belongs
// to it:
//
//	Weight torch.Tensor `param:"weight"`        // from nn.Parameter: trained; undefined: left out, like None in PyTorch
//	Mean   torch.Tensor `buffer:"running_mean"` // saved, not trained; ",nonpersistent" is not saved, ",optional" may be missing in a file
//	Layers []*Block     `module:"layers"`       // layers.0, layers.1, ... like ModuleList
//	Heads  map[string]*Head `module:"heads"`    // heads.a, heads.b, ... like ModuleDict, sorted by key
//	Cache  *nn.Linear   `module:"-"`            // a module that belongs to somebody else
//
// A tensor that was not made by [Parameter] gets no gradient: used as a param, it is frozen.
//
// A field with a module tag is a struct, a pointer to one, an interface, or a slice or map of them;
// nil means that there is none. Fields of embedded structs count as the module's own. Names are
// PyTorch's, and so are the names in a file: lower case, joined by dots. Wrong tags, duplicate
// names, and a field that holds parameters but has no tag are bugs in the program: the first walk
// panics with a [torch.Error] that names type and field. A module whose children or parameters
// depend on its options lists them with a method: [ModuleLister], [ParamLister].
//
// The constructor of a layer takes PyTorch's positional arguments and an options struct; nil means
// PyTorch's defaults. Parameters are drawn from the default generator in PyTorch's order, so the
// same seed gives the same model. They outlive any scope. To copy a module, as copy.deepcopy does
// in Python, make another one with the same constructor and load the weights of the first:
// [LoadStateDict] from the [StateDict] as [Tensors].
//
// The layers and losses are those of torch.nn, under the same names. Where a layer's zero value
// means PyTorch's defaults, there is no constructor: [ReLU], [Upsample], [MSELoss]. Forward may
// take or return more than one tensor; only a module that maps one tensor to one is a [Layer].
// Where PyTorch has a keyword that changes what is returned, there is a separate method, such as
// [LSTM.ForwardState], [MaxPool2d.ForwardIndices] and [MultiheadAttention.ForwardWeights]. Sizes
// must be given, except for layers inside a [Lazy], which take them from their first input.
//
// # Training and evaluation
//
// Modules are in training mode until [SetTraining] changes it. A module of yours whose Forward
// depends on the mode embeds [Mode].
//
// # Goroutines
//
// Many goroutines may run the same module at a time in evaluation mode. In training mode BatchNorm
// changes its buffers. Nothing that changes a module may run while anything else uses it.
package nn
