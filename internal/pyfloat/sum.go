package pyfloat

// PairwiseSum is numpy's sum of a contiguous array: blocks of up to 128 numbers in eight partial
// sums, and longer arrays in halves.
func PairwiseSum[T float32 | float64](a []T) T {
	n := len(a)
	switch {
	case n < 8:
		var sum T
		for _, v := range a {
			sum += v
		}
		return sum
	case n <= 128:
		var r [8]T
		copy(r[:], a)
		i := 8
		for ; i < n-n%8; i += 8 {
			for j := range r {
				r[j] += a[i+j]
			}
		}
		sum := ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]))
		for ; i < n; i++ {
			sum += a[i]
		}
		return sum
	}
	half := n / 2
	half -= half % 8
	return PairwiseSum(a[:half]) + PairwiseSum(a[half:])
}
