package metrics

import "strings"

// Scheme is a way to mark entities in a sequence; see [Seqeval]. The names are seqeval's.
type Scheme uint8

// The schemes: I is inside, O outside, B the beginning, E (or L) the end, S (or U) an entity of one
// tag.
const (
	AnyScheme Scheme = iota // anything that fits, as in conlleval
	IOB1                    // B only where an entity follows another of its type
	IOB2                    // B begins every entity
	IOE1                    // E only where an entity of the same type follows
	IOE2                    // E ends every entity
	IOBES                   // B and E, or S
	BILOU                   // the same with other letters
)

// String returns the name.
func (s Scheme) String() string {
	names := [...]string{"any scheme", "IOB1", "IOB2", "IOE1", "IOE2", "IOBES", "BILOU"}
	if int(s) >= len(names) {
		return "unknown scheme"
	}
	return names[s]
}

// step is a set of pairs of neighbouring marks: the first is one of previous, the second one of
// mark, and their types are equal, different or arbitrary.
type step struct {
	previous, mark string
	types          relation
}

type relation uint8

const (
	anyTypes relation = iota
	sameType
	otherType
)

const anyMark = "IOBESUL"

// grammar says between which neighbouring tags an entity begins, continues and ends.
type grammar struct {
	marks              string
	begin, inside, end []step
}

var grammars = map[Scheme]grammar{
	IOB1: {
		"IOB",
		[]step{{"O", "I", anyTypes}, {"I", "I", otherType}, {"B", "I", anyTypes}, {"I", "B", sameType},
			{"B", "B", sameType}},
		[]step{{"B", "I", sameType}, {"I", "I", sameType}},
		[]step{{"I", "I", otherType}, {"I", "O", anyTypes}, {"I", "B", anyTypes}, {"B", "O", anyTypes},
			{"B", "I", otherType}, {"B", "B", sameType}},
	},
	IOB2: {
		"IOB",
		[]step{{anyMark, "B", anyTypes}},
		[]step{{"B", "I", sameType}, {"I", "I", sameType}},
		[]step{{"I", "O", anyTypes}, {"I", "I", otherType}, {"I", "B", anyTypes}, {"B", "O", anyTypes},
			{"B", "I", otherType}, {"B", "B", anyTypes}},
	},
	IOE1: {
		"IOE",
		[]step{{"O", "I", anyTypes}, {"I", "I", otherType}, {"E", "I", anyTypes}, {"E", "E", sameType}},
		[]step{{"I", "I", sameType}, {"I", "E", sameType}},
		[]step{{"I", "I", otherType}, {"I", "O", anyTypes}, {"I", "E", otherType}, {"E", "I", sameType},
			{"E", "E", sameType}},
	},
	IOE2: {
		"IOE",
		[]step{{"O", "IE", anyTypes}, {"E", "IE", anyTypes}, {"I", "IE", otherType}},
		[]step{{"I", "IE", sameType}},
		[]step{{"E", anyMark, anyTypes}},
	},
	IOBES: {
		"IOBES",
		[]step{{anyMark, "BS", anyTypes}},
		[]step{{"BI", "IE", sameType}},
		[]step{{"SE", anyMark, anyTypes}},
	},
	BILOU: {
		"BILOU",
		[]step{{anyMark, "BU", anyTypes}},
		[]step{{"BI", "IL", sameType}},
		[]step{{"UL", anyMark, anyTypes}},
	},
}

// token is a tag split into its mark and its type.
type token struct {
	mark rune
	kind string
}

func fits(steps []step, previous, t token) bool {
	for _, s := range steps {
		types := s.types == anyTypes || (s.types == sameType) == (previous.kind == t.kind)
		if types && strings.ContainsRune(s.previous, previous.mark) && strings.ContainsRune(s.mark, t.mark) {
			return true
		}
	}
	return false
}

// strict finds the entities that are marked as the scheme requires. A mark that the scheme does not
// have counts as O.
func (s *Seqeval) strict(tags []string) map[entity]bool {
	g, found := grammars[s.Scheme], map[entity]bool{}
	outside := token{'O', "_"}
	tokens := make([]token, len(tags), len(tags)+1)
	for i, tag := range tags {
		t := outside
		if mark, kind := s.split(tag); strings.ContainsRune(g.marks, mark) {
			t = token{mark, strings.Trim(kind, "-")}
			if t.kind == "" {
				t.kind = "_"
			}
		}
		tokens[i] = t
	}
	tokens = append(tokens, outside)
	previous := outside
	for i := 0; i < len(tokens); {
		if fits(g.begin, previous, tokens[i]) {
			end := i + 1
			for end < len(tokens) && fits(g.inside, tokens[end-1], tokens[end]) {
				end++
			}
			if end < len(tokens) && fits(g.end, tokens[end-1], tokens[end]) {
				found[entity{tokens[i].kind, i, end}] = true
			}
			i = end
		} else {
			i++
		}
		previous = tokens[i-1]
	}
	return found
}
