package segformer

import (
	"slices"

	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/torch"
)

// head is what SegformerForSemanticSegmentation has beside the encoder.
type head struct {
	DecodeHead *DecodeHead `module:"decode_head"`
}

// DecodeHead is SegformerDecodeHead: a linear layer for the map of each stage, and what makes one
// map of logits of them all.
type DecodeHead struct {
	LinearC    []*MLP          `module:"linear_c"`
	LinearFuse *nn.Conv2d      `module:"linear_fuse"`
	BatchNorm  *nn.BatchNorm2d `module:"batch_norm"`
	Dropout    *nn.Dropout     `module:"dropout"`
	Classifier *nn.Conv2d      `module:"classifier"`
}

// MLP is SegformerMLP, which is one linear layer.
type MLP struct {
	Proj *nn.Linear `module:"proj"`
}

func newHead(c Config, b transformer.Builder) *head {
	d := &DecodeHead{Dropout: nn.NewDropout(*c.ClassifierDropout)}
	for _, size := range c.HiddenSizes {
		d.LinearC = append(d.LinearC, &MLP{b.Linear(size, c.DecoderHiddenSize)})
	}
	d.LinearFuse = b.Conv2d(c.DecoderHiddenSize*int64(len(c.HiddenSizes)), c.DecoderHiddenSize, nn.Dims{1},
		nn.ConvOptions{NoBias: true})
	d.BatchNorm = b.BatchNorm2d(c.DecoderHiddenSize)
	d.Classifier = b.Conv2d(c.DecoderHiddenSize, c.NumLabels, nn.Dims{1}, nn.ConvOptions{})
	return &head{d}
}

// ForwardMaps maps the map of each stage, [B, hidden, rows, columns], to logits, [B, labels, rows,
// columns] with the rows and columns of the first map.
func (h *head) ForwardMaps(maps []torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		d, size := h.DecodeHead, maps[0].Shape()[2:]
		var all []torch.Tensor
		for i, x := range maps {
			x = asMap(d.LinearC[i].Proj.Forward(x.Flatten(2, -1).Transpose(1, 2)), x.Size(2))
			all = append(all, functional.Interpolate(x, functional.InterpolateOptions{Size: size,
				Mode: functional.Bilinear2d}))
		}
		slices.Reverse(all)
		x := d.BatchNorm.Forward(d.LinearFuse.Forward(torch.Cat(all, 1))).ReLU()
		return d.Classifier.Forward(d.Dropout.Forward(x))
	})
}
