//go:build !unix

package terminal

import "os"

// columns returns false, because there is no known way to ask: plain lines work everywhere.
func columns(*os.File) (int, bool) { return 0, false }
