package auto

import (
	"context"
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// What follows is for models with an encoder and a decoder, whatever the encoder takes.

// ended adds a token that ends a text to labels that have none at their end.
func (m *Model) ended(labels []int64) []int64 {
	ends, last := m.blueprint.EOSTokenIDs, 1
	if m.blueprint.WrapsLabels { // a language may follow the end
		last = 2
	}
	is := func(id int64) bool { return slices.Contains(ends, id) }
	if len(ends) == 0 || slices.ContainsFunc(labels[max(0, len(labels)-last):], is) {
		return labels
	}
	labels = labels[:min(int64(len(labels)), m.Limits().MaxLength-1)]
	return append(slices.Clip(labels), ends[0])
}

// pairGeneration resolves the settings with which texts are generated from a number of inputs.
func (m *Model) pairGeneration(g Generation, inputs int) (Generation, error) {
	f, err := g.readFile(m)
	if err != nil {
		return g, err
	}
	if g, err = g.pairResolved(f, m); err != nil {
		return g, err
	}
	return g, g.checkStream(m, inputs)
}

// pairResolved is [Generation.resolved] for a model whose texts begin with its own tokens.
func (g Generation) pairResolved(f generationFile, m *Model) (_ Generation, err error) {
	if !m.task.speech {
		return g.resolved(f, m, 1)
	}
	if g, err = g.speechBeginning(&f, m); err != nil {
		return g, err
	}
	if g, err = g.resolved(f, m, 1+len(g.begin)); err != nil {
		return g, err
	}
	room := int(m.Limits().MaxLength) - 1 - len(g.begin)
	if room < 1 {
		return g, fmt.Errorf("auto: a text begins with %d tokens, all that the model has positions for", 1+len(g.begin))
	}
	g.MaxNewTokens = min(g.MaxNewTokens, room)
	return g, nil
}

// pairWriter resolves the settings with which evaluations generate texts.
func (m *Model) pairWriter(g Generation) (Generation, error) {
	f, err := g.checkWriter(m)
	if err != nil {
		return g, err
	}
	g.single = true
	return g.pairResolved(f, m)
}

// writePairs generates a text from each row of a batch, until it has ended or reached its maximum
// length. encode returns what the decoder attends to.
func (m *Model) writePairs(ctx context.Context, p engine.ForwardPass, n int, g Generation,
	encode func() (hidden, mask torch.Tensor)) (rows [][]int64, err error) {
	torch.NoGrad(func() {
		torch.Scope(func() {
			hidden, mask := encode()
			prompts := slices.Repeat([][]int64{slices.Concat([]int64{g.start}, g.begin)}, n)
			if g.detected != nil {
				prompts = m.withLanguages(p, hidden, prompts, g.detected)
			}
			if n := int64(g.copies()); n > 1 {
				hidden = hidden.RepeatInterleave(n, new(int64(0)))
				if mask.Defined() {
					mask = mask.RepeatInterleave(n, new(int64(0)))
				}
			}
			decode, past := m.backbone.DecodePair(hidden, mask, int64(len(g.begin)+g.MaxNewTokens))
			rows, err = g.write(ctx, prompts, func(tokens [][]int64, rows []int64) torch.Tensor {
				past.Reorder(rows)
				var hidden torch.Tensor
				for at := int(past.Length()); at < len(tokens[0]); at++ {
					hidden = decode(engine.Input(p, column(tokens, at), int64(len(tokens)), 1))
				}
				return m.head.forward(m.backbone, hidden.Select(1, 0))
			})
		})
	})
	return rows, err
}

// column returns the ids of all rows at one place.
func column(rows [][]int64, at int) (ids []int64) {
	for _, row := range rows {
		ids = append(ids, row[at])
	}
	return ids
}
