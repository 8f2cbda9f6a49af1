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

	// NumBeams is how many beginnings are followed at a time, of which the most probable text is taken
	// (beam search); zero: 1, which is none. LengthPenalty is the power of the length by which sums of
	// logarithms are divided: above 0 longer texts are preferred; zero: 1. EarlyStopping ends the search
	// when NumBeams texts have ended; without it, when no better one is to be expected.
	NumBeams      int
	LengthPenalty float64
	EarlyStopping bool

	// EOSTokenIDs end the text, and are part of it; nil: those of the model; empty: none does.
	EOSTokenIDs []int64

	vocabulary, padding int64 // of the model
}

func (g Generation) resolved(m *Model) (Generation, error) {
	if !g.Sample && (g.Temperature != 0 || g.TopK != 0 || g.TopP != 0 || g.Generator != nil) {
		return g, fmt.Errorf("auto: Generation.Temperature, TopK, TopP and Generator are for drawn tokens; set Sample, or " +
			"leave them out")
	}
	if g.NumBeams < 2 && (g.LengthPenalty != 0 || g.EarlyStopping) || g.NumBeams > 1 && g.Sample {
		return g, fmt.Errorf("auto: Generation.LengthPenalty and EarlyStopping are for several beams, and Sample is for "+
			"one; NumBeams is %d", g.NumBeams)
	}
	for _, f := range []struct {
		value    *float64
		fallback float64
	}{{&g.Temperature, 1}, {&g.TopP, 1}, {&g.RepetitionPenalty, 1}, {&g.LengthPenalty, 1}} {
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
	if g.NumBeams == 0 {
		g.NumBeams = 1
	}
	g.vocabulary, g.padding = m.Limits().VocabSize, m.Limits().PadTokenID
	if g.EOSTokenIDs == nil {
		g.EOSTokenIDs = m.blueprint.EOSTokenIDs
	}
	switch {
	case g.NumBeams < 0:
		return g, fmt.Errorf("auto: Generation.NumBeams is %d; want a positive number", g.NumBeams)
	case math.IsNaN(g.LengthPenalty) || math.IsInf(g.LengthPenalty, 0):
		return g, fmt.Errorf("auto: Generation.LengthPenalty is %g; want a number", g.LengthPenalty)
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
	var stopped error
	err = m.evaluate(func(p engine.ForwardPass) {
		past := m.backbone.NewPast(int64(g.NumBeams), int64(len(prompt))+room)
		next := func(tokens [][]int64, rows []int64) torch.Tensor {
			past.Reorder(rows)
			n := 1 // of each text, behind those of the past
			if seen := past.Length(); seen == 0 || seen == m.backbone.Rereads {
				past.Forget()
				n = len(tokens[0])
			}
			hidden := m.backbone.Decode(engine.Input(p, lastOf(tokens, n), int64(len(tokens)), int64(n)), past)
			return m.head.forward(m.backbone, hidden.Select(1, int64(n)-1))
		}
		var all [][]int64
		all, stopped = g.write(ctx, [][]int64{prompt}, int(room), next)
		added = all[0]
	})
	if err == nil {
		err = stopped
	}
	return added, err
}

// write continues texts by at most length tokens each, and returns what it adds. Next is that of
// searchBeams.
func (g Generation) write(ctx context.Context, prompts [][]int64, length int,
	next func(tokens [][]int64, rows []int64) torch.Tensor) (added [][]int64, err error) {
	seen := make([][]int64, len(prompts))
	if g.NumBeams > 1 {
		seen, err = g.searchBeams(ctx, prompts, length, next)
	} else {
		for i, prompt := range prompts {
			seen[i] = slices.Clone(prompt)
		}
		err = g.extend(ctx, seen, length, next)
	}
	added = make([][]int64, len(prompts))
	for i, ids := range seen {
		added[i] = ids[len(prompts[i]):]
		if end := slices.IndexFunc(added[i], func(id int64) bool { return slices.Contains(g.EOSTokenIDs, id) }); end >= 0 {
			added[i] = added[i][:end+1] // padding is behind it
		}
	}
	return added, err
}

// extend adds tokens to texts, one at a time, until each has ended.
func (g Generation) extend(ctx context.Context, seen [][]int64, length int,
	next func(tokens [][]int64, rows []int64) torch.Tensor) error {
	ended := make([]bool, len(seen))
	for range length {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		var chosen []int64
		torch.Scope(func() { chosen = g.choose(next(seen, nil).ToDType(torch.Float32), seen) })
		for i, id := range chosen {
			if ended[i] {
				id = g.padding
			}
			seen[i] = append(seen[i], id)
			ended[i] = ended[i] || slices.Contains(g.EOSTokenIDs, id)
		}
		if !slices.Contains(ended, false) {
			break
		}
	}
	return nil
}

// lastOf are the last n ids of each row, one behind the other.
func lastOf(rows [][]int64, n int) (last []int64) {
	for _, row := range rows {
		last = append(last, row[len(row)-n:]...)
	}
	return last
}

// penalized applies RepetitionPenalty to logits, or logarithms of probabilities.
func (g Generation) penalized(logits torch.Tensor, seen [][]int64) torch.Tensor {
	if g.RepetitionPenalty == 1 {
		return logits
	}
	ids := torch.From(slices.Concat(seen...), int64(len(seen)), int64(len(seen[0]))).ToDevice(logits.Device())
	of := logits.Gather(1, ids)
	of = torch.Where(of.LtScalar(0), of.MulScalar(g.RepetitionPenalty), of.DivScalar(g.RepetitionPenalty))
	return logits.Clone().Scatter_(1, ids, of)
}

// choose are the tokens that follow those seen of each text, by their logits, [B, vocabulary]. The
// steps and their order are those of transformers' logits processors.
func (g Generation) choose(logits torch.Tensor, seen [][]int64) []int64 {
	logits = g.penalized(logits, seen)
	if !g.Sample {
		return torch.Values[int64](logits.ArgMax(-1, false))
	}
	if g.Temperature != 1 {
		logits = logits.DivScalar(g.Temperature)
	}
	out := math.Inf(-1)
	if vocabulary := logits.Size(1); g.TopK > 0 {
		top, _ := logits.TopK(min(int64(g.TopK), vocabulary), 1, true, true)
		logits = logits.MaskedFill(logits.Lt(top.Narrow(1, top.Size(1)-1, 1)), out)
	}
	if g.TopP < 1 {
		sorted, order := logits.Sort(1, false)
		rare := sorted.Softmax(-1, torch.DefaultDType).CumSum(1, torch.DefaultDType).LeScalar(1 - g.TopP)
		rare.Narrow(1, rare.Size(1)-1, 1).Zero_() // the most probable token stays
		logits = logits.MaskedFill(rare.Clone().Scatter_(1, order, rare), out)
	}
	return torch.Values[int64](logits.Softmax(-1, torch.DefaultDType).Multinomial(1, false, g.Generator))
}
