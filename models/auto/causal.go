package auto

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/gotrainer/gotrainer/models/causallm"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/torch"
)

// CausalLanguageModel predicts the next token, and so generates text: AutoModelForCausalLM.
type CausalLanguageModel struct{ *Model }

// CausalLM loads a model from a folder or the Hub.
func CausalLM(ctx context.Context, model string, o Options) (*CausalLanguageModel, error) {
	m, err := load(ctx, model, causalLM, o)
	if err != nil {
		return nil, err
	}
	return &CausalLanguageModel{m}, nil
}

// Config describes a model that does not come from files: [gpt2.Config], [llama.Config],
// [t5.Config], [bart.Config], [vit.Config], [trocr.Config].
type Config interface {
	Blueprint() (transformer.Blueprint, error)
}

// NewCausalLM makes a model with random weights, in training mode: from_config. The tokenizer is
// saved with the model. It may be nil if the program has token ids.
func NewCausalLM(c Config, t *text.Tokenizer) (*CausalLanguageModel, error) {
	m, err := newLanguageModel(c, t, causalLM)
	if err != nil {
		return nil, err
	}
	return &CausalLanguageModel{m}, nil
}

// newLanguageModel makes a model with random weights for a task.
func newLanguageModel(c Config, t *text.Tokenizer, of task) (m *Model, err error) {
	p, err := c.Blueprint()
	if err == nil && (p.LanguageModel == "" || p.Pair != (of.class == seq2seqLM.class) || p.Images.Channels > 0 ||
		p.Speech.Bins > 0) {
		err = fmt.Errorf("a %s is not for %s", cmp.Or(p.LanguageModel, p.Class), of.class)
	}
	if err == nil {
		err = writes(p)
	}
	if err == nil {
		err = torch.Try(func() { m = newModel(p, of, transformer.Builder{}) })
	}
	if err != nil {
		return nil, fmt.Errorf("auto: %w", err)
	}
	m.Tokenizer = t
	return m, nil
}

// Task is what engine.New trains, with the defaults of [causallm.NewTask].
func (m *CausalLanguageModel) Task() *causallm.Task {
	return must(causallm.NewTask(m, causallm.TaskOptions{}))
}

// Encode makes a sample of a text, cut to what the model takes. All of its tokens are learned.
func (m *CausalLanguageModel) Encode(s string) (causallm.Sample, error) {
	e, err := m.encode(text.Single(s))
	if err != nil {
		return causallm.Sample{}, err
	}
	return causallm.Sample{Text: m.Limits().Of(e)}, nil
}

// EncodeCompletion makes a sample of a prompt and its completion. Only the completion is learned,
// with the token that ends it; a token that belongs to both is learned too. The sample is cut to
// what the model takes, and a cut sample has no end token. Its Target is the completion as Generate
// would return it.
func (m *CausalLanguageModel) EncodeCompletion(prompt, completion string) (s causallm.Sample, err error) {
	e, err := m.encode(text.Single(prompt + completion))
	if err != nil {
		return s, err
	}
	begin := utf8.RuneCountInString(prompt)
	s = m.learned(e, []text.Span{{Start: begin, End: begin + utf8.RuneCountInString(completion)}})
	n, ends := len(s.InputIDs), m.EOSTokenIDs()
	switch {
	case len(ends) == 0 || len(e.Overflowing) > 0:
	case n > 0 && slices.Contains(ends, s.InputIDs[n-1]): // added by the tokenizer
		s.Labels[n-1] = s.InputIDs[n-1]
	case int64(n) < m.Limits().MaxLength:
		s.InputIDs, s.Labels = append(slices.Clip(s.InputIDs), ends[0]), append(s.Labels, ends[0])
		if s.AttentionMask != nil {
			s.AttentionMask = append(slices.Clip(s.AttentionMask), 1)
		}
	}
	return s, nil
}

// EOSTokenIDs are the tokens that end a text: eos_token_id.
func (m *CausalLanguageModel) EOSTokenIDs() []int64 { return slices.Clone(m.blueprint.EOSTokenIDs) }

// causalHead gives each token a logit for every word that may come next.
type causalHead struct {
	LMHead *nn.Linear `module:"lm_head"`

	through transformer.Logits
}

func (h *causalHead) tie(e *nn.Embedding) { h.LMHead.Weight = e.Weight }

func (h *causalHead) output() *nn.Linear { return h.LMHead }

func (h *causalHead) forward(_ transformer.Backbone, hidden torch.Tensor) torch.Tensor {
	return h.through.Apply(h.LMHead.Forward(hidden))
}

func newCausalHead(p transformer.Blueprint, b transformer.Builder) head {
	return &causalHead{b.LinearNoBias(p.HiddenSize, p.Limits.VocabSize), p.Logits}
}
