package datasets

import (
	"strings"

	"github.com/gotrainer/gotrainer/text"
)

// DefaultCharset returns the labels of Hezar's OCR data sets: the blank, Persian letters, digits
// and signs, and ASCII digits.
func DefaultCharset() []string {
	charset := []string{""}
	for _, r := range "آابپتثجچحخدذرزژسشصضطظعغفقکگلمنوهی " + "۱۲۳۴۵۶۷۸۹۰" + "ءؤئأ\u0651" + "/()+-:،!.؛=%؟" +
		"1234567890" {
		charset = append(charset, string(r))
	}
	return charset
}

// IsTextValid is hezar.utils.is_text_valid: it reports whether a text is not empty and contains
// only characters of the charset. As in Hezar, one line break at the end is allowed.
func IsTextValid(text string, charset []string) bool {
	known := strings.Join(charset, "")
	valid := func(text string) bool { return text != "" && strings.Trim(text, known) == "" }
	return valid(text) || valid(strings.TrimSuffix(text, "\n"))
}

// labelIDs maps each text of a charset to its ID. If two IDs have the same text, the later one
// wins.
func labelIDs(charset []string) map[string]int64 {
	ids := make(map[string]int64, len(charset))
	for id, label := range charset {
		ids[label] = int64(id)
	}
	return ids
}

// encode returns the IDs of the characters of a text, optionally with its runs of digits reversed.
// ok is false if a character has no ID.
func encode(label string, ids map[string]int64, reverseDigits bool) (list []int64, ok bool) {
	if reverseDigits {
		label = text.ReverseDigits(label)
	}
	for _, r := range label {
		id, known := ids[string(r)]
		if !known {
			return nil, false
		}
		list = append(list, id)
	}
	return list, true
}
