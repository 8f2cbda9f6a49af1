//go:build !unix

package data

import "os"

// lockFile does nothing where files cannot be locked by flock: there, giving each process its own
// file is left to the user.
func lockFile(*os.File) error { return nil }
