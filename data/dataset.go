// Package data feeds a run: data sets of samples, the order in which they are visited, and a loader that
// decodes and collates them in goroutines ahead of the training loop.
package data

// Dataset is a sized collection of samples. At is called by several goroutines at a time, with 0 <= i < Len().
type Dataset[S any] interface {
	Len() int
	At(i int) (S, error)
}
