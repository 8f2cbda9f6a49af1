package transformer

import (
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Head is a head that a model does not share with others, see [Blueprint]: a struct whose modules
// have the names that they have in transformers' model, beside the encoder.
type Head interface {
	// Forward maps hidden states, [B, L, hidden], to logits.
	Forward(hidden torch.Tensor) torch.Tensor
}

// TiedHead is a [Head] that has the weight of the token embedding.
type TiedHead interface {
	Head
	// Tie gives it that weight, when everything was drawn.
	Tie(embeddings *nn.Embedding)
	// Output is the layer that gives words their logits; nil: there is no such layer.
	Output() *nn.Linear
}
