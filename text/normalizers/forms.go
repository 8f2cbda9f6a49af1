package normalizers

import (
	"slices"

	"github.com/gotrainer/gotrainer/text/internal/ucd"
)

// mark is a character of a decomposition, with its canonical combining class.
type mark struct {
	change
	class uint8
}

// decomposed returns the characters of the text after canonical or compatibility decomposition,
// with marks in canonical order.
func decomposed(text string, compatibility bool) []mark {
	table := ucd.Load()
	out := make([]mark, 0, len(text))
	pending := 0 // where the marks that are not yet in order begin
	order := func() {
		if len(out)-pending > 1 {
			slices.SortStableFunc(out[pending:], func(a, b mark) int { return int(a.class) - int(b.class) })
		}
		pending = len(out)
	}
	push := func(r rune, delta int) {
		class := uint8(0)
		if r >= 0x300 {
			class = table.Of(r).CombiningClass()
		}
		if class == 0 {
			order()
		}
		out = append(out, mark{change{r, delta}, class})
		if class == 0 {
			pending = len(out)
		}
	}
	for _, r := range text {
		d, ok := ucd.Decompose(r, compatibility)
		if !ok {
			push(r, 0)
			continue
		}
		for i, r := range d {
			push(r, min(i, 1))
		}
	}
	order()
	return out
}

// composed composes decomposed characters. It follows the reference step by step, since the deltas
// depend on the order of the steps.
func composed(in []mark) []change {
	out := make([]change, 0, len(in))
	var composee *change
	var waiting []change // marks after the composee that did not compose
	last, blocked := uint8(0), false
	flush := func() {
		if composee != nil {
			out = append(out, *composee)
		}
		out = append(out, waiting...)
		composee, waiting, blocked = nil, waiting[:0], false
	}
	for _, m := range in {
		if composee == nil {
			if m.class != 0 {
				out = append(out, m.change)
			} else {
				composee = &change{m.r, m.delta}
			}
			continue
		}
		if !blocked || last < m.class {
			if r, ok := ucd.Compose(composee.r, m.r); ok {
				composee.r = r
				composee.delta += m.delta - 1
				continue
			}
		}
		if m.class == 0 {
			flush()
			composee = &change{m.r, m.delta}
			continue
		}
		waiting = append(waiting, m.change)
		last, blocked = m.class, true
	}
	flush()
	return out
}

// ascii reports whether a text is ASCII, which no normalization form changes.
func ascii(text string) bool {
	for i := range len(text) {
		if text[i] >= 0x80 {
			return false
		}
	}
	return true
}

// normalForm converts the text to one of the four normalization forms.
func (s *String) normalForm(compatibility, compose bool) {
	if ascii(s.text) {
		return
	}
	marks := decomposed(s.text, compatibility)
	var changes []change
	if compose {
		changes = composed(marks)
	} else {
		changes = make([]change, len(marks))
		for i, m := range marks {
			changes[i] = m.change
		}
	}
	s.transform(changes, 0)
}
