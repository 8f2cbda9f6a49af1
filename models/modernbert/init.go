package modernbert

import (
	"github.com/gotrainer/gotrainer/nn/initialize"
	"github.com/gotrainer/gotrainer/torch"
)

// draw draws a weight if it is wanted, from a truncated normal distribution: trunc_normal_ of
// transformers.
func (d deviations) draw(wanted func(name string, t torch.Tensor) bool, name string, t torch.Tensor, std float64) {
	if wanted(name, t) {
		initialize.TruncNormal(t, 0, std, -d.cutoff*std, d.cutoff*std, nil)
	}
}

// DrawWeights draws the embedding, including the row of the padding token.
func (e *Embeddings) DrawWeights(_ float64, wanted func(name string, t torch.Tensor) bool) {
	e.std.draw(wanted, "tok_embeddings.weight", e.Tokens.Weight, e.std.in)
}

// DrawWeights draws the weights. Those of the output layer are smaller the more layers there are,
// since the outputs of all layers are added up.
func (a *Attention) DrawWeights(_ float64, wanted func(name string, t torch.Tensor) bool) {
	a.std.draw(wanted, "Wqkv.weight", a.Wqkv.Weight, a.std.in)
	a.std.draw(wanted, "Wo.weight", a.Wo.Weight, a.std.out)
}

// DrawWeights draws the weights. Those of the output layer are smaller the more layers there are,
// since the outputs of all layers are added up.
func (m *MLP) DrawWeights(_ float64, wanted func(name string, t torch.Tensor) bool) {
	m.std.draw(wanted, "Wi.weight", m.Wi.Weight, m.std.in)
	m.std.draw(wanted, "Wo.weight", m.Wo.Weight, m.std.out)
}

// DrawWeights draws the linear layer.
func (h *PredictionHead) DrawWeights(_ float64, wanted func(name string, t torch.Tensor) bool) {
	h.std.draw(wanted, "dense.weight", h.Dense.Weight, h.std.out)
}

// DrawWeights draws the classifier.
func (c *Classifier) DrawWeights(_ float64, wanted func(name string, t torch.Tensor) bool) {
	c.Head.std.draw(wanted, "classifier.weight", c.Classifier.Weight, c.Head.std.last)
}

// DrawWeights draws the layer that computes the logits of words, before it gets the weight of the
// token embedding.
func (m *Masked) DrawWeights(_ float64, wanted func(name string, t torch.Tensor) bool) {
	m.Head.std.draw(wanted, "decoder.weight", m.Decoder.Weight, m.Head.std.out)
}
