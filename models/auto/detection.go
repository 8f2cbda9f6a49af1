package auto

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/models/detect"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/vision"
)

// ObjectDetector finds objects in images: AutoModelForObjectDetection. It takes no texts: the
// fields and methods of [Model] that are for texts are nil or return an error.
type ObjectDetector struct{ *Model }

var _ detect.Model = (*ObjectDetector)(nil)

// ObjectDetection loads a model from a folder or the Hub. Options.ID2Label has the classes of
// objects, without "no object"; with others than those of the files, set Options.InitMismatched.
func ObjectDetection(ctx context.Context, model string, o Options) (*ObjectDetector, error) {
	if o.Quantize != nil {
		return nil, errOnlyTextsQuantized
	}
	m, err := load(ctx, model, objectDetection, o)
	if err != nil {
		return nil, err
	}
	return &ObjectDetector{m}, nil
}

// NewObjectDetection makes a model with random weights, such as a [yolos.Config] describes, in
// training mode: from_config. The processor is saved with the model. It may be nil if the program
// has prepared pixels.
func NewObjectDetection(c Config, processor *vision.Processor) (*ObjectDetector, error) {
	p, err := c.Blueprint()
	if err == nil && detectors[p.ModelType] == nil {
		err = fmt.Errorf("a %s is not for %s", p.Class, objectDetection.class)
	}
	var m *Model
	if err == nil {
		err = torch.Try(func() { m = newModel(p, objectDetection, transformer.Builder{}) })
	}
	if err != nil {
		return nil, fmt.Errorf("auto: %w", err)
	}
	m.ImageProcessor, m.processor.Type = processor, m.blueprint.ImageProcessor
	return &ObjectDetector{m}, nil
}

// Predictions maps the pixels of images, [B, channels, height, width], to what there is in them.
// The mask, [B, height, width], is 1 where there is image and 0 in padding; undefined means that
// there is none. Predictions of weights in 16 bits are converted to float32. It panics with
// [*torch.Error] if the model does not take images of their size.
func (m *ObjectDetector) Predictions(pixels, mask torch.Tensor) detect.Predictions {
	own := m.head.(*ownHead).own.(transformer.DetectionHead) //nolint:forcetypeassert // detectors have their own heads
	out := torch.ReturnAll(func() (out []torch.Tensor) {
		last, all := m.backbone.ForwardQueries(pixels, mask)
		out = append(out, own.Forward(last), own.Boxes(last))
		if all.Defined() {
			logits, boxes := own.Forward(all), own.Boxes(all)
			for i := range all.Size(0) - 1 {
				out = append(out, logits.Select(0, i), boxes.Select(0, i))
			}
		}
		if d := m.dtype(); d == torch.BFloat16 || d == torch.Float16 { // in which boxes cannot be matched
			for i, t := range out {
				out[i] = t.ToDType(torch.Float32)
			}
		}
		return out
	})
	p := detect.Predictions{Logits: out[0], Boxes: out[1]}
	for i := 2; i < len(out); i += 2 {
		p.Earlier = append(p.Earlier, detect.Predictions{Logits: out[i], Boxes: out[i+1]})
	}
	return p
}

// FreezeBackbone excludes the convolutional network of a DETR from training: freeze_backbone. With
// false, only its first part is excluded, as in a new model. It is an error for a YOLOS, which has
// none.
func (m *ObjectDetector) FreezeBackbone(whole bool) error {
	if m.backbone.FreezeBackbone == nil {
		return fmt.Errorf("auto: %s has no backbone (FreezeBackbone); DETR has", m.Architecture())
	}
	m.backbone.FreezeBackbone(whole)
	return nil
}

// ImageLimits says which images the model takes.
func (m *ObjectDetector) ImageLimits() inputs.ImageLimits { return m.blueprint.Images }

// LossSettings returns the settings of the loss in config.json.
func (m *ObjectDetector) LossSettings() detect.LossSettings { return m.blueprint.Detection }

// Task is what engine.New trains, with the defaults of [detect.NewTask].
func (m *ObjectDetector) Task() *detect.Task { return must(detect.NewTask(m, detect.TaskOptions{})) }

// Encode makes a sample of an image, prepared by Model.ImageProcessor, and the objects in it.
// Crowds and boxes that are empty within the image are for evaluations only.
func (m *ObjectDetector) Encode(im *vision.Image, objects []detect.Object) (s detect.Sample, err error) {
	if s.Image, err = m.prepare(im); err != nil {
		return s, err
	}
	height, width := m.ImageProcessor.Extent(im)
	s.Height, s.Width = int64(height), int64(width)
	s.ImageHeight, s.ImageWidth = int64(im.Height), int64(im.Width)
	s.SetObjects(objects)
	return s, nil
}

// EncodeFile is [ObjectDetector.Encode] for an image file.
func (m *ObjectDetector) EncodeFile(path string, objects []detect.Object) (detect.Sample, error) {
	return ofFile(path, func(im *vision.Image) (detect.Sample, error) { return m.Encode(im, objects) })
}

// Detection is an object that was found in an image.
type Detection struct {
	Label string
	ID    int64   // of the class
	Score float64 // the probability of the class
	// The corners of the box, in pixels of the image. It may be partly outside.
	XMin, YMin, XMax, YMax float64
}

// Predict returns the objects in an image with a probability above the threshold, the most probable
// one first: the pipeline object-detection. Several goroutines may call it at a time, but not while
// the model is trained.
func (m *ObjectDetector) Predict(im *vision.Image, threshold float64) (found []Detection, err error) {
	s, err := m.Encode(im, nil)
	if err != nil {
		return nil, err
	}
	b, err := m.Task().Collate([]detect.Sample{s})
	if err != nil {
		return nil, err
	}
	err = m.Evaluate(func(p engine.ForwardPass) {
		for _, f := range detect.Detect(m.Predictions(b.To(p), b.Mask(p)))[0] {
			if f.Score > threshold {
				d := Detection{Label: m.Head().ID2Label[f.Class], ID: f.Class, Score: f.Score}
				d.XMin, d.YMin, d.XMax, d.YMax = f.Box.On(b.OriginalSize(0))
				found = append(found, d)
			}
		}
	})
	slices.SortStableFunc(found, func(a, b Detection) int { return cmp.Compare(b.Score, a.Score) })
	return found, err
}

// PredictFile is [ObjectDetector.Predict] for an image file.
func (m *ObjectDetector) PredictFile(path string, threshold float64) ([]Detection, error) {
	return ofFile(path, func(im *vision.Image) ([]Detection, error) { return m.Predict(im, threshold) })
}
