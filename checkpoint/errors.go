package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// ErrNone is returned by [Store.Latest] if the folder has no complete checkpoint: either none at
// all, or only damaged ones, which are then included in the error as [*DamagedError]s.
var ErrNone = errors.New("no whole checkpoint")

// ErrNoManifest is the cause of a [*DamagedError] for a folder without MANIFEST.json: it was
// written by another program or copied in part. It may well be loadable, but there is no way to
// know whether it is complete.
var ErrNoManifest = errors.New("it has no " + ManifestName)

// DamagedError says what is wrong with a checkpoint.
type DamagedError struct {
	Path string // the checkpoint's folder
	File string // the damaged file in it; empty if the folder itself is wrong
	Err  error
}

func (e *DamagedError) Error() string {
	if e.File == "" {
		return fmt.Sprintf("checkpoint %s is damaged: %v", e.Path, e.Err)
	}
	return fmt.Sprintf("checkpoint %s is damaged: %s: %v", e.Path, e.File, e.Err)
}

func (e *DamagedError) Unwrap() error { return e.Err }

// UnlistedError is a warning: a checkpoint contains files that its manifest does not list. They are
// not part of it.
type UnlistedError struct {
	Path  string   // the checkpoint's folder
	Files []string // relative to Path
}

func (e *UnlistedError) Error() string {
	const most = 5
	names := strings.Join(e.Files[:min(most, len(e.Files))], ", ")
	if n := len(e.Files) - most; n > 0 {
		names += fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("checkpoint %s: %s is not in the manifest: it is not verified, and deleted with the checkpoint; "+
		"to make a file part of a checkpoint write it before the save is sealed (Store.BeforeSeal)", e.Path, names)
}

// UnsupportedError is a warning: the file system of a run's folder does not support something, and
// the run does without it.
type UnsupportedError struct {
	Path string // the run's folder
	Op   string // what cannot be done, and the consequence
	Err  error  // the system's error
}

func (e *UnsupportedError) Error() string {
	return fmt.Sprintf("checkpoint: the file system of %s cannot %s (%v)", e.Path, e.Op, e.Err)
}

func (e *UnsupportedError) Unwrap() error { return e.Err }

// SpaceError reports that a disk has no room for a checkpoint. Earlier checkpoints are untouched.
type SpaceError struct {
	Path string // the checkpoint that could not be written
	// Need is a number of bytes: the size of the previous checkpoint plus a tenth, or what had been
	// written of this one; zero if not known.
	Need int64
	Free int64 // bytes free on the disk; negative if not known
	Err  error // errors.Is(err, syscall.ENOSPC) or EDQUOT holds
}

func (e *SpaceError) Error() string {
	free, need := "unknown", "unknown"
	if e.Free >= 0 {
		free = bytesText(e.Free)
	}
	if e.Need > 0 {
		need = "at least " + bytesText(e.Need)
	}
	return fmt.Sprintf("checkpoint: no room for %s: needed %s, free %s; older checkpoints are untouched, make room "+
		"or keep fewer: %v", e.Path, need, free, e.Err)
}

func (e *SpaceError) Unwrap() error { return e.Err }

// bytesText formats a number of bytes for people.
func bytesText(n int64) string {
	const units = "kMGTPE"
	if n < 1000 {
		return fmt.Sprintf("%d B", n)
	}
	v, u := float64(n)/1000, 0
	for v >= 999.95 {
		v, u = v/1000, u+1
	}
	return fmt.Sprintf("%.1f %cB", v, units[u])
}

// IsStorageError reports whether an error means that a disk is full, read-only or failing. Such a
// condition may pass, and the program is not at fault.
func IsStorageError(err error) bool {
	for _, fault := range []error{syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EROFS, syscall.EFBIG,
		syscall.ESTALE} {
		if errors.Is(err, fault) {
			return true
		}
	}
	return false
}

// IsSaveError reports whether an error of a save comes from its disk or folder: an
// [IsStorageError], any error of a file, or a checkpoint whose contents were read back differently
// from what was written.
func IsSaveError(err error) bool {
	_, path := errors.AsType[*fs.PathError](err)
	_, link := errors.AsType[*os.LinkError](err)
	_, damaged := errors.AsType[*DamagedError](err)
	return path || link || damaged || IsStorageError(err)
}
