package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// open opens a store that is closed at the end of the test.
func open(t testing.TB, dir string, o Options) *Store {
	t.Helper()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

// files returns a function for Write that puts these files into the folder.
func files(content map[string]string) func(string) error {
	return func(dir string) error {
		for name, text := range content {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
				return err
			}
			if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
				return err
			}
		}
		return nil
	}
}

// state is what the tests save: a few files, one in a folder, one empty.
func state(text string) func(string) error {
	return files(map[string]string{"model.safetensors": text, "rng/0": "seed " + text, "empty": ""})
}

// save writes a checkpoint.
func save(t testing.TB, s *Store, step int, text string) string {
	t.Helper()
	path, err := s.Write(step, state(text))
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// content returns what state saved.
func content(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(path, "model.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// names returns all names in a folder except for that of the lock.
func names(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	list := []string{}
	for _, e := range entries {
		if e.Name() != lockName {
			list = append(list, e.Name())
		}
	}
	return list
}

func TestWriteThenLatest(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	if _, err := s.Latest(); !errors.Is(err, ErrNone) {
		t.Errorf("Latest() of an empty folder = %v, want ErrNone", err)
	}
	for _, step := range []int{5, 100, 20, 0} { // the step counts, not the time
		path := save(t, s, step, fmt.Sprint("step ", step))
		if want := filepath.Join(s.Dir(), fmt.Sprint("checkpoint-", step)); path != want {
			t.Errorf("Write(%d) = %q, want %q", step, path, want)
		}
		if err := Verify(path); err != nil {
			t.Error(err)
		}
	}
	latest, err := s.Latest()
	if err != nil || content(t, latest) != "step 100" {
		t.Errorf("Latest() = %q, %v, want step 100", latest, err)
	}
	if steps, err := s.Steps(); fmt.Sprint(steps) != "[0 5 20 100]" || err != nil {
		t.Errorf("Steps() = %v, %v", steps, err)
	}
}

func TestWriteReplacesACheckpointOfTheSameStep(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	save(t, s, 1, "old")
	path := save(t, s, 1, "new")
	if got := content(t, path); got != "new" || Verify(path) != nil {
		t.Errorf("checkpoint-1 holds %q (%v), want new", got, Verify(path))
	}
	if got := names(t, s.Dir()); fmt.Sprint(got) != "[checkpoint-1]" {
		t.Errorf("the folder holds %v, want checkpoint-1 only", got)
	}
}

func TestManifestListsEveryFile(t *testing.T) {
	s := open(t, t.TempDir(), Options{Prefix: "state"})
	path := save(t, s, 7, "123456789")
	text, err := os.ReadFile(filepath.Join(path, ManifestName))
	if err != nil {
		t.Fatal(err)
	}
	var m manifest
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	// 0xe3069283 is the check value of CRC-32C
	want := []file{{"empty", 0, "00000000", nil}, {"model.safetensors", 9, "e3069283", nil},
		{"rng/0", 14, m.Files[2].CRC32C, nil}}
	if m.Step != 7 || fmt.Sprint(m.Files) != fmt.Sprint(want) || filepath.Base(path) != "state-7" {
		t.Errorf("%s: step %d of %v, want 7 of %v", path, m.Step, m.Files, want)
	}
}

func TestAFailedWriteLeavesNothing(t *testing.T) {
	broken := errors.New("device lost")
	for name, write := range map[string]func(string) error{
		"an error": func(dir string) error { return errors.Join(state("half")(dir), broken) },
		"a file that is no file": func(dir string) error {
			return os.Symlink("/etc/passwd", filepath.Join(dir, "link"))
		},
	} {
		s := open(t, t.TempDir(), Options{})
		save(t, s, 1, "old")
		_, err := s.Write(2, write)
		if err == nil || !strings.Contains(err.Error(), s.Path(2)) {
			t.Errorf("Write with %s = %v, want an error that names the checkpoint", name, err)
		}
		if got := names(t, s.Dir()); fmt.Sprint(got) != "[checkpoint-1]" {
			t.Errorf("after %s the folder holds %v, want checkpoint-1 only", name, got)
		}
	}
	s := open(t, t.TempDir(), Options{})
	func() {
		defer func() { _ = recover() }()
		_, _ = s.Write(1, func(string) error { panic("bug") })
	}()
	if got := names(t, s.Dir()); len(got) > 0 {
		t.Errorf("after a panic the folder holds %v, want nothing", got)
	}
	save(t, s, 2, "the store still works")
	if _, err := s.Write(-1, state("")); err == nil {
		t.Error("Write took step -1")
	}
}

func TestOpenRefuses(t *testing.T) {
	for name, o := range map[string]Options{"a negative Keep": {Keep: -1}, "a path as prefix": {Prefix: "a/b"},
		"a hidden prefix": {Prefix: ".a"}} {
		if _, err := Open(t.TempDir(), o); err == nil {
			t.Errorf("Open took %s", name)
		}
	}
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, Options{}); err == nil {
		t.Error("Open took a file for a folder")
	}
}

func TestTheFolderHasOneStore(t *testing.T) {
	dir := t.TempDir()
	first, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = Open(dir, Options{})
	var locked *LockedError
	host, _ := os.Hostname()
	if !errors.As(err, &locked) || locked.PID != os.Getpid() || locked.Host != host || locked.Since.IsZero() {
		t.Fatalf("the second Open = %v, want a LockedError of process %d on %s", err, os.Getpid(), host)
	}
	if text := err.Error(); !strings.Contains(text, fmt.Sprint("process ", os.Getpid(), " on ", host)) {
		t.Errorf("the error %q does not name the holder", text)
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, dir, Options{})
}

func TestOpenTidiesUp(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	save(t, s, 1, "one")
	save(t, s, 2, "two")
	save(t, s, 3, "three")
	s.Close()
	for from, to := range map[string]string{
		"checkpoint-2": ".checkpoint-2" + replaced + "0000abcd", // killed between two renames
		"checkpoint-3": ".checkpoint-3" + dropped + "0000abcd",  // killed while deleting
	} {
		if err := os.Rename(filepath.Join(dir, from), filepath.Join(dir, to)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{".checkpoint-4" + unfinished + "0000abcd", ".checkpoint-1" + replaced + "0000abcd",
		".mine", ".other-1" + unfinished + "0000abcd", "notes"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	s = open(t, dir, Options{})
	want := "[.mine .other-1.unfinished-0000abcd checkpoint-1 checkpoint-2 notes]"
	if got := names(t, dir); fmt.Sprint(got) != want {
		t.Errorf("the folder holds %v, want %s", got, want)
	}
	if latest, err := s.Latest(); err != nil || content(t, latest) != "two" {
		t.Errorf("Latest() = %q, %v, want the checkpoint that was put back", latest, err)
	}
}

func TestStepsIgnoresOtherNames(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"checkpoint-007", "checkpoint-", "checkpoint--1", "checkpoint-+1", "checkpoint-1a",
		"checkpoint-best", "xcheckpoint-1", "checkpoint-99999999999999999999", "checkpoint-12"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "checkpoint-13"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if steps, err := open(t, dir, Options{}).Steps(); fmt.Sprint(steps) != "[12]" || err != nil {
		t.Errorf("Steps() = %v, %v, want [12]", steps, err)
	}
}
