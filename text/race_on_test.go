//go:build race

package text

// The race detector makes the sweeps over all code points and whole data sets twenty times slower,
// and has little to find in them: under it they take one block in eight. make test runs this
// package once more without it.
const blocksOfASweep = 8
