package table

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
)

// These functions walk over one JSON value (RFC 8259), check it, and return the keys and values of
// an object as parts of the text. They rarely allocate, while encoding/json would decode columns
// that no field needs.

const maxDepth = 100 // nested values; more is not a table

var errJSONEnd = errors.New("the JSON ends in the middle of a value")

// walkObject calls visit with each key and value of the object in text, which must hold nothing
// else.
func walkObject(text string, visit func(key, value string) error) error {
	i := space(text, 0)
	if i < len(text) && text[i] == '[' {
		return fmt.Errorf("want a JSON object, found an array, %.20q; read a file that is one array with encoding/json, "+
			"into a data.Slice", text[i:])
	}
	if i >= len(text) || text[i] != '{' {
		return fmt.Errorf("want a JSON object, found %.20q", text[i:])
	}
	i = space(text, i+1)
	if i < len(text) && text[i] == '}' {
		return atEnd(text, i+1)
	}
	for {
		end, err := skipString(text, i)
		if err != nil {
			return fmt.Errorf("a key: %w", err)
		}
		key, err := unquoteJSON(text[i:end])
		if err != nil {
			return err
		}
		if i = space(text, end); i >= len(text) || text[i] != ':' {
			return fmt.Errorf("want a colon after the key %q", key)
		}
		i = space(text, i+1)
		if end, err = skipValue(text, i, 0); err != nil {
			return fmt.Errorf("column %q: %w", key, err)
		}
		if err := visit(key, text[i:end]); err != nil {
			return fmt.Errorf("column %q: %w", key, err)
		}
		i = space(text, end)
		switch {
		case i >= len(text):
			return errJSONEnd
		case text[i] == '}':
			return atEnd(text, i+1)
		case text[i] != ',':
			return fmt.Errorf("want a comma or } after the column %q, found %.20q", key, text[i:])
		}
		i = space(text, i+1)
	}
}

// walkArray calls visit with each item of an array that has been checked.
func walkArray(text string, visit func(item string) error) error {
	for i := space(text, 1); text[i] != ']'; {
		end, err := skipValue(text, i, 0)
		if err != nil {
			return err
		}
		if err := visit(text[i:end]); err != nil {
			return err
		}
		if i = space(text, end); text[i] == ',' {
			i = space(text, i+1)
		}
	}
	return nil
}

func atEnd(text string, i int) error {
	if i = space(text, i); i < len(text) {
		return fmt.Errorf("text after the JSON object, %.20q", text[i:])
	}
	return nil
}

func space(text string, i int) int {
	for i < len(text) && (text[i] == ' ' || text[i] == '\t' || text[i] == '\r' || text[i] == '\n') {
		i++
	}
	return i
}

// skipValue returns the end of the value that begins at text[i].
func skipValue(text string, i, depth int) (int, error) {
	if i >= len(text) {
		return 0, errJSONEnd
	}
	if depth > maxDepth {
		return 0, fmt.Errorf("values nested more than %d deep", maxDepth)
	}
	switch c := text[i]; {
	case c == '"':
		return skipString(text, i)
	case c == '{' || c == '[':
		return skipNested(text, i, depth)
	case c == '-' || c >= '0' && c <= '9':
		return skipNumber(text, i)
	}
	for _, word := range []string{"null", "true", "false"} {
		if strings.HasPrefix(text[i:], word) {
			return i + len(word), nil
		}
	}
	return 0, fmt.Errorf("%.20q is not a JSON value", text[i:])
}

// skipNested returns the end of the array or object that begins at text[i].
func skipNested(text string, i, depth int) (int, error) {
	object, last := text[i] == '{', byte(']')
	if object {
		last = '}'
	}
	if i = space(text, i+1); i < len(text) && text[i] == last {
		return i + 1, nil
	}
	for {
		var err error
		if object {
			if i, err = skipString(text, i); err != nil {
				return 0, err
			}
			if i = space(text, i); i >= len(text) || text[i] != ':' {
				return 0, errors.New("want a colon after a key")
			}
			i = space(text, i+1)
		}
		if i, err = skipValue(text, i, depth+1); err != nil {
			return 0, err
		}
		switch i = space(text, i); {
		case i >= len(text):
			return 0, errJSONEnd
		case text[i] == last:
			return i + 1, nil
		case text[i] != ',':
			return 0, fmt.Errorf("want a comma or %c, found %.20q", last, text[i:])
		}
		i = space(text, i+1)
	}
}

// skipString returns the end of the string that begins at text[i].
func skipString(text string, i int) (int, error) {
	if i >= len(text) {
		return 0, errJSONEnd
	}
	if text[i] != '"' {
		return 0, fmt.Errorf("want a string, found %.20q", text[i:])
	}
	for i++; i < len(text); i++ {
		switch c := text[i]; {
		case c == '"':
			return i + 1, nil
		case c < ' ':
			return 0, fmt.Errorf("the control character %q in a string is not escaped", c)
		case c == '\\':
			if i++; i >= len(text) {
				return 0, errJSONEnd
			}
			if text[i] == 'u' {
				if i+4 >= len(text) {
					return 0, errJSONEnd
				}
				for _, h := range []byte(text[i+1 : i+5]) {
					if !strings.ContainsRune("0123456789abcdefABCDEF", rune(h)) {
						return 0, fmt.Errorf("%.6q is not a JSON escape", text[i-1:])
					}
				}
				i += 4
			} else if !strings.ContainsRune(`"\/bfnrt`, rune(text[i])) {
				return 0, fmt.Errorf("%.2q is not a JSON escape", text[i-1:])
			}
		}
	}
	return 0, errJSONEnd
}

// skipNumber returns the end of the number that begins at text[i].
func skipNumber(text string, i int) (int, error) {
	begin := i
	digits := func() bool {
		from := i
		for i < len(text) && text[i] >= '0' && text[i] <= '9' {
			i++
		}
		return i > from
	}
	if text[i] == '-' {
		i++
	}
	whole := i
	ok := digits() && (text[whole] != '0' || i == whole+1)
	if ok && i < len(text) && text[i] == '.' {
		i++
		ok = digits()
	}
	if ok && i < len(text) && (text[i] == 'e' || text[i] == 'E') {
		if i++; i < len(text) && (text[i] == '+' || text[i] == '-') {
			i++
		}
		ok = digits()
	}
	if !ok {
		return 0, fmt.Errorf("%.20q is not a JSON number", text[begin:])
	}
	return i, nil
}

// unquoteJSON returns the value of a JSON string that has been checked. Without escapes it shares
// the memory of the text.
func unquoteJSON(text string) (string, error) {
	if strings.IndexByte(text, '\\') < 0 {
		return text[1 : len(text)-1], nil
	}
	var s string
	err := json.Unmarshal([]byte(text), &s)
	return s, err
}

// kind returns the kind of a JSON value, in the words of the errors.
func kind(value string) string {
	switch value[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a bool"
	case 'n':
		return "null"
	}
	return "a number"
}
