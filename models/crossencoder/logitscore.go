package crossencoder

import (
	"errors"
	"fmt"

	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
)

// LogitScore makes a score of what a language model would write after a pair: the logit of one
// token, such as "yes", minus that of another, such as "no".
type LogitScore struct {
	TrueTokenID  int64  // the token that says that the texts go together: true_token_id
	FalseTokenID *int64 // the token that says that they do not; nil: there is none, and the score is the first logit
}

// LogitScoreOf finds the tokens of a model by their words, as in [LogitScore]. An empty
// falseToken means that there is none. A word that is not one token of the vocabulary is an error;
// in a vocabulary that marks the beginnings of words, it has that mark, as in "▁yes".
func LogitScoreOf(m *auto.CausalLanguageModel, trueToken, falseToken string) (s LogitScore, err error) {
	if m == nil || m.Tokenizer == nil {
		return s, errors.New("crossencoder: LogitScoreOf: the model or its tokenizer is nil; want both, or give LogitScore " +
			"the ids of the tokens")
	}
	if s, err = tokensOf(m.Tokenizer, trueToken, falseToken); err != nil {
		return s, fmt.Errorf("crossencoder: %w", err)
	}
	return s, nil
}

func tokensOf(t *text.Tokenizer, trueToken, falseToken string) (s LogitScore, err error) {
	of := func(token string) (int64, error) {
		id, ok := t.TokenToID(token)
		if !ok {
			return 0, fmt.Errorf("the tokenizer has no token %q, whose logit makes the score; give other tokens to "+
				"LogitScoreOf, and NewWithLogitScore a model of auto.CausalLM", token)
		}
		return id, nil
	}
	if s.TrueTokenID, err = of(trueToken); err != nil || falseToken == "" {
		return s, err
	}
	other, err := of(falseToken)
	s.FalseTokenID = &other
	return s, err
}

// NewWithLogitScore makes a cross encoder of a language model: one with one label, whose score is
// read from the logits after a pair. It is for models that judge in words, such as Qwen3-Reranker.
func NewWithLogitScore(m *auto.CausalLanguageModel, s LogitScore) (*CrossEncoder, error) {
	if m == nil {
		return nil, errors.New("crossencoder: the language model is nil; want one of auto.CausalLM or auto.NewCausalLM")
	}
	if err := s.check(m.Limits().VocabSize); err != nil {
		return nil, fmt.Errorf("crossencoder: %w", err)
	}
	return of(m.Model, &s), nil
}

func (s LogitScore) check(vocabulary int64) error {
	if id := s.TrueTokenID; id < 0 || id >= vocabulary {
		return fmt.Errorf("LogitScore: true_token_id is %d; want an id below the size of the vocabulary, %d", id, vocabulary)
	}
	switch id := s.FalseTokenID; {
	case id == nil:
	case *id < 0 || *id >= vocabulary:
		return fmt.Errorf("LogitScore: false_token_id is %d; want an id below the size of the vocabulary, %d, or none", *id,
			vocabulary)
	case *id == s.TrueTokenID:
		return fmt.Errorf("LogitScore: true_token_id and false_token_id are both %d, so all scores would be 0; want two "+
			"tokens", *id)
	}
	return nil
}

// of maps logits, [B, vocabulary], to scores, [B, 1].
func (s LogitScore) of(logits torch.Tensor) torch.Tensor {
	x := logits.Select(1, s.TrueTokenID)
	if s.FalseTokenID != nil {
		x = x.Sub(logits.Select(1, *s.FalseTokenID))
	}
	return x.Unsqueeze(1)
}

// Forward maps pairs as token ids, [B, L], to logits, [B, labels]; a language model gives scores,
// [B, 1]. See [auto.Model.Forward].
func (m *CrossEncoder) Forward(ids, mask, types torch.Tensor) torch.Tensor {
	if m.LogitScore == nil {
		return m.Model.Forward(ids, mask, types)
	}
	return torch.Return(func() torch.Tensor { return m.LogitScore.of(m.languageModel().NextLogits(ids, mask)) })
}

// ForwardPacked is Forward of a packed batch.
func (m *CrossEncoder) ForwardPacked(p *inputs.Packed) torch.Tensor {
	if m.LogitScore == nil {
		return m.Model.ForwardPacked(p)
	}
	return torch.Return(func() torch.Tensor { return m.LogitScore.of(m.languageModel().NextLogitsPacked(p)) })
}

func (m *CrossEncoder) languageModel() *auto.CausalLanguageModel {
	return &auto.CausalLanguageModel{Model: m.Model}
}
