package safetensors

import (
	"errors"
	"fmt"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// scanner reads only the forms of JSON that a header has. encoding/json is not suitable: it keeps
// the last of two equal keys and accepts "SHAPE" for "shape". The text is known to be valid UTF-8.
type scanner struct {
	text    string
	pos     int
	escaped int // bytes of the strings with escapes so far, which need memory of their own
	buffer  []byte
	list    []uint64
}

// maxEscaped limits escaped. Names have no escapes, and metadata usually has a few kilobytes.
const maxEscaped = 8 << 20

// fail returns an error that says what was expected at the current position.
func (s *scanner) fail(expected string) error {
	found := "the end of the header"
	if s.pos < len(s.text) {
		r, _ := utf8.DecodeRuneInString(s.text[s.pos:])
		found = strconv.QuoteRune(r)
	}
	return s.failAt(s.pos, ErrHeaderJSON, fmt.Sprintf("expected %s, found %s", expected, found))
}

func (s *scanner) failAt(pos int, err error, detail string) error {
	return &FormatError{Offset: int64(lengthSize + pos), Err: err, Detail: detail}
}

func (s *scanner) skipSpace() {
	for s.pos < len(s.text) {
		switch s.text[s.pos] {
		case ' ', '\t', '\n', '\r':
			s.pos++
		default:
			return
		}
	}
}

// next skips spaces, reports whether c comes next, and if so skips it.
func (s *scanner) next(c byte) bool {
	s.skipSpace()
	if s.pos < len(s.text) && s.text[s.pos] == c {
		s.pos++
		return true
	}
	return false
}

// expect skips c, which must come next. role and what describe it for an error; they are joined
// only then.
func (s *scanner) expect(c byte, role, what string) error {
	if !s.next(c) {
		return s.fail(fmt.Sprintf("%q %s %s", c, role, what))
	}
	return nil
}

// object calls member with each key of an object and its position, when the scanner is before the
// value. member must refuse duplicate keys; see duplicate.
func (s *scanner) object(what string, member func(key string, at int) error) error {
	if err := s.expect('{', "to begin", what); err != nil {
		return err
	}
	if s.next('}') {
		return nil
	}
	for count := 1; ; count++ {
		s.skipSpace()
		at := s.pos
		if count > MaxTensors+1 { // one more for __metadata__
			return s.failAt(at, ErrTooMany, fmt.Sprintf("%s has more than %d keys", what, MaxTensors))
		}
		key, err := s.string("a key of", what)
		if err != nil {
			return err
		}
		if err := s.expect(':', "after a key of", what); err != nil {
			return err
		}
		if err := member(key, at); err != nil {
			return err
		}
		if s.next('}') {
			return nil
		}
		if err := s.expect(',', "or '}' in", what); err != nil {
			return err
		}
	}
}

// duplicate returns the error about a duplicate key.
func (s *scanner) duplicate(key, what string, at int) error {
	return s.failAt(at, ErrDuplicateKey, fmt.Sprintf("%q in %s", key, what))
}

// numbers reads an array of at most most whole numbers. The result is valid until the next call.
func (s *scanner) numbers(what string, most int) ([]uint64, error) {
	if err := s.expect('[', "to begin", what); err != nil {
		return nil, err
	}
	s.list = s.list[:0]
	if s.next(']') {
		return s.list, nil
	}
	for {
		if len(s.list) == most {
			return nil, s.failAt(s.pos, ErrTooMany, fmt.Sprintf("%s has more than %d numbers", what, most))
		}
		n, err := s.number(what)
		if err != nil {
			return nil, err
		}
		s.list = append(s.list, n)
		if s.next(']') {
			return s.list, nil
		}
		if err := s.expect(',', "or ']' in", what); err != nil {
			return nil, err
		}
	}
}

// number reads a whole number that is not negative: digits without sign, fraction, exponent or
// leading zero.
func (s *scanner) number(what string) (uint64, error) {
	s.skipSpace()
	start := s.pos
	for s.pos < len(s.text) && '0' <= s.text[s.pos] && s.text[s.pos] <= '9' {
		s.pos++
	}
	digits := s.text[start:s.pos]
	if digits == "" {
		return 0, s.fail("a whole number that is not negative in " + what)
	}
	if len(digits) > 1 && digits[0] == '0' {
		return 0, s.failAt(start, ErrHeaderJSON, fmt.Sprintf("the number %s in %s begins with a zero", digits, what))
	}
	if s.pos < len(s.text) && (s.text[s.pos] == '.' || s.text[s.pos] == 'e' || s.text[s.pos] == 'E') {
		return 0, s.fail("a whole number in " + what)
	}
	n, err := strconv.ParseUint(digits, 10, 64)
	if errors.Is(err, strconv.ErrRange) {
		return 0, s.failAt(start, ErrHeaderJSON, fmt.Sprintf("the number in %s does not fit into 64 bits", what))
	}
	return n, err
}

// string reads a string.
func (s *scanner) string(role, what string) (string, error) {
	if !s.next('"') {
		return "", s.fail("a string, " + role + " " + what)
	}
	start := s.pos
	unescaped := s.buffer[:0]
	escapes := false // without escapes, the string is a substring of the text
	for s.pos < len(s.text) {
		c := s.text[s.pos]
		switch {
		case c == '"':
			s.pos++
			if escapes {
				s.buffer = unescaped
				s.escaped += len(unescaped)
				return string(unescaped), nil
			}
			return s.text[start : s.pos-1], nil
		case c < ' ':
			return "", s.fail("no control character in " + role + " " + what)
		case c == '\\':
			if !escapes {
				escapes = true
				unescaped = append(unescaped, s.text[start:s.pos]...)
			}
			r, err := s.escape()
			if err != nil {
				return "", err
			}
			unescaped = utf8.AppendRune(unescaped, r)
			if s.escaped+len(unescaped) > maxEscaped {
				return "", s.failAt(start, ErrTooMany, fmt.Sprintf("the strings with escapes have more than %d bytes",
					maxEscaped))
			}
		default:
			if escapes {
				unescaped = append(unescaped, c)
			}
			s.pos++
		}
	}
	return "", s.fail("'\"' to end " + role + " " + what)
}

// escape reads a backslash and what follows it.
func (s *scanner) escape() (rune, error) {
	start := s.pos
	s.pos++
	if s.pos == len(s.text) {
		return 0, s.fail("an escape")
	}
	c := s.text[s.pos]
	s.pos++
	switch c {
	case '"', '\\', '/':
		return rune(c), nil
	case 'b':
		return '\b', nil
	case 'f':
		return '\f', nil
	case 'n':
		return '\n', nil
	case 'r':
		return '\r', nil
	case 't':
		return '\t', nil
	case 'u':
		r, ok := s.hex4()
		if ok && utf16.IsSurrogate(r) {
			// Half of a surrogate pair: the other half must follow immediately.
			ok = s.pos+2 <= len(s.text) && s.text[s.pos] == '\\' && s.text[s.pos+1] == 'u'
			if ok {
				s.pos += 2
				var low rune
				low, ok = s.hex4()
				r = utf16.DecodeRune(r, low)
				ok = ok && r != utf8.RuneError
			}
		}
		if ok {
			return r, nil
		}
	}
	return 0, s.failAt(start, ErrHeaderJSON, "an escape that JSON does not have, or half of a surrogate pair")
}

// hex4 reads four hexadecimal digits.
func (s *scanner) hex4() (rune, bool) {
	if s.pos+4 > len(s.text) {
		return 0, false
	}
	var r rune
	for _, c := range []byte(s.text[s.pos : s.pos+4]) {
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c && c <= 'f':
			c -= 'a' - 10
		case 'A' <= c && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	s.pos += 4
	return r, true
}
