package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestEveryFailingFlushAndRename makes each flush and each rename of a save fail in turn.
func TestEveryFailingFlushAndRename(t *testing.T) {
	for _, step := range []int{1, 2} { // step 1 replaces the existing checkpoint, step 2 is new
		for _, call := range []string{"sync", "rename"} {
			for _, fault := range []error{syscall.EIO, syscall.ENOSPC} {
				for k := 1; ; k++ {
					if k > 100 {
						t.Fatal("a save never ends")
					}
					if !failAt(t, step, call, fault, k) {
						if k == 1 {
							t.Errorf("a save makes no %s", call)
						}
						break
					}
				}
			}
		}
	}
}

// failAt saves a step while the k-th call fails; it reports false if there was no such call.
func failAt(t *testing.T, step int, call string, fault error, k int) bool {
	t.Helper()
	s := open(t, t.TempDir(), Options{})
	save(t, s, 1, "old")
	n := 0
	count := func() error {
		if n++; n == k {
			return fault
		}
		return nil
	}
	sound := s.disk
	switch call {
	case "sync":
		s.disk.sync = func(f *os.File) error { return errors.Join(count(), sound.sync(f)) }
	case "rename":
		s.disk.rename = func(from, to string) error {
			if err := count(); err != nil {
				return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
			}
			return sound.rename(from, to)
		}
	}
	_, err := s.Write(step, state("new"))
	if n < k {
		if err != nil {
			t.Errorf("without a fault: %v", err)
		}
		return false
	}
	at := fmt.Sprintf("step %d, %v at %s %d", step, fault, call, k)
	if !errors.Is(err, fault) {
		t.Errorf("%s: Write = %v, want that error", at, err)
	}
	var space *SpaceError
	if errors.As(err, &space) != errors.Is(fault, syscall.ENOSPC) {
		t.Errorf("%s: Write = %v; a SpaceError is for a full disk", at, err)
	}
	if got := names(t, s.Dir()); fmt.Sprint(got) != "[checkpoint-1]" {
		t.Errorf("%s: the folder holds %v, want what it held before", at, got)
	}
	if latest, err := s.Latest(); err != nil || content(t, latest) != "old" {
		t.Errorf("%s: Latest() = %q, %v, want the old checkpoint", at, latest, err)
	}
	s.disk = sound
	save(t, s, step, "again")
	return true
}

func TestAFullDiskIsNamed(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	save(t, s, 1, "old")
	_, err := s.Write(2, func(dir string) error {
		return errors.Join(state("0123456789")(dir), &os.PathError{Op: "write", Path: dir, Err: syscall.ENOSPC})
	})
	var space *SpaceError
	if !errors.As(err, &space) {
		t.Fatalf("Write = %v, want a SpaceError", err)
	}
	if space.Path != s.Path(2) || space.Need != 25 || space.Free < 0 {
		t.Errorf("SpaceError %+v, want the path, 25 bytes written and the free bytes", space)
	}
	for _, want := range []string{s.Path(2), "needed at least 25 B", "free "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
}

// TestRealFullDisk needs the permission to mount a file system in memory.
func TestRealFullDisk(t *testing.T) {
	dir := t.TempDir()
	if err := mountSmallDisk(dir, 1<<20); err != nil {
		t.Skipf("cannot mount a small disk here: %v", err)
	}
	defer unmount(dir)
	s, err := Open(dir, Options{Keep: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Write(1, files(map[string]string{"model.safetensors": strings.Repeat("x", 600<<10)})); err != nil {
		t.Fatal(err)
	}
	_, err = s.Write(2, func(string) error {
		t.Error("the save began though there is no room for it")
		return nil
	})
	var space *SpaceError
	if !errors.As(err, &space) || space.Need < 600<<10 || space.Free > 500<<10 {
		t.Errorf("Write = %v, want a SpaceError before anything is written", err)
	}
	if _, err := s.Write(1, state("small")); !errors.As(err, &space) { // the estimate errs on the safe side
		t.Errorf("Write = %v, want a SpaceError", err)
	}
	if latest, err := s.Latest(); err != nil || len(content(t, latest)) != 600<<10 {
		t.Errorf("Latest() = %q, %v, want the first checkpoint", latest, err)
	}
	s.Close()

	s, err = Open(dir+"/other", Options{}) // there is no checkpoint here from which the size can be estimated
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err = s.Write(1, files(map[string]string{"model.safetensors": strings.Repeat("x", 600<<10)})); !errors.As(err,
		&space) || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("Write = %v, want a SpaceError", err)
	}
	if got := names(t, s.Dir()); len(got) > 0 {
		t.Errorf("a full disk left %v behind", got)
	}
}

func TestBytesText(t *testing.T) {
	for n, want := range map[int64]string{0: "0 B", 999: "999 B", 1000: "1.0 kB", 999_949: "999.9 kB",
		999_950: "1.0 MB", 1_320_000_000: "1.3 GB", 1<<63 - 1: "9.2 EB"} {
		if got := bytesText(n); got != want {
			t.Errorf("bytesText(%d) = %q, want %q", n, got, want)
		}
	}
}

// largeState has a file that is flushed while its checksum is computed.
func largeState(dir string) error {
	return files(map[string]string{"large": strings.Repeat("0123456789abcdef", leastRange/16), "small": "x"})(dir)
}

func TestALargeFileThatCannotBeFlushed(t *testing.T) {
	for _, fault := range []error{syscall.EIO, syscall.ENOSPC} {
		s := open(t, t.TempDir(), Options{})
		save(t, s, 1, "old")
		s.disk.sync = func(f *os.File) error {
			if filepath.Base(f.Name()) == "large" {
				return fault
			}
			return f.Sync()
		}
		_, err := s.Write(2, largeState)
		require.ErrorIs(t, err, fault)
		assert.ErrorContains(t, err, "large")
		assert.Equal(t, errors.Is(fault, syscall.ENOSPC), errors.As(err, new(*SpaceError)))
		assert.Equal(t, []string{"checkpoint-1"}, names(t, s.Dir()))
	}
}

// A checkpoint gets its name only when all of it is on the disk, however long a flush takes while
// other files are read.
func TestALargeFileIsFlushedBeforeItsCheckpointHasItsName(t *testing.T) {
	s := open(t, t.TempDir(), Options{})
	var flushed atomic.Bool
	s.disk.sync = func(f *os.File) error {
		if filepath.Base(f.Name()) == "large" {
			defer flushed.Store(true)
			time.Sleep(50 * time.Millisecond)
		}
		return f.Sync()
	}
	s.disk.rename = func(from, to string) error {
		assert.True(t, flushed.Load(), "%s has its name before it is flushed", to)
		return os.Rename(from, to)
	}
	path, err := s.Write(1, largeState)
	require.NoError(t, err)
	require.True(t, flushed.Load())
	require.NoError(t, Verify(path))
}
