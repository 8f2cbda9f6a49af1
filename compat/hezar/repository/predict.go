package repository

import (
	"context"
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/compat/hezar/datasets"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/text/hezar"
	"github.com/gotrainer/gotrainer/torch"
)

// Prediction is a model's result for an input. Which fields are set depends on its task.
type Prediction struct {
	Text  string  // the text read in a picture, or generated
	Label string  // the best class of a text
	Score float64 // probability of Label; for a picture, the mean probability of the best class of each frame

	Classes []Class // of a text: all classes, best first
	Tags    []Tag   // of tokens
}

// Class is a possible class of a text, with its probability.
type Class struct {
	Label string
	Score float64
}

// Tag is the class of a token or word.
type Tag struct {
	Token      string
	Label      string
	Score      float64
	Start, End int // position of the token in its text, in characters; 0 for words
}

// batch is the number of inputs per forward pass.
const batch = 32

// Predict is Model.predict, with scores. Inputs of models that read pictures are paths, []byte,
// image.Image, *vision.Image or *preprocessors.Floats. Models that classify or generate texts take
// strings: see [Model.Generate]. Models that classify tokens take strings, whose tokens they tag as
// in Hezar, or []string, words that get the tag of their first token. Texts of different lengths
// are padded, which Hezar cannot do, and padding gets no tags. Several goroutines may call Predict
// at the same time, but not while the model is being trained.
func (m *Model) Predict(ctx context.Context, inputs ...any) (all []Prediction, err error) {
	if m.module != nil {
		return m.predictTexts(ctx, inputs)
	}
	for part := range slices.Chunk(inputs, batch) {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		ask := m.read
		if m.Text != nil {
			ask = m.classify
		}
		predictions, err := ask(part)
		if err != nil {
			return nil, fmt.Errorf("repository: %s: %w", m.kind, err)
		}
		all = append(all, predictions...)
	}
	return all, nil
}

// infer runs the network in evaluation mode, without gradients and in a scope, and then restores
// the mode.
func (m *Model) infer(f func(device torch.Device)) error {
	device := nn.Params(m.Module())[0].Tensor.Device()
	return torch.Try(func() {
		nn.Evaluating(m.Module(), func() { torch.InferenceMode(func() { torch.Scope(func() { f(device) }) }) })
	})
}

func (m *Model) read(pictures []any) (predictions []Prediction, err error) {
	p := m.Preprocessors.Image
	if p == nil {
		return nil, fmt.Errorf("the model has no image processor to open pictures with; want Preprocessors.Image")
	}
	samples := make([]datasets.OCRSample, len(pictures))
	for i, picture := range pictures {
		if samples[i].Pixels, samples[i].Shape, err = p.Read(picture); err != nil {
			return nil, err
		}
	}
	b, err := datasets.CollateOCR(samples)
	if err != nil {
		return nil, err
	}
	err = m.infer(func(device torch.Device) {
		for _, r := range m.CRNN.Readings(m.CRNN.Forward(torch.From(b.Pixels, b.Shape...).ToDevice(device))) {
			predictions = append(predictions, Prediction{Text: r.Text, Score: r.Score})
		}
	})
	return predictions, err
}

func (m *Model) classify(inputs []any) (predictions []Prediction, err error) {
	encodings, ids, err := m.encode(inputs)
	if err != nil {
		return nil, err
	}
	err = m.infer(func(device torch.Device) {
		logits := m.Text.Forward(torch.From(ids.Values, ids.Shape()...).ToDevice(device),
			torch.From(ids.Mask().Values, ids.Shape()...).ToDevice(device), torch.Tensor{})
		if m.tags() {
			predictions = m.tag(encodings, inputs, logits)
			return
		}
		for _, classes := range Classes(logits, m.Labels(), len(m.Labels())) {
			predictions = append(predictions, Prediction{Label: classes[0].Label, Score: classes[0].Score,
				Classes: classes})
		}
	})
	return predictions, err
}

// encode normalizes and tokenizes texts, and pads them to equal length.
func (m *Model) encode(inputs []any) (encodings []*text.Encoding, ids data.Padded[int64], err error) {
	if m.Preprocessors.Tokenizer == nil {
		return nil, ids, fmt.Errorf("the model has no tokenizer to read texts with; want Preprocessors.Tokenizer")
	}
	t, err := m.Preprocessors.Tokenizer.Configured(hezar.CallOptions{})
	if err != nil {
		return nil, ids, err
	}
	normalize := func(text string) string { return text }
	if n := m.Preprocessors.Normalizer; n != nil {
		normalize = n.Normalize
	}
	limits := m.Text.Limits()
	for _, input := range inputs {
		var in text.Input
		words, cut := input.([]string)
		switch whole, ok := input.(string); {
		case ok:
			in = text.Single(normalize(whole))
		case cut && m.tags():
			for _, word := range words {
				in.Words = append(in.Words, normalize(word))
			}
		default:
			return nil, ids, fmt.Errorf("an input is a %T; want a string%s", input,
				map[bool]string{true: ", or words as a []string"}[m.tags()])
		}
		e, err := t.EncodeInput(in, nil)
		if err != nil {
			return nil, ids, err
		}
		if n := len(e.IDs); int64(n) > limits.MaxLength {
			return nil, ids, fmt.Errorf("a text has %d tokens; the model takes %d", n, limits.MaxLength)
		}
		encodings = append(encodings, e)
	}
	ids, err = data.PadField(encodings, func(e *text.Encoding) []int64 { return e.IDs }, limits.PadTokenID,
		data.Padding{})
	return encodings, ids, err
}

// tag returns the classes of tokens or words.
func (m *Model) tag(encodings []*text.Encoding, inputs []any, logits torch.Tensor) []Prediction {
	best, classes := logits.Softmax(2, torch.DefaultDType).MaxDim(2, false)
	scores, ids, width := torch.Values[float32](best.ToDType(torch.Float32)), torch.Values[int64](classes),
		int(logits.Size(1))
	labels, skipped := m.Labels(), map[string]bool{}
	if list, _ := m.config.Get("prediction_skip_tokens"); list != nil {
		tokens, _ := list.([]any)
		for _, token := range tokens {
			skipped[fmt.Sprint(token)] = true
		}
	}
	predictions := make([]Prediction, len(encodings))
	for i, e := range encodings {
		words, cut := inputs[i].([]string)
		tags := make([]Tag, len(words))
		for k, token := range e.Tokens {
			at := i*width + k
			t := Tag{Token: token, Label: labels[ids[at]], Score: float64(scores[at]), Start: e.Offsets[k].Start,
				End: e.Offsets[k].End}
			switch {
			case cut && e.Words[k] >= 0 && tags[e.Words[k]].Label == "":
				tags[e.Words[k]] = Tag{Token: words[e.Words[k]], Label: t.Label, Score: t.Score}
			case !cut && !skipped[token]:
				tags = append(tags, t)
			}
		}
		predictions[i].Tags = tags
	}
	return predictions
}

// Classes returns the best classes for each row of logits, [rows, classes], with their
// probabilities.
func Classes(logits torch.Tensor, labels []string, top int) [][]Class {
	classes := make([][]Class, logits.Size(0))
	for i := range classes {
		scores, ids := logits.Select(0, int64(i)).Softmax(-1, torch.DefaultDType).Sort(-1, true)
		values, order := torch.Values[float32](scores.ToDType(torch.Float32)), torch.Values[int64](ids)
		for k := range min(top, len(order)) {
			label := fmt.Sprintf("LABEL_%d", order[k])
			if int(order[k]) < len(labels) {
				label = labels[order[k]]
			}
			classes[i] = append(classes[i], Class{label, float64(values[k])})
		}
	}
	return classes
}
