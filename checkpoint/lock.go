package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"
)

// lockName is the file that is locked. It stays when the lock is given back: deleting it would let
// two processes each lock a file of that name.
const lockName = ".lock"

// LockedError says that another process, or another [Store] in this process, is using the folder.
type LockedError struct {
	Dir   string
	PID   int       // process ID of the holder; zero if it could not be read
	Host  string    // host of the holder
	Since time.Time // when the lock was taken
}

func (e *LockedError) Error() string {
	holder := "another process"
	if e.PID != 0 {
		holder = fmt.Sprintf("process %d on %s, since %s", e.PID, e.Host, e.Since.Format(time.RFC3339))
	}
	return fmt.Sprintf("checkpoint: %s is in use by %s; wait for it, stop it, or choose another folder", e.Dir, holder)
}

// lock keeps other processes out of a folder.
type lock interface {
	held() error // a [*LockedError] if it was lost to another process
	Close() error
}

// holder is what a lock file says of the process that holds the lock.
type holder struct {
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
	Nonce string    `json:"nonce,omitempty"` // of a heartbeat

	// Where the number of the process means something: containers may have one host name, and each
	// counts its processes from 1. Empty on other systems than Linux, and in older files.
	Boot         string `json:"boot,omitempty"`
	PIDNamespace string `json:"pid_namespace,omitempty"`
}

// thisProcess describes this process as a holder from now on.
func thisProcess() holder {
	host, _ := os.Hostname() // what cannot be read is left empty
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	namespace, _ := os.Readlink("/proc/self/ns/pid")
	return holder{PID: os.Getpid(), Host: host, Since: time.Now().Round(time.Second),
		Boot: strings.TrimSpace(string(boot)), PIDNamespace: namespace}
}

// seesProcessesOf tells whether the numbers of processes mean the same to both.
func (h holder) seesProcessesOf(other holder) bool {
	return h.Host == other.Host && h.Boot == other.Boot && h.PIDNamespace == other.PIDNamespace
}

// error is what another process gets to see.
func (h holder) error(dir string) *LockedError {
	return &LockedError{Dir: dir, PID: h.PID, Host: h.Host, Since: h.Since}
}

// takeLock locks the store's folder. The system takes the lock back when the process ends, however
// it ends. Where it cannot lock, a file with a heartbeat stands for the lock.
func (s *Store) takeLock() (lock, error) {
	path := filepath.Join(s.dir, lockName)
	lock, free, err := s.disk.lock(path)
	switch {
	case errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.ENOLCK):
		s.warn("lock", &UnsupportedError{Path: s.dir, Err: err, Op: "lock files; the file " + heartbeatName +
			" with host, process and heartbeat stands for the lock"})
		return takeHeartbeat(s.dir)
	case err != nil:
		return nil, fmt.Errorf("checkpoint: cannot lock %s: %w", path, err)
	case !free:
		var h holder
		if text, err := os.ReadFile(path); err != nil || json.Unmarshal(text, &h) != nil {
			h = holder{}
		}
		return nil, h.error(s.dir)
	}
	if text, err := json.Marshal(thisProcess()); err == nil {
		// A full disk must not keep a run from starting, since the lock itself needs no space.
		_ = os.WriteFile(path, append(text, '\n'), 0o666)
	}
	return lock, nil
}

// fileLock is the system's lock of a file.
type fileLock struct{ *flock.Flock }

func (fileLock) held() error { return nil } // the system does not take it away

func lockFile(path string) (lock, bool, error) {
	f := flock.New(path, flock.SetPermissions(0o666))
	free, err := f.TryLock()
	return fileLock{f}, free, err
}
