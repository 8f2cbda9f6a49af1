package checkpoint

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// lockName is the file that is locked. It stays when the lock is given back: deleting it would let
// two processes each lock a file of that name.
const lockName = ".lock"

// LockedError says that another process, or another [Store] of this one, works on the folder.
type LockedError struct {
	Dir   string
	PID   int       // of the holder; zero if it could not be read
	Host  string    // of the holder
	Since time.Time // when it took the lock
}

func (e *LockedError) Error() string {
	holder := "another process"
	if e.PID != 0 {
		holder = fmt.Sprintf("process %d on %s, since %s", e.PID, e.Host, e.Since.Format(time.RFC3339))
	}
	return fmt.Sprintf("checkpoint: %s is in use by %s; wait for it, stop it, or choose another folder", e.Dir, holder)
}

// holder is what the lock file says of the one that holds the lock.
type holder struct {
	PID   int       `json:"pid"`
	Host  string    `json:"host"`
	Since time.Time `json:"since"`
}

// takeLock locks the folder. The system takes the lock back when the process ends, however it ends.
func takeLock(dir string) (*flock.Flock, error) {
	path := filepath.Join(dir, lockName)
	lock := flock.New(path, flock.SetPermissions(0o666))
	got, err := lock.TryLock()
	if err != nil {
		return nil, fmt.Errorf("checkpoint: cannot lock %s: %w", path, err)
	}
	if !got {
		e := &LockedError{Dir: dir}
		var h holder
		if text, err := os.ReadFile(path); err == nil && json.Unmarshal(text, &h) == nil {
			e.PID, e.Host, e.Since = h.PID, h.Host, h.Since
		}
		return nil, e
	}
	host, _ := os.Hostname() // the name only helps a reader of the error
	text, err := json.Marshal(holder{PID: os.Getpid(), Host: host, Since: time.Now().Round(time.Second)})
	if err == nil {
		// A full disk must not keep a run from starting, since the lock itself needs no space.
		_ = os.WriteFile(path, append(text, '\n'), 0o666)
	}
	return lock, nil
}
