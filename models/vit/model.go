package vit

import (
	"strings"

	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Model is ViTModel, or DeiTModel: pixels in, hidden states out.
type Model struct {
	Embeddings *Embeddings                  `module:"embeddings"`
	Encoder    *transformer.Encoder[*Layer] `module:"encoder"`
	LayerNorm  *nn.LayerNorm                `module:"layernorm"`
	// Pooler is nil behind the head of a classifier. Elsewhere it comes from and goes to files, and
	// computes nothing.
	Pooler *transformer.Pooler `module:"pooler"`

	config Config
}

// Layer is ViTLayer: attention and a feed-forward part. The input of each is normalized, and its
// output is added to that input.
type Layer struct {
	Attention       *Attention                `module:"attention"`
	LayerNormBefore *nn.LayerNorm             `module:"layernorm_before"`
	LayerNormAfter  *nn.LayerNorm             `module:"layernorm_after"`
	Intermediate    *transformer.Intermediate `module:"intermediate"`
	Output          *Output                   `module:"output"`
	Dropout         *nn.Dropout               `module:"dropout"`
}

// Attention is ViTAttention.
type Attention struct {
	Self   *transformer.SelfAttention `module:"attention"`
	Output *Output                    `module:"output"`
}

// Output is a linear layer.
type Output struct {
	Dense *nn.Linear `module:"dense"`
}

// toMemory maps names of modules, which are those that save_pretrained writes, to the names that
// transformers 5 uses in memory, and therefore in a state_dict saved with torch.save and in peft's
// adapters. fromMemory maps them back.
var (
	toMemory = strings.NewReplacer("encoder.layer.", "layers.", "attention.attention.query", "attention.q_proj",
		"attention.attention.key", "attention.k_proj", "attention.attention.value", "attention.v_proj",
		"attention.output.dense", "attention.o_proj", "intermediate.dense", "mlp.fc1", "output.dense", "mlp.fc2")
	fromMemory = strings.NewReplacer("layers.", "encoder.layer.", "attention.q_proj", "attention.attention.query",
		"attention.k_proj", "attention.attention.key", "attention.v_proj", "attention.attention.value",
		"attention.o_proj", "attention.output.dense", "mlp.fc1", "intermediate.dense", "mlp.fc2", "output.dense")
)

func newModel(c Config, b transformer.Builder) *Model {
	m := &Model{config: c, Embeddings: newEmbeddings(c, b)}
	m.Encoder = transformer.NewEncoder(c.NumLayers, func() *Layer { return NewLayer(c, b) })
	m.LayerNorm, m.Pooler = b.LayerNorm(c.HiddenSize, c.LayerNormEps), b.Pooler(c.HiddenSize)
	if !b.Undrawn {
		transformer.InitWeights(m, c.InitializerRange, nil)
	}
	return m
}

// NewLayer makes a layer of the sizes and settings that c has; all of them must be set.
func NewLayer(c Config, b transformer.Builder) *Layer {
	size := c.HiddenSize
	projection := func() *nn.Linear { return b.LinearWith(size, size, *c.QKVBias) }
	activation, err := transformer.ActivationByName(c.HiddenAct)
	if err != nil {
		panic(torch.Errorf("vit.Config", torch.ErrValue, "%v; resolve the config first", err))
	}
	l := &Layer{Dropout: nn.NewDropout(c.HiddenDropout)}
	l.Attention = &Attention{Self: &transformer.SelfAttention{Query: projection(), Key: projection(), Value: projection(),
		Dropout: nn.NewDropout(c.AttentionDropout), Heads: c.NumHeads, Kind: c.Attention}}
	l.Attention.Output = &Output{b.Linear(size, size)}
	l.LayerNormBefore, l.LayerNormAfter = b.LayerNorm(size, c.LayerNormEps), b.LayerNorm(size, c.LayerNormEps)
	l.Intermediate = &transformer.Intermediate{Dense: b.Linear(size, c.IntermediateSize), Activation: activation}
	l.Output = &Output{b.Linear(c.IntermediateSize, size)}
	return l
}

// Forward maps the pixels of images, [B, channels, height, width], to the hidden states of their
// tokens, [B, L, hidden]; the first token stands for the image. Pixels are converted to the dtype
// of the weights. Forward panics with [*torch.Error] if the images do not have the size
// Config.ImageSize, unless positions are interpolated.
func (m *Model) Forward(pixels torch.Tensor) torch.Tensor {
	x := m.Embeddings.Forward(pixels.ToDType(m.Embeddings.ClsToken.DType()))
	return m.LayerNorm.Forward(m.Encoder.Forward(x, transformer.Mask{WideSoftmax: true}))
}

// InterpolatePosEncoding makes Forward take images of any size. The positions of patches are
// interpolated between those that the model knows: interpolate_pos_encoding of transformers. It is
// an error for models whose patches are not square or do not form a square.
func (m *Model) InterpolatePosEncoding(on bool) error {
	if err := m.config.canInterpolate(); on && err != nil {
		return err
	}
	m.Embeddings.interpolate = on
	return nil
}

// Forward maps hidden states, [B, L, hidden], to the next ones.
func (l *Layer) Forward(x torch.Tensor, mask transformer.Mask) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		attended := l.Attention.Output.Dense.Forward(l.Attention.Self.Forward(l.LayerNormBefore.Forward(x), mask))
		x = l.Dropout.Forward(attended).Add(x)
		made := l.Output.Dense.Forward(l.Intermediate.Forward(l.LayerNormAfter.Forward(x)))
		return l.Dropout.Forward(made).Add(x)
	})
}

// FuseQKVProjections is transformer.Encoder's method, for one layer.
func (l *Layer) FuseQKVProjections(on bool) { l.Attention.Self.Projections.Fused = on }
