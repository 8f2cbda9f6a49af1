package text

import (
	"regexp"
	"slices"
)

// digitRun is the pattern of Hezar's reverse_string_digits in Go's terms.
var digitRun = regexp.MustCompile(`\p{Nd}+(?:\P{Nd}\p{Nd}+)*`)

// ReverseDigits reverses every run of digits, including single other characters between digits:
// hezar.utils.reverse_string_digits. Applied twice, it restores the text. Readers of Persian text
// learn from mirrored pictures, and this makes the label of a number match: ۱۲ب۳۴۵۶۷ becomes
// ۷۶۵۴۳ب۲۱. If two or more other characters stand between digits, as in ۱۲الف۳۴, the runs are
// reversed separately, which is not the order of the mirrored picture.
func ReverseDigits(s string) string {
	return digitRun.ReplaceAllStringFunc(s, func(run string) string {
		r := []rune(run)
		slices.Reverse(r)
		return string(r)
	})
}
