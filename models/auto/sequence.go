package auto

import (
	"context"
	"fmt"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// SequenceClassifier classifies texts or predicts numbers for them:
// AutoModelForSequenceClassification.
type SequenceClassifier struct{ *Model }

// SequenceClassification loads a model from a folder or the Hub. A decoder classifies a text by its
// last token: see [SequenceClassifier.SetPadTokenID].
func SequenceClassification(ctx context.Context, model string, o Options) (*SequenceClassifier, error) {
	m, err := load(ctx, model, sequenceClassification, o)
	if err != nil {
		return nil, err
	}
	return &SequenceClassifier{m}, nil
}

// Task is what engine.New trains, with the defaults of [classify.NewTask].
func (m *SequenceClassifier) Task() *classify.Task {
	return must(classify.NewTask(m, classify.TaskOptions{}))
}

// Encode makes a sample of a text or a pair of texts. [classify.Head.LabelID] gives the number of
// a class. The text is cut to what the model takes, on the truncation_side of the folder's
// tokenizer_config.json, or as Model.Tokenizer truncates if it does. The label is for single-label
// heads; for others, set the sample's Targets.
func (m *SequenceClassifier) Encode(in text.Input, label int64) (classify.Sample, error) {
	t, err := m.EncodeText(in, 0)
	return classify.Sample{InputIDs: t.InputIDs, TokenTypeIDs: t.TokenTypeIDs, AttentionMask: t.AttentionMask,
		Label: label}, err
}

// Predict classifies a text or a pair of texts, cut as [SequenceClassifier.Encode] does, and returns
// all classes, the one with the highest score first. Several goroutines may call it at a time, but
// not while the model is trained. To score many pairs of texts, use package crossencoder.
func (m *SequenceClassifier) Predict(in text.Input) ([]Class, error) {
	t, err := m.EncodeText(in, 0)
	if err != nil {
		return nil, err
	}
	b, err := m.Limits().Collate("auto", []inputs.Text{t}, data.Padding{})
	if err != nil {
		return nil, err
	}
	return m.scored(func(p engine.ForwardPass) torch.Tensor { return m.Forward(b.To(p)) })
}

// EncodeText tokenizes a text or a pair of texts and cuts it to maxLength tokens. Zero: to what the
// model takes, or to less if Model.Tokenizer truncates.
func (m *Model) EncodeText(in text.Input, maxLength int) (inputs.Text, error) {
	e, err := m.encodeWithin(in, maxLength, nil)
	if err != nil {
		return inputs.Text{}, err
	}
	return m.Limits().Of(e), nil
}

// EncodeRendered tokenizes what [Model.RenderChat] returns, to which the tokenizer adds no special
// tokens, and cuts it as EncodeText does. It also returns to how many tokens it cuts.
func (m *Model) EncodeRendered(rendered string, maxLength int) (t inputs.Text, most int, err error) {
	e, err := m.encodeWithin(text.Single(rendered), maxLength, &text.EncodeOptions{NoSpecialTokens: true})
	if err != nil {
		return t, 0, err
	}
	return m.Limits().Of(e), m.truncation(m.Tokenizer, maxLength).MaxLength, nil
}

// encode tokenizes an input and truncates it to the model's maximum length, or to that of the
// tokenizer if it is less.
func (m *Model) encode(in text.Input) (*text.Encoding, error) { return m.encodeWith(in, nil) }

func (m *Model) encodeWith(in text.Input, o *text.EncodeOptions) (*text.Encoding, error) {
	return m.encodeWithin(in, 0, o)
}

// encodeWithin truncates to maxLength tokens if it is not zero.
func (m *Model) encodeWithin(in text.Input, maxLength int, o *text.EncodeOptions) (*text.Encoding, error) {
	if m.Tokenizer == nil {
		return nil, m.errNoTokenizer()
	}
	return m.encodeBy(m.Tokenizer, in, maxLength, o)
}

// encodeBy is encodeWithin with another tokenizer.
func (m *Model) encodeBy(t *text.Tokenizer, in text.Input, maxLength int, o *text.EncodeOptions) (*text.Encoding,
	error) {
	limit := m.truncation(t, maxLength)
	t, err := t.WithTruncation(&limit)
	if err != nil {
		return nil, fmt.Errorf("auto: %w", err)
	}
	e, err := t.EncodeInput(in, o)
	if err != nil {
		return nil, fmt.Errorf("auto: %w", err)
	}
	return e, nil
}

// truncation says how a tokenizer cuts texts for the model: to maxLength tokens if it is not zero,
// to what the model takes, and to what the tokenizer itself cuts to.
func (m *Model) truncation(t *text.Tokenizer, maxLength int) text.Truncation {
	limit := text.Truncation{MaxLength: int(m.Limits().MaxLength), Direction: m.tokenizerConfig.truncationSide}
	if maxLength > 0 {
		limit.MaxLength = min(limit.MaxLength, maxLength)
	}
	if own := t.Config().Truncation; own != nil {
		own := *own
		own.MaxLength = min(own.MaxLength, limit.MaxLength)
		limit = own
	}
	return limit
}

// must is for tasks with default options, which all models accept.
func must[T any](t T, err error) T {
	if err != nil {
		panic(err)
	}
	return t
}
