package hub

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/gofrs/flock"
)

// store is the part of the cache that belongs to one repository, in the layout of Python's client:
//
//	models--me--bert/refs/main                      the commit of main when it was last requested
//	models--me--bert/trees/<commit>.json            the listing of a commit
//	models--me--bert/blobs/<etag>                   content, named by its SHA-256 or git's SHA-1
//	models--me--bert/blobs/<etag>.incomplete        a download that was interrupted
//	models--me--bert/snapshots/<commit>/<path>      links to blobs, or the files themselves where there are no links
//	models--me--bert/.no_exist/<commit>/<path>      requested files that do not exist
//	.locks/models--me--bert/<etag>.lock             held while a blob is fetched
//
// Everything is written through root, so nothing can be written outside the cache.
type store struct {
	dir    string // of the cache
	folder string // of the repository, in it
	root   *os.Root
	links  atomic.Bool // false once a symbolic link could not be created
	logger *slog.Logger
}

// openStore opens the cache, and creates it if necessary.
func (c *conn) openStore(r repository) (*store, error) {
	if err := os.MkdirAll(c.cache, 0o777); err != nil {
		return nil, fmt.Errorf("hub: cannot make the cache's folder: %w; HF_HUB_CACHE or Client.CacheDir names another",
			err)
	}
	root, err := os.OpenRoot(c.cache)
	if err != nil {
		return nil, fmt.Errorf("hub: cannot open the cache: %w", err)
	}
	s := &store{dir: c.cache, folder: r.folder(), root: root, logger: c.log}
	s.links.Store(c.links)
	return s, nil
}

func (s *store) close() { _ = s.root.Close() }

// in returns a path relative to the cache.
func (s *store) in(parts ...string) string {
	return filepath.FromSlash(path.Join(append([]string{s.folder}, parts...)...))
}

// snapshot returns the absolute path of the folder with a commit's files.
func (s *store) snapshot(commit string) string {
	return filepath.Join(s.dir, s.in("snapshots", commit))
}

// has reports whether a file of a commit is in the cache. It follows links, since the user may have
// moved the blobs elsewhere.
func (s *store) has(commit, name string) bool {
	info, err := os.Stat(filepath.Join(s.snapshot(commit), filepath.FromSlash(name)))
	return err == nil && info.Mode().IsRegular()
}

// ref returns the commit of a branch or tag when it was last seen; for a commit, the commit itself.
func (s *store) ref(revision string) (string, bool) {
	if commitPattern.MatchString(revision) {
		return revision, true
	}
	text, err := os.ReadFile(filepath.Join(s.dir, s.in("refs", revision)))
	commit := strings.TrimSpace(string(text))
	return commit, err == nil && commitPattern.MatchString(commit)
}

// setRef records the commit of a branch or tag.
func (s *store) setRef(revision, commit string) error {
	if old, ok := s.ref(revision); ok && old == commit {
		return nil
	}
	return s.write(s.in("refs", revision), []byte(commit))
}

// setMissing records that a commit has no such file.
func (s *store) setMissing(commit, name string) error {
	return s.write(s.in(".no_exist", commit, name), nil)
}

// isMissing reports whether a commit is known not to have a file.
func (s *store) isMissing(commit, name string) bool {
	info, err := os.Stat(filepath.Join(s.dir, s.in(".no_exist", commit, name)))
	return err == nil && info.Mode().IsRegular()
}

// write replaces a small file atomically, so that other processes see either the old or the new
// one.
func (s *store) write(name string, content []byte) error {
	err := s.root.MkdirAll(filepath.Dir(name), 0o777)
	if err == nil {
		temporary := name + "." + rand.Text()[:8] + ".tmp"
		if err = s.root.WriteFile(temporary, content, 0o666); err == nil {
			err = s.root.Rename(temporary, name)
		}
		if err != nil {
			_ = s.root.Remove(temporary)
		}
	}
	if err != nil {
		return fmt.Errorf("hub: cannot write to the cache: %w", err)
	}
	return nil
}

// tag marks the folder as a cache directory, so that backup programs skip it.
func (s *store) tag() {
	f, err := s.root.OpenFile("CACHEDIR.TAG", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return // it exists or cannot be created; neither matters
	}
	defer f.Close()
	_, _ = io.WriteString(f, "Signature: 8a477f597d28d172789f06886806bc55\n# This file is a cache directory tag. See "+
		"https://bford.info/cachedir/\n")
}

// lock takes the lock of a blob, the same that Python's client uses.
func (s *store) lock(ctx context.Context, etag string) (unlock func(), err error) {
	folder := filepath.Join(".locks", s.folder)
	if err := s.root.MkdirAll(folder, 0o777); err != nil {
		return nil, fmt.Errorf("hub: cannot make the cache's folder of locks: %w", err)
	}
	// Other users may share the cache, so as for all its files, only the umask restricts
	// permissions.
	l := flock.New(filepath.Join(s.dir, folder, etag+".lock"), flock.SetPermissions(0o666))
	switch _, err := tryLock(ctx, l); {
	case err == nil:
		return func() { _ = l.Unlock() }, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.ENOLCK):
		// Two processes that fetch the same file may then corrupt it; its checksum detects this,
		// and it is fetched again.
		s.logger.WarnContext(ctx,
			"hub: the cache's file system cannot lock files, so nothing keeps two processes from "+
				"fetching the same one", "cache", s.dir, "reason", err.Error())
		value, _ := turns.LoadOrStore(l.Path(), make(chan struct{}, 1))
		turn := value.(chan struct{})
		select {
		case turn <- struct{}{}:
			return func() { <-turn }, nil
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	default:
		return nil, fmt.Errorf("hub: cannot lock %s: %w", l.Path(), err)
	}
}

// turns keeps goroutines of this process from fetching the same blob at the same time if files
// cannot be locked; files with the same content share a blob.
var turns sync.Map // map[path of the lock]chan struct{}

// lockForTests is the context key of an error that tests make tryLock return.
type lockForTests struct{}

// tryLock waits for a lock.
func tryLock(ctx context.Context, l *flock.Flock) (bool, error) {
	if err, ok := ctx.Value(lockForTests{}).(error); ok {
		return false, err
	}
	return l.TryLockContext(ctx, 50*time.Millisecond)
}

// link puts a blob into a snapshot: by a relative symbolic link or, without links, by moving the
// blob if it was just fetched (fresh) and copying it otherwise.
func (s *store) link(commit, name, etag string, fresh bool) error {
	pointer, blob := s.in("snapshots", commit, name), s.in("blobs", etag)
	if err := s.root.MkdirAll(filepath.Dir(pointer), 0o777); err != nil {
		return fmt.Errorf("hub: cannot make the snapshot's folder: %w", err)
	}
	if s.links.Load() {
		target := filepath.FromSlash(strings.Repeat("../", 2+strings.Count(name, "/")) + "blobs/" + etag)
		for range 2 {
			err := s.root.Symlink(target, pointer)
			if err == nil {
				return nil
			}
			if !errors.Is(err, fs.ErrExist) {
				s.links.Store(false) // no permission to create links (Windows), or a file system without links
				break
			}
			info, err := s.root.Lstat(pointer)
			link := err == nil && info.Mode()&fs.ModeSymlink != 0
			if s.has(commit, name) && (link || !fresh) {
				return nil // another goroutine or process was first
			}
			_ = s.root.Remove(pointer) // a dangling link, or an older copy of the file
		}
	}
	temporary := pointer + "." + rand.Text()[:8] + ".tmp"
	var err error
	if fresh {
		err = s.root.Rename(blob, temporary)
	} else {
		err = s.copy(blob, temporary)
	}
	if err == nil {
		err = s.root.Rename(temporary, pointer)
	}
	if err != nil {
		_ = s.root.Remove(temporary)
		return fmt.Errorf("hub: cannot put %s into the snapshot: %w", name, err)
	}
	return nil
}

func (s *store) copy(from, to string) error {
	in, err := s.root.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := s.root.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o666)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	return errors.Join(err, out.Close())
}
