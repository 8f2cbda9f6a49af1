package metrics

import "strings"

// stem reduces a lower-case English word to its stem by the rules of Porter (1980), with the
// changes of NLTK's default mode, which rouge_score uses. A word with letters other than a to z is
// not changed.
func stem(word string) string {
	if s, ok := irregular[word]; ok {
		return s
	}
	for i := range len(word) {
		if c := word[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return word
		}
	}
	if len(word) <= 2 {
		return word
	}
	for _, step := range []func(string) string{plurals, pastAndGerund, finalY, longSuffixes, shortSuffixes,
		lastSuffixes, finalE, doubleL} {
		word = step(word)
	}
	return word
}

var irregular = map[string]string{
	"sky": "sky", "skies": "sky", "dying": "die", "lying": "lie", "tying": "tie", "news": "news", "innings": "inning",
	"inning":  "inning",
	"outings": "outing", "outing": "outing", "cannings": "canning", "canning": "canning", "howe": "howe",
	"proceed": "proceed",
	"exceed":  "exceed", "succeed": "succeed",
}

// consonants reports for each letter whether it is a consonant; y is one unless it follows a
// consonant.
func consonants(word string) []bool {
	flags := make([]bool, len(word))
	for i := range len(word) {
		switch word[i] {
		case 'a', 'e', 'i', 'o', 'u':
		case 'y':
			flags[i] = i == 0 || !flags[i-1]
		default:
			flags[i] = true
		}
	}
	return flags
}

// measure returns how often a consonant follows a vowel: Porter's m.
func measure(word string) (m int) {
	flags := consonants(word)
	for i := 1; i < len(flags); i++ {
		if flags[i] && !flags[i-1] {
			m++
		}
	}
	return m
}

func hasVowel(word string) bool {
	for _, consonant := range consonants(word) {
		if !consonant {
			return true
		}
	}
	return false
}

// endsCVC reports Porter's *o: the word ends in consonant, vowel, consonant, where the last is not
// w, x or y; or it consists of a vowel and a consonant.
func endsCVC(word string) bool {
	flags, n := consonants(word), len(word)
	if n == 2 {
		return !flags[0] && flags[1]
	}
	return n >= 3 && flags[n-3] && !flags[n-2] && flags[n-1] && !strings.ContainsRune("wxy", rune(word[n-1]))
}

// suffix is a rule. The first rule whose ending the word has applies: it replaces the ending if the
// measure of what precedes it is large enough.
type suffix struct {
	from, to string
	measure  int // the measure must be larger than this
}

func replaceSuffix(word string, rules []suffix) string {
	for _, r := range rules {
		if left, ok := strings.CutSuffix(word, r.from); ok {
			if r.measure < 0 || measure(left) > r.measure {
				return left + r.to
			}
			return word
		}
	}
	return word
}

func plurals(word string) string {
	if strings.HasSuffix(word, "ies") && len(word) == 4 {
		return word[:2] + "e" // dies, but flies becomes fli
	}
	return replaceSuffix(word, []suffix{{"sses", "ss", -1}, {"ies", "i", -1}, {"ss", "ss", -1}, {"s", "", -1}})
}

func pastAndGerund(word string) string {
	if left, ok := strings.CutSuffix(word, "ied"); ok {
		if len(word) == 4 {
			return left + "ie"
		}
		return left + "i"
	}
	if left, ok := strings.CutSuffix(word, "eed"); ok {
		if measure(left) > 0 {
			return left + "ee"
		}
		return word
	}
	left, ok := strings.CutSuffix(word, "ed")
	if !ok || !hasVowel(left) {
		if left, ok = strings.CutSuffix(word, "ing"); !ok || !hasVowel(left) {
			return word
		}
	}
	n := len(left)
	switch {
	case strings.HasSuffix(left, "at"), strings.HasSuffix(left, "bl"), strings.HasSuffix(left, "iz"):
		return left + "e"
	case n >= 2 && left[n-1] == left[n-2] && consonants(left)[n-1]:
		if strings.ContainsRune("lsz", rune(left[n-1])) {
			return left
		}
		return left[:n-1]
	case measure(left) == 1 && endsCVC(left):
		return left + "e"
	}
	return left
}

func finalY(word string) string {
	left, ok := strings.CutSuffix(word, "y")
	if n := len(left); ok && n > 1 && consonants(left)[n-1] {
		return left + "i"
	}
	return word
}

func longSuffixes(word string) string {
	if left, ok := strings.CutSuffix(word, "alli"); ok && measure(left) > 0 {
		return longSuffixes(left + "al")
	}
	if strings.HasSuffix(word, "logi") {
		if measure(word[:len(word)-3]) > 0 { // the l counts as part of the stem, so that geo works like archaeo
			return word[:len(word)-1]
		}
		return word
	}
	return replaceSuffix(word, []suffix{
		{"ational", "ate", 0}, {"tional", "tion", 0}, {"enci", "ence", 0}, {"anci", "ance", 0}, {"izer", "ize", 0},
		{"bli", "ble", 0}, {"alli", "al", 0},
		{"entli", "ent", 0}, {"eli", "e", 0}, {"ousli", "ous", 0}, {"ization", "ize", 0}, {"ation", "ate", 0},
		{"ator", "ate", 0}, {"alism", "al", 0},
		{"iveness", "ive", 0}, {"fulness", "ful", 0}, {"ousness", "ous", 0}, {"aliti", "al", 0}, {"iviti", "ive", 0},
		{"biliti", "ble", 0}, {"fulli", "ful", 0},
	})
}

func shortSuffixes(word string) string {
	return replaceSuffix(word, []suffix{{"icate", "ic", 0}, {"ative", "", 0}, {"alize", "al", 0}, {"iciti", "ic", 0},
		{"ical", "ic", 0}, {"ful", "", 0}, {"ness", "", 0}})
}

func lastSuffixes(word string) string {
	for _, from := range []string{"al", "ance", "ence", "er", "ic", "able", "ible", "ant", "ement", "ment", "ent",
		"ion", "ou", "ism", "ate", "iti", "ous", "ive", "ize"} {
		left, ok := strings.CutSuffix(word, from)
		if !ok {
			continue
		}
		if measure(left) > 1 && (from != "ion" || strings.HasSuffix(left, "s") || strings.HasSuffix(left, "t")) {
			return left
		}
		return word
	}
	return word
}

func finalE(word string) string {
	left, ok := strings.CutSuffix(word, "e")
	if m := measure(left); ok && (m > 1 || m == 1 && !endsCVC(left)) {
		return left
	}
	return word
}

func doubleL(word string) string {
	if strings.HasSuffix(word, "ll") && measure(word[:len(word)-1]) > 1 {
		return word[:len(word)-1]
	}
	return word
}
