package transformer

import (
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Head is a head specific to a model, see [Blueprint]: a struct whose modules have their names in
// transformers' model, beside the encoder.
type Head interface {
	// Forward maps hidden states, [B, L, hidden], to logits.
	Forward(hidden torch.Tensor) torch.Tensor
}

// HearingHead is a [Head] that takes more of sound than its last hidden states.
type HearingHead interface {
	Head
	// ForwardHeard maps what was heard to logits.
	ForwardHeard(h Heard) torch.Tensor
}

// MapsHead is a head that takes the feature maps of an image, as those of semantic segmentation do.
type MapsHead interface {
	// ForwardMaps maps the feature maps of [Backbone], [B, hidden, rows, columns], to logits, [B,
	// labels, rows, columns].
	ForwardMaps(maps []torch.Tensor) torch.Tensor
}

// DetectionHead is a [Head] that also predicts boxes.
type DetectionHead interface {
	Head
	// Boxes maps hidden states, [B, queries, hidden], to the centers and sizes of boxes, as shares of
	// the image's sides, [B, queries, 4].
	Boxes(hidden torch.Tensor) torch.Tensor
}

// MLP is linear layers with ReLU between them: DetrMLPPredictionHead.
type MLP struct {
	Layers []*nn.Linear `module:"layers"`
}

// MLP makes three layers; those inside have as many features as the input.
func (b Builder) MLP(in, out int64) *MLP {
	return &MLP{[]*nn.Linear{b.Linear(in, in), b.Linear(in, in), b.Linear(in, out)}}
}

// Forward maps [..., in] to [..., out].
func (m *MLP) Forward(x torch.Tensor) torch.Tensor {
	for i, l := range m.Layers {
		if i > 0 {
			x = x.ReLU()
		}
		x = l.Forward(x)
	}
	return x
}

// RootParams is a [Head] with parameters that no module of the model contains.
type RootParams interface {
	// RootParams returns a struct with these parameters; nil: there are none.
	RootParams() any
}

// TiedHead is a [Head] that shares the weight of the token embedding.
type TiedHead interface {
	Head
	// Tie shares that weight, after everything has been drawn.
	Tie(embeddings *nn.Embedding)
	// Output returns the layer that computes the logits of words, or nil if there is none.
	Output() *nn.Linear
}
