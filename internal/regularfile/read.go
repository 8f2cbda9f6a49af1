package regularfile

import (
	"fmt"
	"io"
	"io/fs"
)

// ReadFile reads a regular file of limited size. A larger file is an error before any of it is
// read, and so is anything without a size, such as a device or a pipe.
func ReadFile(path string, most int64) ([]byte, error) {
	f, info, err := Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close() //nolint:errcheck // only read
	if info.Size() > most {
		return nil, tooLarge(path, info.Size(), most)
	}
	text := make([]byte, info.Size())
	n, err := io.ReadFull(f, text)
	if err == io.ErrUnexpectedEOF { //nolint:errorlint // made by ReadFull: the file was cut meanwhile
		err = nil
	}
	if err != nil && err != io.EOF { //nolint:errorlint // the same
		return nil, err
	}
	return text[:n], nil
}

// tooLarge is the error for a file that is larger than plausible.
func tooLarge(path string, size, most int64) error {
	return &fs.PathError{Op: "read", Path: path,
		Err: fmt.Errorf("it has %d bytes; want at most %d: is it the right file?", size, most)}
}
