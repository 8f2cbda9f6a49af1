package omegaconf

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// style is how a scalar is written.
type style int

const (
	plain style = iota
	single
	double
)

// scalar is a text that knows how it is written.
type scalar struct {
	text  string
	style style
	multi bool // has line breaks
}

// simple tells whether it fits in front of a colon.
func (s scalar) simple() bool { return !s.multi && len(s.text) <= maxKey }

// stringScalar decides how a string is written: as libyaml's yaml_emitter_select_scalar_style does,
// and in quotes wherever OmegaConf would read a boolean or a number.
func stringScalar(text string) scalar {
	a := analyze([]rune(text))
	s := scalar{text: text, multi: a.multiline}
	switch {
	case a.plain && text != "" && !boolean.MatchString(text) && !pythonNumber(text) && !resolved(text):
		s.style = plain
	case a.single:
		s.style = single
	default:
		s.style = double
	}
	return s
}

// What PyYAML would not read back as a string (YAML 1.1).
var (
	boolean   = regexp.MustCompile(`^(?:y|Y|yes|Yes|YES|n|N|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF)$`)
	null      = regexp.MustCompile(`^(?:~|null|Null|NULL|)$`)
	integer   = regexp.MustCompile(`^(?:[-+]?0b[0-1_]+|[-+]?0[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+|[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+)$`)
	float     = regexp.MustCompile(`^(?:[-+]?(?:[0-9][0-9_]*)\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$`)
	timestamp = regexp.MustCompile(`^(?:[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{4}-[0-9][0-9]?-[0-9][0-9]?(?:[Tt]|[ \t]+)[0-9][0-9]?:[0-9]{2}:[0-9]{2}(?:\.[0-9]*)?(?:[ \t]*(?:Z|[-+][0-9][0-9]?(?::[0-9][0-9])?))?)$`)
	special   = regexp.MustCompile(`^(?:<<|=)$`)
)

func resolved(text string) bool {
	return null.MatchString(text) || integer.MatchString(text) || float.MatchString(text) ||
		timestamp.MatchString(text) || special.MatchString(text)
}

var numberForm = regexp.MustCompile(`(?i)^[-+]?(?:(?:[0-9]+(?:_[0-9]+)*\.?(?:[0-9]+(?:_[0-9]+)*)?|\.[0-9]+(?:_[0-9]+)*)(?:e[-+]?[0-9]+(?:_[0-9]+)*)?|inf|infinity|nan)$`)

// pythonNumber tells whether Python's float or int would read a string: with blanks around it and
// with the digits of any script.
func pythonNumber(text string) bool {
	text = strings.TrimFunc(text, unicode.IsSpace)
	ascii := strings.Map(func(r rune) rune {
		if r > unicode.MaxASCII && unicode.Is(unicode.Nd, r) {
			return '1'
		}
		return r
	}, text)
	return numberForm.MatchString(ascii)
}

// analysis says in which styles a text can be written.
type analysis struct{ plain, single, multiline bool }

func breaks(r rune) bool {
	return r == '\n' || r == '\r' || r == '\u0085' || r == '\u2028' || r == '\u2029'
}

func blank(r rune) bool { return r == 0 || r == ' ' || r == '\t' || r == '\r' || breaks(r) }

// analyze is yaml_emitter_analyze_scalar of libyaml for block style.
func analyze(text []rune) analysis {
	if len(text) == 0 {
		return analysis{single: true}
	}
	var indicators, odd, lines, breakSpace, spaceBreak, previousSpace, previousBreak bool
	if s := string(text); strings.HasPrefix(s, "---") || strings.HasPrefix(s, "...") {
		indicators = true
	}
	followed := func(i int) bool { return i+1 >= len(text) || blank(text[i+1]) }
	for i, r := range text {
		switch {
		case i == 0 && strings.ContainsRune("#,[]{}&*!|>'\"%@`", r):
			indicators = true
		case i == 0 && strings.ContainsRune("?:-", r), i > 0 && r == ':':
			indicators = indicators || followed(i)
		case r == '#' && blank(text[max(0, i-1)]):
			indicators = true
		}
		lines = lines || breaks(r)
		odd = odd || !printable(r)
		switch {
		case r == ' ':
			breakSpace = breakSpace || previousBreak
			previousSpace, previousBreak = true, false
		case breaks(r):
			spaceBreak = spaceBreak || previousSpace
			previousSpace, previousBreak = false, true
		default:
			previousSpace, previousBreak = false, false
		}
	}
	first, last := text[0], text[len(text)-1]
	a := analysis{plain: true, single: true, multiline: lines}
	if first == ' ' || breaks(first) || last == ' ' || breaks(last) || lines || indicators {
		a.plain = false
	}
	if breakSpace || spaceBreak || odd {
		a.plain, a.single = false, false
	}
	return a
}

// printable tells whether a character may stand for itself. libyaml, which does the emitting, knows
// three bytes of UTF-8 and escapes what has four.
func printable(r rune) bool {
	return r == '\n' || r >= ' ' && r <= '~' || (r >= 0xa0 && r <= 0xd7ff || r >= 0xe000 && r <= 0xfffd) && r != 0xfeff
}

// inKey writes a scalar in front of a colon: never folded.
func (e *emitter) inKey(s scalar) { e.write(s, 0, false) }

// scalar writes a scalar; what does not fit on the line goes on at the given indent.
func (e *emitter) scalar(s scalar, indent int) { e.write(s, indent, true) }

func (e *emitter) write(s scalar, indent int, fold bool) {
	text := []rune(s.text)
	switch s.style {
	case plain:
		e.folded(text, indent, fold, false)
	case single:
		e.put("'")
		e.folded(text, indent, fold, true)
		e.put("'")
	case double:
		e.doubleQuoted(text, indent, fold)
	}
}

// folded writes text as it is, breaking lines at single spaces behind the best width:
// yaml_emitter_write_plain_scalar and ..._single_quoted_scalar of libyaml.
func (e *emitter) folded(text []rune, indent int, fold, quoted bool) {
	for i := 0; i < len(text); {
		j := i
		switch r := text[i]; {
		case r == ' ':
			for j < len(text) && text[j] == ' ' {
				j++
			}
			inside := !quoted || i != 0 && j != len(text)
			if j == i+1 && e.column > bestWidth && fold && inside {
				e.newline(indent)
			} else {
				e.put(string(text[i:j]))
			}
		case breaks(r):
			for j < len(text) && breaks(text[j]) {
				j++
			}
			if r == '\n' {
				e.newline(0)
			}
			for _, b := range text[i:j] {
				if b == '\n' {
					e.newline(0)
				} else {
					e.out.WriteRune(b)
					e.column = 0
				}
			}
			e.put(strings.Repeat(" ", indent))
		case quoted && r == '\'':
			j++
			e.put("''")
		default:
			for j < len(text) && text[j] != ' ' && !breaks(text[j]) && (!quoted || text[j] != '\'') {
				j++
			}
			e.put(string(text[i:j]))
		}
		i = j
	}
}

var escapes = map[rune]string{0: "0", 7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 27: "e", '"': `"`,
	'\\': `\`, 0x85: "N", 0xa0: "_", 0x2028: "L", 0x2029: "P"}

// doubleQuoted is yaml_emitter_write_double_quoted of libyaml.
func (e *emitter) doubleQuoted(text []rune, indent int, fold bool) {
	e.put(`"`)
	for i, r := range text {
		switch {
		case !printable(r) || breaks(r) || r == '"' || r == '\\':
			e.put(escape(r))
		case r == ' ' && fold && e.column > bestWidth && i > 0 && i < len(text)-1 && text[i-1] != ' ':
			e.newline(indent)
			if text[i+1] == ' ' {
				e.put(`\`)
			}
		default:
			e.put(string(r))
		}
	}
	e.put(`"`)
}

func escape(r rune) string {
	if short, ok := escapes[r]; ok {
		return `\` + short
	}
	switch {
	case r <= 0xff:
		return fmt.Sprintf(`\x%02X`, r)
	case r <= 0xffff:
		return fmt.Sprintf(`\u%04X`, r)
	}
	return fmt.Sprintf(`\U%08X`, r)
}
