// Package terminal tells whether people see what is written, and how wide a line may be.
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

// Width is the number of columns of a terminal, asked again each time since windows change their
// size; 80 where w does not tell.
func Width(w io.Writer) int {
	if f, ok := w.(*os.File); ok {
		if n, _ := columns(f); n > 0 {
			return n
		}
	}
	return 80
}

// ClearLine is what removes the line in which a terminal's cursor is, such as a progress line and
// the ^C behind it; empty where w is no terminal.
func ClearLine(w io.Writer) string {
	if !Is(w) {
		return ""
	}
	return "\r\x1b[K"
}

// IsUTF8 reports whether the environment has a locale of UTF-8. The first variable that is set
// decides, as in setlocale(3).
func IsUTF8(getenv func(string) string) bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := strings.ToLower(getenv(name)); v != "" {
			return strings.Contains(v, "utf-8") || strings.Contains(v, "utf8")
		}
	}
	return false
}
