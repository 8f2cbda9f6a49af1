package processors_test

import (
	"fmt"

	"github.com/gotrainer/gotrainer/text/encodings"
	"github.com/gotrainer/gotrainer/text/processors"
)

// of returns an encoding whose tokens are words, with ids that count up from first.
func of(first int64, words ...string) *encodings.Encoding {
	e := encodings.New(len(words))
	at := 0
	for i, word := range words {
		span := encodings.Span{Start: at, End: at + len(word)}
		e.Append(first+int64(i), 0, word, i, span, span)
		at += len(word) + 1
	}
	return e
}

// BERT's special tokens around a pair of texts.
func Example() {
	p, err := processors.NewTemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1",
		processors.SpecialToken{Token: "[CLS]", ID: 101}, processors.SpecialToken{Token: "[SEP]", ID: 102})
	if err != nil {
		fmt.Println(err)
		return
	}
	e, err := processors.Process(p, of(7, "who", "is"), of(9, "it"), true)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(e.Tokens)
	fmt.Println(e.IDs)
	fmt.Println(e.TypeIDs)
	// Output:
	// [[CLS] who is [SEP] it [SEP]]
	// [101 7 8 102 9 102]
	// [0 0 0 0 1 1]
}
