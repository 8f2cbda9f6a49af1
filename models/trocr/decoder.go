package trocr

import (
	"math"

	"github.com/gotrainer/gotrainer/models/bart"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Decoder is TrOCRDecoder. Its layers are those of BART's decoder.
type Decoder struct {
	nn.Mode
	EmbedTokens        *nn.Embedding `module:"embed_tokens"`
	EmbedPositions     *nn.Embedding `module:"embed_positions"`     // the first positionOffset are not used; nil: Sinusoids
	LayerNormEmbedding *nn.LayerNorm `module:"layernorm_embedding"` // nil: none
	Layers             []*bart.Layer `module:"layers"`
	Dropout            *nn.Dropout   `module:"dropout"`

	// Sinusoids are the embeddings of positions that are not learned, [positions, hidden].
	Sinusoids torch.Tensor `buffer:"sinusoids,nonpersistent"`

	config        Config
	scale         float64 // factor of the token embeddings
	checkpointing bool
}

// positionOffset is how many rows of learned position embeddings come before that of the first
// position.
const positionOffset = 2

// layerNormEps is PyTorch's default, which no config changes.
const layerNormEps = 1e-5

// newDecoder makes a decoder that attends to hidden states of the given size, unless they are mapped
// to its own.
func newDecoder(c Config, attended int64, b transformer.Builder) *Decoder {
	d := &Decoder{config: c, scale: c.embeddingScale(), Dropout: nn.NewDropout(*c.Dropout),
		EmbedTokens: b.Embedding(c.VocabSize, c.HiddenSize, c.DecoderPadTokenID)}
	if *c.LearnedPositions {
		d.EmbedPositions = b.Embedding(c.MaxPositions+positionOffset, c.HiddenSize, nil)
	} else {
		padding := *c.DecoderPadTokenID
		d.Sinusoids = nn.Buffer(sinusoids(c.MaxPositions+padding+1, c.HiddenSize, padding).ToDType(
			d.EmbedTokens.Weight.DType()))
	}
	if *c.LayerNormEmbedding {
		d.LayerNormEmbedding = b.LayerNorm(c.HiddenSize, layerNormEps)
	}
	if c.CrossAttentionHiddenSize == 0 {
		attended = c.HiddenSize
	}
	activation, _ := transformer.ActivationByName(c.ActivationFunction)
	for range c.NumLayers {
		d.Layers = append(d.Layers, bart.NewLayer(b, bart.LayerOptions{HiddenSize: c.HiddenSize, Heads: c.NumHeads,
			FFNDim: c.FFNDim, MemorySize: attended, Activation: activation, Dropout: *c.Dropout,
			AttentionDropout: c.AttentionDropout, ActivationDropout: c.ActivationDropout, ScaleQuery: true}))
	}
	if !b.Undrawn {
		transformer.InitWeights(d, c.InitStd, nil)
	}
	return d
}

// sinusoids returns embeddings of n positions, [n, size]: sines in the first half, cosines in the
// second, and zeros for padding.
func sinusoids(n, size, padding int64) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		var number torch.TensorOptions
		half := size / 2
		rates := number.Arange(0, half, 1).ToDType(torch.Float32).MulScalar(-math.Log(10000) / float64(half-1)).Exp()
		angles := number.Arange(0, n, 1).ToDType(torch.Float32).Unsqueeze(1).Mul(rates.Unsqueeze(0))
		parts := []torch.Tensor{angles.Sin(), angles.Cos()}
		if size%2 == 1 {
			parts = append(parts, torch.Zeros(n, 1))
		}
		all := torch.Cat(parts, 1)
		all.Select(0, padding).Zero_()
		return all
	})
}

// Layerdrop is the probability with which a layer is left out in training: engine.LayerDropper.
func (d *Decoder) Layerdrop() float64 { return d.config.Layerdrop }

// Forward maps hidden states of an image, [B, L, hidden], and the token ids of the text in it, [B,
// T], to hidden states of the text, [B, T, hidden].
func (d *Decoder) Forward(hidden, ids torch.Tensor) torch.Tensor {
	x := d.embed(ids, 0)
	self := transformer.CausalMask(torch.Tensor{}, x, transformer.Eager)
	self.Causal = false // Padding already says so, and the weights keep their dtype
	return d.run().Forward(x, self, bart.Memory{Hidden: hidden})
}

// run is how the layers run: always with eager attention, as in transformers.
func (d *Decoder) run() bart.Run {
	return bart.Run{Layers: d.Layers, Attention: transformer.Eager, Layerdrop: d.config.Layerdrop,
		Training: d.Training(), Checkpointing: d.checkpointing}
}

// embed returns the embeddings of tokens, [B, L], the first of which have the given position.
func (d *Decoder) embed(ids torch.Tensor, first int64) torch.Tensor {
	x := d.EmbedTokens.Forward(ids)
	if d.scale != 1 {
		x = x.MulScalar(d.scale)
	}
	x = x.Add(d.positions(ids, first))
	if d.LayerNormEmbedding != nil {
		x = d.LayerNormEmbedding.Forward(x)
	}
	return d.Dropout.Forward(x)
}

// positions returns the embeddings of the positions of tokens. Those that are learned count all
// tokens; the others do not count padding among ids.
func (d *Decoder) positions(ids torch.Tensor, first int64) torch.Tensor {
	shape := ids.Shape()
	if d.EmbedPositions != nil {
		at := torch.TensorOptions{DType: torch.Int64, Device: ids.Device()}.Arange(first+positionOffset,
			first+positionOffset+shape[1], 1)
		return d.EmbedPositions.Forward(at.Unsqueeze(0).Expand(shape...))
	}
	padding := *d.config.DecoderPadTokenID
	mask := ids.NeScalar(padding).ToDType(torch.Int64)
	at := mask.CumSum(1, torch.DefaultDType).AddScalar(first).Mul(mask).AddScalar(padding)
	return d.Sinusoids.IndexSelect(0, at.Reshape(-1)).View(shape[0], shape[1], -1)
}
