package engine

import (
	"slices"

	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/trainer"
)

// Count returns the numbers of labelled items ([ItemCounter]) and input tokens ([TokenCounter]) of
// a batch, as the task counts them; with [Options].NonPaddingTokens, the tokens exclude padding.
// The floating-point operations of the forward and the backward pass are estimated as 6 per token
// and per parameter, not counting the weights of embeddings, as in floating_point_ops of
// transformers. What the task does not count is 0.
func (s *Step[S, B]) Count(b B) (n trainer.Counts) {
	n.Items = s.items(b)
	n.Labels = n.Items
	if c, ok := s.task.(LabelCounter[B]); ok {
		n.Labels = c.CountLabels(b)
	}
	c, ok := s.task.(TokenCounter[B])
	if !ok {
		return n
	}
	if s.dense == 0 {
		s.dense = denseParams(s.task.Model())
	}
	all, nonPadding := c.CountTokens(b)
	n.Tokens, n.Flops = all, float64(6*all*s.dense)
	if s.options.NonPaddingTokens {
		n.Tokens = nonPadding
	}
	return n
}

func (s *Step[S, B]) items(b B) int64 {
	if c, ok := s.task.(ItemCounter[B]); ok {
		return c.CountItems(b)
	}
	return 0
}

// denseParams counts the elements of all parameters, including frozen ones, except the weights of
// embeddings: num_parameters(exclude_embeddings=True).
func denseParams(model any) (total int64) {
	embeddings := embeddingWeights(model)
	for _, p := range nn.Params(model) {
		if !slices.Contains(embeddings, p.Name) {
			total += p.Tensor.Numel()
		}
	}
	return total
}

func embeddingWeights(model any) (names []string) {
	for _, m := range nn.Modules(model) {
		if _, ok := m.Module.(*nn.Embedding); ok {
			names = append(names, join(m.Name, "weight"))
		}
	}
	return names
}

func join(module, name string) string {
	if module == "" {
		return name
	}
	return module + "." + name
}
