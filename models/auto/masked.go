package auto

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/maskedlm"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// MaskedLanguageModel predicts masked words: AutoModelForMaskedLM.
type MaskedLanguageModel struct{ *Model }

// MaskedLM loads a model from a folder or the Hub.
func MaskedLM(ctx context.Context, model string, o Options) (*MaskedLanguageModel, error) {
	m, err := load(ctx, model, maskedLM, o)
	if err != nil {
		return nil, err
	}
	return &MaskedLanguageModel{m}, nil
}

// Task is what engine.New trains, with the given masking. The model must have a tokenizer.
func (m *MaskedLanguageModel) Task(o maskedlm.Masking) (*maskedlm.Task, error) {
	if m.Tokenizer == nil {
		return nil, m.errNoTokenizer()
	}
	mask := m.MaskToken()
	if mask < 0 {
		return nil, fmt.Errorf("auto: the tokenizer of %s has no mask token; want [MASK] or <mask>", m.tokenizerDir)
	}
	return maskedlm.NewTask(m, maskedlm.TaskOptions{Masking: o, MaskTokenID: mask,
		VocabSize: int64(m.Tokenizer.VocabSize())})
}

// MaskToken is the id of the mask token, or -1 if there is none. It is the mask_token of the
// folder's tokenizer_config.json or special_tokens_map.json, or else [MASK] or <mask>, whichever is
// a special token of the tokenizer.
func (m *MaskedLanguageModel) MaskToken() int64 {
	return m.specialToken("mask_token", "[MASK]", "<mask>")
}

// Encode makes a sample of a text, cut to what the model takes.
func (m *MaskedLanguageModel) Encode(s string) (maskedlm.Sample, error) {
	e, err := m.encode(text.Single(s))
	if err != nil {
		return maskedlm.Sample{}, err
	}
	return maskedlm.Sample{Text: m.Limits().Of(e), SpecialTokensMask: e.SpecialTokensMask, Offsets: e.Offsets}, nil
}

// Guess is a predicted word for a masked place.
type Guess struct {
	Token       string
	ID          int64
	Probability float64
}

// Predict returns the n most probable words for the masked place of a text, which has one mask
// token. Several goroutines may call it at a time, but not while the model is trained.
func (m *MaskedLanguageModel) Predict(s string, n int) (guesses []Guess, err error) {
	if n < 0 {
		return nil, fmt.Errorf("auto: %d words to predict; want a number of at least 0", n)
	}
	e, err := m.encode(text.Single(s))
	if err != nil {
		return nil, err
	}
	at := slices.Index(e.IDs, m.MaskToken())
	if at < 0 || slices.Contains(e.IDs[at+1:], m.MaskToken()) {
		return nil, fmt.Errorf("auto: %q has no mask token or several; want one [MASK] or <mask>, as the tokenizer "+
			"has it", s)
	}
	batch, err := m.Limits().Collate("auto", []inputs.Text{m.Limits().Of(e)}, data.Padding{})
	if err != nil {
		return nil, err
	}
	err = m.Evaluate(func(p engine.ForwardPass) {
		logits := m.Forward(batch.To(p)).Select(1, int64(at)).Softmax(-1, torch.Float64)
		for id, p := range torch.Values[float64](logits) {
			token, _ := m.Tokenizer.IDToToken(int64(id))
			guesses = append(guesses, Guess{token, int64(id), p})
		}
	})
	slices.SortStableFunc(guesses, func(a, b Guess) int { return cmp.Compare(b.Probability, a.Probability) })
	return guesses[:min(n, len(guesses))], err
}

// Evaluate runs f in evaluation mode, without gradients, and then restores the previous mode. The
// pass is on the device of the model, and the tensors that f makes are freed. Several goroutines
// may call it at a time, but not while the model is trained. It returns the error of a panic of
// package torch in f.
func (m *Model) Evaluate(f func(p engine.ForwardPass)) error {
	p := engine.ForwardPass{Device: m.weight().Device()}
	return torch.Try(func() {
		nn.Evaluating(m, func() { torch.NoGrad(func() { torch.Scope(func() { f(p) }) }) })
	})
}
