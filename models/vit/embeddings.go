package vit

import (
	"fmt"

	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/initialize"
	"github.com/gotrainer/gotrainer/torch"
)

// Embeddings is ViTEmbeddings and DeiTEmbeddings: the token for the whole image, the patches, and
// their positions.
type Embeddings struct {
	ClsToken           torch.Tensor     `param:"cls_token"`           // [1, 1, hidden]
	PositionEmbeddings torch.Tensor     `param:"position_embeddings"` // [1, tokens + patches, hidden]
	DistillationToken  torch.Tensor     `param:"distillation_token"`  // [1, 1, hidden]; only in DeiT
	PatchEmbeddings    *PatchEmbeddings `module:"patch_embeddings"`
	Dropout            *nn.Dropout      `module:"dropout"`

	config      Config
	interpolate bool
}

// PatchEmbeddings is ViTPatchEmbeddings: a linear map of each patch.
type PatchEmbeddings struct {
	Projection *nn.Conv2d `module:"projection"`
}

func newEmbeddings(c Config, b transformer.Builder) *Embeddings {
	factory := torch.TensorOptions{DType: b.DType}
	values := factory.Randn
	if b.Undrawn || c.DeiT { // DeiT's constructor does not draw them
		values = factory.Zeros
	}
	rows, columns := c.grid()
	e := &Embeddings{config: c, Dropout: nn.NewDropout(c.HiddenDropout)}
	e.ClsToken = nn.Parameter(values(1, 1, c.HiddenSize))
	patch := nn.Dims{c.PatchSize.Height, c.PatchSize.Width}
	e.PatchEmbeddings = &PatchEmbeddings{b.Conv2d(c.NumChannels, c.HiddenSize, patch, nn.ConvOptions{Stride: patch})}
	e.PositionEmbeddings = nn.Parameter(values(1, rows*columns+c.tokens(), c.HiddenSize))
	if c.DeiT {
		e.DistillationToken = nn.Parameter(values(1, 1, c.HiddenSize))
	}
	return e
}

// DrawWeights draws the positions and the tokens; those of DeiT become 0 afterwards.
func (e *Embeddings) DrawWeights(std float64, wanted func(name string, t torch.Tensor) bool) {
	for _, p := range []torch.Named{{Name: "position_embeddings", Tensor: e.PositionEmbeddings},
		{Name: "cls_token", Tensor: e.ClsToken}} {
		if wanted(p.Name, p.Tensor) {
			initialize.TruncNormal(p.Tensor, 0, std, -2, 2, nil)
			if e.config.DeiT {
				initialize.Zeros(p.Tensor)
			}
		}
	}
	if wanted("distillation_token", e.DistillationToken) {
		initialize.Zeros(e.DistillationToken)
	}
}

// Forward maps pixels, [B, channels, height, width], to [B, tokens + patches, hidden].
func (e *Embeddings) Forward(pixels torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		e.check(pixels.Shape())
		patches := e.PatchEmbeddings.Projection.Forward(pixels).Flatten(2, -1).Transpose(1, 2)
		parts := []torch.Tensor{e.ClsToken.Expand(pixels.Size(0), -1, -1)}
		if e.DistillationToken.Defined() {
			parts = append(parts, e.DistillationToken.Expand(pixels.Size(0), -1, -1))
		}
		return e.Dropout.Forward(torch.Cat(append(parts, patches), 1).Add(e.positions(pixels)))
	})
}

// check panics for images that the model does not accept.
func (e *Embeddings) check(shape []int64) {
	c, wrong := e.config, ""
	switch {
	case len(shape) != 4 || shape[1] != c.NumChannels:
		wrong = fmt.Sprintf("the pixels are %v; want [B, %d, height, width]", shape, c.NumChannels)
	case !e.interpolate && (shape[2] != c.ImageSize.Height || shape[3] != c.ImageSize.Width):
		wrong = fmt.Sprintf("the pictures have %dx%d pixels; the model is for %dx%d (InterpolatePosEncoding takes others)",
			shape[2], shape[3], c.ImageSize.Height, c.ImageSize.Width)
	case shape[2] < c.PatchSize.Height || shape[3] < c.PatchSize.Width:
		wrong = fmt.Sprintf("the pictures have %dx%d pixels; want at least a patch, %dx%d", shape[2], shape[3],
			c.PatchSize.Height, c.PatchSize.Width)
	}
	if wrong != "" {
		panic(torch.Errorf("vit.Model.Forward", torch.ErrInvalid, "%s", wrong))
	}
}

// positions returns the position embeddings for images of the size of pixels:
// interpolate_pos_encoding.
func (e *Embeddings) positions(pixels torch.Tensor) torch.Tensor {
	height, width, c := pixels.Size(2), pixels.Size(3), e.config
	rows, columns := height/c.PatchSize.Height, width/c.PatchSize.Width
	tokens := c.tokens()
	patches := e.PositionEmbeddings.Size(1) - tokens
	if !e.interpolate || rows*columns == patches && height == width {
		return e.PositionEmbeddings
	}
	return transformer.InterpolatePositions(e.PositionEmbeddings, tokens, rows, columns, transformer.Interpolation{})
}

// grid returns the numbers of rows and columns of patches in an image.
func (c Config) grid() (rows, columns int64) {
	return c.ImageSize.Height / c.PatchSize.Height, c.ImageSize.Width / c.PatchSize.Width
}

// canInterpolate returns an error if the position embeddings cannot be interpolated correctly.
// transformers always treats them as a square of patches.
func (c Config) canInterpolate() error {
	if rows, columns := c.grid(); c.PatchSize.Height != c.PatchSize.Width || rows != columns {
		return fmt.Errorf("%s: positions of patches of %dx%d in pictures of %dx%d cannot be interpolated "+
			"(InterpolatePosEncoding); want square patches, in as many rows as columns", c.modelType(), c.PatchSize.Height,
			c.PatchSize.Width, c.ImageSize.Height, c.ImageSize.Width)
	}
	return nil
}
