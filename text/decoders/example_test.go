package decoders_test

import (
	"fmt"

	"github.com/gotrainer/gotrainer/text/decoders"
)

// The decoder knows how the model's tokens are joined.
func Example() {
	fmt.Println(decoders.Decode(decoders.DefaultWordPiece(), []string{"token", "##izer", "##s", "are", "fast", "."}))
	fmt.Println(decoders.Decode(decoders.ByteLevel{}, []string{"caf", "Ã©", "Ġau", "Ġlait"}))
	// Output:
	// tokenizers are fast.
	// café au lait
}
