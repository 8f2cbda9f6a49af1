package hezar

import (
	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/compat/hezar/repository"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/crnn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// Model is what a Trainer trains: a model and how its batches are made. S is a sample of a data
// set, B a batch of them. Every task of package engine that predicts is one, such as that of
// models/classify; [Image2Text] makes one of a CRNN.
//
// Predict is Hezar's forward: the first of Outputs.Logits are the logits, the first of
// Outputs.Labels the labels, both with a row for each sample. LossOf is its compute_loss; it runs
// in float32 under mixed precision too.
type Model[S, B any] interface {
	engine.Task[S, B]
	engine.Predictor[B]
}

// Generator is a generative model: is_generative and generate of Hezar's models. An evaluation
// judges what it generates of a batch.
type Generator[B any] interface {
	// Generate returns ids, [rows, length]. o is what Predict has returned for the same batch.
	Generate(p engine.ForwardPass, b B, o engine.Outputs) torch.Tensor
}

// PostProcessor is a model that makes texts of ids, both generated ones and labels: post_process.
type PostProcessor interface {
	PostProcess(ids [][]int64) []string
}

// Tagger is a model that names its labels, for sequence labeling.
type Tagger interface {
	TagName(id int64) string // id2label
	IOB() bool               // the names begin with B- and I-: is_iob_schema
}

// Configured is a model with a model_config.yaml.
type Configured interface {
	HezarConfig() omegaconf.Map
}

// Preprocessor writes its files into a model's folder, under preprocessor/: the set of
// compat/hezar/preprocessors is one.
type Preprocessor interface {
	Save(dir string) error
}

// pictures is what the forms of a CRNN for a Trainer have in common.
type pictures struct {
	model *crnn.Model
}

func (m pictures) Model() any { return m.model }

// outputs are the log-probabilities, [frames, rows, classes], and the labels, padded with blanks.
func (m pictures) outputs(p engine.ForwardPass, x torch.Tensor, labels data.Padded[int64]) engine.Outputs {
	return engine.Outputs{
		Logits: []torch.Tensor{m.model.Forward(x)}, Rows: labels.Rows,
		Labels: []torch.Tensor{engine.Input(p, labels.Values, labels.Shape()...)},
	}
}

// LossOf is the CTC loss as Hezar averages it; a picture whose label cannot be aligned counts as 0.
func (m pictures) LossOf(_ engine.ForwardPass, o engine.Outputs) engine.Loss {
	return engine.Mean(m.model.Loss(o.Logits[0], o.Labels[0]), o.Rows)
}

// generate decodes greedily: the best class of each frame, repeats merged, blanks left out. Rows
// are padded with blanks.
func (pictures) generate(o engine.Outputs) torch.Tensor {
	_, best := o.Logits[0].MaxDim(2, false)
	frames, count := best.Size(0), best.Size(1)
	ids := torch.Values[int64](best.T().Contiguous())
	out := make([]int64, len(ids))
	for at := int64(0); at < frames*count; at += frames {
		copy(out[at:at+frames], crnn.Greedy(ids[at:at+frames]))
	}
	return torch.From(out).View(count, frames)
}

// PostProcess spells ids out.
func (m pictures) PostProcess(ids [][]int64) []string {
	texts := make([]string, len(ids))
	for i, row := range ids {
		texts[i] = m.model.Text(row)
	}
	return texts
}

// HezarConfig is the model's model_config.yaml.
func (m pictures) HezarConfig() omegaconf.Map { return repository.CRNNMap(m.model.Config()) }

// Image2Text makes a CRNN ready for a Trainer: CRNNImage2Text. Samples are pictures with their
// texts, see package crnn; [OCR] has those of Hezar's data sets.
func Image2Text(m *crnn.Model) Model[crnn.Sample, crnn.Batch] {
	return &image2text{pictures{m}, crnn.NewTask(m)}
}

type image2text struct {
	pictures
	task engine.Task[crnn.Sample, crnn.Batch]
}

func (m *image2text) Collate(samples []crnn.Sample) (crnn.Batch, error) {
	return m.task.Collate(samples)
}

func (m *image2text) Loss(p engine.ForwardPass, b crnn.Batch) engine.Loss { return m.task.Loss(p, b) }

// Predict returns the log-probabilities, [frames, rows, classes], and the labels.
func (m *image2text) Predict(p engine.ForwardPass, b crnn.Batch) engine.Outputs {
	c, rows := m.model.Config(), int64(len(b.Lengths))
	width := int64(len(b.Pixels)) / (rows * c.Channels * c.ImageHeight) // of the batch: the convolutions take any
	labels := make([][]int64, rows)
	at := int64(0)
	for i, n := range b.Lengths {
		labels[i] = b.Targets[at : at+n]
		at += n
	}
	padded, _ := data.Pad(labels, 0, data.Padding{}) // to the longest, which nothing exceeds
	return m.outputs(p, engine.Input(p, b.Pixels, rows, c.Channels, c.ImageHeight, width), padded)
}

// Generate reads the pictures of a batch.
func (m *image2text) Generate(_ engine.ForwardPass, _ crnn.Batch, o engine.Outputs) torch.Tensor {
	return m.generate(o)
}
