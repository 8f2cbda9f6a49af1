package wav2vec2

import (
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/initialize"
	"github.com/gotrainer/gotrainer/torch"
)

// CTCHead gives each frame a logit for every letter: the head of Wav2Vec2ForCTC.
type CTCHead struct {
	Dropout *nn.Dropout `module:"dropout"`
	LMHead  *nn.Linear  `module:"lm_head"`
}

func newCTCHead(c Config, b transformer.Builder) *CTCHead {
	return &CTCHead{nn.NewDropout(*c.FinalDropout), b.Linear(c.HiddenSize, c.VocabSize)}
}

// Forward maps hidden states, [B, frames, hidden], to logits, [B, frames, vocabulary].
func (h *CTCHead) Forward(hidden torch.Tensor) torch.Tensor {
	return h.LMHead.Forward(h.Dropout.Forward(hidden))
}

// Classifier classifies sound by the mean of its frames: the head of
// Wav2Vec2ForSequenceClassification.
type Classifier struct {
	Projector  *nn.Linear `module:"projector"`
	Classifier *nn.Linear `module:"classifier"`

	weights *layerWeights `module:"-"` // nil: only the last layer counts
}

// layerWeights say how much the outputs of the layers count.
type layerWeights struct {
	LayerWeights torch.Tensor `param:"layer_weights"` // [layers + 1]
}

var _ interface {
	transformer.HearingHead
	transformer.RootParams
	transformer.WeightDrawer
} = (*Classifier)(nil)

func newClassifier(c Config, b transformer.Builder) *Classifier {
	h := &Classifier{Projector: b.Linear(c.HiddenSize, c.ClassifierProjSize),
		Classifier: b.Linear(c.ClassifierProjSize, c.NumLabels)}
	if c.UseWeightedLayerSum {
		h.weights = &layerWeights{nn.Parameter(torch.TensorOptions{DType: b.DType}.Ones(c.NumLayers + 1))}
		torch.NoGrad(func() { h.weights.LayerWeights.DivScalar_(c.NumLayers + 1) })
	}
	return h
}

// RootParams returns the weights of the layers.
func (h *Classifier) RootParams() any {
	if h.weights == nil {
		return nil
	}
	return h.weights
}

// DrawWeights makes all layers count alike.
func (h *Classifier) DrawWeights(_ float64, wanted func(name string, t torch.Tensor) bool) {
	if h.weights == nil {
		return
	}
	if w := h.weights.LayerWeights; wanted("layer_weights", w) {
		initialize.Constant(w, 1/float64(w.Size(0)))
	}
}

// Forward maps hidden states without padding, [B, frames, hidden], to logits, [B, labels].
func (h *Classifier) Forward(hidden torch.Tensor) torch.Tensor {
	return h.ForwardHeard(transformer.Heard{Hidden: hidden})
}

// ForwardHeard maps what was heard to logits, [B, labels]. Frames of padding do not count.
func (h *Classifier) ForwardHeard(heard transformer.Heard) torch.Tensor {
	hidden := heard.Hidden
	if h.weights != nil {
		weights := h.weights.LayerWeights.Softmax(-1, torch.DefaultDType).View(-1, 1, 1)
		hidden = torch.Stack(heard.Layers, 1).Mul(weights).SumDim([]int64{1}, false, torch.DefaultDType)
	}
	hidden = h.Projector.Forward(hidden)
	if !heard.Padding.Defined() {
		return h.Classifier.Forward(hidden.MeanDim([]int64{1}, false, torch.DefaultDType))
	}
	sum := hidden.MaskedFill(heard.Padding.Unsqueeze(-1), 0).SumDim([]int64{1}, false, torch.DefaultDType)
	return h.Classifier.Forward(sum.Div(heard.Counts))
}
