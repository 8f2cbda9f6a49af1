// Package regularfile opens files whose size must be known and that are read at arbitrary offsets.
// Opening a named pipe would block until somebody writes to it, so the type of a file is checked
// before it is opened.
package regularfile

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// ErrKind is wrapped by the error for a path that is not a regular file.
var ErrKind = errors.New("not a regular file")

// Open opens a regular file. Anything else is refused without opening it, with an [*fs.PathError]
// that wraps [ErrKind] and says what was found.
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
	info, err = f.Stat() // of the opened file, which may have been replaced since the first Stat
	if err == nil {
		err = check(info)
	}
	if err != nil {
		_ = f.Close() // return the first error
		return nil, nil, opening(path, err)
	}
	return f, info, nil
}

// opening gives an error the path as the caller gave it, and not the system call.
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
