package testenv

import (
	"io"
	"os"
	"testing"
)

// Stdout returns what f prints to standard output, and its error.
func Stdout(t testing.TB, f func() error) (string, error) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	stdout := os.Stdout
	os.Stdout = w
	defer func() { os.Stdout = stdout }()
	out := make(chan string, 1)
	go func() { // while f runs: a pipe holds only a few pages
		text, _ := io.ReadAll(r)
		out <- string(text)
	}()
	err = func() error {
		defer w.Close() // also if f ends because a test fails
		return f()
	}()
	return <-out, err
}
