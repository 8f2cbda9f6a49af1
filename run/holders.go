package run

import (
	"fmt"
	"runtime"
	"strings"
)

// holders describes what the goroutines of the program are doing: for each, the innermost function
// outside of the standard library, the main goroutine first.
func holders() string {
	buffer := make([]byte, 1<<20)
	return holdersIn(string(buffer[:runtime.Stack(buffer, true)]))
}

// holdersIn is holders for stacks in the format of package runtime.
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

// innermost returns where a goroutine is and what it is waiting for: "main.(*plates).At at
// plates.go:31 [sleep]". It is empty for goroutines of the standard library and of this package.
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

// standard reports whether a function belongs to the standard library: the first element of its
// package path has no dot, and it is not in package main.
func standard(function string) bool {
	first, _, deep := strings.Cut(function, "/")
	if deep {
		return !strings.Contains(first, ".")
	}
	pkg, _, _ := strings.Cut(function, ".")
	return pkg != "main"
}
