package torch

// Named is a tensor with its name in a model: a parameter, a buffer, or a state of an optimizer.
type Named struct {
	Name   string
	Tensor Tensor
}
