// Package goldencount counts what golden tests compare, so that numbers in the documentation can be
// verified:
//
//	GOTRAINER_GOLDEN_COUNT=/tmp/count go test ./... && go run ./internal/goldencount/report /tmp/count
//
// A test starts a case and reports each comparison; package internal/golden reports its own:
//
//	c := goldencount.Start(t, "schedules", "CosineAnnealingLR 3")
//	c.Compare(got == want)
//
// Without the environment variable a case costs nothing and writes nothing. The package is pure Go,
// so that tests of pure packages can use it.
package goldencount

import (
	"encoding/json"
	"os"
	"strings"
	"sync"
	"testing"
)

// File is the environment variable with the name of the file to which cases are appended, one line
// of JSON each.
const File = "GOTRAINER_GOLDEN_COUNT"

// Binaries is the environment variable with the name of a folder in which the test binaries that count
// cases are kept, by the names that KeptAs gives them. go test removes those that it runs.
const Binaries = "GOTRAINER_GOLDEN_BINARIES"

// Record is a line of the file.
type Record struct {
	Family   string // "operators"
	Name     string // of the case, unique in its family
	Test     string // the test that compared it, without names of subtests
	Compared int    // number of values or tensors compared
	Equal    int    // number of those that were bitwise equal
	Reason   string // why the others are not
	Failed   bool   // the test failed
}

// Case counts the comparisons of a case.
type Case struct {
	mu     sync.Mutex
	record Record
}

var (
	mu    sync.Mutex
	cases = map[testing.TB]*Case{}
)

// Start starts a case that ends with the test t. A case that several tests compare in different
// ways counts once, and is bitwise equal only if it is in all of them.
func Start(t testing.TB, family, name string) *Case {
	path := os.Getenv(File)
	if path == "" {
		return nil
	}
	if folder := os.Getenv(Binaries); folder != "" {
		if err := keepOnce(folder); err != nil {
			t.Error(err)
		}
	}
	test, _, _ := strings.Cut(t.Name(), "/")
	c := &Case{record: Record{Family: family, Name: name, Test: test}}
	mu.Lock()
	cases[t] = c
	mu.Unlock()
	t.Cleanup(func() {
		mu.Lock()
		delete(cases, t)
		mu.Unlock()
		c.write(t, path)
	})
	return c
}

// Of returns the case that t has started, or nil.
func Of(t testing.TB) *Case {
	mu.Lock()
	defer mu.Unlock()
	return cases[t]
}

// Compare records a comparison: whether all bits were equal. A nil Case ignores it.
func (c *Case) Compare(equal bool) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.record.Compared++
	if equal {
		c.record.Equal++
	}
}

// Explain says why bits in this case may differ. The first non-empty reason counts.
func (c *Case) Explain(reason string) {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.record.Reason == "" {
		c.record.Reason = reason
	}
}

// write appends the record with a single write, so that lines of packages that are tested at the
// same time do not mix.
func (c *Case) write(t testing.TB, path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t.Skipped() {
		return
	}
	c.record.Failed = t.Failed()
	line, err := json.Marshal(c.record)
	if err != nil {
		t.Error(err)
		return
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Error(err)
		return
	}
	if _, err := f.Write(append(line, '\n')); err != nil {
		t.Error(err)
	}
	if err := f.Close(); err != nil {
		t.Error(err)
	}
}
