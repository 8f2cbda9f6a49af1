package normalizers_test

import (
	"fmt"

	"github.com/gotrainer/gotrainer/text/normalizers"
)

// A normalizer changes the text and keeps the alignment of every byte with the original.
func Example() {
	s := normalizers.NewString("Ünïcode")
	n := normalizers.Sequence{normalizers.NFD{}, normalizers.StripAccents{}, normalizers.Lowercase{}}
	n.Normalize(&s)
	fmt.Println(s.Text(), s.Original(0, 1))
	// Output: unicode {0 2}
}
