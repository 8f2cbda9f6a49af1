// Package terminal reports whether output goes to a terminal, and how wide it is.
package terminal

import (
	"io"
	"os"
	"strings"
)

// Is reports whether w is a terminal.
func Is(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	_, ok = columns(f)
	return ok
}

// Width returns the number of columns of a terminal; 80 if w does not report it. It asks again each
// time, because windows can be resized.
func Width(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if n, _ := columns(f); n > 0 {
			return n
		}
	}
	return 80
}

// ClearLine returns the sequence that clears the terminal line of the cursor, such as a progress
// line and the ^C after it; empty if w is not a terminal.
func ClearLine(w io.Writer) string {
	if !Is(w) {
		return ""
	}
	return "\r\x1b[K"
}

// IsUTF8 reports whether the environment selects a UTF-8 locale. The first variable that is set
// decides, as in setlocale(3).
func IsUTF8(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToLower(getenv(name)); v != "" {
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}
