package hezar

import (
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/compat/hezar/datasets"
	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/compat/hezar/repository"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// The models of Hezar's repositories, ready for a Trainer with Hezar's data sets. Checkpoints are
// folders that Model.load of Hezar and [LoadModel] load.

// OCR trains CRNNImage2Text on samples of datasets.OCR.
func OCR(m *repository.Model) Model[datasets.OCRSample, datasets.OCRBatch] {
	return &ocr{pictures{m.CRNN}, files{m, "image2text"}}
}

// TextClassification trains BertTextClassification, RobertaTextClassification or
// DistilBertTextClassification on samples of datasets.TextClassification.
func TextClassification(m *repository.Model) Model[datasets.TextSample, datasets.TextBatch] {
	return &textClassification{texts{files{m, "text_classification"}}}
}

// SequenceLabeling trains BertSequenceLabeling, RobertaSequenceLabeling or
// DistilBertSequenceLabeling on samples of datasets.SequenceLabeling.
func SequenceLabeling(m *repository.Model) Model[datasets.TagSample, datasets.TagBatch] {
	return &sequenceLabeling{texts{files{m, "sequence_labeling"}}}
}

// files are those of a model, which must be one for a task.
type files struct {
	model *repository.Model
	task  string
}

// check refuses a model of another task.
func (f files) check() error {
	if !strings.HasSuffix(f.model.Kind(), "_"+f.task) {
		return refuse("model", f.model.Kind(), "a model for "+f.task)
	}
	return nil
}

// HezarConfig is model_config.yaml.
func (f files) HezarConfig() omegaconf.Map { return f.model.Config() }

// preprocessors are saved beside the model.
func (f files) preprocessors() Preprocessor { return f.model.Preprocessors }

type ocr struct {
	pictures
	files
}

// HezarConfig is model_config.yaml.
func (m *ocr) HezarConfig() omegaconf.Map { return m.files.HezarConfig() }

func (m *ocr) Collate(samples []datasets.OCRSample) (datasets.OCRBatch, error) {
	return datasets.CollateOCR(samples)
}

// Predict returns the log-probabilities, [frames, rows, classes], and the labels.
func (m *ocr) Predict(p engine.ForwardPass, b datasets.OCRBatch) engine.Outputs {
	return m.outputs(p, engine.Input(p, b.Pixels, b.Shape...), b.Labels)
}

func (m *ocr) Loss(p engine.ForwardPass, b datasets.OCRBatch) engine.Loss {
	return m.LossOf(p, m.Predict(p, b))
}

// Generate reads the pictures of a batch.
func (m *ocr) Generate(_ engine.ForwardPass, _ datasets.OCRBatch, o engine.Outputs) torch.Tensor {
	return m.generate(o)
}

// texts is what models of texts have in common.
type texts struct{ files }

// Model is the network.
func (m texts) Model() any { return m.model.Text }

// forward runs the network on ids and mask; labels have any shape.
func (m texts) forward(p engine.ForwardPass, ids, mask [][]int64, labels torch.Tensor) engine.Outputs {
	keep := inputs.Mask(p, slices.Concat(mask...), int64(len(mask)), int64(len(mask[0])))
	logits := m.model.Text.Forward(matrix(p, ids), keep, torch.Tensor{})
	return engine.Outputs{Logits: []torch.Tensor{logits}, Labels: []torch.Tensor{labels}, Rows: len(ids)}
}

// matrix copies rows of one length to the device of a pass.
func matrix(p engine.ForwardPass, rows [][]int64) torch.Tensor {
	return engine.Input(p, slices.Concat(rows...), int64(len(rows)), int64(len(rows[0])))
}

// LossOf is the cross-entropy of all labels that are not ignored.
func (m texts) LossOf(_ engine.ForwardPass, o engine.Outputs) engine.Loss {
	return engine.Mean(inputs.TokenLoss(o.Logits[0], o.Labels[0]), o.Rows)
}

type textClassification struct{ texts }

// Collate pads on the right. The collator of the data set pads as its tokenizer says.
func (m *textClassification) Collate(samples []datasets.TextSample) (datasets.TextBatch, error) {
	return datasets.CollateText(samples, m.model.Text.Limits().PadTokenID)
}

func (m *textClassification) Predict(p engine.ForwardPass, b datasets.TextBatch) engine.Outputs {
	return m.forward(p, b.TokenIDs, b.AttentionMask, engine.Input(p, b.Labels))
}

func (m *textClassification) Loss(p engine.ForwardPass, b datasets.TextBatch) engine.Loss {
	return m.LossOf(p, m.Predict(p, b))
}

type sequenceLabeling struct{ texts }

// Collate pads on the right.
func (m *sequenceLabeling) Collate(samples []datasets.TagSample) (datasets.TagBatch, error) {
	return datasets.CollateTags(samples, m.model.Text.Limits().PadTokenID)
}

func (m *sequenceLabeling) Predict(p engine.ForwardPass, b datasets.TagBatch) engine.Outputs {
	return m.forward(p, b.TokenIDs, b.AttentionMask, matrix(p, b.Labels))
}

func (m *sequenceLabeling) Loss(p engine.ForwardPass, b datasets.TagBatch) engine.Loss {
	return m.LossOf(p, m.Predict(p, b))
}

// TagName is id2label.
func (m *sequenceLabeling) TagName(id int64) string { return m.model.Labels()[id] }

// IOB reports whether the labels say where an entity begins.
func (m *sequenceLabeling) IOB() bool {
	for _, label := range m.model.Labels() {
		if label != "O" && !strings.HasPrefix(label, "B-") && !strings.HasPrefix(label, "I-") {
			return false
		}
	}
	return true
}

// Options of the Trainers of these models.
type (
	OCROptions                = Options[datasets.OCRSample, datasets.OCRBatch]
	TextClassificationOptions = Options[datasets.TextSample, datasets.TextBatch]
	SequenceLabelingOptions   = Options[datasets.TagSample, datasets.TagBatch]
)
