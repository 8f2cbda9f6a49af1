package whisper

import (
	"math"

	"github.com/gotrainer/gotrainer/models/bart"
	"github.com/gotrainer/gotrainer/models/internal/specaugment"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Model is WhisperModel: log-mel features and the tokens of a text in, hidden states of the text
// out.
type Model struct {
	Encoder *Encoder `module:"encoder"`
	Decoder *Decoder `module:"decoder"`

	masks *torch.Generator // nil: none are drawn
}

// layerNormEps is PyTorch's default, which no config changes.
const layerNormEps = 1e-5

// newModel builds encoder and decoder; each draws its weights when it is created.
func newModel(c Config, b transformer.Builder) *Model {
	return &Model{newEncoder(c, b), newDecoder(c, b), specaugment.Generator(c.SpecAugment)}
}

// layer describes layers with a number of heads and a size of the feed-forward part.
func (c Config) layer(heads, ffn int64) bart.LayerOptions {
	activation, _ := transformer.ActivationByName(c.ActivationFunction)
	return bart.LayerOptions{HiddenSize: c.HiddenSize, Heads: heads, FFNDim: ffn, Activation: activation,
		Dropout: c.Dropout, AttentionDropout: c.AttentionDropout, ActivationDropout: c.ActivationDropout,
		NormalizesBefore: true, Whisper: true}
}

// Encoder is WhisperEncoder.
type Encoder struct {
	nn.Mode
	Conv1 *nn.Conv1d `module:"conv1"`
	Conv2 *nn.Conv1d `module:"conv2"`
	// EmbedPositions are sines and cosines, which are not trained.
	EmbedPositions *nn.Embedding `module:"embed_positions"`
	Layers         []*bart.Layer `module:"layers"`
	LayerNorm      *nn.LayerNorm `module:"layer_norm"`
	Dropout        *nn.Dropout   `module:"dropout"`

	config        Config
	checkpointing bool
}

func newEncoder(c Config, b transformer.Builder) *Encoder {
	e := &Encoder{config: c, Dropout: nn.NewDropout(c.Dropout), Conv1: b.Conv1d(c.NumMelBins, c.HiddenSize, 3, 1, 1),
		Conv2:          b.Conv1d(c.HiddenSize, c.HiddenSize, 3, stride, 1),
		EmbedPositions: b.Embedding(c.MaxSourcePositions, c.HiddenSize, nil)}
	for range c.EncoderLayers {
		e.Layers = append(e.Layers, bart.NewLayer(b, c.layer(c.EncoderAttentionHeads, c.EncoderFFNDim)))
	}
	e.LayerNorm = b.LayerNorm(c.HiddenSize, layerNormEps)
	e.EmbedPositions.Weight.SetRequiresGrad(false)
	if !b.Undrawn {
		transformer.InitWeights(e, c.InitStd, nil)
	}
	return e
}

// DrawWeights makes the positions sines and cosines: [transformer.WeightDrawer].
func (e *Encoder) DrawWeights(_ float64, wanted func(name string, t torch.Tensor) bool) {
	if weight := e.EmbedPositions.Weight; wanted("embed_positions.weight", weight) {
		weight.Copy_(sinusoids(weight.Size(0), weight.Size(1)))
	}
}

// sinusoids returns embeddings of n positions, [n, size]: sines in the first half, cosines in the
// second.
func sinusoids(n, size int64) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		var number torch.TensorOptions
		half := size / 2
		rates := number.Arange(0, half, 1).ToDType(torch.Float32).MulScalar(-math.Log(10000) / float64(half-1)).Exp()
		angles := number.Arange(0, n, 1).ToDType(torch.Float32).Unsqueeze(1).Mul(rates.Unsqueeze(0))
		return torch.Cat([]torch.Tensor{angles.Sin(), angles.Cos()}, 1)
	})
}

// stride is how many frames one position of the encoder stands for.
const stride = 2

// Layerdrop is the probability with which a layer is left out in training: engine.LayerDropper.
func (e *Encoder) Layerdrop() float64 { return e.config.EncoderLayerdrop }

// Forward maps log-mel features, [B, bins, frames], to hidden states, [B, frames/2, hidden]. It
// panics with [*torch.Error] if there are not as many frames as the model has positions for.
func (e *Encoder) Forward(features torch.Tensor) torch.Tensor {
	e.check(features)
	x := e.Conv1.Forward(features.ToDType(e.Conv1.Weight.DType())).GELU("none")
	x = e.Conv2.Forward(x).GELU("none").Transpose(1, 2)
	x = e.Dropout.Forward(x.Add(e.EmbedPositions.Weight))
	run := bart.Run{Layers: e.Layers, Attention: e.config.Attention, Layerdrop: e.config.EncoderLayerdrop,
		Training: e.Training(), Checkpointing: e.checkpointing}
	return e.LayerNorm.Forward(run.Forward(x, transformer.Mask{}, bart.Memory{}))
}

// check panics for features that the model does not take.
func (e *Encoder) check(features torch.Tensor) {
	if shape := features.Shape(); len(shape) != 3 || shape[2] != stride*e.config.MaxSourcePositions {
		panic(torch.Errorf("whisper.Encoder.Forward", torch.ErrInvalid, "the features have the shape %v; want [B, %d, %d]",
			shape, e.config.NumMelBins, stride*e.config.MaxSourcePositions))
	}
}

// Decoder is WhisperDecoder.
type Decoder struct {
	nn.Mode
	EmbedTokens    *nn.Embedding `module:"embed_tokens"`
	EmbedPositions *nn.Embedding `module:"embed_positions"`
	Layers         []*bart.Layer `module:"layers"`
	LayerNorm      *nn.LayerNorm `module:"layer_norm"`
	Dropout        *nn.Dropout   `module:"dropout"`

	config        Config
	checkpointing bool
}

func newDecoder(c Config, b transformer.Builder) *Decoder {
	d := &Decoder{config: c, Dropout: nn.NewDropout(c.Dropout),
		EmbedTokens:    b.Embedding(c.VocabSize, c.HiddenSize, c.PadTokenID),
		EmbedPositions: b.Embedding(c.MaxTargetPositions, c.HiddenSize, nil)}
	layer := c.layer(c.DecoderAttentionHeads, c.DecoderFFNDim)
	layer.MemorySize = c.HiddenSize
	for range c.DecoderLayers {
		d.Layers = append(d.Layers, bart.NewLayer(b, layer))
	}
	d.LayerNorm = b.LayerNorm(c.HiddenSize, layerNormEps)
	if !b.Undrawn {
		transformer.InitWeights(d, c.InitStd, nil)
	}
	return d
}

// embed returns the embeddings of tokens, [B, L], the first of which have the given position.
func (d *Decoder) embed(ids torch.Tensor, first int64) torch.Tensor {
	shape := ids.Shape()
	positions := torch.TensorOptions{DType: torch.Int64, Device: ids.Device()}.Arange(first, first+shape[1], 1)
	x := d.EmbedTokens.Forward(ids)
	return d.Dropout.Forward(x.Add(d.EmbedPositions.Forward(positions.Unsqueeze(0).Expand(shape...))))
}

func (d *Decoder) run() bart.Run {
	return bart.Run{Layers: d.Layers, Attention: d.config.Attention, Layerdrop: d.config.DecoderLayerdrop,
		Training: d.Training(), Checkpointing: d.checkpointing}
}

// Layerdrop is the probability with which a layer is left out in training: engine.LayerDropper.
func (d *Decoder) Layerdrop() float64 { return d.config.DecoderLayerdrop }

// Forward maps hidden states of speech, [B, S, hidden], and the token ids of the text in it, [B, T],
// to hidden states of the text, [B, T, hidden].
func (d *Decoder) Forward(hidden, ids torch.Tensor) torch.Tensor {
	x := d.embed(ids, 0)
	self := transformer.CausalMask(torch.Tensor{}, x, d.config.Attention)
	// Eager attention adds Padding, and keeps the dtype of its weights.
	self.Causal = self.Causal && d.config.Attention != transformer.Eager
	return d.LayerNorm.Forward(d.run().Forward(x, self, bart.Memory{Hidden: hidden}))
}

// Forward maps features, as in [Encoder.Forward], and the token ids of the texts in them, [B, T], to
// the hidden states of the texts, [B, T, hidden]. Each token attends to itself and to all tokens
// before it, including padding. In training, Forward draws the masks of SpecAugment.
func (m *Model) Forward(features, decoderIDs torch.Tensor) torch.Tensor {
	if m.masks != nil && m.Encoder.Training() {
		m.Encoder.check(features)
		features = m.specAugment(features)
	}
	return m.Decoder.Forward(m.Encoder.Forward(features), decoderIDs)
}

// Decode starts texts of at most capacity tokens, for speech that [Encoder.Forward] has mapped to
// hidden. next maps the next token of each text, [B, 1], to its hidden state, [B, 1, hidden]. It and
// the cached keys and values live in the scope in which Decode was called.
func (m *Model) Decode(hidden, _ torch.Tensor, capacity int64) (next func(ids torch.Tensor) torch.Tensor,
	tokens *transformer.Past) {
	continued, tokens := m.Decoder.run().Continue(bart.Memory{Hidden: hidden}, capacity, m.Decoder.embed)
	next = func(ids torch.Tensor) torch.Tensor {
		return torch.Return(func() torch.Tensor { return m.Decoder.LayerNorm.Forward(continued(ids)) })
	}
	return next, tokens
}

func (m *Model) setGradientCheckpointing(on bool) {
	m.Encoder.checkpointing, m.Decoder.checkpointing = on, on
}

// Head is the output layer, proj_out, which shares the weight of the token embedding.
type Head struct {
	ProjOut *nn.Linear `module:"proj_out"`
}

// Forward maps hidden states, [B, T, hidden], to logits, [B, T, vocabulary].
func (h *Head) Forward(hidden torch.Tensor) torch.Tensor { return h.ProjOut.Forward(hidden) }

// Tie shares the weight of the token embedding.
func (h *Head) Tie(embeddings *nn.Embedding) { h.ProjOut.Weight = embeddings.Weight }

// Output returns the output layer.
func (h *Head) Output() *nn.Linear { return h.ProjOut }
