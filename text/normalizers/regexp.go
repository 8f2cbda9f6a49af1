package normalizers

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/text/internal/ucd"
)

// compiled is a pattern of package regexp.
type compiled struct{ *regexp.Regexp }

func (p compiled) Matches(text string) []Span {
	found := p.FindAllStringIndex(text, -1)
	spans := make([]Span, len(found))
	for i, m := range found {
		spans[i] = Span{Start: m[0], End: m[1]}
	}
	return spans
}

// Literal matches a text literally.
func Literal(text string) Pattern {
	return compiled{regexp.MustCompile(regexp.QuoteMeta(text))}
}

// Regexp compiles a regular expression as the reference reads it: in the Ruby syntax of Oniguruma
// with Unicode classes. The splitting patterns of GPT-2, Llama 3, GPT-4 and Qwen 2, which have
// lookaheads, are recognized by their text and have scanners of their own. Patterns with
// lookarounds, back references, group calls or atomic groups are matched by package regexp2.
// Possessive quantifiers, nested classes, Unicode word boundaries and recursive groups are not
// supported; the error names them.
func Regexp(pattern string) (Pattern, error) {
	if scan, ok := scanners[pattern]; ok {
		return scan, nil
	}
	translated, err := translate(pattern)
	if err == nil {
		var re *regexp.Regexp
		if re, err = regexp.Compile(translated); err == nil {
			return compiled{re}, nil
		}
	}
	p, err := backtrack(pattern)
	if err != nil {
		return nil, fmt.Errorf("regular expression %q: %w", pattern, err)
	}
	return p, nil
}

// class returns the code points for which keep is true as the inside of a bracket expression.
func class(keep func(ucd.Props) bool) string {
	var b strings.Builder
	ucd.Ranges(keep, func(first, last rune) {
		fmt.Fprintf(&b, `\x{%x}-\x{%x}`, first, last)
	})
	return b.String()
}

// shorthands holds Oniguruma's \s, \d and \w, which cover Unicode while Go's cover only ASCII.
var shorthands = map[byte]func(ucd.Props) bool{
	's': func(p ucd.Props) bool { return p.Is(ucd.Space) },
	'd': func(p ucd.Props) bool { return p.Category() == ucd.Nd },
	'w': func(p ucd.Props) bool { return p.Is(ucd.RegexpWord) },
}

// categoryNames lists the names of the general categories from ucd.Cc on.
var categoryNames = strings.Fields("Cc Cf Co Cs Lu Ll Lt Lm Lo Mn Mc Me Nd Nl No Pc Pd Ps Pe Pi Pf Po Sm Sc Sk So Zs " +
	"Zl Zp")

// property returns the categories that \p{name} matches, by the frozen tables. Other names, mainly
// those of scripts, are left to Go's tables.
func property(name string) (func(ucd.Category) bool, bool) {
	switch name {
	case "L":
		return ucd.Category.Letter, true
	case "M":
		return ucd.Category.Mark, true
	case "N":
		return ucd.Category.Number, true
	case "P":
		return func(c ucd.Category) bool { return c >= ucd.Pc && c <= ucd.Po }, true
	case "S":
		return func(c ucd.Category) bool { return c >= ucd.Sm && c <= ucd.So }, true
	case "Z":
		return func(c ucd.Category) bool { return c >= ucd.Zs && c <= ucd.Zp }, true
	}
	i := slices.Index(categoryNames, name)
	return func(c ucd.Category) bool { return c == ucd.Category(i+1) }, i >= 0
}

// translate translates a pattern from Oniguruma's syntax to Go's.
func translate(pattern string) (string, error) {
	var b strings.Builder
	b.WriteString("(?m:") // ^ and $ match at lines in Ruby
	inside := false       // in a bracket expression
	quantified := false   // directly after a quantifier
	for i, n := 0, 0; i < len(pattern); i += n {
		rest, c := pattern[i:], pattern[i]
		repetition := false
		var err error
		switch {
		case c == '\\':
			n, err = escape(&b, rest, inside)
		case inside:
			n, err = member(&b, rest)
			inside = c != ']'
		case c == '[':
			n, inside = bracket(&b, rest), true
		case strings.HasPrefix(rest, "(?"):
			n, err = group(&b, rest)
		case c == '+' && quantified:
			err = errors.New("a possessive repetition; Go has none")
		default:
			n = 1
			b.WriteByte(c)
			repetition = strings.IndexByte("*?+", c) >= 0 && !quantified // the ? of *? makes it lazy
		}
		if err != nil {
			return "", fmt.Errorf("at byte %d: %w", i, err)
		}
		quantified = repetition
	}
	b.WriteByte(')')
	return b.String(), nil
}

// bracket translates the start of a bracket expression and returns its length in bytes.
func bracket(b *strings.Builder, rest string) int {
	start := "["
	if strings.HasPrefix(rest, "[^") {
		start = "[^"
	}
	b.WriteString(start)
	if strings.HasPrefix(rest[len(start):], "]") { // a ] that comes first is a literal character
		b.WriteString(`\]`)
		return len(start) + 1
	}
	return len(start)
}

// member translates the next element of a bracket expression, or its end, and returns its length in
// bytes.
func member(b *strings.Builder, rest string) (int, error) {
	switch {
	case strings.HasPrefix(rest, "[:"):
		end := strings.Index(rest, ":]")
		if end < 0 {
			return 0, errors.New("[: without :]")
		}
		return end + 2, posix(b, rest[:end+2])
	case rest[0] == '[':
		return 0, errors.New("a class within a class; write it as one class")
	case strings.HasPrefix(rest, "&&"):
		return 0, errors.New("an intersection of classes; Go has none")
	case strings.HasPrefix(rest, "-[:"),
		strings.HasPrefix(rest, `-\`) && len(rest) > 2 && strings.IndexByte("sSdDwWpP", rest[2]) >= 0:
		return 0, errors.New(`a range up to a class; write \- for the sign`)
	}
	b.WriteByte(rest[0])
	return 1, nil
}

// posix translates a class such as [:digit:], which covers Unicode in Oniguruma.
func posix(b *strings.Builder, name string) error {
	keep := map[string]func(ucd.Props) bool{
		"[:digit:]": shorthands['d'], "[:space:]": shorthands['s'], "[:word:]": shorthands['w'],
	}[name]
	if keep == nil {
		return fmt.Errorf(`the class %s; write it as one of the categories, \p{L} and so on`, name)
	}
	b.WriteString(class(keep))
	return nil
}

// group translates the start of a group that begins with (? and returns its length in bytes.
func group(b *strings.Builder, rest string) (int, error) {
	refused := []struct{ start, what string }{
		{"(?=", "a look ahead"}, {"(?!", "a look ahead"}, {"(?<=", "a look behind"}, {"(?<!", "a look behind"},
		{"(?>", "an atomic group"},
		{"(?~", "an absence operator"}, {"(?#", "a comment"}, {"(?(", "a condition"},
	}
	for _, r := range refused {
		if strings.HasPrefix(rest, r.start) {
			return 0, fmt.Errorf("%s, %s, is more than Go's package regexp can do", r.start, r.what)
		}
	}
	if strings.HasPrefix(rest, "(?<") {
		b.WriteString("(?P<")
		return 3, nil
	}
	end := strings.IndexAny(rest, ":)")
	if end < 0 {
		return 0, errors.New("( without an end")
	}
	flags := rest[2:end]
	if strings.Trim(flags, "im-") != "" {
		return 0, fmt.Errorf("unknown options %q", flags)
	}
	// in Ruby, m lets the dot match line ends
	b.WriteString("(?" + strings.ReplaceAll(flags, "m", "s") + rest[end:end+1])
	return end + 1, nil
}

// escape translates an escape, which begins with a backslash, and returns its length in bytes.
func escape(b *strings.Builder, rest string, inside bool) (int, error) {
	if len(rest) < 2 {
		return 0, errors.New("a backslash at the end")
	}
	set := func(keep func(ucd.Props) bool) {
		if inside {
			b.WriteString(class(keep))
		} else {
			b.WriteString("[" + class(keep) + "]")
		}
	}
	c := rest[1]
	if keep, ok := shorthands[c|0x20]; ok {
		negated := c < 'a'
		set(func(p ucd.Props) bool { return keep(p) != negated })
		return 2, nil
	}
	switch {
	case c == 'p' || c == 'P':
		end := strings.IndexByte(rest, '}')
		if end < 3 || rest[2] != '{' {
			return 0, fmt.Errorf(`\%c without {name}`, c)
		}
		name, negated := rest[3:end], c == 'P'
		if strings.HasPrefix(name, "^") {
			name, negated = name[1:], !negated
		}
		if is, ok := property(name); ok {
			set(func(p ucd.Props) bool { return is(p.Category()) != negated })
			return end + 1, nil
		}
		if negated {
			b.WriteString(`\P{` + name + "}")
		} else {
			b.WriteString(`\p{` + name + "}")
		}
		return end + 1, nil
	case c == 'u' && len(rest) >= 6:
		b.WriteString(`\x{` + rest[2:6] + "}")
		return 6, nil
	case c|0x20 == 'b': // Go's \b only knows ASCII words; in brackets it is a backspace
		return 0, fmt.Errorf(`\%c, a word boundary of Unicode, is more than Go's package regexp can do`, c)
	case strings.IndexByte("afnrtvxAz", c) >= 0:
		b.WriteString(rest[:2])
		return 2, nil
	case c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z':
		return 0, fmt.Errorf(`\%c is more than Go's package regexp can do`, c)
	case c >= 0x80: // the first byte of a character; the others follow
		b.WriteByte(c)
		return 2, nil
	case inside && c == '-':
		b.WriteString(`\-`)
		return 2, nil
	}
	b.WriteString(regexp.QuoteMeta(rest[1:2]))
	return 2, nil
}
