//go:build !unix

package trainer

import "os"

// isTerminal is false where we do not know how to ask: plain lines are right everywhere.
func isTerminal(*os.File) bool { return false }

func terminalWidth(*os.File) int { return 80 }
