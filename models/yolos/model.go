package yolos

import (
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/models/vit"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/initialize"
	"github.com/gotrainer/gotrainer/torch"
)

// Model is YolosModel: pixels in, hidden states of detection tokens out.
type Model struct {
	Embeddings *Embeddings   `module:"embeddings"`
	Encoder    *Encoder      `module:"encoder"`
	LayerNorm  *nn.LayerNorm `module:"layernorm"`
}

// Embeddings is YolosEmbeddings: a token for the whole image, the patches, the detection tokens,
// and their positions.
type Embeddings struct {
	ClsToken           torch.Tensor         `param:"cls_token"`           // [1, 1, hidden]
	DetectionTokens    torch.Tensor         `param:"detection_tokens"`    // [1, detection tokens, hidden]
	PositionEmbeddings torch.Tensor         `param:"position_embeddings"` // [1, tokens, hidden]
	PatchEmbeddings    *vit.PatchEmbeddings `module:"patch_embeddings"`
	Dropout            *nn.Dropout          `module:"dropout"`

	config Config
}

// Encoder is YolosEncoder.
type Encoder struct {
	// MidPositionEmbeddings are added to the output of each layer but the last, [layers-1, 1, tokens,
	// hidden]; undefined: none.
	MidPositionEmbeddings torch.Tensor `param:"mid_position_embeddings"`
	transformer.Encoder[*Layer]

	config Config
}

// Layer is YolosLayer: a layer of ViT whose parts have another order.
type Layer struct {
	*vit.Layer `module:"-"`
}

// OwnModules lists the parts.
func (l *Layer) OwnModules() []nn.Named {
	return []nn.Named{{Name: "attention", Module: l.Attention}, {Name: "intermediate", Module: l.Intermediate},
		{Name: "output", Module: l.Output}, {Name: "layernorm_before", Module: l.LayerNormBefore},
		{Name: "layernorm_after", Module: l.LayerNormAfter}, {Name: "dropout", Module: l.Dropout}}
}

func newModel(c Config, b transformer.Builder) *Model {
	m := &Model{Embeddings: newEmbeddings(c, b), Encoder: newEncoder(c, b)}
	m.LayerNorm = b.LayerNorm(c.HiddenSize, c.LayerNormEps)
	if !b.Undrawn {
		transformer.InitWeights(m, c.InitializerRange, nil)
	}
	return m
}

func newEmbeddings(c Config, b transformer.Builder) *Embeddings {
	zeros := torch.TensorOptions{DType: b.DType}.Zeros
	rows, columns := c.grid()
	e := &Embeddings{config: c, Dropout: nn.NewDropout(c.HiddenDropout)}
	e.ClsToken = nn.Parameter(zeros(1, 1, c.HiddenSize))
	e.DetectionTokens = nn.Parameter(zeros(1, c.NumDetectionTokens, c.HiddenSize))
	patch := nn.Dims{c.PatchSize}
	e.PatchEmbeddings = &vit.PatchEmbeddings{Projection: b.Conv2d(c.NumChannels, c.HiddenSize, patch,
		nn.ConvOptions{Stride: patch})}
	e.PositionEmbeddings = nn.Parameter(zeros(1, rows*columns+c.NumDetectionTokens+1, c.HiddenSize))
	return e
}

func newEncoder(c Config, b transformer.Builder) *Encoder {
	e := &Encoder{config: c}
	layers := c.layers()
	e.Encoder = *transformer.NewEncoder(c.NumLayers, func() *Layer {
		l := &Layer{vit.NewLayer(layers, b)}
		l.Attention.Self.Projections.KeysFirst = true
		return l
	})
	if *c.UseMidPositionEmbeddings {
		rows, columns := c.grid()
		e.MidPositionEmbeddings = nn.Parameter(torch.TensorOptions{DType: b.DType}.Zeros(c.NumLayers-1, 1,
			rows*columns+c.NumDetectionTokens+1, c.HiddenSize))
	}
	return e
}

// DrawWeights makes tokens and positions 0: transformer.WeightDrawer.
func (e *Embeddings) DrawWeights(_ float64, wanted func(name string, t torch.Tensor) bool) {
	for _, p := range []torch.Named{{Name: "cls_token", Tensor: e.ClsToken},
		{Name: "detection_tokens", Tensor: e.DetectionTokens},
		{Name: "position_embeddings", Tensor: e.PositionEmbeddings}} {
		if wanted(p.Name, p.Tensor) {
			initialize.Zeros(p.Tensor)
		}
	}
}

// DrawWeights makes positions 0: transformer.WeightDrawer.
func (e *Encoder) DrawWeights(_ float64, wanted func(name string, t torch.Tensor) bool) {
	if wanted("mid_position_embeddings", e.MidPositionEmbeddings) {
		initialize.Zeros(e.MidPositionEmbeddings)
	}
}

// Forward maps the pixels of images, [B, channels, height, width], to the hidden states of their
// detection tokens, [B, detection tokens, hidden]. Pixels are converted to the dtype of the
// weights. Forward panics with [*torch.Error] if the images have another number of channels, or are
// smaller than a patch.
func (m *Model) Forward(pixels torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		c, shape := m.Embeddings.config, pixels.Shape()
		if len(shape) != 4 || shape[1] != c.NumChannels || shape[2] < c.PatchSize || shape[3] < c.PatchSize {
			panic(torch.Errorf("yolos.Model.Forward", torch.ErrInvalid,
				"the pixels are %v; want [B, %d, height, width], of at least a patch, %dx%d", shape, c.NumChannels, c.PatchSize,
				c.PatchSize))
		}
		rows, columns := shape[2]/c.PatchSize, shape[3]/c.PatchSize
		x := m.Embeddings.forward(pixels.ToDType(m.Embeddings.ClsToken.DType()), rows, columns)
		x = m.LayerNorm.Forward(m.Encoder.forward(x, rows, columns))
		return x.Narrow(1, x.Size(1)-c.NumDetectionTokens, c.NumDetectionTokens)
	})
}

func (e *Embeddings) forward(pixels torch.Tensor, rows, columns int64) torch.Tensor {
	patches := e.PatchEmbeddings.Projection.Forward(pixels).Flatten(2, -1).Transpose(1, 2)
	rowsOf := func(t torch.Tensor) torch.Tensor { return t.Expand(pixels.Size(0), -1, -1) }
	x := torch.Cat([]torch.Tensor{rowsOf(e.ClsToken), patches, rowsOf(e.DetectionTokens)}, 1)
	return e.Dropout.Forward(x.Add(e.config.interpolated(e.PositionEmbeddings, rows, columns)))
}

func (e *Encoder) forward(x torch.Tensor, rows, columns int64) torch.Tensor {
	if !e.MidPositionEmbeddings.Defined() || len(e.Layer) == 1 {
		return e.Forward(x, transformer.Mask{})
	}
	middle := e.config.interpolated(e.MidPositionEmbeddings.Flatten(0, 1), rows, columns)
	return e.ForwardBetween(x, transformer.Mask{}, func(layer int, x torch.Tensor) torch.Tensor {
		return x.Add(middle.Narrow(0, int64(layer), 1))
	})
}

// interpolated returns position embeddings, [N, tokens, hidden], for an image of some rows and
// columns of patches.
func (c Config) interpolated(known torch.Tensor, rows, columns int64) torch.Tensor {
	n, hidden := known.Size(0), c.HiddenSize
	learnedRows, learnedColumns := c.grid()
	count := learnedRows * learnedColumns
	grid := known.Narrow(1, 1, count).Transpose(1, 2).Reshape(n, hidden, learnedRows, learnedColumns)
	grid = torch.Call("aten::upsample_bicubic2d.vec", grid, []int64{rows, columns}, false, nil)[0]
	return torch.Cat([]torch.Tensor{known.Narrow(1, 0, 1), grid.Flatten(2, -1).Transpose(1, 2),
		known.Narrow(1, 1+count, c.NumDetectionTokens)}, 1)
}
