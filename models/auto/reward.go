package auto

import (
	"context"
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/reward"
	"github.com/gotrainer/gotrainer/text/chat"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// scoredAtOnce is how many texts Score takes at a time: per_device_eval_batch_size.
const scoredAtOnce = 8

// RewardModel loads a classifier with one label from a folder or the Hub, whose logit is the reward
// of a text. From the files of a language model it takes all but the output layer, and draws the
// head. A decoder without a padding token gets that of its tokenizer, or the one that ends texts
// ([SequenceClassifier.SetPadTokenID]).
func RewardModel(ctx context.Context, model string, o Options) (*SequenceClassifier, error) {
	t := sequenceClassification
	t.labels = 1
	loaded, err := load(ctx, model, t, o)
	if err != nil {
		return nil, err
	}
	m := &SequenceClassifier{loaded}
	if h, ok := m.head.(*scoreHead); ok && h.pad == nil {
		if err := m.padLikeTokenizer(h); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// RewardTask returns a task that trains the model to score texts, from preferences: RewardTrainer of
// TRL. As there, texts of a decoder are padded with the tokenizer's padding token or, if there is
// none, with the end token, which is also written to config.json as pad_token_id.
func (m *SequenceClassifier) RewardTask(o reward.TaskOptions) (*reward.Task, error) {
	if h, ok := m.head.(*scoreHead); ok {
		if err := m.padLikeTokenizer(h); err != nil {
			return nil, err
		}
		if h.pad == nil {
			return nil, fmt.Errorf("auto: no token pads texts; want pad_token or eos_token in %s, or SetPadTokenID",
				tokenizerConfigName)
		}
	}
	return reward.NewTask(m, o)
}

// padLikeTokenizer sets the model's padding token to that of the tokenizer or, if there is none, to
// the end token. Without either, the model keeps its own.
func (m *SequenceClassifier) padLikeTokenizer(h *scoreHead) error {
	if m.Tokenizer != nil {
		for _, kind := range []string{"pad_token", "eos_token"} {
			token := m.specialTokens[kind]
			if token == "" {
				continue
			}
			id, ok := m.Tokenizer.TokenToID(token)
			if n := m.Limits().VocabSize; !ok || id >= n {
				return fmt.Errorf("auto: %s of the tokenizer is %q, which is not among the %d tokens of the model's vocabulary",
					kind, token, n)
			}
			m.setPadTokenID(h, id)
			return nil
		}
	}
	if ends := m.blueprint.EOSTokenIDs; h.pad == nil && len(ends) > 0 && ends[0] < m.Limits().VocabSize {
		m.setPadTokenID(h, ends[0])
	}
	return nil
}

// EncodePreference makes a sample of a preference, as TRL does: the tokens of the prompt and each
// answer. Texts end with the tokenizer's eos_token; conversations end as the chat template ends
// them. Nothing is cut; reward.Task.Keep leaves long samples out.
func (m *SequenceClassifier) EncodePreference(p chat.Preference) (s reward.Sample, err error) {
	if m.Tokenizer == nil {
		return s, m.errNoTokenizer()
	}
	s.Margin = float32(p.Margin)
	if s.ChosenIDs, err = m.answerIDs(p, &p.Chosen); err == nil {
		s.RejectedIDs, err = m.answerIDs(p, &p.Rejected)
	}
	return s, err
}

// Score returns the rewards of texts, such as prompts with their answers, each ended as in
// EncodePreference. A text that is longer than the model takes is an error. Several goroutines may
// call it at a time, but not while the model is trained. If ctx ends, Score returns the context's
// cause after the current batch.
func (m *SequenceClassifier) Score(ctx context.Context, texts []string) ([]float64, error) {
	return scores(ctx, m, texts, func(s string) chat.Preference {
		return chat.Preference{Chosen: chat.Content{Text: s}}
	})
}

// ScoreChats is [SequenceClassifier.Score] for conversations, written with the chat template.
func (m *SequenceClassifier) ScoreChats(ctx context.Context, conversations []chat.Conversation) ([]float64, error) {
	return scores(ctx, m, conversations, func(c chat.Conversation) chat.Preference {
		return chat.Preference{Chosen: chat.Content{Messages: append([]chat.Message{}, c.Messages...)}, Tools: c.Tools,
			Variables: c.Variables}
	})
}

// scores returns the rewards of the chosen texts of preferences.
func scores[T any](ctx context.Context, m *SequenceClassifier, list []T, of func(T) chat.Preference) ([]float64,
	error) {
	if n := m.Head().NumLabels; n != 1 {
		return nil, fmt.Errorf("auto: Score: the model has %d labels; a reward model has one", n)
	}
	if m.Tokenizer == nil {
		return nil, m.errNoTokenizer()
	}
	rewards := make([]float64, 0, len(list))
	size := scoredAtOnce
	if h, ok := m.head.(*scoreHead); ok && h.pad == nil {
		size = 1
	}
	for part := range slices.Chunk(list, size) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		texts := make([]inputs.Text, len(part))
		for i, one := range part {
			p := of(one)
			ids, err := m.answerIDs(p, &p.Chosen)
			if err != nil {
				return nil, err
			}
			if reason := m.Limits().Fault(inputs.Text{InputIDs: ids}); reason != "" {
				return nil, fmt.Errorf("auto: Score: text %d: %s", len(rewards)+i, reason)
			}
			texts[i].InputIDs = ids
		}
		b, err := m.Limits().Collate("auto", texts, data.Padding{})
		if err != nil {
			return nil, err
		}
		err = m.Evaluate(func(p engine.ForwardPass) {
			for _, r := range torch.Values[float32](b.Forward(p, m).ToDType(torch.Float32)) {
				rewards = append(rewards, float64(r))
			}
		})
		if err != nil {
			return nil, err
		}
	}
	return rewards, nil
}
