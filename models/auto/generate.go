package auto

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// Generate continues a text and returns what it adds, without special tokens. The model is in
// evaluation mode meanwhile. Several goroutines may call it at a time, but not while the model is
// trained. If ctx ends, Generate returns the text so far and the context's cause.
func (m *CausalLanguageModel) Generate(ctx context.Context, prompt string, g Generation) (string, error) {
	g.single = true
	all, err := m.GenerateBatch(ctx, []string{prompt}, g)
	if len(all) == 0 {
		return "", err
	}
	return all[0], err
}

// GenerateBatch is [CausalLanguageModel.Generate] for several prompts at a time, which is faster
// than one after the other. It returns Generation.NumReturnSequences texts for the first prompt,
// then those for the second, and so on.
func (m *CausalLanguageModel) GenerateBatch(ctx context.Context, prompts []string, g Generation) ([]string, error) {
	if m.Tokenizer == nil {
		return nil, m.errNoTokenizer()
	}
	rows := make([][]int64, len(prompts))
	for i, prompt := range prompts {
		e, err := m.Tokenizer.Encode(prompt, nil)
		if err != nil {
			return nil, fmt.Errorf("auto: %w", err)
		}
		rows[i] = e.IDs
	}
	added, err := m.GenerateBatchIDs(ctx, rows, g)
	return m.decodeAll(added), err
}

// decodeAll turns token ids into texts, without special tokens.
func (m *Model) decodeAll(rows [][]int64) []string {
	texts := make([]string, len(rows))
	for i, ids := range rows {
		texts[i] = m.Tokenizer.Target().Decode(ids, nil)
	}
	return texts
}

// GenerateIDs is [CausalLanguageModel.Generate] with token ids: it returns the ids that it adds.
func (m *CausalLanguageModel) GenerateIDs(ctx context.Context, prompt []int64, g Generation) (added []int64,
	err error) {
	g.single = true
	all, err := m.GenerateBatchIDs(ctx, [][]int64{prompt}, g)
	if len(all) == 0 {
		return nil, err
	}
	return all[0], err
}

// GenerateBatchIDs is [CausalLanguageModel.GenerateBatch] with token ids: it returns the ids that
// it adds to each prompt. Shorter prompts are padded on the left; nothing attends to the padding.
func (m *CausalLanguageModel) GenerateBatchIDs(ctx context.Context, prompts [][]int64, g Generation) (added [][]int64,
	err error) {
	longest, g, err := m.promptGeneration(prompts, g)
	if err != nil {
		return nil, err
	}
	return m.generated(func(p engine.ForwardPass) ([][]int64, error) { return m.write(ctx, p, prompts, longest, g) })
}

// promptGeneration resolves the settings with which prompts are continued, and returns the number of
// tokens of the longest.
func (m *Model) promptGeneration(prompts [][]int64, g Generation) (longest int, _ Generation, err error) {
	if longest, err = m.longestPrompt(prompts); err != nil {
		return 0, g, err
	}
	f, err := g.readFile(m)
	if err != nil {
		return 0, g, err
	}
	if g, err = m.behind(f, longest, g); err != nil {
		return 0, g, err
	}
	return longest, g, g.checkStream(m, len(prompts))
}

// generated runs f as [Model.Evaluate] does. It returns the token ids that f has generated, with the
// error of f or of a panic of package torch in it.
func (m *Model) generated(f func(p engine.ForwardPass) ([][]int64, error)) (rows [][]int64, err error) {
	var stopped error
	err = m.Evaluate(func(p engine.ForwardPass) { rows, stopped = f(p) })
	if err == nil {
		err = stopped
	}
	return rows, err
}

// behind resolves the settings for prompts whose longest has the given number of tokens.
func (m *Model) behind(f generationFile, longest int, g Generation) (_ Generation, err error) {
	if g, err = g.resolved(f, m, longest); err != nil {
		return g, err
	}
	room := m.Limits().MaxLength - int64(longest)
	if room == 0 {
		return g, fmt.Errorf("auto: the prompt has %d tokens, all that the model has positions for", longest)
	}
	g.MaxNewTokens = int(min(int64(g.MaxNewTokens), room))
	return g, nil
}

// Writer makes the function that TaskOptions.Write of package causallm takes. With it, an
// evaluation has the model continue prompts, several at a time, for metrics. It needs
// Model.Tokenizer. A text ends like an answer of [CausalLanguageModel.Chat].
func (m *CausalLanguageModel) Writer(g Generation) (func(p engine.ForwardPass, prompts inputs.Batch) []string, error) {
	f, err := g.checkWriter(m.Model)
	if err != nil {
		return nil, err
	}
	g.single, g.answerEnds = true, m.answerEnds()
	if _, err := g.resolved(f, m.Model, 0); err != nil {
		return nil, err
	}
	return func(p engine.ForwardPass, b inputs.Batch) []string {
		prompts := rowsOf(b.InputIDs)
		g, err := m.behind(f, b.InputIDs.Width, g)
		if err != nil {
			panic(torch.Errorf("auto.CausalLanguageModel.Writer", torch.ErrInvalid, "%v", err)) // this panic ends the evaluation
		}
		var added [][]int64
		torch.NoGrad(func() {
			torch.Scope(func() { added, _ = m.write(context.Background(), p, prompts, b.InputIDs.Width, g) })
		})
		return m.decodeAll(added)
	}, nil
}

// checkWriter reads generation_config.json for evaluations that generate texts, and returns an
// error for settings that they do not support.
func (g Generation) checkWriter(m *Model) (f generationFile, err error) {
	switch {
	case g.Stream != nil:
		return f, errors.New("auto: Generation.Stream is for one text; an evaluation generates many")
	case m.Tokenizer == nil:
		return f, m.errNoTokenizer()
	}
	return g.readFile(m)
}

// write continues prompts, the longest of which has the given number of tokens.
func (m *CausalLanguageModel) write(ctx context.Context, p engine.ForwardPass, prompts [][]int64, longest int,
	g Generation) (added [][]int64, err error) {
	return m.continued(ctx, p, prompts, longest, g, m.backbone.Decode)
}

// continued is write with the given function in the place of Backbone.Decode for the tokens of whole
// texts.
func (m *Model) continued(ctx context.Context, p engine.ForwardPass, prompts [][]int64, longest int, g Generation,
	whole func(ids torch.Tensor, past *transformer.Past) torch.Tensor) (added [][]int64, err error) {
	rows, pads := padLeft(prompts, longest, g)
	past := m.backbone.NewPast(int64(len(pads)), int64(longest+g.MaxNewTokens))
	past.Pad(pads)
	return g.write(ctx, rows, func(tokens [][]int64, rows []int64) torch.Tensor {
		past.Reorder(rows)
		n, decode := 1, m.backbone.Decode // n tokens of each text, after the cached ones
		if past.Length() == 0 || slices.Contains(past.Lengths(0), m.backbone.Rereads) {
			past.Forget()
			n, decode = len(tokens[0]), whole
		}
		hidden := decode(engine.Input(p, lastOf(tokens, n), int64(len(tokens)), int64(n)), past)
		return m.head.forward(m.backbone, hidden.Select(1, int64(n)-1))
	})
}

// checkStream returns an error if there is a stream for more than one text, or if no tokenizer can
// decode its tokens.
func (g Generation) checkStream(m *Model, texts int) error {
	switch {
	case g.Stream == nil:
		return nil
	case texts*g.copies() > 1:
		return errors.New("auto: Generation.Stream is for one text without beams")
	case m.Tokenizer == nil:
		return m.errNoTokenizer()
	}
	return nil
}

// longestPrompt returns the number of tokens of the longest prompt, or an error if the model does
// not accept one of them.
func (m *Model) longestPrompt(prompts [][]int64) (longest int, err error) {
	if len(prompts) == 0 {
		return 0, errors.New("auto: there are no prompts to continue")
	}
	for i, prompt := range prompts {
		name := "the prompt"
		if len(prompts) > 1 {
			name = fmt.Sprintf("prompt %d", i)
		}
		if len(prompt) == 0 {
			return 0, fmt.Errorf("auto: %s: it has no tokens; begin with the token that ends a text, after which a new one "+
				"begins", name)
		}
		if reason := m.Limits().Fault(inputs.Text{InputIDs: prompt}); reason != "" {
			return 0, fmt.Errorf("auto: %s: %s", name, reason)
		}
		longest = max(longest, len(prompt))
	}
	return longest, nil
}

// copies returns the number of rows in a batch for each text.
func (g Generation) copies() int { return max(g.NumBeams, g.NumReturnSequences) }

// padLeft pads the prompts to the same length. It also returns the amount of padding for each copy
// of each row.
func padLeft(prompts [][]int64, longest int, g Generation) (rows [][]int64, pads []int64) {
	for _, prompt := range prompts {
		n := longest - len(prompt)
		rows = append(rows, append(slices.Repeat([]int64{g.padding}, n), prompt...))
		pads = append(pads, slices.Repeat([]int64{int64(n)}, g.copies())...)
	}
	return rows, pads
}

// write adds at most MaxNewTokens tokens to each text and returns the added tokens,
// NumReturnSequences results per text. next is as in searchBeams.
func (g Generation) write(ctx context.Context, prompts [][]int64,
	next func(tokens [][]int64, rows []int64) torch.Tensor) (texts [][]int64, err error) {
	if g.NumBeams > 1 {
		texts, err = g.searchBeams(ctx, prompts, next)
	} else {
		for _, prompt := range prompts {
			for range g.NumReturnSequences {
				texts = append(texts, slices.Clone(prompt))
			}
		}
		err = g.extend(ctx, texts, next)
	}
	for i, ids := range texts {
		texts[i] = ids[len(prompts[0]):]
	}
	return texts, err
}

// ends reports whether the last token ends the text.
func (g Generation) ends(ids []int64) bool {
	return slices.Contains(g.EOSTokenIDs, ids[len(ids)-1]) || g.stops.stops(ids)
}

// extend appends tokens to texts, one at a time, until all have ended.
func (g Generation) extend(ctx context.Context, texts [][]int64,
	next func(tokens [][]int64, rows []int64) torch.Tensor) error {
	begun := len(texts[0])
	seen := slices.Clone(texts) // with padding after the texts that have ended
	ended := make([]bool, len(texts))
	if g.wrote != nil {
		defer func() { g.wrote(texts[0][begun:], true) }()
	}
	for range g.MaxNewTokens {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		var chosen []int64
		torch.Scope(func() { chosen = g.choose(next(seen, nil).ToDType(torch.Float32), seen, begun) })
		for i, id := range chosen {
			if ended[i] {
				seen[i] = append(seen[i], g.padding)
				continue
			}
			seen[i] = append(seen[i], id)
			texts[i], ended[i] = seen[i], g.ends(seen[i])
		}
		if g.wrote != nil {
			g.wrote(texts[0][begun:], false)
		}
		if !slices.Contains(ended, false) {
			break
		}
	}
	return nil
}

// lastOf returns the last n ids of each row, concatenated.
func lastOf(rows [][]int64, n int) (last []int64) {
	for _, row := range rows {
		last = append(last, row[len(row)-n:]...)
	}
	return last
}
