package auto

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// Generation says how a text is continued. The zero value takes the most probable token each time,
// 20 times: the defaults of transformers' generate.
type Generation struct {
	MaxNewTokens int // zero: 20; never more than the model has positions for

	// Sample draws each token by its probability; without it the most probable one is taken
	// (do_sample).
	Sample      bool
	Temperature float64 // divides the logits: below 1 the probable becomes more so; zero: 1
	TopK        int     // only so many of the most probable tokens are drawn from; zero: 50; -1: all
	// TopP draws from the fewest most probable tokens that have this probability together; zero: 1,
	// which is all.
	TopP      float64
	Generator *torch.Generator // nil: the default one

	// RepetitionPenalty divides the positive logits of tokens that the text has already, and
	// multiplies negative ones; zero: 1, which is none.
	RepetitionPenalty float64

	// EOSTokenIDs end the text, and are part of it; nil: those of the model; empty: none does.
	EOSTokenIDs []int64
}

func (g Generation) resolved(m *Model) (Generation, error) {
	if !g.Sample && (g.Temperature != 0 || g.TopK != 0 || g.TopP != 0 || g.Generator != nil) {
		return g, fmt.Errorf("auto: Generation.Temperature, TopK, TopP and Generator are for drawn tokens; set Sample, or " +
			"leave them out")
	}
	for _, f := range []struct {
		value    *float64
		fallback float64
	}{{&g.Temperature, 1}, {&g.TopP, 1}, {&g.RepetitionPenalty, 1}} {
		if *f.value == 0 {
			*f.value = f.fallback
		}
	}
	if g.MaxNewTokens == 0 {
		g.MaxNewTokens = 20
	}
	if g.TopK == 0 {
		g.TopK = 50
	}
	if g.EOSTokenIDs == nil {
		g.EOSTokenIDs = m.blueprint.EOSTokenIDs
	}
	switch {
	case g.MaxNewTokens < 0:
		return g, fmt.Errorf("auto: Generation.MaxNewTokens is %d; want a positive number", g.MaxNewTokens)
	case !(g.Temperature > 0):
		return g, fmt.Errorf("auto: Generation.Temperature is %g; want a positive number", g.Temperature)
	case g.TopK < -1:
		return g, fmt.Errorf("auto: Generation.TopK is %d; want a positive number, or -1 for all tokens", g.TopK)
	case !(g.TopP > 0 && g.TopP <= 1):
		return g, fmt.Errorf("auto: Generation.TopP is %g; want more than 0 and at most 1", g.TopP)
	case !(g.RepetitionPenalty > 0):
		return g, fmt.Errorf("auto: Generation.RepetitionPenalty is %g; want a positive number", g.RepetitionPenalty)
	}
	return g, nil
}

// Generate continues a text, and returns what it adds, without special tokens. The model is put in
// evaluation mode meanwhile. Several goroutines may call it at a time, but not while the model is
// trained. If ctx ends, so does the text: it returns what there is, and the context's cause.
func (m *CausalLanguageModel) Generate(ctx context.Context, prompt string, g Generation) (string, error) {
	if m.Tokenizer == nil {
		return "", m.errNoTokenizer()
	}
	e, err := m.Tokenizer.Encode(prompt, nil)
	if err != nil {
		return "", fmt.Errorf("auto: %w", err)
	}
	added, err := m.GenerateIDs(ctx, e.IDs, g)
	return m.Tokenizer.Decode(added, nil), err
}

// GenerateIDs is [CausalLanguageModel.Generate] of token ids: it returns those that it adds.
func (m *CausalLanguageModel) GenerateIDs(ctx context.Context, prompt []int64, g Generation) (added []int64,
	err error) {
	if g, err = g.resolved(m.Model); err != nil {
		return nil, err
	}
	if len(prompt) == 0 {
		return nil, errors.New("auto: the prompt: it has no tokens; begin with the token that ends a text, behind which a " +
			"new one begins")
	}
	if reason := m.Limits().Fault(inputs.Text{InputIDs: prompt}); reason != "" {
		return nil, fmt.Errorf("auto: the prompt: %s", reason)
	}
	room := min(int64(g.MaxNewTokens), m.Limits().MaxLength-int64(len(prompt)))
	if room == 0 {
		return nil, fmt.Errorf("auto: the prompt has %d tokens, all that the model has positions for", len(prompt))
	}
	seen := slices.Clone(prompt)
	var stopped error
	err = m.evaluate(func(p engine.ForwardPass) {
		past := m.backbone.NewPast(1, int64(len(prompt))+room)
		for next := prompt; int64(len(added)) < room; next = added[len(added)-1:] {
			if stopped = context.Cause(ctx); stopped != nil {
				return
			}
			torch.Scope(func() {
				hidden := m.backbone.Decode(engine.Input(p, next, 1, int64(len(next))), past)
				logits := m.head.forward(m.backbone, hidden.Select(1, int64(len(next))-1))
				added = append(added, g.choose(logits.ToDType(torch.Float32), [][]int64{seen})[0])
			})
			last := added[len(added)-1]
			if seen = append(seen, last); slices.Contains(g.EOSTokenIDs, last) {
				return
			}
		}
	})
	if err == nil {
		err = stopped
	}
	return added, err
}

// choose are the tokens that follow those seen of each text, by their logits, [B, vocabulary]. The
// steps and their order are those of transformers' logits processors.
func (g Generation) choose(logits torch.Tensor, seen [][]int64) []int64 {
	if g.RepetitionPenalty != 1 {
		ids := torch.From(slices.Concat(seen...), int64(len(seen)), int64(len(seen[0]))).ToDevice(logits.Device())
		of := logits.Gather(1, ids)
		of = torch.Where(of.LtScalar(0), of.MulScalar(g.RepetitionPenalty), of.DivScalar(g.RepetitionPenalty))
		logits = logits.Clone().Scatter_(1, ids, of)
	}
	if !g.Sample {
		return torch.Values[int64](logits.ArgMax(-1, false))
	}
	if g.Temperature != 1 {
		logits = logits.DivScalar(g.Temperature)
	}
	never := math.Inf(-1)
	if vocabulary := logits.Size(1); g.TopK > 0 {
		top, _ := logits.TopK(min(int64(g.TopK), vocabulary), 1, true, true)
		logits = logits.MaskedFill(logits.Lt(top.Narrow(1, top.Size(1)-1, 1)), never)
	}
	if g.TopP < 1 {
		sorted, order := logits.Sort(1, false)
		out := sorted.Softmax(-1, torch.DefaultDType).CumSum(1, torch.DefaultDType).LeScalar(1 - g.TopP)
		out.Narrow(1, out.Size(1)-1, 1).Zero_() // the most probable token stays
		logits = logits.MaskedFill(out.Clone().Scatter_(1, order, out), never)
	}
	return torch.Values[int64](logits.Softmax(-1, torch.DefaultDType).Multinomial(1, false, g.Generator))
}
