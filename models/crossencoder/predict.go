package crossencoder

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// PredictOptions configures [CrossEncoder.Predict]. The zero value has the defaults of
// sentence-transformers.
type PredictOptions struct {
	// PromptName names one of the model's Prompts, which is put before the first text of each pair,
	// or is its system message; Prompt is another text to put there. Without both,
	// DefaultPromptName's is used, if the model has one; an empty Prompt means no prompt.
	PromptName string
	Prompt     *string

	BatchSize    int        // pairs at a time; zero: 32
	ActivationFn Activation // of the logits; zero: the model's
	ApplySoftmax bool       // make the numbers of a pair add up to 1, if the model has several labels
}

// Predict scores pairs of texts: predict. The result has a number for each label of each pair, in
// the order of the pairs. Pairs of similar length are computed together. Several goroutines may
// call it at a time, but not while the model is trained. If ctx ends, Predict returns the context's
// cause after the current batch.
func (m *CrossEncoder) Predict(ctx context.Context, pairs [][2]string, o PredictOptions) ([][]float32, error) {
	prompt, err := m.prompts().Of(o.PromptName, o.Prompt)
	if err != nil {
		return nil, fmt.Errorf("crossencoder: PredictOptions: %w", err)
	}
	if err := m.carriesPairs(); err != nil {
		return nil, err
	}
	o.ActivationFn = cmp.Or(o.ActivationFn, m.ActivationFn)
	if err := o.ActivationFn.check(); err != nil {
		return nil, fmt.Errorf("crossencoder: ActivationFn: %w", err)
	}
	if o.BatchSize < 0 {
		return nil, fmt.Errorf("crossencoder: PredictOptions.BatchSize is %d; want a number above 0, or 0 for 32",
			o.BatchSize)
	}
	order := make([]int, len(pairs))
	for i := range order {
		order[i] = i
	}
	length := func(i int) int {
		return utf8.RuneCountInString(pairs[i][0]) + utf8.RuneCountInString(pairs[i][1])
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(length(b), length(a)) })
	scores := make([][]float32, len(pairs))
	for batch := range slices.Chunk(order, cmp.Or(o.BatchSize, 32)) {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		texts := make([][2]string, len(batch))
		for i, at := range batch {
			texts[i] = pairs[at]
		}
		rows, err := m.scores(prompt, texts, o)
		if err != nil {
			return nil, err
		}
		for i, at := range batch {
			scores[at] = rows[i]
		}
	}
	return scores, nil
}

// scores computes a batch.
func (m *CrossEncoder) scores(prompt string, pairs [][2]string, o PredictOptions) (rows [][]float32, err error) {
	batch, err := m.collate(prompt, pairs, data.Padding{})
	if err != nil {
		return nil, err
	}
	err = m.Evaluate(func(p engine.ForwardPass) {
		x := o.ActivationFn.of(batch.Forward(p, m).ToDType(torch.Float32), Identity)
		if o.ApplySoftmax && m.NumLabels() > 1 {
			x = x.Softmax(1, torch.DefaultDType)
		}
		rows = slices.Collect(slices.Chunk(torch.Values[float32](x), m.NumLabels()))
	})
	return rows, err
}

// RankOptions configures [CrossEncoder.Rank].
type RankOptions struct {
	TopK int // how many documents to return; zero: all
	PredictOptions
}

// Ranked is a document with its score.
type Ranked struct {
	CorpusID int // index of the document
	Score    float32
	Text     string
}

// Rank sorts documents by their scores for a query, the best first: rank. Documents with the same
// score keep their order. The model must have one label. Several goroutines may call it at a time,
// but not while the model is trained.
func (m *CrossEncoder) Rank(ctx context.Context, query string, documents []string, o RankOptions) ([]Ranked, error) {
	if n := m.NumLabels(); n != 1 {
		return nil, fmt.Errorf("crossencoder: Rank: the model has %d labels; want one, which is the score (Predict tells "+
			"classes)", n)
	}
	if o.TopK < 0 {
		return nil, fmt.Errorf("crossencoder: RankOptions.TopK is %d; want a number above 0, or 0 for all documents", o.TopK)
	}
	pairs := make([][2]string, len(documents))
	for i, d := range documents {
		pairs[i] = [2]string{query, d}
	}
	scores, err := m.Predict(ctx, pairs, o.PredictOptions)
	if err != nil {
		return nil, err
	}
	ranking := make([]Ranked, len(documents))
	for i, d := range documents {
		ranking[i] = Ranked{i, scores[i][0], d}
	}
	slices.SortStableFunc(ranking, func(a, b Ranked) int { return cmp.Compare(b.Score, a.Score) })
	if o.TopK > 0 {
		ranking = ranking[:min(o.TopK, len(ranking))]
	}
	return ranking, nil
}
