package nn

import (
	"cmp"
	"slices"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/torch"
)

// Upsample resizes sequences, images and volumes: torch.nn.Upsample. Set either Size or Scale.
type Upsample struct{ functional.InterpolateOptions }

// Forward takes [N, C, L], [N, C, H, W] or [N, C, D, H, W].
func (u Upsample) Forward(x torch.Tensor) torch.Tensor {
	return functional.Interpolate(x, u.InterpolateOptions)
}

// UpsamplingNearest2d is nearest-neighbour [Upsample] for images: torch.nn.UpsamplingNearest2d.
// Set one of the two.
type UpsamplingNearest2d struct {
	Size  Dims
	Scale []float64
}

// Forward takes [N, C, H, W].
func (u UpsamplingNearest2d) Forward(x torch.Tensor) torch.Tensor {
	return functional.Interpolate(x, functional.InterpolateOptions{Size: u.Size, Scale: u.Scale})
}

// UpsamplingBilinear2d is bilinear [Upsample] with aligned corners for images:
// torch.nn.UpsamplingBilinear2d. Set one of the two.
type UpsamplingBilinear2d struct {
	Size  Dims
	Scale []float64
}

// Forward takes [N, C, H, W].
func (u UpsamplingBilinear2d) Forward(x torch.Tensor) torch.Tensor {
	return functional.Interpolate(x, functional.InterpolateOptions{Size: u.Size, Scale: u.Scale,
		Mode: functional.Bilinear2d, AlignCorners: true})
}

// PixelShuffle rearranges channels into pixels: torch.nn.PixelShuffle.
type PixelShuffle struct{ Factor int64 }

// Forward maps [..., C*r*r, H, W] to [..., C, H*r, W*r].
func (p PixelShuffle) Forward(x torch.Tensor) torch.Tensor {
	return functional.PixelShuffle(x, p.Factor)
}

// PixelUnshuffle reverses [PixelShuffle]: torch.nn.PixelUnshuffle.
type PixelUnshuffle struct{ Factor int64 }

// Forward maps [..., C, H*r, W*r] to [..., C*r*r, H, W].
func (p PixelUnshuffle) Forward(x torch.Tensor) torch.Tensor {
	return functional.PixelUnshuffle(x, p.Factor)
}

// ChannelShuffle mixes the channels of the given number of groups: torch.nn.ChannelShuffle.
type ChannelShuffle struct{ Groups int64 }

// Forward keeps the shape of x, [N, C, ...].
func (c ChannelShuffle) Forward(x torch.Tensor) torch.Tensor {
	return functional.ChannelShuffle(x, c.Groups)
}

// Unfold extracts the windows of a convolution from images as columns: torch.nn.Unfold.
type Unfold struct {
	Kernel Dims

	functional.FoldOptions
}

// Forward maps [N, C, H, W] to [N, C*kh*kw, windows].
func (u Unfold) Forward(x torch.Tensor) torch.Tensor {
	return functional.Unfold(x, u.Kernel, u.FoldOptions)
}

// Fold adds up the columns of [Unfold] to images: torch.nn.Fold.
type Fold struct {
	Size   Dims // of the output, H and W
	Kernel Dims

	functional.FoldOptions
}

// Forward maps [N, C*kh*kw, windows] to [N, C, H, W].
func (f Fold) Forward(x torch.Tensor) torch.Tensor {
	return functional.Fold(x, f.Size, f.Kernel, f.FoldOptions)
}

// Unflatten splits one dimension into several: torch.nn.Unflatten.
type Unflatten struct {
	Dim   int64 // negative counts from the end
	Sizes Dims  // of the new dimensions; one may be -1
}

// Forward maps [..., n, ...] to [..., Sizes, ...].
func (u Unflatten) Forward(x torch.Tensor) torch.Tensor {
	return torch.Call("aten::unflatten.int", x, u.Dim, slices.Clone(u.Sizes))[0]
}

// PairwiseDistance is the p-norm of the difference of two tensors along the last dimension:
// torch.nn.PairwiseDistance.
type PairwiseDistance struct {
	P       float64 // zero means 2
	Eps     float64 // added to the difference; zero means 1e-6
	KeepDim bool    // the last dimension stays, with size 1
}

// Forward maps [..., D] and [..., D] to [...].
func (p PairwiseDistance) Forward(x1, x2 torch.Tensor) torch.Tensor {
	return functional.PairwiseDistance(x1, x2, cmp.Or(p.P, 2), cmp.Or(p.Eps, 1e-6), p.KeepDim)
}

// CosineSimilarity is the cosine of the angle between vectors along a dimension:
// torch.nn.CosineSimilarity.
type CosineSimilarity struct {
	Dim *int64  // nil means 1
	Eps float64 // the minimum product of norms; zero means 1e-8
}

// Forward takes two tensors of the same shape and removes the dimension.
func (c CosineSimilarity) Forward(x1, x2 torch.Tensor) torch.Tensor {
	return functional.CosineSimilarity(x1, x2, optional.Or(c.Dim, 1), cmp.Or(c.Eps, 1e-8))
}
