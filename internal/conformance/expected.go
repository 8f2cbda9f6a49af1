package main

import (
	"fmt"
	"io"

	"github.com/gotrainer/gotrainer/internal/expected"
)

// passed is the verdict on an entry that holds.
const passed = "pass"

// runExpected is the mode -expected. A file that cannot be read counts as a failed entry.
func runExpected(files []string, o expected.Options, out io.Writer) int {
	v := &verdicts{out: out, counts: map[string]int{}}
	add := func(name string, err error) {
		result := outcomeOf(name, 0, "", false, err)
		if err == nil {
			result.Verdict = passed
		}
		v.add(result)
	}
	for _, file := range files {
		entries, err := expected.Read(file, o)
		if err != nil {
			add(file, err)
		}
		for _, e := range entries {
			add(file+" "+e.Name, e.Run())
		}
	}
	fmt.Fprintf(out, "%d entries: %d passed, %d failed, %d unsupported\n", v.total, v.counts[passed],
		v.counts[failed], v.counts[unsupported])
	return v.status()
}
