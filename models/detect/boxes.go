package detect

import (
	"github.com/gotrainer/gotrainer/metrics"
	"github.com/gotrainer/gotrainer/torch"
)

// Object is an object in an image, in pixels of the image as it was before it was prepared for a
// model, as in COCO's files.
type Object = metrics.Box

// Box is the box around an object as models predict it: its center and size, as shares of the width
// and height of the image.
type Box struct{ CenterX, CenterY, Width, Height float32 }

// On returns the box on an image of some size, in pixels. A model may predict a box that is partly
// outside the image.
func (b Box) On(width, height float64) (xMin, yMin, xMax, yMax float64) {
	w, h := float32(width), float32(height)
	return float64(float32(b.CenterX-float32(0.5*b.Width)) * w), float64(float32(b.CenterY-float32(0.5*b.Height)) * h),
		float64(float32(b.CenterX+float32(0.5*b.Width)) * w), float64(float32(b.CenterY+float32(0.5*b.Height)) * h)
}

// scaled returns the box with sides multiplied by two factors, as numpy multiplies float32 by
// float64.
func (b Box) scaled(x, y float64) Box {
	by := func(v float32, f float64) float32 { return float32(float64(v) * f) }
	return Box{by(b.CenterX, x), by(b.CenterY, y), by(b.Width, x), by(b.Height, y)}
}

// centerToCorners maps boxes of center and size, [..., 4], to the top left and bottom right
// corners: center_to_corners_format of transformers.
func centerToCorners(boxes torch.Tensor) torch.Tensor {
	b := boxes.Unbind(-1)
	half := func(x torch.Tensor) torch.Tensor { return x.MulScalar(0.5) }
	return torch.Stack([]torch.Tensor{b[0].Sub(half(b[2])), b[1].Sub(half(b[3])), b[0].Add(half(b[2])),
		b[1].Add(half(b[3]))}, -1)
}

// generalizedIoU is the intersection over union of boxes a and b, given by their corners, less the
// share of the smallest box around both that neither covers: generalized_box_iou of transformers.
// a and b, [..., 4], are broadcast.
func generalizedIoU(a, b torch.Tensor) torch.Tensor {
	first := func(t torch.Tensor) torch.Tensor { return t.Narrow(-1, 0, 2) }
	last := func(t torch.Tensor) torch.Tensor { return t.Narrow(-1, 2, 2) }
	area := func(t torch.Tensor) torch.Tensor {
		t = wide(t)
		return t.Select(-1, 2).Sub(t.Select(-1, 0)).Mul(t.Select(-1, 3).Sub(t.Select(-1, 1)))
	}
	product := func(sides torch.Tensor) torch.Tensor { return sides.Select(-1, 0).Mul(sides.Select(-1, 1)) }
	areaA, areaB := area(a), area(b)
	inter := product(last(a).Minimum(last(b)).Sub(first(a).Maximum(first(b))).Clamp(0.0, nil))
	union := areaA.Add(areaB).Sub(inter)
	iou := inter.Div(union)
	around := product(last(a).Maximum(last(b)).Sub(first(a).Minimum(first(b))).Clamp(0.0, nil))
	return iou.Sub(around.Sub(union).Div(around))
}
