package modernbert

import (
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// PredictionHead is ModernBertPredictionHead, the first part of every head: a linear layer, an
// activation and a layer normalisation.
type PredictionHead struct {
	Dense *nn.Linear    `module:"dense"`
	Norm  *nn.LayerNorm `module:"norm"`

	activation transformer.Activation
	std        deviations
}

// Classifier computes logits of texts, of tokens, or of the tokens at which an answer may start and
// end.
type Classifier struct {
	Head       *PredictionHead `module:"head"`
	Drop       *nn.Dropout     `module:"drop"`
	Classifier *nn.Linear      `module:"classifier"`

	perText bool
}

// Masked computes a logit of each token for each word of the vocabulary.
type Masked struct {
	Head    *PredictionHead `module:"head"`
	Decoder *nn.Linear      `module:"decoder"`
}

func newPredictionHead(c Config, b transformer.Builder) *PredictionHead {
	return &PredictionHead{Dense: b.LinearWith(c.HiddenSize, c.HiddenSize, c.ClassifierBias), Norm: norm(c, b),
		activation: activation(c.ClassifierActivation), std: c.deviations()}
}

func newClassifier(c Config, b transformer.Builder, perText bool) *Classifier {
	return &Classifier{Head: newPredictionHead(c, b), Drop: nn.NewDropout(c.ClassifierDropout),
		Classifier: b.Linear(c.HiddenSize, c.NumLabels), perText: perText}
}

// newChooser makes the classifier that gives each choice one number.
func newChooser(c Config, b transformer.Builder) *Classifier {
	c.NumLabels = 1
	return newClassifier(c, b, true)
}

func newMasked(c Config, b transformer.Builder) *Masked {
	return &Masked{newPredictionHead(c, b), b.LinearWith(c.HiddenSize, c.VocabSize, *c.DecoderBias)}
}

// Forward maps [..., hidden] to the same shape.
func (h *PredictionHead) Forward(x torch.Tensor) torch.Tensor {
	return h.Norm.Forward(h.activation(h.Dense.Forward(x)))
}

// Forward maps hidden states, [B, L, hidden], to logits. For texts it uses only the first token:
// [B, labels].
func (c *Classifier) Forward(hidden torch.Tensor) torch.Tensor {
	if c.perText {
		hidden = hidden.Select(1, 0)
	}
	return c.Classifier.Forward(c.Drop.Forward(c.Head.Forward(hidden)))
}

// Forward maps hidden states, [B, L, hidden], to logits, [B, L, vocabulary], in float32, in which
// transformers computes the loss, whatever the dtype of the model.
func (m *Masked) Forward(hidden torch.Tensor) torch.Tensor {
	return m.Decoder.Forward(m.Head.Forward(hidden)).ToDType(torch.Float32)
}

// Tie gives the last layer the weight of the token embedding.
func (m *Masked) Tie(e *nn.Embedding) { m.Decoder.Weight = e.Weight }

// Output returns the last layer.
func (m *Masked) Output() *nn.Linear { return m.Decoder }

// mean returns the mean over the tokens of each text that are not padding: [B, 1, hidden] for
// hidden states of shape [B, L, hidden].
func mean(hidden, mask torch.Tensor) torch.Tensor {
	if !mask.Defined() {
		mask = torch.TensorOptions{DType: torch.Bool, Device: hidden.Device()}.Ones(hidden.Size(0), hidden.Size(1))
	}
	sum := hidden.Mul(mask.Unsqueeze(-1)).SumDim([]int64{1}, false, torch.DefaultDType)
	return sum.Div(mask.SumDim([]int64{1}, true, torch.DefaultDType)).Unsqueeze(1)
}
