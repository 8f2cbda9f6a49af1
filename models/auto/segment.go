package auto

import (
	"context"
	"fmt"

	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/segment"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/vision"
)

// SemanticSegmenter gives each pixel of an image a class: AutoModelForSemanticSegmentation. Package
// segment trains it.
type SemanticSegmenter struct{ *Model }

var _ segment.Model = (*SemanticSegmenter)(nil)

// SemanticSegmentation loads a model from a folder or the Hub: a SegFormer. A model that classifies
// images, such as nvidia/mit-b0, gets a decode head with random weights.
func SemanticSegmentation(ctx context.Context, model string, o Options) (*SemanticSegmenter, error) {
	if err := o.checkSegmentation(); err != nil {
		return nil, err
	}
	m, err := load(ctx, model, semanticSegmentation, o)
	if err != nil {
		return nil, err
	}
	return &SemanticSegmenter{m}, nil
}

func (o Options) checkSegmentation() error {
	if o.Quantize != nil {
		return errOnlyTextsQuantized
	}
	if o.ProblemType != "" {
		return fmt.Errorf("auto: Options.ProblemType is %q; want none: each pixel has one class, or with one label has it "+
			"or not", string(o.ProblemType))
	}
	return nil
}

// NewSemanticSegmentation makes a model with random weights, such as a [segformer.Config]
// describes, in training mode: from_config. The processor is saved with the model. It may be nil if
// the program has prepared pixels.
func NewSemanticSegmentation(c Config, processor *vision.Processor) (*SemanticSegmenter, error) {
	m, err := newOfPictures(c, semanticSegmentation, segmenters, processor)
	if err != nil {
		return nil, err
	}
	m.blueprint.Document = withoutProblemType(m.blueprint.Document)
	return &SemanticSegmenter{m}, nil
}

// mapsHead is a head of the model's package over feature maps.
type mapsHead struct {
	own transformer.MapsHead `module:"-"` // its modules are listed by OwnModules
}

func newMapsHead(p transformer.Blueprint, b transformer.Builder) head {
	return &mapsHead{p.MapsHead(b)}
}

// OwnModules returns the modules of the model's head.
func (h *mapsHead) OwnModules() []nn.Named { return nn.Children(h.own) }

// forward maps pixels to logits.
func (h *mapsHead) forward(b transformer.Backbone, pixels torch.Tensor) torch.Tensor {
	return h.own.ForwardMaps(b.FeatureMaps(pixels))
}

// Forward maps the pixels of images, [B, channels, height, width], to logits, [B, labels, rows,
// columns]: of a SegFormer, a fourth of the height and the width. segment.Resize enlarges them. It
// panics with [*torch.Error] if the images are too small.
func (m *SemanticSegmenter) Forward(pixels torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor { return m.head.forward(m.backbone, pixels) })
}

// ImageLimits says which images the model takes.
func (m *SemanticSegmenter) ImageLimits() classify.ImageLimits { return m.blueprint.Images }

// IgnoreIndex is the label of pixels that loss and evaluation leave out:
// semantic_loss_ignore_index.
func (m *SemanticSegmenter) IgnoreIndex() int64 { return m.blueprint.IgnoreIndex }

// Task is what engine.New trains, with the defaults of [segment.NewTask].
func (m *SemanticSegmenter) Task() *segment.Task { return segment.NewTask(m, segment.TaskOptions{}) }

// Encode makes a sample of an image and the classes of its pixels, both prepared by
// Model.ImageProcessor: the map is resized to the size of the prepared image, and with
// do_reduce_labels its classes are reduced. Without a map, nil, the sample has no labels. Image and
// map must have the same size. Random augmentation of both is in package vision/transforms.
func (m *SemanticSegmenter) Encode(im *vision.Image, labels *vision.LabelMap) (s segment.Sample, err error) {
	if s.Image, err = m.prepare(im); err != nil || labels == nil {
		return s, err
	}
	if labels.Width != im.Width || labels.Height != im.Height {
		return s, fmt.Errorf("auto: the picture is %v and its map %v; want the same size", im, labels)
	}
	prepared, err := m.ImageProcessor.ProcessLabels(labels)
	if err != nil {
		return s, fmt.Errorf("auto: %w", err)
	}
	s.Labels = make([]int64, len(prepared.Pix))
	for i, class := range prepared.Pix {
		s.Labels[i] = int64(class)
	}
	return s, nil
}

// EncodeFile is [SemanticSegmenter.Encode] for an image file and its map, a PNG as
// [vision.OpenLabelMap] reads it. Without a map, "", the sample has no labels.
func (m *SemanticSegmenter) EncodeFile(image, labels string) (s segment.Sample, err error) {
	return ofFile(image, func(im *vision.Image) (segment.Sample, error) {
		if labels == "" {
			return m.Encode(im, nil)
		}
		classes, err := vision.OpenLabelMap(labels, vision.DecodeOptions{})
		if err != nil {
			return s, err
		}
		return m.Encode(im, classes)
	})
}

// Predict returns the class of each pixel of an image, at the size of the image, which
// Model.ImageProcessor prepares: post_process_semantic_segmentation with target_sizes. With one
// label it is 1 where the label is more likely than not; transformers gives 0 for all pixels then.
// With do_reduce_labels, class 0 is what was class 1 in the maps of training. Several goroutines
// may call Predict at a time, but not while the model is trained.
func (m *SemanticSegmenter) Predict(im *vision.Image) (*vision.LabelMap, error) {
	made, err := m.prepare(im)
	if err != nil {
		return nil, err
	}
	b, err := m.ImageLimits().Collate("auto", []inputs.Image{made}, func(n int) []float32 { return make([]float32, n) })
	if err != nil {
		return nil, err
	}
	labels := vision.NewLabelMap(im.Width, im.Height)
	err = m.Evaluate(func(p engine.ForwardPass) {
		logits := segment.Resize(m.Forward(b.To(p)), int64(im.Height), int64(im.Width))
		for i, class := range torch.Values[int64](segment.Predicted(logits)) {
			labels.Pix[i] = uint16(class)
		}
	})
	if err != nil {
		return nil, err
	}
	return labels, nil
}

// PredictFile is [SemanticSegmenter.Predict] for an image file.
func (m *SemanticSegmenter) PredictFile(path string) (*vision.LabelMap, error) {
	return ofFile(path, m.Predict)
}
