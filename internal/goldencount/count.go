// Package goldencount counts what golden tests compare, so that nobody has to believe a number in a
// text:
//
//	GOTRAINER_GOLDEN_COUNT=/tmp/count go test ./... && go run ./internal/goldencount/report /tmp/count
//
// A test begins a case and tells each comparison; package internal/golden tells its own:
//
//	c := goldencount.Start(t, "schedules", "CosineAnnealingLR 3")
//	c.Compare(got == want)
//
// Without the environment variable a case costs nothing and writes nothing. The package is pure Go,
// for the tests of pure packages.
package goldencount

import (
	"encoding/json"
	"os"
	"strings"
	"sync"
	"testing"
)

// File is the environment variable that names the file to which cases are appended, a line of JSON
// each.
const File = "GOTRAINER_GOLDEN_COUNT"

// Record is a line of the file.
type Record struct {
	Family   string // "operators"
	Name     string // of the case, unique in its family
	Test     string // that compared it, without the names of its subtests
	Compared int    // values or tensors that were compared
	Equal    int    // those of them that were equal in every bit
	Reason   string // why others are not
	Failed   bool   // the test failed
}

// Case gathers the comparisons of a case.
type Case struct {
	mu     sync.Mutex
	record Record
}

var (
	mu    sync.Mutex
	cases = map[testing.TB]*Case{}
)

// Start begins a case that ends with the test t. A case that several tests compare, each in its own
// way, counts once, and is equal in every bit only if it is so in all of them.
func Start(t testing.TB, family, name string) *Case {
	path := os.Getenv(File)
	if path == "" {
		return nil
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

// Of returns the case that t began, nil if it began none.
func Of(t testing.TB) *Case {
	mu.Lock()
	defer mu.Unlock()
	return cases[t]
}

// Compare tells a comparison: whether all bits were equal. A nil Case takes no notice.
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

// Explain says why bits of this case may differ. The first reason counts; an empty one is none.
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

// write appends the record; one write, so that the lines of packages that are tested at the same
// time do not mix.
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
