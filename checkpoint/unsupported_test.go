package checkpoint

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// without returns a disk on which locking, or flushing folders, fails.
func without(locks, folders error) disk {
	d := realDisk()
	if locks != nil {
		d.lock = func(string) (lock, bool, error) { return nil, false, locks }
	}
	if folders != nil {
		d.sync = func(f *os.File) error {
			if info, err := f.Stat(); err == nil && info.IsDir() {
				return &os.PathError{Op: "sync", Path: f.Name(), Err: folders}
			}
			return f.Sync()
		}
	}
	return d
}

func TestAFileSystemWithoutFolderFlushesSavesAndWarns(t *testing.T) {
	for _, fault := range []error{syscall.EINVAL, syscall.ENOTSUP, syscall.ENOSYS} {
		var warnings []error
		s, err := openOn(without(nil, fault), t.TempDir(), Options{OnWarning: func(err error) {
			warnings = append(warnings, err)
		}})
		require.NoError(t, err)
		save(t, s, 1, "one")
		save(t, s, 2, "two")
		latest, err := s.Latest()
		require.NoError(t, err)
		assert.Equal(t, "two", content(t, latest))
		require.Len(t, warnings, 1)
		assert.ErrorIs(t, warnings[0], fault)
		require.NoError(t, s.Close())
	}
}

func TestAFileSystemWithoutLocksHasAHeartbeat(t *testing.T) {
	for _, fault := range []error{syscall.ENOSYS, syscall.ENOLCK, syscall.EOPNOTSUPP} {
		t.Run(fault.Error(), func(t *testing.T) {
			var warnings []error
			d, dir := without(fault, nil), t.TempDir()
			o := Options{OnWarning: func(err error) { warnings = append(warnings, err) }}
			first, err := openOn(d, dir, o)
			require.NoError(t, err)
			save(t, first, 1, "one")
			require.Len(t, warnings, 1)
			require.ErrorIs(t, warnings[0], fault)
			assert.ErrorContains(t, warnings[0], heartbeatName)

			_, err = openOn(d, dir, o)
			var locked *LockedError
			require.ErrorAs(t, err, &locked)
			assert.Equal(t, os.Getpid(), locked.PID)
			host, _ := os.Hostname()
			assert.Equal(t, host, locked.Host)

			require.NoError(t, first.Close())
			assert.Equal(t, []string{"checkpoint-1"}, names(t, dir), "the file is gone with its holder")
			second, err := openOn(d, dir, o)
			require.NoError(t, err)
			require.NoError(t, first.Close(), "as with a lock of the system")
			_, err = openOn(d, dir, o)
			require.ErrorAs(t, err, &locked, "the second holder keeps it")
			require.NoError(t, second.Close())
		})
	}
}

// putHolder writes the heartbeat of another process with the given age.
func putHolder(t *testing.T, dir string, h holder, age time.Duration) {
	t.Helper()
	path := filepath.Join(dir, heartbeatName)
	text, err := json.Marshal(h)
	require.NoError(t, err)
	put(t, path, text)
	then := time.Now().Add(-age)
	require.NoError(t, os.Chtimes(path, then, then))
}

func TestAnAbandonedHeartbeatIsTakenOver(t *testing.T) {
	child := exec.Command("true")
	require.NoError(t, child.Run())
	here := func(pid int, nonce string) holder {
		h := thisProcess()
		h.PID, h.Nonce = pid, nonce
		return h
	}
	ended := child.Process.Pid
	container, machine, older := here(ended, "x"), here(ended, "x"), here(ended, "x")
	container.PIDNamespace = "pid:[1]"
	machine.Boot = "1"
	older.Boot, older.PIDNamespace = "", "" // as earlier versions wrote it
	sameNumber := container
	sameNumber.PID = os.Getpid()
	for name, c := range map[string]struct {
		holder holder
		age    time.Duration
		free   bool
	}{
		"another host, fresh":                  {holder{PID: 1, Host: "elsewhere"}, 0, false},
		"another host, one beat missed":        {holder{PID: 1, Host: "elsewhere"}, 2 * beat, false},
		"another host, silent":                 {holder{PID: 1, Host: "elsewhere"}, patience + beat, true},
		"this host, a process that has ended":  {here(ended, ""), 0, true},
		"this host, a process that lives":      {here(os.Getppid(), ""), 0, false},
		"this process's number, before it was": {here(os.Getpid(), "x"), 0, true},
		"a container of this host's name":      {container, 0, false},
		"its process has this one's number":    {sameNumber, 0, false},
		"it is silent":                         {container, patience + beat, true},
		"another machine of this name":         {machine, 0, false},
		"an earlier version's, fresh":          {older, 0, runtime.GOOS != "linux"},
		"an earlier version's, silent":         {older, patience + beat, true},
		"half a file, fresh":                   {holder{}, 0, false},
		"half a file, old":                     {holder{}, patience + beat, true},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			putHolder(t, dir, c.holder, c.age)
			put(t, filepath.Join(dir, probePrefix+"1"), nil) // left by a process that was killed
			s, err := openOn(without(syscall.ENOLCK, nil), dir, Options{OnWarning: func(error) {}})
			if c.free {
				require.NoError(t, err)
				require.NoError(t, s.Close())
				assert.Empty(t, names(t, dir))
				return
			}
			var locked *LockedError
			require.ErrorAs(t, err, &locked)
			assert.Equal(t, c.holder.PID, locked.PID)
		})
	}
}

func TestOneOfManyTakesAnAbandonedHeartbeat(t *testing.T) {
	for range 50 {
		dir := t.TempDir()
		putHolder(t, dir, holder{PID: 1, Host: "elsewhere"}, 2*patience)
		var mu sync.Mutex
		var won []lock
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if l, err := takeHeartbeat(dir); err == nil {
					mu.Lock()
					defer mu.Unlock()
					won = append(won, l)
				}
			})
		}
		all.Wait()
		holders := 0
		for _, l := range won {
			if l.held() == nil {
				holders++
			}
		}
		assert.Equal(t, 1, holders)
		for _, l := range won {
			require.NoError(t, l.Close())
		}
	}
}

// A process that was suspended until another one took over its folder must not write to it.
func TestALostHeartbeatStopsTheNextSave(t *testing.T) {
	s, err := openOn(without(syscall.ENOSYS, nil), t.TempDir(), Options{OnWarning: func(error) {}})
	require.NoError(t, err)
	putHolder(t, s.Dir(), holder{PID: 7, Host: "elsewhere"}, 0)
	_, err = s.Write(1, state("x"))
	var locked *LockedError
	require.ErrorAs(t, err, &locked)
	assert.Equal(t, "elsewhere", locked.Host)
	require.NoError(t, s.Close())
	assert.FileExists(t, filepath.Join(s.Dir(), heartbeatName), "the file of the other process")
}
