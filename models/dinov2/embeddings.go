package dinov2

import (
	"fmt"

	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/initialize"
	"github.com/gotrainer/gotrainer/torch"
)

// Embeddings is Dinov2Embeddings: the token for the whole image, the patches, their positions, and
// the registers.
type Embeddings struct {
	ClsToken           torch.Tensor     `param:"cls_token"`           // [1, 1, hidden]
	MaskToken          torch.Tensor     `param:"mask_token"`          // [1, hidden]; it has no gradient
	RegisterTokens     torch.Tensor     `param:"register_tokens"`     // [1, registers, hidden]; only with registers
	PositionEmbeddings torch.Tensor     `param:"position_embeddings"` // [1, 1 + patches, hidden]
	PatchEmbeddings    *PatchEmbeddings `module:"patch_embeddings"`
	Dropout            *nn.Dropout      `module:"dropout"`

	config Config
}

// PatchEmbeddings is Dinov2PatchEmbeddings: a linear map of each patch.
type PatchEmbeddings struct {
	Projection *nn.Conv2d `module:"projection"`
}

func newEmbeddings(c Config, b transformer.Builder) *Embeddings {
	factory := torch.TensorOptions{DType: b.DType}
	values := factory.Randn
	if b.Undrawn {
		values = factory.Zeros
	}
	e := &Embeddings{config: c, Dropout: nn.NewDropout(c.HiddenDropout)}
	e.ClsToken = nn.Parameter(values(1, 1, c.HiddenSize))
	if c.Type == withRegisters || *c.UseMaskToken {
		e.MaskToken = nn.Parameter(factory.Zeros(1, c.HiddenSize))
	}
	if c.Type == withRegisters {
		e.RegisterTokens = nn.Parameter(factory.Zeros(1, c.registers(), c.HiddenSize))
	}
	patch := nn.Dims{c.PatchSize, c.PatchSize}
	e.PatchEmbeddings = &PatchEmbeddings{b.Conv2d(c.NumChannels, c.HiddenSize, patch, nn.ConvOptions{Stride: patch})}
	side := c.ImageSize / c.PatchSize
	e.PositionEmbeddings = nn.Parameter(values(1, 1+side*side, c.HiddenSize))
	return e
}

// DrawWeights draws the positions and the tokens: transformer.WeightDrawer.
func (e *Embeddings) DrawWeights(std float64, wanted func(name string, t torch.Tensor) bool) {
	for _, p := range []torch.Named{{Name: "position_embeddings", Tensor: e.PositionEmbeddings},
		{Name: "cls_token", Tensor: e.ClsToken}} {
		if wanted(p.Name, p.Tensor) {
			initialize.TruncNormal(p.Tensor, 0, std, -2, 2, nil)
		}
	}
	for _, p := range []torch.Named{{Name: "mask_token", Tensor: e.MaskToken},
		{Name: "register_tokens", Tensor: e.RegisterTokens}} {
		if wanted(p.Name, p.Tensor) {
			initialize.Zeros(p.Tensor)
		}
	}
}

// Forward maps pixels, [B, channels, height, width], to [B, 1 + registers + patches, hidden].
func (e *Embeddings) Forward(pixels torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		e.check(pixels.Shape())
		rows := pixels.Size(0)
		patches := e.PatchEmbeddings.Projection.Forward(pixels).Flatten(2, -1).Transpose(1, 2)
		x := torch.Cat([]torch.Tensor{e.ClsToken.Expand(rows, -1, -1), patches}, 1).Add(e.positions(pixels))
		if e.RegisterTokens.Defined() {
			x = torch.Cat([]torch.Tensor{x.Narrow(1, 0, 1), e.RegisterTokens.Expand(rows, -1, -1),
				x.Narrow(1, 1, x.Size(1)-1)}, 1)
		}
		return e.Dropout.Forward(x)
	})
}

// check panics for images that the model does not accept.
func (e *Embeddings) check(shape []int64) {
	c, wrong := e.config, ""
	switch {
	case len(shape) != 4 || shape[1] != c.NumChannels:
		wrong = fmt.Sprintf("the pixels are %v; want [B, %d, height, width]", shape, c.NumChannels)
	case shape[2] < c.PatchSize || shape[3] < c.PatchSize:
		wrong = fmt.Sprintf("the images have %dx%d pixels; want at least a patch, %dx%d", shape[2], shape[3], c.PatchSize,
			c.PatchSize)
	}
	if wrong != "" {
		panic(torch.Errorf("dinov2.Model.Forward", torch.ErrInvalid, "%s", wrong))
	}
}

// positions returns the position embeddings for images of the size of pixels, interpolated in
// float32.
func (e *Embeddings) positions(pixels torch.Tensor) torch.Tensor {
	height, width, c := pixels.Size(2), pixels.Size(3), e.config
	rows, columns := height/c.PatchSize, width/c.PatchSize
	known := e.PositionEmbeddings.Size(1) - 1
	if rows*columns == known && height == width {
		return e.PositionEmbeddings
	}
	return transformer.InterpolatePositions(e.PositionEmbeddings, 1, rows, columns,
		transformer.Interpolation{Float32: true, Antialias: c.Type == withRegisters})
}
