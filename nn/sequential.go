package nn

import "github.com/gotrainer/gotrainer/torch"

// Sequential runs layers one after another: torch.nn.Sequential. Its layers are named 0, 1, ...
//
//	net := nn.Sequential{nn.NewLinear(784, 256, nil), nn.ReLU{}, nn.NewLinear(256, 10, nil)}
//
// It frees every intermediate result, but not its own input and output, as soon as the next layer
// has used it; what autograd needs lives on. A layer in a Sequential must therefore not return a
// tensor that is used elsewhere afterwards.
type Sequential []Layer

// Forward runs x through all layers.
func (s Sequential) Forward(x torch.Tensor) torch.Tensor {
	input := x
	for _, layer := range s {
		y := layer.Forward(x)
		if !x.Is(input) && !x.Is(y) {
			x.Free()
		}
		x = y
	}
	return x
}
