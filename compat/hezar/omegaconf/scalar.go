package omegaconf

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"
)

// style is the style in which a scalar is written.
type style int

const (
	plain style = iota
	single
	double
)

// scalar is the text of a scalar with its style.
type scalar struct {
	text  string
	style style
	multi bool // has line breaks
}

// simple reports whether the scalar can be a key on the same line as its value.
func (s scalar) simple() bool { return !s.multi && len(s.text) <= maxKey }

// Plain scalars that PyYAML would not read back as strings (YAML 1.1).
const (
	boolForm  = `yes|Yes|YES|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF`
	nullForm  = `~|null|Null|NULL|`
	intForm   = `[-+]?0b[0-1_]+|[-+]?0[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+|[-+]?[1-9][0-9_]*(?::[0-5]?[0-9])+`
	floatForm = `[-+]?(?:[0-9][0-9_]*)\.[0-9_]*(?:[eE][-+][0-9]+)?|\.[0-9][0-9_]*(?:[eE][-+][0-9]+)?|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+\.[0-9_]*|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)`
	timeForm  = `[0-9]{4}-[0-9]{2}-[0-9]{2}|[0-9]{4}-[0-9][0-9]?-[0-9][0-9]?(?:[Tt]|[ \t]+)[0-9][0-9]?:[0-9]{2}:[0-9]{2}(?:\.[0-9]*)?(?:[ \t]*(?:Z|[-+][0-9][0-9]?(?::[0-9][0-9])?))?`
)

var (
	boolean  = whole(boolForm)
	null     = whole(nullForm)
	integer  = whole(intForm)
	resolved = whole(boolForm, `y|Y|n|N`, nullForm, intForm, floatForm, timeForm, `<<|=`)
)

// whole returns an expression that matches a whole text of one of the forms.
func whole(forms ...string) *regexp.Regexp {
	return regexp.MustCompile(`^(?:` + strings.Join(forms, "|") + `)$`)
}

var numberForm = regexp.MustCompile(`(?i)^[-+]?(?:(?:[0-9]+(?:_[0-9]+)*\.?(?:[0-9]+(?:_[0-9]+)*)?|\.[0-9]+(?:_[0-9]+)*)(?:e[-+]?[0-9]+(?:_[0-9]+)*)?|inf|infinity|nan)$`)

// pythonNumber reports whether Python's float or int would accept a string, which may be surrounded
// by spaces and contain digits of any script.
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

// What yaml_emitter_analyze_scalar in libyaml looks for.
const (
	breaks = "\n\r\u0085\u2028\u2029"
	blank  = "(?:[\x00 \t" + breaks + "]|$)"
)

var (
	indicator = regexp.MustCompile("^(?:---|\\.\\.\\.|[#,\\[\\]{}&*!|>'\"%@`]|[?-]" + blank + ")|:" + blank +
		"|[\x00 \t" + breaks + "]#")
	breakAtSpace = regexp.MustCompile("[" + breaks + "] | [" + breaks + "]")
)

// stringScalar chooses the style of a string as yaml_emitter_select_scalar_style in libyaml does,
// and quotes it if OmegaConf would read a boolean or a number.
func stringScalar(text string) scalar {
	s := scalar{text: text, multi: strings.ContainsAny(text, breaks)}
	switch {
	case breakAtSpace.MatchString(text) || strings.ContainsFunc(text, func(r rune) bool { return !printable(r) }):
		s.style = double
	case s.multi || strings.Trim(text, " ") != text || indicator.MatchString(text) || resolved.MatchString(text) ||
		pythonNumber(text):
		s.style = single
	}
	return s
}

// printable reports whether a character can be written as it is. libyaml, which emits for
// OmegaConf, escapes characters of four bytes in UTF-8.
func printable(r rune) bool {
	return r == '\n' || r >= ' ' && r <= '~' || (r >= 0xa0 && r <= 0xd7ff || r >= 0xe000 && r <= 0xfffd) && r != 0xfeff
}

// scalar writes a scalar. With fold, long lines are broken and continued at the given indent.
func (e *emitter) scalar(s scalar, indent int, fold bool) {
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

// kindOf distinguishes spaces, line breaks and other characters.
func kindOf(r rune) rune {
	switch {
	case r == ' ':
		return ' '
	case strings.ContainsRune(breaks, r):
		return '\n'
	}
	return 'a'
}

// folded writes text as it is, breaking lines at single spaces after the best width:
// yaml_emitter_write_plain_scalar and ..._single_quoted_scalar in libyaml.
func (e *emitter) folded(text []rune, indent int, fold, quoted bool) {
	for i, j := 0, 0; i < len(text); i = j {
		for j = i + 1; j < len(text) && kindOf(text[j]) == kindOf(text[i]); j++ {
		}
		run := string(text[i:j])
		switch kindOf(text[i]) {
		case ' ':
			if edge := i == 0 || j == len(text); run == " " && fold && e.column > bestWidth && !(quoted && edge) {
				e.newline(indent)
			} else {
				e.put(run)
			}
		case '\n':
			if run[0] == '\n' {
				e.newline(0)
			}
			e.out.WriteString(run)
			e.column = 0
			e.put(strings.Repeat(" ", indent))
		default:
			if quoted {
				run = strings.ReplaceAll(run, "'", "''")
			}
			e.put(run)
		}
	}
}

var escapes = map[rune]string{0: "0", 7: "a", 8: "b", 9: "t", 10: "n", 11: "v", 12: "f", 13: "r", 27: "e", '"': `"`,
	'\\': `\`, 0x85: "N", 0xa0: "_", 0x2028: "L", 0x2029: "P"}

// doubleQuoted corresponds to yaml_emitter_write_double_quoted in libyaml.
func (e *emitter) doubleQuoted(text []rune, indent int, fold bool) {
	e.put(`"`)
	for i, r := range text {
		switch {
		case !printable(r) || kindOf(r) == '\n' || r == '"' || r == '\\':
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
