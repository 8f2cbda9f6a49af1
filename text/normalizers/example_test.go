package normalizers_test

import (
	"fmt"

	"github.com/gotrainer/gotrainer/text/normalizers"
)

// The text changes; what each byte of it stands for in the original is kept.
func Example() {
	s := normalizers.NewString("Ünïcode")
	n := normalizers.Sequence{normalizers.NFD{}, normalizers.StripAccents{}, normalizers.Lowercase{}}
	n.Normalize(&s)
	fmt.Println(s.Text(), s.Original(0, 1))
	// Output: unicode {0 2}
}
