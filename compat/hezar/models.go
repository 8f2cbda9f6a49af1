package hezar

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/compat/hezar/datasets"
	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/compat/hezar/preprocessors"
	"github.com/gotrainer/gotrainer/compat/hezar/repository"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/crnn"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// The models in Hezar's repositories, ready for a Trainer with Hezar's data sets. Checkpoints are
// folders that Hezar's Model.load and [LoadModel] can load.

// OCR trains CRNNImage2Text on samples of datasets.OCR.
func OCR(m *repository.Model) Model[datasets.OCRSample, datasets.OCRBatch] {
	return &pictures[datasets.OCRSample, datasets.OCRBatch]{files{m, "image2text"}, datasets.CollateOCR,
		func(p engine.ForwardPass, b datasets.OCRBatch) (torch.Tensor, data.Padded[int64]) {
			return engine.Input(p, b.Pixels, b.Shape...), b.Labels
		}}
}

// Image2Text prepares a CRNN for a Trainer: CRNNImage2Text. Samples are pictures with their texts,
// see package crnn; [OCR] takes the samples of Hezar's data sets.
func Image2Text(m *crnn.Model) Model[crnn.Sample, crnn.Batch] {
	return &pictures[crnn.Sample, crnn.Batch]{files{repository.Reader(m, nil), "image2text"}, crnn.NewTask(m).Collate,
		func(p engine.ForwardPass, b crnn.Batch) (torch.Tensor, data.Padded[int64]) {
			c, rows := m.Config(), int64(len(b.Lengths))
			width := int64(len(b.Pixels)) / (rows * c.Channels * c.ImageHeight) // the convolutions accept any width
			labels, rest := make([][]int64, rows), b.Targets
			for i, n := range b.Lengths {
				labels[i], rest = rest[:n], rest[n:]
			}
			padded, _ := data.Pad(labels, 0, data.Padding{}) // pads to the longest row, so there is no error
			return engine.Input(p, b.Pixels, rows, c.Channels, c.ImageHeight, width), padded
		}}
}

// TextClassification trains BertTextClassification, RobertaTextClassification or
// DistilBertTextClassification on samples of datasets.TextClassification. Its own batches are
// padded on the right; the collator of the data set pads as its tokenizer says.
func TextClassification(m *repository.Model) Model[datasets.TextSample, datasets.TextBatch] {
	return &texts[datasets.TextSample, datasets.TextBatch]{files{m, "text_classification"}, datasets.CollateText,
		func(p engine.ForwardPass, b datasets.TextBatch) (ids, mask [][]int64, labels torch.Tensor) {
			return b.TokenIDs, b.AttentionMask, engine.Input(p, b.Labels)
		}}
}

// SequenceLabeling trains BertSequenceLabeling, RobertaSequenceLabeling or
// DistilBertSequenceLabeling on samples of datasets.SequenceLabeling. Its batches are padded on the
// right.
func SequenceLabeling(m *repository.Model) Model[datasets.TagSample, datasets.TagBatch] {
	return &tags{texts[datasets.TagSample, datasets.TagBatch]{files{m, "sequence_labeling"}, datasets.CollateTags,
		func(p engine.ForwardPass, b datasets.TagBatch) (ids, mask [][]int64, labels torch.Tensor) {
			return b.TokenIDs, b.AttentionMask, matrix(p, b.Labels)
		}}}
}

// TextGeneration trains T5TextGeneration or GPT2TextGeneration on samples of
// datasets.TextSummarization. Its own batches are padded on the right; the collator of the data
// set pads as its tokenizer says. In an evaluation the model generates text with the generation
// settings of its config, unless TrainerConfig.EvaluateWithGenerate is false. The labels of GPT-2
// are the tokens of the text itself, -100 where a token is not to be learned: Hezar's loss
// includes padding.
func TextGeneration(m *repository.Model) Model[datasets.SummarySample, datasets.SummaryBatch] {
	return &writer{files{m, "text_generation"}}
}

// files is the part of a model that concerns its files and its task.
type files struct {
	model *repository.Model
	task  string
}

// check refuses a model for another task, and one whose checkpoints, with preprocessor p next to
// them, could not be loaded again.
func (f files) check(p Preprocessor) error {
	if !strings.HasSuffix(f.model.Kind(), "_"+f.task) {
		return refuse("model", f.model.Kind(), "a model for "+f.task)
	}
	if f.task == "text_generation" && f.model.Preprocessors.Tokenizer == nil {
		set, ok := p.(*preprocessors.Set)
		if !ok || set == nil || set.Tokenizer == nil {
			return refuse("Options.Preprocessor", nil, "one with a tokenizer, since the model has none")
		}
		f.model.Preprocessors = set
	}
	if f.model.CRNN == nil {
		return nil
	}
	c, mean, std := f.model.CRNN.Config(), 0.5, 0.5
	if set, ok := p.(*preprocessors.Set); ok && set != nil && set.Image != nil {
		if o := set.Image.Config; len(o.Mean) == 1 && len(o.Std) == 1 {
			mean, std = o.Mean[0], o.Std[0]
		}
	}
	const whose = "of which Hezar's model_config.yaml has nothing; package crnn's own Trainer saves it"
	switch {
	case c.NormalizeAll:
		return refuse("model", "crnn.Config.NormalizeAll", "a model without it, "+whose)
	case c.Standardize:
		return refuse("model", "crnn.Config.Standardize", "a model without it, "+whose)
	case c.Mean != mean || c.Std != std:
		return refuse("model", fmt.Sprintf("Mean %g and Std %g of crnn.Config", c.Mean, c.Std),
			fmt.Sprintf("%g and %g, as the image processor has them or, without one, Hezar's default", mean, std))
	}
	return nil
}

// checkLabels refuses a data set with more classes than the model has, and warns of classes whose
// texts differ.
func (f files) checkLabels(set any, warnings io.Writer) error {
	var of []string
	switch d := set.(type) {
	case *datasets.OCR:
		of = d.Config.ID2Label
	case *datasets.TextClassification:
		of = d.Config.ID2Label
	case *datasets.SequenceLabeling:
		of = d.Config.ID2Label
	}
	own := f.model.Labels()
	if len(of) > len(own) {
		return refuse("model", fmt.Sprintf("a model of %d classes", len(own)),
			fmt.Sprintf("one of the %d classes of the data set: id2label", len(of)))
	}
	for i, text := range of {
		if text != own[i] {
			fmt.Fprintf(warnings, "hezar: class %d is %q in the data set, but %q in the model: make the model with the "+
				"id2label of the data set if they are not the same\n", i, text, own[i])
			break
		}
	}
	return nil
}

// Model returns the network.
func (f files) Model() any { return f.model.Module() }

// HezarConfig returns the model_config.yaml.
func (f files) HezarConfig() omegaconf.Map { return f.model.Config() }

// untie separates tied weights of the model if they differ in w.
func (f files) untie(w *pretrained.Weights) error { return f.model.Untie(w) }

// preprocessors returns the preprocessors that are saved with the model.
func (f files) preprocessors() Preprocessor { return f.model.Preprocessors }

// pictures is a CRNN. input returns the pictures of a batch and their labels, padded with blanks.
type pictures[S, B any] struct {
	files
	collate func(samples []S) (B, error)
	input   func(p engine.ForwardPass, b B) (torch.Tensor, data.Padded[int64])
}

func (m *pictures[S, B]) Collate(samples []S) (B, error) { return m.collate(samples) }

// Predict returns the log-probabilities, [frames, rows, classes], and the labels.
func (m *pictures[S, B]) Predict(p engine.ForwardPass, b B) engine.Outputs {
	x, labels := m.input(p, b)
	classes := int64(len(m.model.Labels()))
	for _, id := range labels.Values { // for other IDs, GPU kernels would read out of bounds
		if id < 0 || id >= classes {
			panic(&torch.Error{Op: "hezar", Code: torch.ErrIndex, Msg: fmt.Sprintf("a label of the batch is %d, but the "+
				"model has %d classes: 0 to %d; its id2label must be that of the data set", id, classes, classes-1)})
		}
	}
	return engine.Outputs{
		Logits: []torch.Tensor{m.model.CRNN.Forward(x)}, Rows: labels.Rows,
		Labels: []torch.Tensor{engine.Input(p, labels.Values, labels.Shape()...)},
	}
}

// LossOf returns the CTC loss averaged like in Hezar; a picture whose label cannot be aligned
// counts as 0.
func (m *pictures[S, B]) LossOf(_ engine.ForwardPass, o engine.Outputs) engine.Loss {
	return engine.Mean(m.model.CRNN.Loss(o.Logits[0], o.Labels[0]), o.Rows)
}

func (m *pictures[S, B]) Loss(p engine.ForwardPass, b B) engine.Loss {
	return m.LossOf(p, m.Predict(p, b))
}

// Generate decodes greedily: it takes the best class of each frame, merges repeats and drops
// blanks. Rows are padded with blanks.
func (m *pictures[S, B]) Generate(_ engine.ForwardPass, _ B, o engine.Outputs) torch.Tensor {
	_, best := o.Logits[0].MaxDim(2, false)
	frames, count := best.Size(0), best.Size(1)
	ids := torch.Values[int64](best.T().Contiguous())
	out := make([]int64, len(ids))
	for at := int64(0); at < frames*count; at += frames {
		copy(out[at:at+frames], crnn.Greedy(ids[at:at+frames]))
	}
	return torch.From(out).View(count, frames)
}

// PostProcess converts IDs to texts.
func (m *pictures[S, B]) PostProcess(ids [][]int64) []string {
	texts := make([]string, len(ids))
	for i, row := range ids {
		texts[i] = m.model.CRNN.Text(row)
	}
	return texts
}

// texts is a model that reads texts. input returns the IDs of a batch, their mask, and labels of
// any shape.
type texts[S, B any] struct {
	files
	collate func(samples []S, pad int64) (B, error)
	input   func(p engine.ForwardPass, b B) (ids, mask [][]int64, labels torch.Tensor)
}

func (m *texts[S, B]) Collate(samples []S) (B, error) {
	return m.collate(samples, m.model.Text.Limits().PadTokenID)
}

func (m *texts[S, B]) Predict(p engine.ForwardPass, b B) engine.Outputs {
	ids, mask, labels := m.input(p, b)
	keep := inputs.Mask(p, slices.Concat(mask...), int64(len(mask)), int64(len(mask[0])))
	logits := m.model.Text.Forward(matrix(p, ids), keep, torch.Tensor{})
	return engine.Outputs{Logits: []torch.Tensor{logits}, Labels: []torch.Tensor{labels}, Rows: len(ids)}
}

// matrix copies rows of equal length to the device of a pass.
func matrix(p engine.ForwardPass, rows [][]int64) torch.Tensor {
	return engine.Input(p, slices.Concat(rows...), int64(len(rows)), int64(len(rows[0])))
}

// LossOf returns the cross-entropy of all labels that are not ignored.
func (m *texts[S, B]) LossOf(_ engine.ForwardPass, o engine.Outputs) engine.Loss {
	return engine.Mean(inputs.TokenLoss(o.Logits[0], o.Labels[0]), o.Rows)
}

func (m *texts[S, B]) Loss(p engine.ForwardPass, b B) engine.Loss {
	return m.LossOf(p, m.Predict(p, b))
}

// tags is a model for sequence labeling.
type tags struct {
	texts[datasets.TagSample, datasets.TagBatch]
}

// TagName returns the text in id2label.
func (m *tags) TagName(id int64) string { return m.model.Labels()[id] }

// IOB reports whether the labels mark the beginnings of entities.
func (m *tags) IOB() bool {
	return !slices.ContainsFunc(m.model.Labels(), func(label string) bool {
		return label != "O" && !strings.HasPrefix(label, "B-") && !strings.HasPrefix(label, "I-")
	})
}

// writer is a model that generates texts.
type writer struct{ files }

func (m *writer) Collate(samples []datasets.SummarySample) (datasets.SummaryBatch, error) {
	return datasets.CollateSummaries(samples, m.model.PadTokenID())
}

// Predict returns the logits of the labels. The decoder input of T5 is the labels shifted right,
// after the start token.
func (m *writer) Predict(p engine.ForwardPass, b datasets.SummaryBatch) engine.Outputs {
	m.checkIDs(b)
	keep := inputs.Mask(p, slices.Concat(b.AttentionMask...), int64(len(b.TokenIDs)), int64(len(b.TokenIDs[0])))
	ids := matrix(p, b.TokenIDs)
	var logits torch.Tensor
	if t5 := m.model.Seq2Seq; t5 != nil {
		shifted := datasets.ShiftTokensRight(b.Labels, m.model.PadTokenID(), t5.DecoderStartTokenID())
		logits = t5.ForwardPair(ids, keep, matrix(p, shifted))
	} else {
		logits = m.model.Causal.Forward(ids, keep, torch.Tensor{})
	}
	return engine.Outputs{Logits: []torch.Tensor{logits}, Labels: []torch.Tensor{matrix(p, b.Labels)},
		Rows: len(b.TokenIDs), Shifted: m.model.Causal != nil}
}

// checkIDs refuses IDs for which GPU kernels would read out of bounds.
func (m *writer) checkIDs(b datasets.SummaryBatch) {
	fault := func(format string, args ...any) {
		panic(&torch.Error{Op: "hezar", Code: torch.ErrIndex, Msg: fmt.Sprintf(format, args...)})
	}
	limits := m.limits()
	for i, row := range b.TokenIDs {
		if reason := limits.Fault(inputs.Text{InputIDs: row}); reason != "" {
			fault("text %d of the batch: %s", i, reason)
		}
		for _, id := range b.Labels[i] {
			if id != datasets.IgnoreIndex && (id < 0 || id >= limits.VocabSize) {
				fault("a label of text %d of the batch is %d; want an id below the model's vocabulary, %d", i, id,
					limits.VocabSize)
			}
		}
		if m.model.Causal != nil && len(b.Labels[i]) != len(row) {
			fault("text %d of the batch has %d tokens and %d labels, but GPT-2 learns a label for each token: its own ids, "+
				"and -100 for padding", i, len(row), len(b.Labels[i]))
		}
	}
}

func (m *writer) limits() inputs.Limits {
	if m.model.Seq2Seq != nil {
		return m.model.Seq2Seq.Limits()
	}
	return m.model.Causal.Limits()
}

// LossOf returns the cross-entropy of all labels that are not ignored: T5 ignores padding, and
// GPT-2 predicts the next token.
func (m *writer) LossOf(_ engine.ForwardPass, o engine.Outputs) engine.Loss {
	logits, labels := o.Logits[0], o.Labels[0]
	if m.model.Causal == nil {
		labels = labels.MaskedFill(labels.EqScalar(float64(m.model.PadTokenID())), datasets.IgnoreIndex)
	} else {
		length := labels.Size(1)
		logits, labels = logits.Narrow(1, 0, length-1).Contiguous(), labels.Narrow(1, 1, length-1).Contiguous()
	}
	return engine.Mean(inputs.TokenLoss(logits, labels), o.Rows)
}

func (m *writer) Loss(p engine.ForwardPass, b datasets.SummaryBatch) engine.Loss {
	return m.LossOf(p, m.Predict(p, b))
}

// Generate generates texts for the inputs of a batch.
func (m *writer) Generate(_ engine.ForwardPass, b datasets.SummaryBatch, _ engine.Outputs) torch.Tensor {
	texts := make([]inputs.Text, len(b.TokenIDs))
	for i, ids := range b.TokenIDs {
		texts[i] = inputs.Text{InputIDs: ids, AttentionMask: b.AttentionMask[i]}
	}
	rows, err := m.model.GenerateIDs(context.Background(), texts, nil)
	if err != nil {
		panic(&torch.Error{Op: "hezar", Code: torch.ErrInvalid, Msg: err.Error()})
	}
	padded, _ := data.Pad(rows, m.model.PadTokenID(), data.Padding{}) // pads to the longest row, so there is no error
	return torch.From(padded.Values, padded.Shape()...)
}

// checkGeneration refuses unknown generation settings.
func (m *writer) checkGeneration() error { return m.model.CheckGeneration() }

// PostProcess converts IDs to texts.
func (m *writer) PostProcess(ids [][]int64) []string { return m.model.Decode(ids) }

// The options of the Trainers of these models.
type (
	OCROptions                = Options[datasets.OCRSample, datasets.OCRBatch]
	TextClassificationOptions = Options[datasets.TextSample, datasets.TextBatch]
	SequenceLabelingOptions   = Options[datasets.TagSample, datasets.TagBatch]
	TextGenerationOptions     = Options[datasets.SummarySample, datasets.SummaryBatch]
)
