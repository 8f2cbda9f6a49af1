package transformer

import (
	"math"

	"github.com/gotrainer/gotrainer/torch"
)

// InterpolatePositions returns position embeddings for an image of rows times columns patches, made
// from those that a model of images has, [1, tokens + patches, hidden], whose patches form a square:
// interpolate_pos_encoding of transformers. The embeddings of the tokens before the patches stay.
func InterpolatePositions(known torch.Tensor, tokens, rows, columns int64, how Interpolation) torch.Tensor {
	shape := known.Shape()
	patches, hidden := shape[1]-tokens, shape[2]
	side := int64(math.Sqrt(float64(patches)))
	grid := known.Narrow(1, tokens, patches).Reshape(1, side, side, hidden).Permute(0, 3, 1, 2)
	operator := "aten::upsample_bicubic2d.vec"
	if how.Antialias {
		operator = "aten::_upsample_bicubic2d_aa.vec"
	}
	if how.Float32 {
		grid = grid.ToDType(torch.Float32)
	}
	grid = torch.Call(operator, grid, []int64{rows, columns}, false, nil)[0].ToDType(known.DType())
	return torch.Cat([]torch.Tensor{known.Narrow(1, 0, tokens), grid.Permute(0, 2, 3, 1).View(1, -1, hidden)}, 1)
}

// Interpolation says how a model interpolates positions: bicubically, in its own dtype unless Float32
// is set.
type Interpolation struct{ Float32, Antialias bool }

// TokensAt returns one vector of each text, [B, size], out of those of its tokens, x, [B, L, size]:
// that of the token with the given index, [B].
func TokensAt(x, index torch.Tensor) torch.Tensor {
	rows, width := x.Size(0), x.Size(1)
	starts := torch.TensorOptions{Device: x.Device()}.Arange(0, rows, 1).MulScalar(width)
	return x.Reshape(rows*width, x.Size(-1)).IndexSelect(0, index.Add(starts))
}
