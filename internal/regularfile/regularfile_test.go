package regularfile_test

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gotrainer/gotrainer/internal/regularfile"
)

func TestOpenGivesTheFileAndItsSize(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := path + "-link"
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{path, link} {
		f, info, err := regularfile.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() != 3 || f.Name() != path {
			t.Errorf("Open(%s) = %s of %d bytes, want 3", path, f.Name(), info.Size())
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// Opening a pipe without a writer would block forever: the test would time out.
func TestOpenRefusesWhatIsNoRegularFile(t *testing.T) {
	dir := t.TempDir()
	pipe, socket := filepath.Join(dir, "pipe"), filepath.Join(dir, "socket")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Skip("no named pipes here:", err)
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close() //nolint:errcheck // nobody has connected
	for path, want := range map[string]string{pipe: "a named pipe", socket: "a socket", dir: "a folder",
		os.DevNull: "a device"} {
		_, _, err := regularfile.Open(path)
		if !errors.Is(err, regularfile.ErrKind) || err.Error() != "open "+path+": not a regular file but "+want {
			t.Errorf("Open(%s) = %v, want ErrKind and %q", path, err, want)
		}
	}
	missing := filepath.Join(dir, "none")
	if _, _, err := regularfile.Open(missing); !errors.Is(err, fs.ErrNotExist) || !strings.HasPrefix(err.Error(),
		"open "+
			missing+": ") {
		t.Errorf("Open of nothing = %v, want fs.ErrNotExist", err)
	}
}

func TestReadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("abc"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := regularfile.ReadFile(path, 3); err != nil || string(text) != "abc" {
		t.Errorf("ReadFile = %q, %v, want abc", text, err)
	}
	if _, err := regularfile.ReadFile(path, 2); err == nil || !strings.Contains(err.Error(),
		path+": it has 3 bytes; want at most 2") {
		t.Errorf("ReadFile of a file that is too large = %v", err)
	}
	if _, err := regularfile.ReadFile("/dev/zero", 1<<20); !errors.Is(err, regularfile.ErrKind) {
		t.Errorf("ReadFile(/dev/zero) = %v, want ErrKind", err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := regularfile.ReadFile(path, 2); err != nil || len(text) != 0 {
		t.Errorf("ReadFile of an empty file = %q, %v", text, err)
	}
}
