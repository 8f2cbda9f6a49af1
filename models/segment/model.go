package segment

import (
	"fmt"

	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/torch"
)

// Model computes logits of the parts of images.
type Model interface {
	// Forward maps pixels, [B, channels, height, width], to logits, [B, labels, rows, columns],
	// which may be fewer rows and columns than the image has.
	Forward(pixels torch.Tensor) torch.Tensor

	// Head says how many labels there are, and their names. With one label, a pixel has it or has
	// not: its logit says so.
	Head() classify.Head
	ImageLimits() inputs.ImageLimits
	// IgnoreIndex is the label of pixels that loss and evaluation leave out:
	// semantic_loss_ignore_index.
	IgnoreIndex() int64

	// WriteConfig writes config.json into a folder.
	WriteConfig(dir string) error
}

// Resize enlarges logits, [B, labels, rows, columns], to a height and a width, as transformers does
// for the loss and for predictions: bilinearly, without aligned corners.
func Resize(logits torch.Tensor, height, width int64) torch.Tensor {
	return functional.Interpolate(logits, functional.InterpolateOptions{Size: []int64{height, width},
		Mode: functional.Bilinear2d})
}

// Loss is the loss of transformers' models for semantic segmentation. Logits, [B, labels, rows,
// columns], are enlarged to the size of the labels, [B, height, width] integers. It is the
// cross-entropy, the mean over the pixels whose label is not ignored, which is NaN if there are
// none. With one label it is the binary cross-entropy, the mean over all pixels, where those that
// are ignored count as 0.
func Loss(logits, labels torch.Tensor, ignored int64) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		logits := Resize(logits, labels.Size(-2), labels.Size(-1))
		if logits.Size(1) > 1 {
			return logits.CrossEntropyLoss(labels, torch.Tensor{}, torch.ReductionMean, ignored, 0)
		}
		valid := labels.GeScalar(0).LogicalAnd(labels.NeScalar(float64(ignored))).ToDType(torch.Float32)
		loss := logits.SqueezeDim(1).BinaryCrossEntropyWithLogits(labels.ToDType(torch.Float32), torch.Tensor{},
			torch.Tensor{}, torch.ReductionNone)
		return loss.Mul(valid).Mean(torch.DefaultDType)
	})
}

// Predicted returns the classes of the parts of images, [B, rows, columns] integers, for logits,
// [B, labels, rows, columns]: those with the highest logits or, with one label, 1 where its
// probability is above one half and 0 elsewhere.
func Predicted(logits torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		if logits.Size(1) == 1 {
			return logits.SqueezeDim(1).GtScalar(0).ToDType(torch.Int64)
		}
		return logits.ArgMax(1, false)
	})
}

// classes is the number of classes that a head tells apart.
func classes(h classify.Head) int64 { return max(2, h.NumLabels) }

// names are the names of these classes.
func names(h classify.Head) []string {
	if h.NumLabels > 1 {
		return h.ID2Label
	}
	return []string{"no " + h.ID2Label[0], h.ID2Label[0]}
}

// check says why a pixel cannot have a label; empty: it can.
func check(label, classes, ignored int64) string {
	if (label >= 0 && label < classes) || label == ignored {
		return ""
	}
	return fmt.Sprintf("want 0 to %d, or %d to leave the pixel out", classes-1, ignored)
}
