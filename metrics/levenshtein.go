package metrics

// Levenshtein returns the least number of substitutions, deletions and insertions that turn a into
// b. Its time is proportional to len(a)*len(b) and its memory to the shorter of them; a common
// prefix or suffix costs little.
func Levenshtein[T comparable](a, b []T) int {
	for len(a) > 0 && len(b) > 0 && a[0] == b[0] {
		a, b = a[1:], b[1:]
	}
	for len(a) > 0 && len(b) > 0 && a[len(a)-1] == b[len(b)-1] {
		a, b = a[:len(a)-1], b[:len(b)-1]
	}
	if len(b) > len(a) {
		a, b = b, a
	}
	if len(b) == 0 {
		return len(a)
	}
	// above[j] is the distance between b[:j] and the part of a that precedes the current row.
	above, row := make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i, x := range a {
		row[0] = i + 1
		for j, y := range b {
			cost := 1
			if x == y {
				cost = 0
			}
			row[j+1] = min(above[j]+cost, above[j+1]+1, row[j]+1)
		}
		above, row = row, above
	}
	return above[len(b)]
}
