package text_test

import (
	"context"
	"fmt"

	"github.com/gotrainer/gotrainer/text"
	"github.com/gotrainer/gotrainer/text/models"
	"github.com/gotrainer/gotrainer/text/normalizers"
	"github.com/gotrainer/gotrainer/text/pretokenizers"
)

// vocabulary is a small vocabulary for BERT.
var vocabulary = map[string]int64{"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "token": 5, "##izer": 6,
	"##s": 7, "cut": 8, "text": 9, ".": 10}

func ExampleNewBert() {
	tok, err := text.NewBert(vocabulary, text.BertOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	e, err := tok.Encode("Tokenizers cut text.", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(e.Tokens)
	fmt.Println(e.IDs)
	fmt.Println(e.Offsets)
	fmt.Println(tok.Decode(e.IDs, nil))
	// Output:
	// [[CLS] token ##izer ##s cut text . [SEP]]
	// [2 5 6 7 8 9 10 3]
	// [{0 0} {0 5} {5 9} {9 10} {11 14} {15 19} {19 20} {0 0}]
	// tokenizers cut text.
}

func ExampleTokenizer_EncodeBatch() {
	tok, err := text.NewBert(vocabulary, text.BertOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	if tok, err = tok.WithTruncation(&text.Truncation{MaxLength: 6}); err != nil {
		fmt.Println(err)
		return
	}
	if tok, err = tok.WithPadding(&text.Padding{}); err != nil {
		fmt.Println(err)
		return
	}
	batch, err := tok.EncodeBatch(context.Background(), []text.Input{text.Single("text"),
		text.Pair("token", "cut text.")}, nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range batch {
		fmt.Println(e.IDs, e.TypeIDs, e.AttentionMask)
	}
	// Output:
	// [2 9 3 0 0 0] [0 0 0 0 0 0] [1 1 1 0 0 0]
	// [2 5 3 8 9 3] [0 0 0 1 1 1] [1 1 1 1 1 1]
}

func ExampleNew() {
	model, err := models.NewWordLevel(map[string]int64{"سلام": 0, "دنیا": 1, "؟": 2, "<unk>": 3}, "<unk>")
	if err != nil {
		fmt.Println(err)
		return
	}
	tok, err := text.New(text.Config{Normalizer: normalizers.NFKC{}, PreTokenizer: pretokenizers.Whitespace{},
		Model: model})
	if err != nil {
		fmt.Println(err)
		return
	}
	e, err := tok.Encode("سلام دنیای؟", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(e.IDs, e.Offsets)
	// Output: [0 3 2] [{0 4} {5 10} {10 11}]
}
