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

// lockName is the file that is locked. It is not deleted when the lock is released: otherwise two
// processes could each lock a different file of that name.
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

// holder is the content of a lock file: the process that holds the lock.
type holder struct {
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
	Nonce string    `json:"nonce,omitempty"` // identifies a heartbeat

	// The scope of the process number: containers may have the same host name, and each numbers its
	// processes from 1. Empty on systems other than Linux, and in older files.
	Boot         string `json:"boot,omitempty"`
	PIDNamespace string `json:"pid_namespace,omitempty"`
}

// thisProcess returns this process as the holder of a lock taken now.
func thisProcess() holder {
	host, _ := os.Hostname() // what cannot be read is left empty
	boot, _ := os.ReadFile("/proc/sys/kernel/random/boot_id")
	namespace, _ := os.Readlink("/proc/self/ns/pid")
	return holder{PID: os.Getpid(), Host: host, Since: time.Now().Round(time.Second),
		Boot: strings.TrimSpace(string(boot)), PIDNamespace: namespace}
}

// seesProcessesOf reports whether process numbers mean the same for both holders.
func (h holder) seesProcessesOf(other holder) bool {
	return h.Host == other.Host && h.Boot == other.Boot && h.PIDNamespace == other.PIDNamespace
}

// error returns the error for another process that wants the lock.
func (h holder) error(dir string) *LockedError {
	return &LockedError{Dir: dir, PID: h.PID, Host: h.Host, Since: h.Since}
}

// takeLock locks the store's folder. The system releases the lock when the process ends, however it
// ends. If the file system does not support locks, a file with a heartbeat replaces it.
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

func (fileLock) held() error { return nil } // the system never revokes the lock

func lockFile(path string) (lock, bool, error) {
	f := flock.New(path, flock.SetPermissions(0o666))
	free, err := f.TryLock()
	return fileLock{f}, free, err
}
