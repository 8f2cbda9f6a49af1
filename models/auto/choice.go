package auto

import (
	"context"
	"fmt"

	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// MultipleChoiceModel chooses among several texts: AutoModelForMultipleChoice.
type MultipleChoiceModel struct{ *Model }

// MultipleChoice loads a model from a folder or the Hub.
func MultipleChoice(ctx context.Context, model string, o Options) (*MultipleChoiceModel, error) {
	m, err := load(ctx, model, multipleChoice, o)
	if err != nil {
		return nil, err
	}
	return &MultipleChoiceModel{m}, nil
}

// Task is what engine.New trains, with the defaults of [classify.NewChoiceTask].
func (m *MultipleChoiceModel) Task() *classify.ChoiceTask {
	return must(classify.NewChoiceTask(m, classify.ChoiceTaskOptions{}))
}

// Encode makes a sample of a text, such as a question or the beginning of a sentence, and what may
// follow it. Each choice becomes a pair of texts, cut to what the model takes as
// [SequenceClassifier.Encode] does. label is the index of the right choice.
func (m *MultipleChoiceModel) Encode(prompt string, choices []string, label int64) (s classify.ChoiceSample,
	err error) {
	s.Label = label
	for _, c := range choices {
		t, err := m.EncodeText(text.Pair(prompt, c), 0)
		if err != nil {
			return s, err
		}
		s.Choices = append(s.Choices, t)
	}
	return s, nil
}

// Predict returns the probability of each choice; they add up to 1. Several goroutines may call it
// at a time, but not while the model is trained.
func (m *MultipleChoiceModel) Predict(prompt string, choices []string) (probabilities []float64, err error) {
	s, err := m.Encode(prompt, choices, 0)
	if err != nil {
		return nil, err
	}
	t := m.Task()
	batch, err := t.Collate([]classify.ChoiceSample{s})
	if err != nil {
		return nil, fmt.Errorf("auto: %w", err)
	}
	err = m.Evaluate(func(p engine.ForwardPass) {
		logits := t.Predict(p, batch).Logits[0]
		probabilities = torch.Values[float64](logits.ToDType(torch.Float64).Softmax(-1, torch.DefaultDType).View(-1))
	})
	return probabilities, err
}
