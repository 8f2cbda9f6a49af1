// Package regularfile opens files whose size must be known and whose bytes are read at any place.
// Opening a named pipe waits until somebody writes to it, so a file's kind is looked at before it
// is opened.
package regularfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// ErrKind is wrapped by the error about a path that leads to something else than a regular file.
var ErrKind = errors.New("not a regular file")

// Open opens a regular file. Anything else is refused without being opened, by an [*fs.PathError]
// that wraps [ErrKind] and says what is there.
func Open(path string) (*os.File, fs.FileInfo, error) {
	info, err := os.Stat(path)
	if err == nil {
		err = check(info)
	}
	if err != nil {
		return nil, nil, opening(path, err)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	info, err = f.Stat() // of what was opened, which may be another file than the one of a moment ago
	if err == nil {
		err = check(info)
	}
	if err != nil {
		_ = f.Close() // the first error counts
		return nil, nil, opening(path, err)
	}
	return f, info, nil
}

// opening gives an error the name of what was asked for, not of the system call that found it out.
func opening(path string, err error) error {
	if found, ok := errors.AsType[*fs.PathError](err); ok {
		err = found.Err
	}
	return &fs.PathError{Op: "open", Path: path, Err: err}
}

func check(info fs.FileInfo) error {
	kind := "special file"
	switch mode := info.Mode(); {
	case mode.IsRegular():
		return nil
	case mode.IsDir():
		kind = "folder"
	case mode&fs.ModeNamedPipe != 0:
		kind = "named pipe"
	case mode&fs.ModeSocket != 0:
		kind = "socket"
	case mode&fs.ModeDevice != 0:
		kind = "device"
	}
	return fmt.Errorf("%w but a %s", ErrKind, kind)
}
