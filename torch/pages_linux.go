package torch

import "golang.org/x/sys/unix"

// readPages reads what a mapping needs of its file.
func readPages(mapping []byte) error { return unix.Madvise(mapping, unix.MADV_POPULATE_READ) }
