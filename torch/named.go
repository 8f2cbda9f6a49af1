package torch

// Named is a tensor with its name in a model: a parameter, a buffer or an optimizer state.
type Named struct {
	Name   string
	Tensor Tensor
}
