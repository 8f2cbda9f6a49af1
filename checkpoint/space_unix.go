//go:build linux || darwin

package checkpoint

import "syscall"

// freeBytes returns how much this user may still write to the disk of a folder; negative if that is
// not known.
func freeBytes(dir string) int64 {
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return -1
	}
	return int64(st.Bavail) * int64(st.Bsize)
}
