package models_test

import (
	"fmt"

	"github.com/gotrainer/gotrainer/text/models"
)

// WordPiece repeatedly takes the longest piece in the vocabulary.
func Example() {
	vocabulary := map[string]int64{"[UNK]": 0, "token": 1, "##izer": 2, "##s": 3}
	m, err := models.NewWordPiece(vocabulary, models.WordPieceOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, word := range []string{"tokenizers", "models"} {
		tokens, err := m.Tokenize(nil, word)
		fmt.Print(word, ":")
		for _, t := range tokens {
			fmt.Print(" ", t.ID, " ", t.Value)
		}
		fmt.Println("", err)
	}
	// Output:
	// tokenizers: 1 token 2 ##izer 3 ##s <nil>
	// models: 0 [UNK] <nil>
}
