package text

import (
	"regexp"
	"slices"
)

// digitRun is the pattern of Hezar's reverse_string_digits in Go's terms.
var digitRun = regexp.MustCompile(`\p{Nd}+(?:\P{Nd}\p{Nd}+)*`)

// ReverseDigits turns round every stretch of digits, single other characters between digits
// included: it is hezar.utils.reverse_string_digits. Applied twice it gives the text back. Readers
// of Persian text learn from mirrored pictures, and this is how the label of a number follows:
// ۱۲ب۳۴۵۶۷ becomes ۷۶۵۴۳ب۲۱. Where two or more other characters stand between digits, as in
// ۱۲الف۳۴, the stretches are turned round one by one, which is not the order of the mirrored
// picture.
func ReverseDigits(s string) string {
	return digitRun.ReplaceAllStringFunc(s, func(run string) string {
		r := []rune(run)
		slices.Reverse(r)
		return string(r)
	})
}
