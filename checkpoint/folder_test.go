package checkpoint_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/gotrainer/gotrainer/checkpoint"
)

func TestWriteFolder(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "runs", "step_3")
	fill := func(text string) func(string) error {
		return func(dir string) error { return os.WriteFile(filepath.Join(dir, "a.txt"), []byte(text), 0o666) }
	}
	holds := func(want string) {
		t.Helper()
		if err := checkpoint.Verify(path); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(filepath.Join(path, "a.txt")); err != nil || string(got) != want {
			t.Errorf("the folder holds %q (%v), want %q", got, err, want)
		}
		entries, err := os.ReadDir(filepath.Dir(path))
		if err != nil || len(entries) != 1 {
			t.Errorf("something else is left: %v (%v)", entries, err)
		}
	}
	if err := checkpoint.WriteFolder(path, fill("first")); err != nil {
		t.Fatal(err)
	}
	holds("first")
	if err := checkpoint.WriteFolder(path, fill("second")); err != nil {
		t.Fatal(err)
	}
	holds("second")

	failure := errors.New("no more ink")
	if err := checkpoint.WriteFolder(path, func(string) error { return failure }); !errors.Is(err, failure) {
		t.Errorf("a failed save returned %v, want %v", err, failure)
	}
	holds("second")

	// What is left by a process that was killed while it was writing, and by one that was killed
	// between the renames of a replacement.
	parent := filepath.Dir(path)
	if err := os.Mkdir(filepath.Join(parent, ".step_3.unfinished-00000001"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path, filepath.Join(parent, ".step_3.replaced-00000002")); err != nil {
		t.Fatal(err)
	}
	if err := checkpoint.WriteFolder(path, func(string) error { return failure }); !errors.Is(err, failure) {
		t.Errorf("a failed save returned %v, want %v", err, failure)
	}
	holds("second")
}
