package run

import (
	"fmt"
	"runtime"
	"strings"
)

// holders names what the goroutines of the program are at: of each the innermost function that is
// not the standard library's, the main goroutine's first.
func holders() string {
	buffer := make([]byte, 1<<20)
	return holdersIn(string(buffer[:runtime.Stack(buffer, true)]))
}

// holdersIn reads the stacks as package runtime prints them.
func holdersIn(stacks string) string {
	const most = 8
	var list []string
	count := map[string]int{}
	for stack := range strings.SplitSeq(stacks, "\n\n") {
		place := innermost(stack)
		if place == "" {
			continue
		}
		if count[place]++; count[place] == 1 {
			list = append(list, place)
		}
	}
	for i, place := range list {
		if n := count[place]; n > 1 {
			list[i] = fmt.Sprintf("%s (%d goroutines)", place, n)
		}
	}
	if n := len(list) - most; n > 0 {
		list = append(list[:most], fmt.Sprintf("%d more", n))
	}
	if len(list) == 0 {
		return "no goroutine of the program"
	}
	return strings.Join(list, ", ")
}

// innermost returns where a goroutine is and what it waits for: "main.(*plates).At at plates.go:31
// [sleep]". It is empty for goroutines of the standard library and of this package.
func innermost(stack string) string {
	lines := strings.Split(stack, "\n")
	_, state, ok := strings.Cut(lines[0], "[")
	if !ok {
		return ""
	}
	state, _, _ = strings.Cut(strings.TrimSuffix(state, "]:"), ",")
	for i := 1; i+1 < len(lines); i += 2 {
		function, file := lines[i], strings.TrimSpace(lines[i+1])
		if strings.HasPrefix(function, "created by ") {
			break
		}
		if end := strings.LastIndex(function, "("); end > 0 {
			function = function[:end]
		}
		if standard(function) {
			continue
		}
		if strings.HasPrefix(function, thisPackage+".") {
			return ""
		}
		file, _, _ = strings.Cut(file, " +0x")
		return fmt.Sprintf("%s at %s [%s]", function, file, state)
	}
	return ""
}

const thisPackage = "github.com/gotrainer/gotrainer/run"

// standard tells whether a function is the standard library's: the first element of the path of its
// package has no dot, and it is not the program's own.
func standard(function string) bool {
	first, _, deep := strings.Cut(function, "/")
	if deep {
		return !strings.Contains(first, ".")
	}
	pkg, _, _ := strings.Cut(function, ".")
	return pkg != "main"
}
