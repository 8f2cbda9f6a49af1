package auto

import (
	"context"

	"github.com/gotrainer/gotrainer/models/question"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// QuestionAnswerer finds answers in texts: AutoModelForQuestionAnswering.
type QuestionAnswerer struct{ *Model }

// QuestionAnswering loads a model from a folder or the Hub.
func QuestionAnswering(ctx context.Context, model string, o Options) (*QuestionAnswerer, error) {
	m, err := load(ctx, model, questionAnswering, o)
	if err != nil {
		return nil, err
	}
	return &QuestionAnswerer{m}, nil
}

// Task is what engine.New trains, with the defaults of [question.NewTask].
func (m *QuestionAnswerer) Task() *question.Task {
	return must(question.NewTask(m, question.TaskOptions{}))
}

// Encode makes the samples of an example, several if its text is long: [question.Features].
func (m *QuestionAnswerer) Encode(e question.Example, o question.FeatureOptions) ([]question.Sample, error) {
	if m.Tokenizer == nil {
		return nil, m.errNoTokenizer()
	}
	return question.Features(m.Tokenizer, e, m.Limits(), m.specialToken("cls_token", "[CLS]", "<s>"), o)
}

// Predict finds the best answers to a question in a text, the chosen one first. Several
// goroutines may call it at a time, but not while the model is trained.
func (m *QuestionAnswerer) Predict(asked, context string, o question.AnswerOptions) ([]question.Predicted, error) {
	t, err := question.NewTask(m, question.TaskOptions{Answers: o})
	if err != nil {
		return nil, err
	}
	samples, err := m.Encode(question.Example{Question: asked, Context: context}, question.FeatureOptions{})
	if err != nil {
		return nil, err
	}
	var scores []question.Scores
	for _, s := range samples {
		batch, err := t.Collate([]question.Sample{s})
		if err != nil {
			return nil, err
		}
		if err := m.Evaluate(func(p engine.ForwardPass) {
			logits := torch.Values[float32](m.Forward(batch.To(p)))
			sc := question.Scores{Sample: s}
			for i := 0; i < len(logits); i += 2 {
				sc.Start, sc.End = append(sc.Start, logits[i]), append(sc.End, logits[i+1])
			}
			scores = append(scores, sc)
		}); err != nil {
			return nil, err
		}
	}
	return question.Answers(scores, o), nil
}
