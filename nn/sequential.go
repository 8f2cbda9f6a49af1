package nn

import "github.com/gotrainer/gotrainer/torch"

// Sequential runs layers one after another: torch.nn.Sequential. Its layers are named 0, 1, ...
//
//	net := nn.Sequential{nn.NewLinear(784, 256, nil), nn.ReLU{}, nn.NewLinear(256, 10, nil)}
//
// It frees every intermediate as soon as the next layer has used it, but for its own input and
// output; what autograd needs lives on. A layer in a Sequential must therefore not return a tensor
// that it, or anybody else, uses afterwards.
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
