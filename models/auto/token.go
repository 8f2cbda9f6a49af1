package auto

import (
	"context"
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/models/tokenclass"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/text/pretokenizers"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// TokenClassifier classifies the tokens of a text: AutoModelForTokenClassification.
type TokenClassifier struct{ *Model }

// TokenClassification loads a model from a folder or the Hub.
func TokenClassification(ctx context.Context, model string, o Options) (*TokenClassifier, error) {
	m, err := load(ctx, model, tokenClassification, o)
	if err != nil {
		return nil, err
	}
	if m.Tokenizer != nil {
		if m.Tokenizer, err = withPrefixSpace(m.Tokenizer); err != nil {
			return nil, fmt.Errorf("auto: %w", err)
		}
		m.spaced = m.Tokenizer != m.loaded
		m.loaded = m.Tokenizer
	}
	return &TokenClassifier{m}, nil
}

// Task is what engine.New trains, with the defaults of [tokenclass.NewTask].
func (m *TokenClassifier) Task() *tokenclass.Task {
	return must(tokenclass.NewTask(m, tokenclass.TaskOptions{}))
}

// Encode makes a sample of a text, given as words with their tags, which are labels of the model.
// The first piece of a word gets the word's label, the other pieces none; [tokenclass.Align] can
// label them all. A text longer than the model takes loses its last words.
func (m *TokenClassifier) Encode(words, tags []string) (s tokenclass.Sample, err error) {
	if len(words) != len(tags) {
		return s, fmt.Errorf("auto: there are %d words and %d tags; want a tag for each word", len(words), len(tags))
	}
	labels := make([]int64, len(tags))
	for i, tag := range tags {
		if labels[i] = int64(slices.Index(m.Head().ID2Label, tag)); labels[i] < 0 {
			return s, fmt.Errorf("auto: word %d, %q, has the tag %q; the model has %q (Options.ID2Label names others)",
				i, words[i], tag, m.Head().ID2Label)
		}
	}
	e, err := m.encode(text.Input{Words: words})
	if err != nil {
		return s, err
	}
	s.Text = m.Limits().Of(e)
	s.Labels, err = tokenclass.Align(e, labels, tokenclass.FirstPiece, nil)
	return s, err
}

// withPrefixSpace returns a tokenizer for single words. A byte-level tokenizer recognises a word by
// the space before it, which is added: add_prefix_space=True of transformers.
func withPrefixSpace(t *text.Tokenizer) (*text.Tokenizer, error) {
	c := t.Config()
	b, ok := c.PreTokenizer.(pretokenizers.ByteLevel)
	if !ok || b.AddPrefixSpace {
		return t, nil
	}
	b.AddPrefixSpace = true
	c.PreTokenizer = b
	return text.New(c)
}

// Predict tags the words of a text, each with the label of its first piece. Words that do not fit
// into the model have the tag "". Several goroutines may call it at a time, but not while the model
// is trained.
func (m *TokenClassifier) Predict(words []string) (tags []string, err error) {
	e, err := m.encode(text.Input{Words: words})
	if err != nil {
		return nil, err
	}
	t := m.Task()
	batch, err := t.Collate([]tokenclass.Sample{{Text: m.Limits().Of(e)}})
	if err != nil {
		return nil, err
	}
	tags = make([]string, len(words))
	err = m.Evaluate(func(p engine.ForwardPass) {
		classes := torch.Values[int64](m.Forward(batch.To(p)).ArgMax(-1, false))
		for i, word := range slices.Backward(e.Words) { // backwards, so that the first piece of a word determines its tag
			if word >= 0 {
				tags[word] = m.Head().ID2Label[classes[i]]
			}
		}
	})
	return tags, err
}
