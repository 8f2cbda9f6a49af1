package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// heartbeatName is the file that replaces the lock if the file system does not support locks.
const heartbeatName = ".lock-holder"

// The holder rewrites the file every beat. If the file is older than patience, the holder is
// considered dead. Ages are differences between times of the file system, so the clocks of the
// machines do not matter.
const (
	beat     = 15 * time.Second
	patience = 4 * beat
)

// heartbeat is a lock made of a file that its holder keeps fresh. Unlike a lock of the system, it
// is lost if the process is suspended for longer than patience; the next save then fails.
type heartbeat struct {
	dir  string
	text []byte // contents of the file
	stop chan struct{}
	done chan struct{}
	over sync.Once // closes stop
}

// ownNonces are the nonces of the files that this process keeps fresh.
var ownNonces sync.Map // map[nonce]bool

// takeHeartbeat takes the lock if it is free or abandoned.
func takeHeartbeat(dir string) (lock, error) {
	me := thisProcess()
	me.Nonce = fmt.Sprintf("%016x", rand.Uint64())
	text, err := json.Marshal(me)
	if err != nil {
		return nil, err
	}
	h := &heartbeat{dir: dir, text: append(text, '\n'), stop: make(chan struct{}), done: make(chan struct{})}
	for range 3 { // the first attempts may only remove abandoned files
		if err = h.create(); err == nil {
			ownNonces.Store(me.Nonce, true)
			h.sweep()
			go h.keep()
			return h, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			break
		}
		if err = h.removeAbandoned(); err != nil {
			break
		}
	}
	if err == nil {
		return nil, holder{}.error(dir) // other processes were faster each time
	}
	if _, locked := errors.AsType[*LockedError](err); locked {
		return nil, err
	}
	return nil, fmt.Errorf("checkpoint: cannot lock %s: %w", dir, err)
}

func (h *heartbeat) path() string { return filepath.Join(h.dir, heartbeatName) }

// create creates the file, which must not exist.
func (h *heartbeat) create() error {
	f, err := os.OpenFile(h.path(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	if _, err = f.Write(h.text); err != nil {
		return errors.Join(err, f.Close(), os.Remove(h.path()))
	}
	if err := f.Close(); err != nil {
		return errors.Join(err, os.Remove(h.path()))
	}
	return nil
}

// held checks that the file is still that of this process.
func (h *heartbeat) held() error {
	text, err := os.ReadFile(h.path())
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("checkpoint: cannot read who holds the lock: %w", err)
	}
	if string(text) == string(h.text) {
		return nil
	}
	var other holder
	_ = json.Unmarshal(text, &other) // the holder is zero if the file cannot be read
	return other.error(h.dir)
}

// keep rewrites the file until the lock is released.
func (h *heartbeat) keep() {
	defer close(h.done)
	ticker := time.NewTicker(beat)
	defer ticker.Stop()
	for {
		select {
		case <-h.stop:
			return
		case <-ticker.C:
		}
		if h.held() != nil {
			continue // the next save reports it
		}
		if f, err := os.OpenFile(h.path(), os.O_WRONLY, 0); err == nil {
			_, _ = f.Write(h.text) // a missed beat does no harm
			_ = f.Close()
		}
	}
}

// Close releases the lock. A second Close does nothing.
func (h *heartbeat) Close() error {
	h.over.Do(func() { close(h.stop) })
	<-h.done
	var me holder
	if json.Unmarshal(h.text, &me) == nil {
		ownNonces.Delete(me.Nonce)
	}
	if h.held() != nil {
		return nil // another process has it
	}
	return os.Remove(h.path())
}

// removeAbandoned removes the file of a dead holder; if the holder is alive, it returns a
// [*LockedError]. Only one process does this at a time: it holds a second file meanwhile.
func (h *heartbeat) removeAbandoned() error {
	turn := h.path() + "-abandoned"
	f, err := os.OpenFile(turn, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if errors.Is(err, fs.ErrExist) {
		if age, err := h.age(turn); err != nil || age <= patience {
			return errors.Join(holder{}.error(h.dir), err) // another process is removing the file
		}
		return os.Remove(turn) // left by a process that was killed in this function
	}
	if err != nil {
		return err
	}
	defer os.Remove(turn) //nolint:errcheck // it would be found abandoned
	if err := f.Close(); err != nil {
		return err
	}
	text, err := os.ReadFile(h.path())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var other holder
	_ = json.Unmarshal(text, &other) // if the file is incomplete, its age decides
	dead, err := h.dead(other)
	if err != nil {
		return err
	}
	if !dead {
		return other.error(h.dir)
	}
	return os.Remove(h.path())
}

// dead reports whether a holder no longer keeps its file fresh.
func (h *heartbeat) dead(other holder) (bool, error) {
	if other.PID != 0 && thisProcess().seesProcessesOf(other) {
		if other.PID == os.Getpid() {
			_, mine := ownNonces.Load(other.Nonce)
			return !mine, nil // an earlier process had the same number
		}
		if !processLives(other.PID) {
			return true, nil
		}
	}
	age, err := h.age(h.path())
	return age > patience, err
}

// probePrefix begins the names of files that are created to read the file system's clock.
const probePrefix = heartbeatName + "-now-"

// sweep removes such files left by killed processes.
func (h *heartbeat) sweep() {
	entries, err := os.ReadDir(h.dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), probePrefix) {
			_ = os.Remove(filepath.Join(h.dir, e.Name()))
		}
	}
}

// age returns how long ago a file was written, by the clock of the file system.
func (h *heartbeat) age(path string) (time.Duration, error) {
	info, err := os.Stat(path)
	if err != nil {
		return 0, err
	}
	probe, err := os.CreateTemp(h.dir, probePrefix)
	if err != nil {
		return 0, err
	}
	now, err := probe.Stat()
	_ = os.Remove(probe.Name()) // otherwise the next holder removes it
	if err := errors.Join(err, probe.Close()); err != nil {
		return 0, err
	}
	return now.ModTime().Sub(info.ModTime()), nil
}
