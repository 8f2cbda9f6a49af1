// Package dims expands lists of sizes to one number for each dimension of a convolution, pooling or
// padding.
package dims

import (
	"fmt"

	"github.com/gotrainer/gotrainer/torch"
)

// Spread expands list to n numbers: a single number applies to all dimensions, and an empty list
// means the default. It panics on behalf of op if the list has any other length.
func Spread(op, name string, list []int64, standard int64, n int) []int64 {
	if len(list) == 0 {
		list = []int64{standard}
	}
	return Required(op, name, list, n)
}

// Required is like [Spread] for a list that has no default.
func Required(op, name string, list []int64, n int) []int64 {
	if len(list) != 1 && len(list) != n {
		want := "1 number"
		if n > 1 {
			want = fmt.Sprintf("1 or %d numbers", n)
		}
		panic(torch.Errorf(op, torch.ErrValue, "%s has %d numbers; want %s", name, len(list), want))
	}
	all := make([]int64, n)
	for i := range all {
		all[i] = list[min(i, len(list)-1)]
	}
	return all
}
