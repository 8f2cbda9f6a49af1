package sentencepiece

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/text/decoders"
	"github.com/gotrainer/gotrainer/text/models"
	"github.com/gotrainer/gotrainer/text/normalizers"
	"github.com/gotrainer/gotrainer/text/pretokenizers"
)

// space is what a space becomes in a piece.
const space = '▁'

// Components are the parts of a tokenizer.
type Components struct {
	Normalizer   normalizers.Normalizer
	PreTokenizer pretokenizers.PreTokenizer // may be nil
	Model        models.Model
	Decoder      decoders.Decoder
}

// Components makes the parts of a tokenizer with the vocabulary of the model.
func (m *Model) Components() (*Components, error) { return m.ComponentsOf(m.Pieces, m.UnknownID) }

// ComponentsOf is [Model.Components] with another vocabulary: some models number their tokens
// otherwise than their file.
func (m *Model) ComponentsOf(pieces []Piece, unknown int64) (c *Components, err error) {
	if err := m.check(pieces); err != nil {
		return nil, err
	}
	c = &Components{Decoder: m.decoder()}
	if c.Model, err = m.model(pieces, unknown); err != nil {
		return nil, fmt.Errorf("sentencepiece: %w", err)
	}
	if c.Normalizer, err = m.normalizer(); err != nil {
		return nil, fmt.Errorf("sentencepiece: %w", err)
	}
	// Pieces that go on after a space are found only if the text is not divided at its spaces, and
	// only then do the scores of a whole text add up.
	within := func(p Piece) bool { return strings.LastIndex(p.Text, string(space)) > 0 }
	if !m.Exact && !slices.ContainsFunc(pieces, within) {
		c.PreTokenizer = pretokenizers.Metaspace{Replacement: space, PrependScheme: pretokenizers.PrependNever}
	}
	return c, nil
}

// check refuses what the parts of a tokenizer cannot do.
func (m *Model) check(pieces []Piece) error {
	switch {
	case m.Algorithm != Unigram && m.Algorithm != BPE:
		return fmt.Errorf("sentencepiece: model_type is %d; want %d (unigram) or %d (BPE)", m.Algorithm, Unigram, BPE)
	case m.suffix:
		return fmt.Errorf("sentencepiece: treat_whitespace_as_suffix is set, which is not supported")
	case !m.escapes:
		return fmt.Errorf("sentencepiece: escape_whitespaces is not set; want it set")
	}
	for i, p := range pieces {
		if p.Kind == Unused {
			return fmt.Errorf("sentencepiece: piece %d, %q, is unused, which is not supported", i, p.Text)
		}
	}
	return nil
}

// model makes the model of a vocabulary.
func (m *Model) model(pieces []Piece, unknown int64) (models.Model, error) {
	if m.Algorithm == Unigram {
		list := make([]models.ScoredToken, len(pieces))
		for i, p := range pieces {
			list[i] = models.ScoredToken{Token: p.Text, Score: p.Score}
		}
		return models.NewUnigram(list, models.UnigramOptions{UnknownID: unknown, ByteFallback: m.ByteFallback,
			Float32: m.Exact})
	}
	vocab := make(map[string]int64, len(pieces))
	for id, p := range pieces {
		vocab[p.Text] = int64(id)
	}
	return models.NewBPE(vocab, merges(pieces, vocab), models.BPEOptions{UnknownToken: pieces[unknown].Text,
		FuseUnknown: true, ByteFallback: m.ByteFallback})
}

// merges returns the pairs of pieces that make another one, the one with the best score first.
func merges(pieces []Piece, vocab map[string]int64) [][2]string {
	type merge struct {
		pair  [2]string
		score float64
	}
	var all []merge
	const longest = 1 << 10 // bytes; a limit on the work for a file that is no model
	for _, p := range pieces {
		if p.Kind != Normal || len(p.Text) > longest {
			continue
		}
		for i := range p.Text {
			left, right := p.Text[:i], p.Text[i:]
			a, okA := vocab[left]
			b, okB := vocab[right]
			if i > 0 && okA && okB && pieces[a].Kind == Normal && pieces[b].Kind == Normal {
				all = append(all, merge{[2]string{left, right}, p.Score})
			}
		}
	}
	slices.SortStableFunc(all, func(a, b merge) int { return -cmp.Compare(a.score, b.score) })
	pairs := make([][2]string, len(all))
	for i, m := range all {
		pairs[i] = m.pair
	}
	return pairs
}

// normalizer makes the normalizer.
func (m *Model) normalizer() (normalizers.Normalizer, error) {
	var all normalizers.Sequence
	if len(m.Charsmap) > 0 {
		charsmap, err := normalizers.NewPrecompiled(m.Charsmap)
		if err != nil {
			return nil, err
		}
		if m.Exact {
			all = append(all, normalizers.Longest{Table: charsmap})
		} else {
			all = append(all, charsmap)
		}
	}
	if m.RemoveExtraWhitespaces {
		for _, r := range [][2]string{{`\A +| +\z`, ""}, {" {2,}", " "}} {
			n, err := normalizers.NewReplaceRegexp(r[0], r[1])
			if err != nil {
				return nil, err
			}
			all = append(all, n)
		}
	}
	if m.AddDummyPrefix { // even before a space that is already there
		all = append(all, normalizers.Prepend{Prefix: string(space)})
	}
	return append(all, normalizers.NewReplace(" ", string(space))), nil
}

// decoder makes the decoder.
func (m *Model) decoder() decoders.Decoder {
	all := decoders.Sequence{decoders.Replace{Replace: normalizers.NewReplace(string(space), " ")}}
	if m.ByteFallback {
		all = append(all, decoders.ByteFallback{})
	}
	all = append(all, decoders.Fuse{})
	switch {
	case m.RemoveExtraWhitespaces:
		const every = 1 << 16 // space before the text
		all = append(all, decoders.Strip{Content: " ", Start: every})
	case m.AddDummyPrefix:
		all = append(all, decoders.Strip{Content: " ", Start: 1})
	}
	return all
}
