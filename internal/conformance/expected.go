package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/gotrainer/gotrainer/internal/expected"
)

// tally counts outcomes. Every mode ends with it.
type tally struct{ passed, failed, unsupported int }

// runExpected is the mode -expected. A file that cannot be read counts as a failed entry.
func runExpected(files []string, o expected.Options, out io.Writer) int {
	var t tally
	for _, file := range files {
		entries, err := expected.Read(file, o)
		if err != nil {
			t.print(out, file, err)
			continue
		}
		for _, e := range entries {
			t.print(out, file+" "+e.Name, e.Run())
		}
	}
	return t.end(out)
}

// print prints the outcome of an entry and counts it.
func (t *tally) print(out io.Writer, name string, err error) {
	var missing *expected.Unsupported
	switch {
	case err == nil:
		t.passed++
		fmt.Fprintf(out, "pass %s\n", name)
	case errors.As(err, &missing):
		t.unsupported++
		fmt.Fprintf(out, "unsupported %s: %v\n", name, err)
	default:
		t.failed++
		fmt.Fprintf(out, "FAIL %s: %v\n", name, err)
	}
}

// end prints the sums and returns the exit status.
func (t *tally) end(out io.Writer) int {
	fmt.Fprintf(out, "%d entries: %d passed, %d failed, %d unsupported\n", t.passed+t.failed+t.unsupported, t.passed,
		t.failed, t.unsupported)
	if t.failed+t.unsupported > 0 {
		return 1
	}
	return 0
}
