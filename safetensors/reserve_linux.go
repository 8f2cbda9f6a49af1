package safetensors

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// leastReserved is the number of bytes from which [reserve] is worth a system call.
const leastReserved = 1 << 20

// reserve asks the file system for the blocks of the bytes that are about to be written to w, if it
// is a file. ext4 then writes into the page cache half as fast again, because it does not look for
// free space with every page. The length of the file stays as it is. A file system that cannot do
// this ignores the request, and the writes report a lack of space.
func reserve(w io.Writer, size int64) {
	f, ok := w.(*os.File)
	if !ok || size < leastReserved {
		return
	}
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil { // a pipe
		return
	}
	conn, err := f.SyscallConn()
	if err != nil {
		return
	}
	_ = conn.Control(func(fd uintptr) {
		for unix.Fallocate(int(fd), unix.FALLOC_FL_KEEP_SIZE, at, size) == unix.EINTR {
		}
	})
}
