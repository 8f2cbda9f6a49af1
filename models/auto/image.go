package auto

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"slices"

	"github.com/gotrainer/gotrainer/internal/regularfile"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
	"github.com/gotrainer/gotrainer/vision"
)

// ImageClassifier classifies images: AutoModelForImageClassification. It takes no texts: the fields
// and methods of [Model] that are for texts are nil or return an error.
type ImageClassifier struct{ *Model }

var _ classify.ImageModel = (*ImageClassifier)(nil)

// ImageClassification loads a model from a folder or the Hub.
func ImageClassification(ctx context.Context, model string, o Options) (*ImageClassifier, error) {
	if o.Quantize != nil {
		return nil, errOnlyTextsQuantized
	}
	m, err := load(ctx, model, imageClassification, o)
	if err != nil {
		return nil, err
	}
	return &ImageClassifier{m}, nil
}

var errOnlyTextsQuantized = errors.New(
	"auto: Options.Quantize is set; want nil: weights in four bits are for models of texts")

// NewImageClassification makes a model with random weights, in training mode: from_config. The
// processor is saved with the model. It may be nil if the program has prepared pixels.
func NewImageClassification(c Config, processor *vision.Processor) (*ImageClassifier, error) {
	m, err := newOfPictures(c, imageClassification, ofPictures, processor)
	if err != nil {
		return nil, err
	}
	return &ImageClassifier{m}, nil
}

// newOfPictures makes a model of the known ones with random weights.
func newOfPictures(c Config, t task, known blueprints, processor *vision.Processor) (m *Model, err error) {
	p, err := c.Blueprint()
	if err == nil && known[p.ModelType] == nil {
		err = fmt.Errorf("a %s is not for %s", p.Class, t.class)
	}
	if err == nil {
		err = torch.Try(func() { m = newModel(p, t, transformer.Builder{}) })
	}
	if err != nil {
		return nil, fmt.Errorf("auto: %w", err)
	}
	m.ImageProcessor, m.processor.Type = processor, m.blueprint.ImageProcessor
	return m, nil
}

// imageHead classifies an image by the vector that stands for it, [B, hidden].
type imageHead struct {
	Classifier *nn.Linear `module:"classifier"`
}

func newImageHead(p transformer.Blueprint, b transformer.Builder) head {
	return &imageHead{b.Linear(p.HiddenSize, p.Head.NumLabels)}
}

func (h *imageHead) forward(_ transformer.Backbone, hidden torch.Tensor) torch.Tensor {
	return h.Classifier.Forward(hidden)
}

// Forward maps the pixels of images, [B, channels, height, width], to logits, [B, labels]. It
// panics with [*torch.Error] if their size is not one that the model takes.
func (m *ImageClassifier) Forward(pixels torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor { return m.head.forward(m.backbone, m.backbone.ForwardImages(pixels)) })
}

// ImageLimits says which images the model takes.
func (m *ImageClassifier) ImageLimits() classify.ImageLimits { return m.blueprint.Images }

// InterpolatePosEncoding makes the model take images of any size; those of a batch must have the
// same size. The positions of patches are interpolated between those that the model knows:
// interpolate_pos_encoding of transformers. It is an error for models whose patches are not square
// or do not form a square, and for convolutional models and SegFormer, which take images of any
// size anyway.
func (m *ImageClassifier) InterpolatePosEncoding(on bool) error { return m.interpolatePosEncoding(on) }

func (m *Model) interpolatePosEncoding(on bool) error {
	if m.backbone.InterpolatePosEncoding == nil {
		return fmt.Errorf("auto: %s has no positions to interpolate (InterpolatePosEncoding); it takes pictures of any size",
			m.Architecture())
	}
	if err := m.backbone.InterpolatePosEncoding(on); err != nil {
		return fmt.Errorf("auto: %w", err)
	}
	m.blueprint.Images.AnySize = on
	return nil
}

// Task is what engine.New trains, with the defaults of [classify.NewImageTask].
func (m *ImageClassifier) Task() *classify.ImageTask {
	return must(classify.NewImageTask(m, classify.ImageTaskOptions{}))
}

// Encode makes a sample of an image, prepared by Model.ImageProcessor. The label is for
// single-label heads; for others, set the sample's Targets. Random augmentation for training is in
// package vision/transforms; take its sizes, means and deviations from ImageProcessor.Options.
func (m *ImageClassifier) Encode(im *vision.Image, label int64) (s classify.ImageSample, err error) {
	made, err := m.prepare(im)
	return classify.ImageSample{Pixels: made.Pixels, Shape: made.Shape, Label: label}, err
}

// prepare makes of an image the numbers that the model takes.
func (m *Model) prepare(im *vision.Image) (made inputs.Image, err error) {
	if m.ImageProcessor == nil {
		return made, m.errNoImageProcessor()
	}
	if im == nil || len(im.Pix) == 0 {
		return made, fmt.Errorf("auto: the picture is %v; want one of at least 1x1", im)
	}
	channels, height, width := m.ImageProcessor.Shape(im)
	made = inputs.Image{Pixels: make([]float32, m.ImageProcessor.Len(im)),
		Shape: []int64{int64(channels), int64(height), int64(width)}}
	if err := m.ImageProcessor.Process(made.Pixels, im); err != nil {
		return made, fmt.Errorf("auto: %w", err)
	}
	return made, nil
}

// EncodeFile is [ImageClassifier.Encode] for an image file.
func (m *ImageClassifier) EncodeFile(path string, label int64) (classify.ImageSample, error) {
	return ofFile(path, func(im *vision.Image) (classify.ImageSample, error) { return m.Encode(im, label) })
}

// ofFile returns what f makes of an image file.
func ofFile[T any](path string, f func(im *vision.Image) (T, error)) (made T, err error) {
	im, err := vision.Open(path, vision.DecodeOptions{})
	if err != nil {
		return made, err
	}
	if made, err = f(im); err != nil {
		return made, fmt.Errorf("%w (%s)", err, path)
	}
	return made, nil
}

// Class is a class of a text, an image or a sound.
type Class struct {
	Label string
	ID    int64
	// Score is the probability of the class. With a multi-label head it is the probability of the
	// class by itself, and in a regression the predicted number.
	Score float64
}

// Predict classifies an image and returns all classes, the one with the highest score first.
// Several goroutines may call it at a time, but not while the model is trained.
func (m *ImageClassifier) Predict(im *vision.Image) (classes []Class, err error) {
	s, err := m.Encode(im, inputs.IgnoreIndex)
	if err != nil {
		return nil, err
	}
	return m.predict(s)
}

// PredictFile is [ImageClassifier.Predict] for an image file.
func (m *ImageClassifier) PredictFile(path string) ([]Class, error) { return ofFile(path, m.Predict) }

// predict classifies one sample.
func (m *ImageClassifier) predict(s classify.ImageSample) (classes []Class, err error) {
	if h := m.Head(); h.ProblemType != classify.SingleLabel {
		s.Targets = make([]float32, h.NumLabels) // any, to make a batch
	}
	b, err := m.Task().Collate([]classify.ImageSample{s})
	if err != nil {
		return nil, err
	}
	return m.scored(func(p engine.ForwardPass) torch.Tensor { return m.Forward(engine.Input(p, b.Pixels, b.Shape...)) })
}

// scored returns the classes of one input, whose logits forward computes, [1, labels].
func (m *Model) scored(forward func(p engine.ForwardPass) torch.Tensor) (classes []Class, err error) {
	err = m.Evaluate(func(p engine.ForwardPass) {
		scores := forward(p).SqueezeDim(0).ToDType(torch.Float64)
		switch m.Head().ProblemType {
		case classify.SingleLabel:
			scores = scores.Softmax(-1, torch.DefaultDType)
		case classify.MultiLabel:
			scores = scores.Sigmoid()
		case classify.Regression:
		}
		for id, score := range torch.Values[float64](scores) {
			classes = append(classes, Class{m.Head().ID2Label[id], int64(id), score})
		}
	})
	slices.SortStableFunc(classes, func(a, b Class) int { return cmp.Compare(b.Score, a.Score) })
	return classes, err
}

// maxProcessorConfig is a size limit far above that of any preprocessor_config.json.
const maxProcessorConfig = 4 << 20

// processorName is where transformers 5 puts the settings of an image processor or a feature
// extractor, under these keys, if it saves one together with a tokenizer.
const (
	processorName       = "processor_config.json"
	imageProcessorKey   = "image_processor"
	featureExtractorKey = "feature_extractor"
)

// loadImageProcessor reads the settings of the image processor in a folder.
func (m *Model) loadImageProcessor(dir string, w io.Writer) error {
	m.processor.Type = m.blueprint.ImageProcessor
	text, err := readProcessor(dir, imageProcessorKey)
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(w, "auto: %s has no %s: the model takes numbers, but no pictures\n", dir, vision.ProcessorConfigName)
		return nil
	}
	if err == nil {
		m.processor, err = vision.ParseProcessorConfig(text, m.processor.Type)
	}
	if err == nil {
		m.ImageProcessor, err = vision.NewProcessor(m.processor.ProcessorOptions)
	}
	if err != nil {
		return fmt.Errorf("auto: %s: %w", dir, err)
	}
	return nil
}

// readProcessor returns the settings of the image processor or feature extractor in a folder. As in
// transformers, those in processor_config.json, under the key, come before those in
// preprocessor_config.json.
func readProcessor(dir, key string) ([]byte, error) {
	text, err := regularfile.ReadFile(filepath.Join(dir, processorName), maxProcessorConfig)
	if err == nil {
		var d pretrained.Document
		if err := json.Unmarshal(text, &d); err != nil {
			return nil, fmt.Errorf("%s: %w", processorName, err)
		}
		if own, found := d[key]; found {
			return own, nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return regularfile.ReadFile(filepath.Join(dir, vision.ProcessorConfigName), maxProcessorConfig)
}

// writeImageProcessor writes the settings of the image processor to a folder.
func (m *Model) writeImageProcessor(dir string) error {
	c := m.processor
	c.ProcessorOptions = m.ImageProcessor.Options()
	return writeProcessor(dir, imageProcessorKey, &c)
}

// writeProcessor writes preprocessor_config.json to a folder. If there is a processor_config.json,
// which readers prefer, it gets the same settings.
func writeProcessor(dir, key string, settings any) error {
	if err := changeFile(dir, processorName, []pretrained.Field{{Key: key, Value: settings}}); err != nil {
		return fmt.Errorf("auto: %w", err)
	}
	return pretrained.WriteJSON(dir, vision.ProcessorConfigName, settings)
}

// errNoImageProcessor returns the error of methods that need an image processor.
func (m *Model) errNoImageProcessor() error {
	if m.dir == "" {
		return errors.New("auto: the model has no image processor; set Model.ImageProcessor (vision.NewProcessor)")
	}
	return fmt.Errorf("auto: %s has no %s beside the weights; set Model.ImageProcessor (vision.NewProcessor)", m.dir,
		vision.ProcessorConfigName)
}
