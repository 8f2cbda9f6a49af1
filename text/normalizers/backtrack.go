package normalizers

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/dlclark/regexp2"
)

// backtracking is a pattern of package regexp2, which supports what Go's regexp does not but may
// take exponential time.
type backtracking struct{ *regexp2.Regexp }

func (p backtracking) Matches(text string) (spans []Span) {
	rest, at, runes := text, 0, 0 // the text from byte at on, which is rune number runes
	offset := func(rune int) int {
		for ; runes < rune; runes++ {
			_, size := utf8.DecodeRuneInString(rest)
			rest, at = rest[size:], at+size
		}
		return at
	}
	m, err := p.FindStringMatch(text)
	for ; err == nil && m != nil; m, err = p.FindNextMatch(m) { // it fails only by a timeout, and none is set
		start := offset(m.Index)
		spans = append(spans, Span{Start: start, End: offset(m.Index + m.Length)})
	}
	return spans
}

// token matches a part of a pattern that Go's package regexp does not support, or that matters for
// finding groups.
var token = regexp.MustCompile(`\\[kg](?:<[^>]*>|'[^']*')|\\[1-9][0-9]?|\\.|` + // references, calls, other escapes
	`\[\^?\]?(?:\\.|\[:[a-z]+:\]|[^\]\\])*\]|` + // classes
	`\(\?(?:<?[=!]|>)|\(\?<[^>]*>|\(\?|\(|\)`) // starts and ends of groups

// backtrack compiles a pattern with back references, group calls (\g<name>), lookarounds or atomic
// groups. The rest of the pattern is translated as in [Regexp]; meanwhile, a private-use character
// stands for each of these parts.
func backtrack(pattern string) (Pattern, error) {
	const first = 0xf0000
	if strings.ContainsFunc(pattern, func(r rune) bool { return r >= first }) {
		return nil, errors.New("characters of a private plane beside what Go's package regexp cannot do")
	}
	w := &rewriter{pattern: pattern, tokens: token.FindAllStringIndex(pattern, -1), bodies: map[string][2]int{}}
	w.findGroups()
	text, err := w.rewrite(0, len(pattern), nil)
	if err != nil {
		return nil, err
	}
	translated, err := translate(text)
	if err != nil {
		return nil, err
	}
	var b strings.Builder
	for _, r := range translated {
		if r >= first {
			b.WriteString(w.kept[r-first])
		} else {
			b.WriteRune(r)
		}
	}
	re, err := regexp2.Compile(b.String(), regexp2.None)
	return backtracking{re}, err
}

// rewriter finds the groups of a pattern, so that it can replace a group call by a copy of the
// group.
type rewriter struct {
	pattern string
	tokens  [][]int
	bodies  map[string][2]int // bounds of the body of each group, by number or name
	opens   map[int]string    // the group that the parenthesis at a byte opens; only those that capture
	kept    []string          // the parts put aside, in the syntax of regexp2
}

// findGroups finds the groups that capture: those with names, or all if none has a name.
func (w *rewriter) findGroups() {
	w.opens = map[int]string{}
	named := regexp.MustCompile(`\(\?<[^=!>]+>`).MatchString(w.pattern)
	type open struct {
		name  string
		begin int
	}
	var stack []open
	for _, t := range w.tokens {
		switch text := w.pattern[t[0]:t[1]]; {
		case text == ")" && len(stack) > 0:
			o := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if o.name != "" {
				w.bodies[o.name] = [2]int{o.begin, t[0]}
			}
		case strings.HasPrefix(text, "(?<") && text[3] != '=' && text[3] != '!':
			stack = append(stack, open{text[3 : len(text)-1], t[1]})
			w.opens[t[0]] = text[3 : len(text)-1]
		case text == "(" && !named:
			name := strconv.Itoa(len(w.opens) + 1)
			stack = append(stack, open{name, t[1]})
			w.opens[t[0]] = name
		case text[0] == '(':
			stack = append(stack, open{"", t[1]})
		}
	}
}

// keep puts a part aside and returns the private-use character that stands for it.
func (w *rewriter) keep(part string) string {
	w.kept = append(w.kept, part)
	return string(rune(0xf0000 + len(w.kept) - 1))
}

// rewrite rewrites a part of the pattern. calls lists the group calls that it is nested in.
func (w *rewriter) rewrite(begin, end int, calls []string) (string, error) {
	var b strings.Builder
	at := begin
	for _, t := range w.tokens {
		if t[0] < begin || t[1] > end {
			continue
		}
		b.WriteString(w.pattern[at:t[0]])
		at = t[1]
		text := w.pattern[t[0]:t[1]]
		group, opens := w.opens[t[0]]
		switch {
		case opens:
			b.WriteString(w.keep("(?<" + group + ">"))
		case text == "(":
			b.WriteString(w.keep("(?:"))
		case len(text) > 2 && text[:2] == "(?": // lookarounds and atomic groups
			b.WriteString(w.keep(text))
		case text[0] == '\\' && len(text) == 2 && strings.IndexByte("123456789", text[1]) < 0: // other escapes
			b.WriteString(text)
		case strings.HasPrefix(text, `\k`):
			b.WriteString(w.keep(`\k<` + text[3:len(text)-1] + ">"))
		case strings.HasPrefix(text, `\g`):
			name := text[3 : len(text)-1]
			body, ok := w.bodies[name]
			if !ok {
				return "", fmt.Errorf("%s calls a group that there is not", text)
			}
			if slices.Contains(calls, name) {
				return "", fmt.Errorf("%s calls its own group, which no pattern here can do", text)
			}
			if len(w.kept) > 1000 { // nested calls grow exponentially
				return "", errors.New("the calls of groups make it too long")
			}
			again, err := w.rewrite(body[0], body[1], append(calls, name))
			if err != nil {
				return "", err
			}
			b.WriteString(w.keep("(?<"+name+">") + again + ")")
		case text[0] == '\\': // a back reference by number
			b.WriteString(w.keep(`\k<` + text[1:] + ">"))
		default:
			b.WriteString(text)
		}
	}
	b.WriteString(w.pattern[at:end])
	return b.String(), nil
}
