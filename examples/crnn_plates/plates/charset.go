package plates

import (
	"fmt"
	"strings"
)

// charset is the default of Hezar's OCR data set (ocr_dataset.py), in its order; class 0 is CTC's
// blank.
var charset = []string{
	"", "آ", "ا", "ب", "پ", "ت", "ث", "ج", "چ", "ح", "خ", "د", "ذ", "ر", "ز", "ژ", "س", "ش",
	"ص", "ض", "ط", "ظ", "ع", "غ", "ف", "ق", "ک", "گ", "ل", "م", "ن", "و", "ه", "ی", " ",
	"۱", "۲", "۳", "۴", "۵", "۶", "۷", "۸", "۹", "۰",
	"ء", "ؤ", "ئ", "أ", "ّ",
	"/", "(", ")", "+", "-", ":", "،", "!", ".", "؛", "=", "%", "؟",
	"1", "2", "3", "4", "5", "6", "7", "8", "9", "0",
}

// Charset returns the 73 classes that Hezar's readers know, by class number; class 0, "", is CTC's
// blank. Plates use 35 of them; the others are kept so that published weights fit.
func Charset() []string { return append([]string(nil), charset...) }

var classOf = func() map[rune]int64 {
	m := make(map[rune]int64)
	for i, s := range charset {
		for _, r := range s {
			m[r] = int64(i)
		}
	}
	return m
}()

// Encode returns the classes of a label, one for each code point.
func Encode(label string) ([]int64, error) {
	ids := make([]int64, 0, 10)
	for i, r := range label {
		id, ok := classOf[r]
		if !ok {
			return nil, fmt.Errorf("plates: label %q: character %q at byte %d is not in the charset of %d classes",
				label, r, i, len(charset))
		}
		ids = append(ids, id)
	}
	return ids, nil
}

// Decode joins the characters of classes and drops blanks. It does not merge repeats, which is CTC
// decoding.
func Decode(ids []int64) (string, error) {
	var b strings.Builder
	for i, id := range ids {
		if id < 0 || id >= int64(len(charset)) {
			return "", fmt.Errorf("plates: class %d at position %d: want 0 to %d", id, i, len(charset)-1)
		}
		b.WriteString(charset[id])
	}
	return b.String(), nil
}
