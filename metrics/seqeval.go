package metrics

import (
	"maps"
	"slices"
	"strings"
	"unicode/utf8"
)

// Seqeval scores tags of sequences, such as B-PER I-PER O, by whole entities: an entity is right if
// its type, its beginning and its end are. It is the micro average of seqeval, with the accuracy of
// single tags beside it.
//
//	var ner metrics.Seqeval
//	ner.Add([]string{"B-PER", "I-PER", "O"}, []string{"B-PER", "I-PER", "O"})
//
// Of sequences of different lengths, the tags without a counterpart are wrong.
type Seqeval struct {
	// Scheme says how tags mark entities. The zero value accepts any of them, like the program
	// conlleval, and repairs small mistakes: an I without a B starts an entity. With a scheme,
	// only what is marked according to it is an entity: mode "strict" of seqeval.
	Scheme Scheme
	// Suffix says that the mark comes last, as in PER-B.
	Suffix bool
	// ZeroDivision is the value of 0/0.
	ZeroDivision float64

	state entityState
}

type entityState struct {
	Types map[string]counts
	Tags  hits
}

// TypeScores are the scores of one type of entity.
type TypeScores struct {
	Type                  string
	Precision, Recall, F1 float64
	Support               int64 // entities of this type among the references
}

// Name returns "f1".
func (s *Seqeval) Name() string { return "f1" }

// Add counts one sequence.
func (s *Seqeval) Add(prediction, reference []string) {
	if s.state.Types == nil {
		s.state.Types = map[string]counts{}
	}
	for i := range max(len(prediction), len(reference)) {
		s.state.Tags.add(i < len(prediction) && i < len(reference) && prediction[i] == reference[i])
	}
	count := func(e entity, by counts) {
		c := s.state.Types[e.kind]
		c.add(by)
		s.state.Types[e.kind] = c
	}
	predicted := s.entities(prediction)
	for e := range predicted {
		count(e, counts{Predicted: 1})
	}
	for e := range s.entities(reference) {
		hit := counts{Actual: 1}
		if predicted[e] {
			hit.Hits = 1
		}
		count(e, hit)
	}
}

// Result returns "f1", "precision" and "recall" of entities and "accuracy" of tags.
func (s *Seqeval) Result() map[string]float64 {
	var all counts
	for _, c := range s.state.Types {
		all.add(c)
	}
	precision, recall, _ := all.scores(s.ZeroDivision)
	f1 := 0.0
	if precision+recall > 0 {
		f1 = 2 * precision * recall / (precision + recall)
	}
	return map[string]float64{"f1": f1, "precision": precision, "recall": recall, "accuracy": ratio(s.state.Tags.Right,
		s.state.Tags.Total)}
}

// Types returns the scores of each type of entity, in the order of the names.
func (s *Seqeval) Types() []TypeScores {
	var list []TypeScores
	for _, name := range slices.Sorted(maps.Keys(s.state.Types)) {
		c := s.state.Types[name]
		precision, recall, _ := c.scores(s.ZeroDivision)
		t := TypeScores{Type: name, Precision: precision, Recall: recall, Support: c.Actual}
		if precision+recall > 0 {
			t.F1 = 2 * precision * recall / (precision + recall)
		}
		list = append(list, t)
	}
	return list
}

// Reset forgets all sequences.
func (s *Seqeval) Reset() { s.state = entityState{} }

// State implements [Merger].
func (s *Seqeval) State() ([]byte, error) { return pack(s.kind(), s.state) }

// Merge implements [Merger].
func (s *Seqeval) Merge(state []byte) error {
	var o entityState
	if err := unpack(state, s.kind(), &o); err != nil {
		return err
	}
	if s.state.Types == nil {
		s.state.Types = map[string]counts{}
	}
	for name, c := range o.Types {
		all := s.state.Types[name]
		all.add(c)
		s.state.Types[name] = all
	}
	s.state.Tags.Right += o.Tags.Right
	s.state.Tags.Total += o.Tags.Total
	return nil
}

func (s *Seqeval) kind() string { return "seqeval " + s.Scheme.String() }

// entity is an entity in a sequence: its type, and its range of tags.
type entity struct {
	kind       string
	begin, end int
}

func (s *Seqeval) entities(tags []string) map[entity]bool {
	if s.Scheme == AnyScheme {
		return s.repaired(tags)
	}
	return s.strict(tags)
}

// split splits a tag into its mark and its type. An empty tag is O.
func (s *Seqeval) split(tag string) (mark rune, kind string) {
	if tag == "" {
		return 'O', ""
	}
	if s.Suffix {
		r, n := utf8.DecodeLastRuneInString(tag)
		return r, tag[:len(tag)-n]
	}
	r, n := utf8.DecodeRuneInString(tag)
	return r, tag[n:]
}

// repaired finds entities as conlleval does, which accepts any marks.
func (s *Seqeval) repaired(tags []string) map[entity]bool {
	found := map[entity]bool{}
	previous, previousKind, begin := 'O', "", 0
	for i := 0; i <= len(tags); i++ {
		mark, kind := 'O', ""
		if i < len(tags) {
			mark, kind = s.split(tags[i])
		}
		if s.Suffix {
			if at := strings.LastIndexByte(kind, '-'); at >= 0 {
				kind = kind[:at]
			}
		} else if _, behind, ok := strings.Cut(kind, "-"); ok {
			kind = behind
		}
		if kind == "" {
			kind = "_"
		}
		other := previousKind != kind
		if chunkEnds(previous, mark, other) {
			found[entity{previousKind, begin, i - 1}] = true
		}
		if chunkBegins(previous, mark, other) {
			begin = i
		}
		previous, previousKind = mark, kind
	}
	return found
}

func chunkEnds(previous, mark rune, other bool) bool {
	switch previous {
	case 'E', 'S':
		return true
	case 'B', 'I':
		if mark == 'B' || mark == 'S' || mark == 'O' {
			return true
		}
	}
	return previous != 'O' && previous != '.' && other
}

func chunkBegins(previous, mark rune, other bool) bool {
	switch mark {
	case 'B', 'S':
		return true
	case 'E', 'I':
		if previous == 'E' || previous == 'S' || previous == 'O' {
			return true
		}
	}
	return mark != 'O' && mark != '.' && other
}
