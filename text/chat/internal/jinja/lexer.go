package jinja

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// The kinds of tokens. An operator is its own kind.
const (
	tokenData       = "data"
	tokenBlockBegin = "begin of statement block"
	tokenBlockEnd   = "end of statement block"
	tokenPrintBegin = "begin of print statement"
	tokenPrintEnd   = "end of print statement"
	tokenName       = "name"
	tokenString     = "string"
	tokenInteger    = "integer"
	tokenFloat      = "float"
	tokenEOF        = "end of template"
)

type token struct {
	kind string
	text string // of data, names and strings
	num  Value  // of numbers
	line int
}

// operators lists the operators, longer ones first.
var operators = []string{"//", "**", "==", "!=", ">=", "<=", "+", "-", "/", "*", "%", "~", "[", "]", "(", ")", "{",
	"}", ">", "<", "=", ".", ":", "|", ",", ";"}

// lexer splits a source into tokens. It also removes whitespace: as - and + in tags request, and as
// trim_blocks and lstrip_blocks do.
type lexer struct {
	source string
	pos    int
	line   int
	tokens []token
	// lineStart reports whether pos is at the start of a line: the last text read ended with a
	// newline.
	lineStart bool
}

// tokenize is jinja2's tokeniter. It sets line as it goes, for errors.
func tokenize(source string, line *int) []token {
	source = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(source)
	source = strings.TrimSuffix(source, "\n") // keep_trailing_newline is off
	l := &lexer{source: source, line: 1, lineStart: true}
	for l.pos < len(l.source) {
		*line = l.line
		l.root()
	}
	l.add(tokenEOF, "")
	return l.tokens
}

func (l *lexer) add(kind, text string) {
	l.tokens = append(l.tokens, token{kind: kind, text: text, line: l.line})
}

// advance moves n bytes ahead.
func (l *lexer) advance(n int) {
	read := l.source[l.pos : l.pos+n]
	l.line += strings.Count(read, "\n")
	l.pos += n
	l.lineStart = strings.HasSuffix(read, "\n")
}

func (l *lexer) rest() string { return l.source[l.pos:] }

// root reads text and the tag after it.
func (l *lexer) root() {
	rest := l.rest()
	at := nextTag(rest)
	if at < 0 {
		l.data(rest)
		l.advance(len(rest))
		return
	}
	tag := rest[at : at+2]
	sign := signAt(rest[at+2:])
	text := rest[:at]
	switch {
	case sign == "-":
		text = strings.TrimRightFunc(text, isSpace)
	case sign != "+" && tag != "{{": // lstrip_blocks
		if begin := strings.LastIndex(text, "\n") + 1; begin > 0 || l.lineStart {
			if strings.TrimFunc(text[begin:], isSpace) == "" {
				text = text[:begin]
			}
		}
	}
	l.data(text)
	raw := 0
	if tag == "{%" {
		raw = rawTag(rest[at:], "raw", false)
	}
	if raw > 0 {
		l.advance(at + raw)
		l.raw()
		return
	}
	l.advance(at + 2 + len(sign))
	switch tag {
	case "{#":
		l.comment()
	case "{%":
		l.add(tokenBlockBegin, "")
		l.inside(tokenBlockEnd)
	default:
		l.add(tokenPrintBegin, "")
		l.inside(tokenPrintEnd)
	}
}

func (l *lexer) data(text string) {
	if text != "" {
		l.add(tokenData, text)
	}
}

// nextTag returns the position of the next tag, or -1.
func nextTag(s string) int {
	for from := 0; ; {
		i := strings.IndexByte(s[from:], '{')
		if i < 0 || from+i+1 >= len(s) {
			return -1
		}
		from += i
		if strings.IndexByte("{%#", s[from+1]) >= 0 {
			return from
		}
		from++
	}
}

func signAt(s string) string {
	if s != "" && (s[0] == '-' || s[0] == '+') {
		return s[:1]
	}
	return ""
}

// spaces returns the number of bytes of whitespace that s begins with.
func spaces(s string) int { return len(s) - len(strings.TrimLeftFunc(s, isSpace)) }

// rawTag returns the length of the tag {% raw %} or {% endraw %} at the start of s, or 0 if there
// is none. The end of endraw takes the same whitespace with it as that of other block tags.
func rawTag(s, name string, end bool) int {
	n := 2 + len(signAt(s[2:]))
	n += spaces(s[n:])
	if !strings.HasPrefix(s[n:], name) {
		return 0
	}
	n += len(name)
	n += spaces(s[n:])
	if end {
		return lengthIf(n, endLength(s[n:], "%}", true))
	}
	if strings.HasPrefix(s[n:], "-%}") {
		n += 3
		return n + spaces(s[n:])
	}
	if strings.HasPrefix(s[n:], "%}") {
		return n + 2
	}
	return 0
}

func lengthIf(before, end int) int {
	if end == 0 {
		return 0
	}
	return before + end
}

// endLength returns the length of the end of a tag at the start of s, with the whitespace that it
// removes, or 0 if there is none. trim is for ends that remove a newline (trim_blocks) and may have
// a +.
func endLength(s, end string, trim bool) int {
	switch {
	case strings.HasPrefix(s, "-"+end):
		n := 1 + len(end)
		return n + spaces(s[n:])
	case trim && strings.HasPrefix(s, "+"+end):
		return 1 + len(end)
	case trim && strings.HasPrefix(s, end+"\n"):
		return len(end) + 1
	case strings.HasPrefix(s, end):
		return len(end)
	}
	return 0
}

func (l *lexer) comment() {
	rest := l.rest()
	at := strings.Index(rest, "#}")
	if at < 0 {
		fail("TemplateSyntaxError", "missing end of comment tag")
	}
	if at > 0 && (rest[at-1] == '-' || rest[at-1] == '+') {
		at--
	}
	l.advance(at + endLength(rest[at:], "#}", true))
}

// raw reads the text up to {% endraw %}.
func (l *lexer) raw() {
	rest := l.rest()
	for at := 0; ; {
		i := strings.Index(rest[at:], "{%")
		if i < 0 {
			fail("TemplateSyntaxError", "missing end of raw directive")
		}
		at += i
		n := rawTag(rest[at:], "endraw", true)
		if n == 0 {
			at += 2
			continue
		}
		text := rest[:at]
		switch sign := signAt(rest[at+2:]); {
		case sign == "-":
			text = strings.TrimRightFunc(text, isSpace)
		case sign != "+":
			if begin := strings.LastIndex(text, "\n") + 1; begin > 0 || l.lineStart {
				if strings.TrimFunc(text[begin:], isSpace) == "" {
					text = text[:begin]
				}
			}
		}
		l.data(text)
		l.advance(at + n)
		return
	}
}

// inside reads the tokens of a tag up to its end. Inside brackets, an end delimiter is not an end.
func (l *lexer) inside(end string) {
	delimiter := map[string]string{tokenBlockEnd: "%}", tokenPrintEnd: "}}"}[end]
	var open []string
	for l.pos < len(l.source) {
		rest := l.rest()
		if len(open) == 0 {
			if n := endLength(rest, delimiter, end == tokenBlockEnd); n > 0 {
				l.add(end, "")
				l.advance(n)
				return
			}
		}
		if n := spaces(rest); n > 0 {
			l.advance(n)
			continue
		}
		if l.number(rest) || l.name(rest) || l.str(rest) {
			continue
		}
		op := operatorAt(rest)
		switch op {
		case "":
			r, _ := utf8.DecodeRuneInString(rest)
			fail("TemplateSyntaxError", "unexpected char %q", r)
		case "{", "(", "[":
			open = append(open, map[string]string{"{": "}", "(": ")", "[": "]"}[op])
		case "}", ")", "]":
			if len(open) == 0 {
				fail("TemplateSyntaxError", "unexpected %q", op)
			}
			if want := open[len(open)-1]; want != op {
				fail("TemplateSyntaxError", "unexpected %q, expected %q", op, want)
			}
			open = open[:len(open)-1]
		}
		l.add(op, op)
		l.advance(len(op))
	}
}

func operatorAt(s string) string {
	for _, op := range operators {
		if strings.HasPrefix(s, op) {
			return op
		}
	}
	return ""
}

func isDigit(c byte) bool { return '0' <= c && c <= '9' }

// digits returns the length of the digits at the start of s, with single underscores between them.
func digits(s string) int {
	n := 0
	for n < len(s) && (isDigit(s[n]) || n > 0 && s[n] == '_' && s[n-1] != '_' && n+1 < len(s) && isDigit(s[n+1])) {
		n++
	}
	return n
}

// number reads an integer or a float. After a point there are no floats: x.0.1 has two indices.
func (l *lexer) number(rest string) bool {
	if !isDigit(rest[0]) {
		return false
	}
	whole := digits(rest)
	n := whole
	if l.pos == 0 || l.source[l.pos-1] != '.' {
		if n < len(rest) && rest[n] == '.' {
			if more := digits(rest[n+1:]); more > 0 {
				n += 1 + more
			}
		}
		if n < len(rest) && (rest[n] == 'e' || rest[n] == 'E') {
			exponent := n + 1
			if exponent < len(rest) && (rest[exponent] == '+' || rest[exponent] == '-') {
				exponent++
			}
			if more := digits(rest[exponent:]); more > 0 {
				n = exponent + more
			}
		}
	}
	t := token{kind: tokenFloat, line: l.line}
	if n > whole {
		v, _ := strconv.ParseFloat(strings.ReplaceAll(rest[:n], "_", ""), 64) // infinite if too large, as in Python
		t.num = v
	} else {
		t.kind = tokenInteger
		n, t.num = integer(rest, whole)
	}
	t.text = rest[:n]
	l.tokens = append(l.tokens, t)
	l.advance(n)
	return true
}

// integer reads an integer whose n digits begin rest, or one in another base, and returns its
// length.
func integer(rest string, n int) (int, Value) {
	text := rest[:n]
	if n == 1 && len(rest) > 2 && rest[0] == '0' {
		base := map[byte]string{'b': "01", 'o': "01234567", 'x': "0123456789abcdefABCDEF"}[rest[1]|0x20]
		for end := 2; base != ""; end++ {
			if end == len(rest) || strings.IndexByte(base+"_", rest[end]) < 0 {
				if end > 2 {
					n, text = end, rest[:end]
				}
				break
			}
		}
	} else if n > 1 && text[0] == '0' {
		n = len(text) - len(strings.TrimLeft(text, "0_"))
		text = "0"
	}
	v, err := strconv.ParseInt(strings.ReplaceAll(text, "_", ""), 0, 64)
	if err != nil {
		fail("NotSupported", "the integer %s, which does not fit into 64 bits", text)
	}
	return n, v
}

func isName(r rune) bool { return r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r) }

func (l *lexer) name(rest string) bool {
	n := 0
	for n < len(rest) {
		r, size := utf8.DecodeRuneInString(rest[n:])
		if !isName(r) {
			break
		}
		n += size
	}
	if n == 0 {
		return false
	}
	if first, _ := utf8.DecodeRuneInString(rest); unicode.IsNumber(first) {
		fail("TemplateSyntaxError", "invalid character in identifier %q", rest[:n])
	}
	l.add(tokenName, rest[:n])
	l.advance(n)
	return true
}

func (l *lexer) str(rest string) bool {
	quote := rest[0]
	if quote != '\'' && quote != '"' {
		return false
	}
	for i := 1; i < len(rest); i++ {
		switch rest[i] {
		case '\\':
			i++
		case quote:
			l.add(tokenString, unescape(rest[1:i]))
			l.advance(i + 1)
			return true
		}
	}
	fail("TemplateSyntaxError", "a string has no end")
	return false
}

// unescape decodes Python's unicode-escape.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			b.WriteByte(s[i])
			continue
		}
		i++
		if at := strings.IndexByte(`abfnrtv\'"`, s[i]); at >= 0 {
			b.WriteByte("\a\b\f\n\r\t\v\\'\""[at])
			continue
		}
		width := map[byte]int{'x': 2, 'u': 4, 'U': 8}[s[i]]
		switch {
		case s[i] == '\n':
		case width > 0:
			v, err := strconv.ParseUint(s[i+1:min(i+1+width, len(s))], 16, 32)
			if err != nil || i+width >= len(s) {
				fail("TemplateSyntaxError", `a string has \%c without %d hexadecimal digits`, s[i], width)
			}
			writeRune(&b, rune(v))
			i += width
		case '0' <= s[i] && s[i] <= '7':
			v := 0
			n := 0
			for ; n < 3 && i+n < len(s) && '0' <= s[i+n] && s[i+n] <= '7'; n++ {
				v = v*8 + int(s[i+n]-'0')
			}
			b.WriteRune(rune(v))
			i += n - 1
		case s[i] == 'N':
			fail("NotSupported", `a string has \N, a character by its name`)
		default: // an unknown escape stays as it is
			b.WriteByte('\\')
			b.WriteByte(s[i])
		}
	}
	return b.String()
}

func writeRune(b *strings.Builder, r rune) {
	if !utf8.ValidRune(r) {
		fail("NotSupported", "the character U+%04X in a string: half of a pair, or beyond Unicode", r)
	}
	b.WriteRune(r)
}
