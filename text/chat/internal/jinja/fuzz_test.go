package jinja

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// FuzzTemplate checks that no text makes the parser or the interpreter panic, and that the spans
// marked as generated are within the text.
func FuzzTemplate(f *testing.F) {
	files, err := filepath.Glob("../../testdata/templates/*.jinja")
	if err != nil || files == nil {
		f.Fatal("no templates", err)
	}
	for _, name := range files {
		content, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(content))
	}
	content, err := os.ReadFile("../../testdata/expressions.txt")
	if err != nil {
		f.Fatal(err)
	}
	for line := range strings.Lines(string(content)) {
		f.Add("{{ " + strings.TrimSuffix(line, "\n") + " }}")
	}
	message := NewDict()
	message.Set("role", "user")
	message.Set("content", "Héllo")
	call := NewDict()
	call.Set("function", message)
	answer := NewDict()
	answer.Set("role", "assistant")
	answer.Set("content", nil)
	answer.Set("tool_calls", NewList(call))
	variables := NewDict()
	variables.Set("messages", NewList(message, answer))
	variables.Set("tools", NewList(call))
	variables.Set("list", NewList(int64(3), 1.5, true, "x"))
	variables.Set("s", "Hello World")
	f.Fuzz(func(t *testing.T, source string) {
		tmpl, err := Parse(source)
		if err != nil {
			return
		}
		res, err := tmpl.Render(variables, func() time.Time { return time.Unix(0, 0) })
		if err != nil {
			return
		}
		n := utf8.RuneCountInString(res.Text)
		for _, s := range res.Generated {
			if s.Start < 0 || s.Start > s.End || tmpl.Generation && !strings.Contains(source, "macro") &&
				!strings.Contains(source, "set") && !strings.Contains(source, "filter") && s.End > n {
				t.Fatalf("%q: %v of %d characters", source, s, n)
			}
		}
	})
}
