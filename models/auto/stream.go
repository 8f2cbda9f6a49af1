package auto

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// streamTo returns a function that is called with the tokens of a growing text. It passes on the
// parts that later tokens will not change, and the rest when the text has ended: TextStreamer of
// transformers.
func (m *Model) streamTo(stream func(part string)) func(ids []int64, ended bool) {
	if m.Tokenizer == nil {
		return nil
	}
	told := 0 // bytes passed on so far
	return func(ids []int64, ended bool) {
		text := m.Tokenizer.Target().Decode(ids, nil)
		end := len(text)
		if !ended {
			end = final(text)
		}
		if end > told {
			stream(text[told:end])
			told = end
		}
	}
}

// final returns how many bytes of a text will not change any more: those up to the end of its last
// complete word or line, or of its last ideograph, which is a word by itself.
func final(text string) int {
	if last, _ := utf8.DecodeLastRuneInString(text); last == '\n' || unicode.Is(unicode.Han, last) {
		return len(text)
	}
	return strings.LastIndexByte(text, ' ') + 1
}
