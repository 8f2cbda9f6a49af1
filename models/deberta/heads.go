package deberta

import (
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Classifier computes logits of texts.
type Classifier struct {
	Pooler     *ContextPooler `module:"pooler"`
	Classifier *nn.Linear     `module:"classifier"`
	Dropout    *nn.Dropout    `module:"dropout"`

	chooses bool // between texts, to each of which it gives one number
}

// ContextPooler is a linear layer and an activation over the first token.
type ContextPooler struct {
	Dense   *nn.Linear  `module:"dense"`
	Dropout *nn.Dropout `module:"dropout"`

	activation transformer.Activation
}

// Masked is DebertaV2OnlyMLMHead, which computes a logit of each token for each word of the
// vocabulary. A model with the setting legacy has BERT's head instead.
type Masked struct {
	Predictions *Predictions `module:"lm_predictions"`
}

// Predictions contains DebertaV2LMPredictionHead.
type Predictions struct {
	Head *PredictionHead `module:"lm_head"`
}

// PredictionHead transforms each hidden state and multiplies it by the embeddings of all words.
type PredictionHead struct {
	Bias      torch.Tensor  `param:"bias"` // [vocabulary]
	Dense     *nn.Linear    `module:"dense"`
	LayerNorm *nn.LayerNorm `module:"LayerNorm"`

	activation transformer.Activation
	words      *nn.Embedding `module:"-"` // the encoder's token embedding
}

func newClassifier(c Config, b transformer.Builder) *Classifier {
	return &Classifier{
		Pooler: &ContextPooler{Dense: b.Linear(c.HiddenSize, c.HiddenSize), Dropout: nn.NewDropout(c.PoolerDropout),
			activation: activation(c.PoolerHiddenAct)},
		Classifier: b.Linear(c.HiddenSize, c.NumLabels), Dropout: nn.NewDropout(*c.ClsDropout),
	}
}

func newChooser(c Config, b transformer.Builder) *Classifier {
	c.NumLabels = 1
	m := newClassifier(c, b)
	m.chooses = true
	return m
}

func newMasked(c Config, b transformer.Builder) *Masked {
	return &Masked{&Predictions{&PredictionHead{Dense: b.Linear(c.HiddenSize, c.HiddenSize),
		LayerNorm: b.LayerNorm(c.HiddenSize, c.LayerNormEps), activation: activation(c.HiddenAct),
		Bias: nn.Parameter(torch.TensorOptions{DType: b.DType}.Zeros(c.VocabSize))}}}
}

// Forward maps hidden states, [B, L, hidden], to logits, [B, labels]: of a classifier in float32, in
// which transformers computes its loss, whatever the dtype of the model.
func (c *Classifier) Forward(hidden torch.Tensor) torch.Tensor {
	p := c.Pooler
	pooled := p.activation(p.Dense.Forward(p.Dropout.Forward(hidden.Select(1, 0))))
	logits := c.Classifier.Forward(c.Dropout.Forward(pooled))
	if c.chooses {
		return logits
	}
	return logits.ToDType(torch.Float32)
}

// Forward maps hidden states, [B, L, hidden], to logits, [B, L, vocabulary].
func (m *Masked) Forward(hidden torch.Tensor) torch.Tensor {
	h := m.Predictions.Head
	x := h.LayerNorm.Forward(h.activation(h.Dense.Forward(hidden)))
	return x.MatMul(h.words.Weight.T()).Add(h.Bias)
}

// Tie gives the head the token embedding.
func (m *Masked) Tie(e *nn.Embedding) { m.Predictions.Head.words = e }

// Output returns nil: the head has no weight of its own, only the embedding's.
func (m *Masked) Output() *nn.Linear { return nil }

// DrawWeights sets the bias to zero, which it already is.
func (h *PredictionHead) DrawWeights(_ float64, wanted func(name string, t torch.Tensor) bool) {
	if wanted("bias", h.Bias) {
		h.Bias.Zero_()
	}
}
