package engine

import (
	"slices"

	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/trainer"
)

// count is [Step.Count].
func (s *core) count(b any) (n trainer.Counts) {
	n.Items = s.items(b)
	n.Labels = n.Items
	if s.task.isLabelCounter {
		n.Labels = s.task.CountLabels(b)
	}
	if !s.task.isTokenCounter {
		return n
	}
	if s.dense == 0 {
		s.dense = denseParams(s.task.Model())
	}
	all, nonPadding := s.task.CountTokens(b)
	n.Tokens, n.Flops = all, float64(6*all*s.dense)
	if s.options.NonPaddingTokens {
		n.Tokens = nonPadding
	}
	return n
}

func (s *core) items(b any) int64 {
	if s.task.isItemCounter {
		return s.task.CountItems(b)
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
