package data

import (
	"fmt"
	"strings"
)

// SampleError says which sample of a data set could not be loaded, and why.
type SampleError struct {
	Index int    // in the data set
	What  string // what the data set calls the sample, see [Describer]; may be empty
	Err   error
}

func (e *SampleError) Error() string {
	if e.What == "" {
		return fmt.Sprintf("data: sample %d: %v", e.Index, e.Err)
	}
	return fmt.Sprintf("data: sample %d (%s): %v", e.Index, e.What, e.Err)
}

func (e *SampleError) Unwrap() error { return e.Err }

// BatchError says which batch of an epoch could not be made from its samples, and why.
type BatchError struct {
	Epoch, Batch int   // both counted from zero
	Indices      []int // its samples in the data set
	Err          error
}

func (e *BatchError) Error() string {
	return fmt.Sprintf("data: epoch %d, batch %d (samples %s): %v", e.Epoch, e.Batch, few(e.Indices), e.Err)
}

func (e *BatchError) Unwrap() error { return e.Err }

// PanicError is a panic in a data set or a collate function. The loader caught it in one of its
// goroutines, where it would have ended the program without saying which sample was at fault.
type PanicError struct {
	Value any
	Stack []byte // of the goroutine that panicked, from runtime/debug.Stack
}

func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v\n%s", e.Value, e.Stack) }

// Unwrap returns the value of the panic if it is an error.
func (e *PanicError) Unwrap() error {
	err, _ := e.Value.(error)
	return err
}

// few prints the first indices of a list and says how many more there are.
func few(indices []int) string {
	const limit = 8
	var b strings.Builder
	for k, i := range indices[:min(limit, len(indices))] {
		if k > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprint(&b, i)
	}
	if more := len(indices) - limit; more > 0 {
		fmt.Fprintf(&b, " and %d more", more)
	}
	return b.String()
}
