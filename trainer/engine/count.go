package engine

import (
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/trainer"
)

var (
	_ trainer.ItemCounter[int]  = (*Step[int, int])(nil)
	_ trainer.TokenCounter[int] = (*Step[int, int])(nil)
	_ trainer.FlopCounter[int]  = (*Step[int, int])(nil)
)

// CountItems calls the task; 0 if it does not count.
func (s *Step[S, B]) CountItems(b B) int64 {
	if c, ok := s.task.(ItemCounter[B]); ok {
		return c.CountItems(b)
	}
	return 0
}

// CountTokens is the number of input tokens in a batch, without padding if
// [Options].NonPaddingTokens is set; 0 if the task is no [TokenCounter].
func (s *Step[S, B]) CountTokens(b B) int64 {
	c, ok := s.task.(TokenCounter[B])
	if !ok {
		return 0
	}
	all, nonPadding := c.CountTokens(b)
	if s.options.NonPaddingTokens {
		return nonPadding
	}
	return all
}

// CountFlops estimates the floating-point operations of forward and backward: 6 for each token and
// each parameter that is no embedding's weight, as floating_point_ops of transformers. 0 if the
// task is no [TokenCounter].
func (s *Step[S, B]) CountFlops(b B) float64 {
	c, ok := s.task.(TokenCounter[B])
	if !ok {
		return 0
	}
	if s.dense == 0 {
		s.dense = denseParams(s.task.Model())
	}
	all, _ := c.CountTokens(b)
	return float64(6 * all * s.dense)
}

// denseParams counts the elements of all parameters, frozen ones too, but the weights of
// embeddings: num_parameters(exclude_embeddings=True).
func denseParams(model any) (total int64) {
	embeddings := map[string]bool{}
	for _, m := range nn.Modules(model) {
		if _, ok := m.Module.(*nn.Embedding); ok {
			embeddings[join(m.Name, "weight")] = true
		}
	}
	for _, p := range nn.Params(model) {
		if !embeddings[p.Name] {
			total += p.Tensor.Numel()
		}
	}
	return total
}

func join(module, name string) string {
	if module == "" {
		return name
	}
	return module + "." + name
}
