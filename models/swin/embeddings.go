package swin

import (
	"fmt"

	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/initialize"
	"github.com/gotrainer/gotrainer/torch"
)

// Embeddings is SwinEmbeddings: the patches, normalized, and their positions if those are embedded.
type Embeddings struct {
	PositionEmbeddings torch.Tensor     `param:"position_embeddings"` // [1, patches, channels]; undefined: there are none
	PatchEmbeddings    *PatchEmbeddings `module:"patch_embeddings"`
	Norm               *nn.LayerNorm    `module:"norm"`
	Dropout            *nn.Dropout      `module:"dropout"`

	config      Config
	interpolate bool
}

// PatchEmbeddings is SwinPatchEmbeddings: a linear map of each patch.
type PatchEmbeddings struct {
	Projection *nn.Conv2d `module:"projection"`
}

// layerNormEps is added to the variance by the normalizations that are not in layers, except the
// last one: PyTorch's default.
const layerNormEps = 1e-5

func newEmbeddings(c Config, b transformer.Builder) *Embeddings {
	e := &Embeddings{config: c, Dropout: nn.NewDropout(c.HiddenDropout)}
	patch := nn.Dims{c.PatchSize.Height, c.PatchSize.Width}
	e.PatchEmbeddings = &PatchEmbeddings{b.Conv2d(c.NumChannels, c.EmbedDim, patch, nn.ConvOptions{Stride: patch})}
	if c.UseAbsoluteEmbeddings {
		rows, columns := c.grid()
		e.PositionEmbeddings = nn.Parameter(torch.TensorOptions{DType: b.DType}.Zeros(1, rows*columns, c.EmbedDim))
	}
	e.Norm = b.LayerNorm(c.EmbedDim, layerNormEps)
	return e
}

// DrawWeights sets the positions to 0: transformer.WeightDrawer.
func (e *Embeddings) DrawWeights(_ float64, wanted func(name string, t torch.Tensor) bool) {
	if wanted("position_embeddings", e.PositionEmbeddings) {
		initialize.Zeros(e.PositionEmbeddings)
	}
}

// grid returns the numbers of rows and columns of patches in an image of the size that positions
// are embedded for.
func (c Config) grid() (rows, columns int64) {
	return c.ImageSize.Height / c.PatchSize.Height, c.ImageSize.Width / c.PatchSize.Width
}

// forward maps pixels, [B, channels, height, width], to the positions of a map, [B, rows·columns,
// channels]. Pixels that do not fill a patch are padded with zeros on the right and at the bottom.
func (e *Embeddings) forward(pixels torch.Tensor) (x torch.Tensor, size mapSize) {
	patch := e.config.PatchSize
	height, width := pixels.Size(2), pixels.Size(3)
	if missing := -width % patch.Width; missing != 0 {
		pixels = pixels.Pad(0, 0, patch.Width+missing)
	}
	if missing := -height % patch.Height; missing != 0 {
		pixels = pixels.Pad(0, 0, 0, 0, patch.Height+missing)
	}
	patches := e.PatchEmbeddings.Projection.Forward(pixels)
	size = mapSize{patches.Size(2), patches.Size(3)}
	x = e.Norm.Forward(patches.Flatten(2, -1).Transpose(1, 2))
	if e.PositionEmbeddings.Defined() {
		x = x.Add(e.positions(height, width, size))
	}
	return e.Dropout.Forward(x), size
}

// positions returns the position embeddings for images of the given size: interpolate_pos_encoding.
func (e *Embeddings) positions(height, width int64, size mapSize) torch.Tensor {
	known := e.PositionEmbeddings.Size(1)
	if !e.interpolate || size.rows*size.columns == known && height == width {
		return e.PositionEmbeddings
	}
	return transformer.InterpolatePositions(e.PositionEmbeddings, 0, size.rows, size.columns,
		transformer.Interpolation{})
}

// check returns what is wrong with the shape of pixels; empty: nothing.
func (e *Embeddings) check(shape []int64) string {
	c := e.config
	if len(shape) != 4 || shape[1] != c.NumChannels {
		return fmt.Sprintf("the pixels are %v; want [B, %d, height, width]", shape, c.NumChannels)
	}
	image, patch := Size{Height: shape[2], Width: shape[3]}, c.PatchSize
	switch {
	case !c.UseAbsoluteEmbeddings:
		return ""
	case !e.interpolate && image != c.ImageSize:
		return fmt.Sprintf("the pictures have %dx%d pixels; the model is for %dx%d (InterpolatePosEncoding takes others)",
			image.Height, image.Width, c.ImageSize.Height, c.ImageSize.Width)
	case image.Height%patch.Height != 0 || image.Width%patch.Width != 0:
		return fmt.Sprintf("the pictures have %dx%d pixels; want a multiple of a patch, %dx%d, for interpolated positions",
			image.Height, image.Width, patch.Height, patch.Width)
	}
	return ""
}

// canInterpolate returns an error if the position embeddings cannot be interpolated correctly.
// transformers always treats them as a square of patches.
func (c Config) canInterpolate() error {
	if rows, columns := c.grid(); c.PatchSize.Height != c.PatchSize.Width || rows != columns {
		return fmt.Errorf("swin: positions of patches of %dx%d in pictures of %dx%d cannot be interpolated "+
			"(InterpolatePosEncoding); want square patches, in as many rows as columns", c.PatchSize.Height,
			c.PatchSize.Width, c.ImageSize.Height, c.ImageSize.Width)
	}
	return nil
}
