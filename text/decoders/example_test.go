package decoders_test

import (
	"fmt"

	"github.com/gotrainer/gotrainer/text/decoders"
)

// A decoder joins the model's tokens to a text.
func Example() {
	fmt.Println(decoders.Decode(decoders.DefaultWordPiece(), []string{"token", "##izer", "##s", "are", "fast", "."}))
	fmt.Println(decoders.Decode(decoders.ByteLevel{}, []string{"caf", "Ã©", "Ġau", "Ġlait"}))
	// Output:
	// tokenizers are fast.
	// café au lait
}
