package regularfile

import (
	"errors"
	"io"
)

// ReadFullAt fills buffer with the bytes from offset on. If the source ends earlier, it returns
// [io.ErrUnexpectedEOF].
func ReadFullAt(source io.ReaderAt, buffer []byte, offset int64) error {
	n, err := source.ReadAt(buffer, offset)
	if n == len(buffer) {
		return nil // io.EOF is allowed at the very end
	}
	if err == nil || errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
