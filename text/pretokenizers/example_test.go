package pretokenizers_test

import (
	"fmt"

	"github.com/gotrainer/gotrainer/text/normalizers"
	"github.com/gotrainer/gotrainer/text/pretokenizers"
)

// Words are returned with their positions in the text.
func Example() {
	for _, word := range (pretokenizers.BertPreTokenizer{}).PreTokenize(normalizers.NewString("Hello, world")) {
		fmt.Printf("%q at %d\n", word.Text(), word.Start())
	}
	// Output:
	// "Hello" at 0
	// "," at 5
	// "world" at 7
}
