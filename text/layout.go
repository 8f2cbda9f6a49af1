package text

import "github.com/gotrainer/gotrainer/text/processors"

// slot is an element of a layout: a text, or special tokens.
type slot struct {
	sequence int     // index of the text, 0 or 1; -1 for special tokens
	ids      []int64 // of special tokens
}

// layout is the order in which a post-processor arranges texts and special tokens.
type layout struct{ single, pair []slot }

func (l *layout) of(isPair bool) []slot {
	if isPair {
		return l.pair
	}
	return l.single
}

// layoutOf returns the layout of a post-processor without running it, or nil if it has no fixed
// one.
func layoutOf(p processors.PostProcessor) *layout {
	special := func(ids ...int64) slot { return slot{-1, ids} }
	a, b := slot{sequence: 0}, slot{sequence: 1}
	switch p := p.(type) {
	case nil, processors.ByteLevel:
		return &layout{[]slot{a}, []slot{a, b}}
	case processors.BertProcessing:
		cls, sep := special(p.Cls.ID), special(p.Sep.ID)
		return &layout{[]slot{cls, a, sep}, []slot{cls, a, sep, b, sep}}
	case processors.RobertaProcessing:
		cls, sep := special(p.Cls.ID), special(p.Sep.ID)
		return &layout{[]slot{cls, a, sep}, []slot{cls, a, sep, sep, b, sep}}
	case *processors.TemplateProcessing:
		slots := func(pieces []processors.Piece) []slot {
			var out []slot
			for _, piece := range pieces {
				switch piece.Sequence {
				case "A":
					out = append(out, a)
				case "B":
					out = append(out, b)
				default:
					out = append(out, special(p.IDs(piece.Special)...))
				}
			}
			return out
		}
		return &layout{slots(p.Single()), slots(p.Pair())}
	}
	return nil
}
