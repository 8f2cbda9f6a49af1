//go:build !race

package text

const blocksOfASweep = 1
