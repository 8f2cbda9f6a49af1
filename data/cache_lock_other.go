//go:build !unix

package data

import "os"

// lockFile does nothing on systems without flock: the user must give each process its own file.
func lockFile(*os.File) error { return nil }
