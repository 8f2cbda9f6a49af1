package auto

import (
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// tiedHead is a head whose output layer shares the weight of the token embedding. As in
// transformers, the output layer is drawn like any other layer before it is tied.
type tiedHead interface {
	head
	tie(embeddings *nn.Embedding)
	output() *nn.Linear // the output layer
}

// bertMasked is BertOnlyMLMHead and LegacyDebertaV2OnlyMLMHead.
type bertMasked struct {
	CLS *bertPredictions `module:"cls"`
}

type bertPredictions struct {
	Predictions *bertPrediction `module:"predictions"`
}

// bertPrediction is BertLMPredictionHead.
type bertPrediction struct {
	Bias      torch.Tensor   `param:"bias"` // the bias of Decoder
	Transform *bertTransform `module:"transform"`
	Decoder   *nn.Linear     `module:"decoder"`
}

type bertTransform struct {
	Dense     *nn.Linear    `module:"dense"`
	LayerNorm *nn.LayerNorm `module:"LayerNorm"`

	activation transformer.Activation
}

func (h *bertMasked) tie(e *nn.Embedding) {
	p := h.CLS.Predictions
	p.Decoder.Weight, p.Bias = e.Weight, p.Decoder.Bias
}

func (h *bertMasked) output() *nn.Linear { return h.CLS.Predictions.Decoder }

func (h *bertMasked) forward(_ transformer.Backbone, hidden torch.Tensor) torch.Tensor {
	p := h.CLS.Predictions
	t := p.Transform
	return p.Decoder.Forward(t.LayerNorm.Forward(t.activation(t.Dense.Forward(hidden))))
}

// robertaMasked is RobertaLMHead and MPNet's head.
type robertaMasked struct {
	LMHead *robertaLM `module:"lm_head"`
}

type robertaLM struct {
	Bias      torch.Tensor  `param:"bias"` // the bias of Decoder
	Dense     *nn.Linear    `module:"dense"`
	LayerNorm *nn.LayerNorm `module:"layer_norm"`
	Decoder   *nn.Linear    `module:"decoder"`
}

func (h *robertaMasked) tie(e *nn.Embedding) {
	h.LMHead.Decoder.Weight, h.LMHead.Bias = e.Weight, h.LMHead.Decoder.Bias
}

func (h *robertaMasked) output() *nn.Linear { return h.LMHead.Decoder }

func (h *robertaMasked) forward(_ transformer.Backbone, hidden torch.Tensor) torch.Tensor {
	l := h.LMHead
	return l.Decoder.Forward(l.LayerNorm.Forward(gelu(l.Dense.Forward(hidden))))
}

// electraMasked is the head of ElectraForMaskedLM.
type electraMasked struct {
	Predictions *electraPredictions `module:"generator_predictions"`
	LMHead      *nn.Linear          `module:"generator_lm_head"`
}

type electraPredictions struct {
	LayerNorm *nn.LayerNorm `module:"LayerNorm"`
	Dense     *nn.Linear    `module:"dense"`
}

func (h *electraMasked) tie(e *nn.Embedding) { h.LMHead.Weight = e.Weight }

func (h *electraMasked) output() *nn.Linear { return h.LMHead }

func (h *electraMasked) forward(_ transformer.Backbone, hidden torch.Tensor) torch.Tensor {
	p := h.Predictions
	return h.LMHead.Forward(p.LayerNorm.Forward(gelu(p.Dense.Forward(hidden))))
}

// distilMasked is the head of DistilBertForMaskedLM.
type distilMasked struct {
	Transform *nn.Linear    `module:"vocab_transform"`
	LayerNorm *nn.LayerNorm `module:"vocab_layer_norm"`
	Projector *nn.Linear    `module:"vocab_projector"`

	activation transformer.Activation
}

func (h *distilMasked) tie(e *nn.Embedding) { h.Projector.Weight = e.Weight }

func (h *distilMasked) output() *nn.Linear { return h.Projector }

func (h *distilMasked) forward(_ transformer.Backbone, hidden torch.Tensor) torch.Tensor {
	return h.Projector.Forward(h.LayerNorm.Forward(h.activation(h.Transform.Forward(hidden))))
}

// newMaskedHead makes a head that gives each token a logit for each word of the vocabulary.
func newMaskedHead(p transformer.Blueprint, b transformer.Builder) head {
	size, vocab := p.HiddenSize, p.Limits.VocabSize
	switch p.ModelType {
	case "bert", "deberta-v2":
		own := p.EmbeddingSize
		return &bertMasked{&bertPredictions{&bertPrediction{
			Transform: &bertTransform{b.Linear(size, own), b.LayerNorm(own, p.LayerNormEps), p.Activation},
			Decoder:   b.Linear(own, vocab),
		}}}
	case "distilbert":
		return &distilMasked{b.Linear(size, size), b.LayerNorm(size, p.LayerNormEps), b.Linear(size, vocab),
			p.Activation}
	case "electra":
		return &electraMasked{&electraPredictions{b.LayerNorm(p.EmbeddingSize, p.LayerNormEps), b.Linear(size,
			p.EmbeddingSize)}, b.Linear(p.EmbeddingSize, vocab)}
	}
	return &robertaMasked{&robertaLM{Dense: b.Linear(size, size), LayerNorm: b.LayerNorm(size, p.LayerNormEps),
		Decoder: b.Linear(size, vocab)}}
}
