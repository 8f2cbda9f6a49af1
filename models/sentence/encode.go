package sentence

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// EncodeOptions configures [Transformer.Encode]. The zero value has the defaults of
// sentence-transformers.
type EncodeOptions struct {
	// PromptName names one of the model's Prompts, which is put before each text; Prompt is another
	// text to put there. Without both, DefaultPromptName's is used, if the model has one; an empty
	// Prompt means no prompt.
	PromptName string
	Prompt     *string

	BatchSize   int  // texts at a time; zero: 32
	Normalize   bool // scale embeddings to length 1: normalize_embeddings
	TruncateDim int  // how many numbers of an embedding to keep; zero: the model's TruncateDim
}

// Encode makes embeddings of texts, in their order: encode. Texts of similar length are computed
// together. Several goroutines may call it at a time, but not while the model is trained. If ctx
// ends, Encode returns the context's cause after the current batch.
func (m *Transformer) Encode(ctx context.Context, texts []string, o EncodeOptions) ([][]float32, error) {
	prompt, err := m.prompt(o)
	if err != nil {
		return nil, err
	}
	o.BatchSize = cmp.Or(o.BatchSize, 32)
	o.TruncateDim = cmp.Or(o.TruncateDim, m.TruncateDim)
	if o.BatchSize < 0 || o.TruncateDim < 0 {
		return nil, fmt.Errorf("sentence: EncodeOptions: BatchSize is %d and TruncateDim %d; want numbers above 0, or 0 for "+
			"the default", o.BatchSize, o.TruncateDim)
	}
	length, err := m.promptLength(prompt)
	if err != nil {
		return nil, err
	}
	order := make([]int, len(texts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int {
		return cmp.Compare(utf8.RuneCountInString(texts[b]), utf8.RuneCountInString(texts[a]))
	})
	embeddings := make([][]float32, len(texts))
	for batch := range slices.Chunk(order, o.BatchSize) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		rows := make([]Text, len(batch))
		for i, at := range batch {
			rows[i].PromptLength = length
			if rows[i].Text, err = m.tokens(prompt + texts[at]); err != nil {
				return nil, err
			}
		}
		made, err := m.embeddings(rows, o)
		if err != nil {
			return nil, err
		}
		for i, at := range batch {
			embeddings[at] = made[i]
		}
	}
	return embeddings, nil
}

// EncodeQuery is [Transformer.Encode] for queries: with the prompt named query, if the model has
// one and o does not say otherwise.
func (m *Transformer) EncodeQuery(ctx context.Context, texts []string, o EncodeOptions) ([][]float32, error) {
	return m.Encode(ctx, texts, m.named(o, "query"))
}

// EncodeDocument is [Transformer.Encode] for the texts to be searched. It uses the first of the
// prompts document, passage and corpus that the model has. If the files have no prompt named
// document, sentence-transformers adds an empty one and so never uses passage; here a model has
// only the prompts of its files.
func (m *Transformer) EncodeDocument(ctx context.Context, texts []string, o EncodeOptions) ([][]float32, error) {
	return m.Encode(ctx, texts, m.named(o, "document", "passage", "corpus"))
}

// named sets the prompt name to the first of names that the model has, unless o already has a
// prompt.
func (m *Transformer) named(o EncodeOptions, names ...string) EncodeOptions {
	if o.PromptName != "" || o.Prompt != nil {
		return o
	}
	for _, name := range names {
		if _, ok := m.Prompts[name]; ok {
			o.PromptName = name
			break
		}
	}
	return o
}

// prompt returns the text to prepend to each text.
func (m *Transformer) prompt(o EncodeOptions) (string, error) {
	prompt, err := m.prompts().Of(o.PromptName, o.Prompt)
	if err != nil {
		return "", fmt.Errorf("sentence: EncodeOptions: %w", err)
	}
	return prompt, nil
}

// collate pads texts into a batch.
func (m *Transformer) collate(texts []Text, p data.Padding) (t Texts, err error) {
	rows := make([]inputs.Text, len(texts))
	t.PromptLengths = make([]int, len(texts))
	for i, one := range texts {
		rows[i], t.PromptLengths[i] = one.Text, one.PromptLength
	}
	t.Batch, err = m.Limits().Collate("sentence", rows, p)
	return t, err
}

// embeddings computes the embeddings of a batch.
func (m *Transformer) embeddings(texts []Text, o EncodeOptions) (rows [][]float32, err error) {
	batch, err := m.collate(texts, data.Padding{})
	if err != nil {
		return nil, err
	}
	err = m.Evaluate(func(p engine.ForwardPass) {
		x := m.Embed(p, batch)
		if n := int64(o.TruncateDim); n > 0 && n < x.Size(1) {
			x = x.Narrow(1, 0, n)
		}
		if o.Normalize {
			x = normalized(x)
		}
		rows = rowsOf(x.ToDType(torch.Float32))
	})
	return rows, err
}
