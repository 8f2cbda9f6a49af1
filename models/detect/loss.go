package detect

import (
	"errors"
	"fmt"
	"math"

	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/torch"
)

// LossSettings are those of DETR's loss, under their names in config.json. The zero value means the
// defaults.
//
// Each object is matched with the prediction that costs least, such that the sum of all costs in an
// image is the least (HungarianMatcher). A matched prediction should have the object's class and
// box; the others should have the class "no object".
type LossSettings struct {
	// The weights of a matching's costs: less the probability of the class, the sum of the four
	// differences between the boxes, and less the generalized intersection over union. At least one
	// must not be 0. Default: 1, 5 and 2.
	ClassCost, BBoxCost, GIoUCost float64
	// The weights of the losses of boxes; that of the classes, a cross-entropy, has the weight 1.
	// Default: 5 and 2.
	BBoxLossCoefficient, GIoULossCoefficient float64
	// EOSCoefficient is the weight of the class "no object" in the cross-entropy. Default: 0.1.
	EOSCoefficient float64
}

// defaults are those of transformers.
var defaults = LossSettings{ClassCost: 1, BBoxCost: 5, GIoUCost: 2, BBoxLossCoefficient: 5, GIoULossCoefficient: 2,
	EOSCoefficient: 0.1}

// Resolved returns the defaults for the zero value, and checks the settings.
func (s LossSettings) Resolved() (LossSettings, error) {
	if s == (LossSettings{}) {
		return defaults, nil
	}
	for name, v := range map[string]float64{"class_cost": s.ClassCost, "bbox_cost": s.BBoxCost, "giou_cost": s.GIoUCost,
		"bbox_loss_coefficient": s.BBoxLossCoefficient, "giou_loss_coefficient": s.GIoULossCoefficient,
		"eos_coefficient": s.EOSCoefficient} {
		if !(v >= 0) || math.IsInf(v, 1) {
			return s, fmt.Errorf("%s is %g; want a number of at least 0", name, v)
		}
	}
	if s.ClassCost == 0 && s.BBoxCost == 0 && s.GIoUCost == 0 {
		return s, errors.New("class_cost, bbox_cost and giou_cost are all 0; want one that is not")
	}
	return s, nil
}

// Fields are the settings in config.json. The value that they are decoded into must hold
// [DefaultLossSettings].
func (s *LossSettings) Fields() []pretrained.Field {
	return []pretrained.Field{
		{Key: "class_cost", Value: &s.ClassCost}, {Key: "bbox_cost", Value: &s.BBoxCost},
		{Key: "giou_cost", Value: &s.GIoUCost},
		{Key: "bbox_loss_coefficient", Value: &s.BBoxLossCoefficient},
		{Key: "giou_loss_coefficient", Value: &s.GIoULossCoefficient},
		{Key: "eos_coefficient", Value: (*pretrained.Float)(&s.EOSCoefficient)},
	}
}

// DefaultLossSettings are the settings of the zero value.
func DefaultLossSettings() LossSettings { return defaults }

// Predictions are what a model says of some images. They may be in 16 bits under autocast only.
type Predictions struct {
	Logits torch.Tensor // of classes, the last of which is "no object", [B, queries, classes + 1]
	Boxes  torch.Tensor // center and size, as shares of the image's sides, [B, queries, 4]
	// Earlier are the predictions of earlier layers, which a loss may include (auxiliary_loss).
	Earlier []Predictions
}

// Labels are what is in some images.
type Labels struct {
	Counts  []int   // how many objects each image has
	Classes []int64 // of all objects, one image after the other
	Boxes   []Box   // likewise
}

// Loss is the loss of a batch: ForObjectDetectionLoss. The losses of boxes are divided by boxes, of
// which there is at least one. All matchings are computed on the host, after one transfer from the
// device. It panics with [*torch.Error] if the predictions contain NaN.
func (s LossSettings) Loss(p Predictions, l Labels, boxes float64) torch.Tensor {
	layers := append([]Predictions{p}, p.Earlier...)
	var sum torch.Tensor
	for i, matched := range s.match(layers, l) {
		for _, part := range s.parts(layers[i], l, matched, max(boxes, 1)) {
			if sum.Defined() {
				part = sum.Add(part)
			}
			sum = part
		}
	}
	return sum
}

// matching says which predictions are matched with which objects.
type matching struct {
	queries []int64 // rows of the predictions of all images, [B·queries]
	objects []int   // the object of each, among those of all images
}

// match computes the matching of each layer's predictions.
func (s LossSettings) match(layers []Predictions, l Labels) []matching {
	all := make([]matching, len(layers))
	if len(l.Classes) == 0 {
		return all
	}
	var values []float64
	torch.NoGrad(func() {
		var costs []torch.Tensor
		device := layers[0].Logits.Device()
		n := int64(len(l.Classes))
		classes := torch.From(l.Classes, n).ToDevice(device)
		boxes := torch.From(numbers(l.Boxes), n, 4).ToDevice(device)
		for _, p := range layers {
			costs = append(costs, s.costs(p, classes, boxes.ToDType(wide(p.Boxes).DType())))
		}
		values = torch.Values[float64](torch.Stack(costs, 0).ToDType(torch.Float64)) // the only transfer
	})
	rows, queries, columns := len(l.Counts), int(layers[0].Logits.Size(1)), len(l.Classes)
	for i := range layers {
		before := 0 // objects of earlier images
		for row := range rows {
			count := l.Counts[row]
			own := make([]float64, 0, queries*count)
			for q := range queries {
				at := ((i*rows+row)*queries+q)*columns + before
				own = append(own, values[at:][:count]...)
			}
			pairs, err := linearSumAssignment(own, queries, count)
			if err != nil {
				panic(torch.Errorf("detect.LossSettings.Loss", torch.ErrValue, "image %d of the batch: %v; the model "+
					"predicts them: a lower learning rate or clipping of gradients may help", row, err))
			}
			for _, pair := range pairs {
				all[i].queries = append(all[i].queries, int64(row*queries+pair[0]))
				all[i].objects = append(all[i].objects, before+pair[1])
			}
			before += count
		}
	}
	return all
}

// costs returns what it costs to match each prediction with each object, [B·queries, objects].
func (s LossSettings) costs(p Predictions, classes, boxes torch.Tensor) torch.Tensor {
	probabilities := p.Logits.Flatten(0, 1).Softmax(-1, torch.DefaultDType)
	predicted := p.Boxes.Flatten(0, 1)
	class := probabilities.IndexSelect(1, classes).Neg()
	bbox := wide(predicted).CDist(boxes, 1)
	giou := generalizedIoU(centerToCorners(predicted).Unsqueeze(1), centerToCorners(boxes)).Neg()
	return bbox.MulScalar(s.BBoxCost).Add(class.MulScalar(s.ClassCost)).Add(giou.MulScalar(s.GIoUCost))
}

// parts are the weighted losses of one layer's predictions: of classes, of the sides of boxes and
// of their overlaps.
func (s LossSettings) parts(p Predictions, l Labels, m matching, boxes float64) []torch.Tensor {
	shape, device := p.Logits.Shape(), p.Logits.Device()
	nothing, dtype := shape[2]-1, wide(p.Boxes).DType()
	targets := make([]int64, shape[0]*shape[1])
	for i := range targets {
		targets[i] = nothing
	}
	wanted := make([]Box, len(m.objects))
	for i, object := range m.objects {
		targets[m.queries[i]], wanted[i] = l.Classes[object], l.Boxes[object]
	}
	weights := torch.TensorOptions{DType: dtype, Device: device}.Ones(shape[2])
	weights.Narrow(0, nothing, 1).Fill_(s.EOSCoefficient)
	class := functional.CrossEntropyWeighted(p.Logits.Transpose(1, 2),
		torch.From(targets, shape[0], shape[1]).ToDevice(device), weights)

	n := int64(len(wanted))
	matched := p.Boxes.Flatten(0, 1).IndexSelect(0, torch.From(m.queries, n).ToDevice(device))
	there := torch.From(numbers(wanted), n, 4).ToDevice(device).ToDType(dtype)
	bbox := matched.L1Loss(there, torch.ReductionNone).Sum(torch.DefaultDType).DivScalar(boxes)
	giou := generalizedIoU(centerToCorners(matched), centerToCorners(there)).RSubScalar(1).Sum(torch.DefaultDType).
		DivScalar(boxes)
	return []torch.Tensor{class, bbox.MulScalar(s.BBoxLossCoefficient), giou.MulScalar(s.GIoULossCoefficient)}
}

// wide returns x in float32 if it is in 16 bits, as it is under autocast.
func wide(x torch.Tensor) torch.Tensor {
	if d := x.DType(); d == torch.BFloat16 || d == torch.Float16 {
		return x.ToDType(torch.Float32)
	}
	return x
}

// numbers returns the four numbers of each box.
func numbers(boxes []Box) []float32 {
	list := make([]float32, 0, 4*len(boxes))
	for _, b := range boxes {
		list = append(list, b.CenterX, b.CenterY, b.Width, b.Height)
	}
	return list
}
