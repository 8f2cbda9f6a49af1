package main

import (
	"context"
	"fmt"
	"iter"

	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
)

// model is the interface shared by a newly created model and one loaded by package auto.
type model interface {
	classify.Model
	Save(dir string) error
}

// classifier is a model with the tokenizer that it was trained with.
type classifier struct {
	model      model
	tokenizer  *text.Tokenizer
	pretrained bool // model and tokenizer were loaded; saving the model also saves the tokenizer
}

// freshClassifier creates a small BERT with random weights, and a vocabulary learned from the
// training texts.
func freshClassifier(o options, t task) (c classifier, err error) {
	if c.tokenizer, err = text.TrainBert(t.texts(), text.BertOptions{Cased: true}, text.TrainOptions{VocabSize: o.vocab,
		MinFrequency: 2}); err != nil {
		return c, err
	}
	torch.ManualSeed(o.seed)
	c.model, err = bert.NewClassifier(bert.Config{
		VocabSize: int64(c.tokenizer.VocabSize()), HiddenSize: int64(o.hidden), NumLayers: int64(o.layers),
		NumHeads:         max(1, int64(o.hidden)/32),
		IntermediateSize: 4 * int64(o.hidden), MaxPositions: int64(o.maxLength), Head: bert.Head{ID2Label: t.labels},
		// BERT's 0.02 suits a hidden size of 768; with it, so narrow a model would not learn for an
		// epoch or two
		InitializerRange: 0.05,
	})
	return c, err
}

// texts iterates over all texts of the training set.
func (t task) texts() iter.Seq[string] {
	return func(yield func(string) bool) {
		for _, e := range t.train {
			if !yield(e.a) || e.pair && !yield(e.b) {
				return
			}
		}
	}
}

// pretrainedClassifier loads -model. The last layer is new if the model has other classes.
func pretrainedClassifier(ctx context.Context, o options, labels []string) (classifier, error) {
	torch.ManualSeed(o.seed)
	return loadClassifier(ctx, o.model, auto.Options{Revision: o.revision, ID2Label: labels, InitMismatched: true})
}

// loadClassifier reads a model and its tokenizer from a folder or the Hub.
func loadClassifier(ctx context.Context, name string, o auto.Options) (c classifier, err error) {
	m, err := auto.SequenceClassification(ctx, name, o)
	if err != nil {
		return c, err
	}
	switch {
	case m.Tokenizer == nil:
		return c, fmt.Errorf("%s has no tokenizer; want tokenizer.json or vocab.txt next to the weights", name)
	case m.Head().ProblemType != classify.SingleLabel:
		return c, fmt.Errorf("%s: its problem_type is %s; this program needs %s", name, m.Head().ProblemType,
			classify.SingleLabel)
	}
	return classifier{model: m, tokenizer: m.Tokenizer, pretrained: true}, nil
}

// leavePaddingOut makes the model skip padding when it computes a batch.
func (c classifier) leavePaddingOut() error {
	if m, ok := c.model.(*auto.SequenceClassifier); ok {
		return m.SetPaddingFree(true)
	}
	c.model.(*bert.Classifier).SetPaddingFree(true)
	return nil
}

// truncated makes the tokenizer truncate texts to the model's maximum length, or to maxLength if
// that is positive and smaller.
func (c classifier) truncated(maxLength int) (classifier, error) {
	limit := int(c.model.Limits().MaxLength)
	if maxLength > limit {
		return c, fmt.Errorf("-max-length is %d, but the model has positions for %d tokens", maxLength, limit)
	}
	if maxLength > 0 {
		limit = maxLength
	}
	var err error
	if c.tokenizer, err = c.tokenizer.WithPadding(nil); err != nil {
		return c, err
	}
	c.tokenizer, err = c.tokenizer.WithTruncation(&text.Truncation{MaxLength: limit})
	return c, err
}

// sample tokenizes an example.
func (c classifier) sample(e example) (bert.Sample, error) {
	in := text.Single(e.a)
	if e.pair {
		in = text.Pair(e.a, e.b)
	}
	encoding, err := c.tokenizer.EncodeInput(in, nil)
	if err != nil {
		return bert.Sample{}, err
	}
	s := bert.Sample{InputIDs: encoding.IDs, Label: int64(e.label)}
	if c.model.Limits().TypeVocabSize > 1 {
		s.TokenTypeIDs = encoding.TypeIDs
	}
	return s, nil
}

// save writes the model and its tokenizer, for transformers and [loadClassifier] to read.
func (c classifier) save(dir string) error {
	if err := c.model.Save(dir); err != nil || c.pretrained {
		return err
	}
	return tokenizerOf(c).Save(dir)
}

// tokenizerOf saves the tokenizer of a newly created classifier; a loaded model saves its own.
type tokenizerOf classifier

func (c tokenizerOf) Save(dir string) error {
	if c.pretrained {
		return nil
	}
	return c.tokenizer.Save(dir)
}
