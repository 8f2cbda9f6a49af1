package tokenclass

import (
	"fmt"
	"strings"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/text"
)

// Ignored is the label of a token that the loss and the metrics leave out.
const Ignored = inputs.IgnoreIndex

// Sample is a text as token ids, special tokens included, with the class of each token.
type Sample struct {
	inputs.Text
	Labels []int64 // [Ignored] for special tokens; nil: unknown, which an evaluation refuses
}

// Batch is some samples, padded to the same length; the labels of padding are [Ignored].
type Batch struct {
	inputs.Batch
	Labels data.Padded[int64]
}

// Pieces says how the second and later tokens of a word are labelled.
type Pieces int

// The ways to label the pieces of a word.
const (
	FirstPiece   Pieces = iota // not at all: only the first token counts (label_all_tokens=False of run_ner)
	EveryPiece                 // like the word, with I- instead of B- (label_all_tokens=True)
	numberOfWays               // the number of ways
)

// Align gives tokens the labels of their words. The encoding is of a text given as words
// (text.Input.Words); labels are those of all words, even of those that truncation cut off. Names
// are the texts of the classes, in which EveryPiece finds the I- label that belongs to a B- label.
func Align(e *text.Encoding, labels []int64, p Pieces, names []string) ([]int64, error) {
	if p < 0 || p >= numberOfWays {
		return nil, fmt.Errorf("tokenclass: there is no way %d to label the pieces of a word", int(p))
	}
	inside := map[int64]int64{}
	if p == EveryPiece {
		byName := map[string]int64{}
		for i, name := range names {
			byName[name] = int64(i)
		}
		for i, name := range names {
			if kind, ok := strings.CutPrefix(name, "B-"); ok {
				if within, ok := byName["I-"+kind]; ok {
					inside[int64(i)] = within
				}
			}
		}
	}
	aligned := make([]int64, e.Len())
	previous := -1
	for i, word := range e.Words {
		switch {
		case word < 0:
			aligned[i] = Ignored
		case word >= len(labels):
			return nil, fmt.Errorf("tokenclass: token %d is part of word %d, but there are labels for %d words", i,
				word,
				len(labels))
		case word != previous:
			aligned[i] = labels[word]
		case p == FirstPiece:
			aligned[i] = Ignored
		default:
			aligned[i] = labels[word]
			if within, ok := inside[labels[word]]; ok {
				aligned[i] = within
			}
		}
		previous = word
	}
	return aligned, nil
}
