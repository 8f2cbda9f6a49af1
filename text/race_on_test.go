//go:build race

package text

// The race detector makes the sweeps over all code points and whole data sets twenty times slower
// and can find little in them, so with it they take one block in eight.
const blocksOfASweep = 8
