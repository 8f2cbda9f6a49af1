package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCommand(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	schedule := func(rate string) string {
		return `{"schedules": {"s": {"scheduler": "ExponentialLR", "kwargs": {"gamma": 0.5}, "base_lr": 1, "lr": [[1, ` + rate + `]]}}}`
	}
	good, bad := file("good.json", schedule("0.5")), file("bad.json", schedule("0.6"))
	waits, broken := file("waits.json", `{"schedules": {}, "more": []}`), file("broken.json", "{")
	for _, c := range []struct {
		claim  string
		args   []string
		status int
		last   string // line of the output, or a part of the usage
	}{
		{"all pass", []string{"-expected", good, good}, 0, "2 entries: 2 passed, 0 failed, 0 unsupported"},
		{"a failed entry", []string{"-expected", good, bad}, 1, "2 entries: 1 passed, 1 failed, 0 unsupported"},
		{"an unsupported entry", []string{"-expected", good, waits}, 1, "2 entries: 1 passed, 0 failed, 1 unsupported"},
		{"a broken file", []string{"-expected", good, broken}, 1, "2 entries: 1 passed, 1 failed, 0 unsupported"},
		{"a missing file", []string{"-expected", dir + "/none.json"}, 1,
			"1 entries: 0 passed, 1 failed, 0 unsupported"},
		{"a folder without cases", []string{dir}, 2, "holds no case"},
		{"a folder that is not there", []string{dir + "/none"}, 2, "no such file"},
		{"no file", []string{"-expected"}, 2, "usage: conformance"},
		{"an unknown flag", []string{"-wrong"}, 2, "usage: conformance"},
	} {
		var out, errors bytes.Buffer
		if status := command(c.args, &out, &errors); status != c.status {
			t.Errorf("%s: status %d, want %d\n%s%s", c.claim, status, c.status, &out, &errors)
		}
		if c.status == 2 {
			if !strings.Contains(errors.String(), c.last) {
				t.Errorf("%s: said %q, want %q in it", c.claim, &errors, c.last)
			}
			continue
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if lines[len(lines)-1] != c.last {
			t.Errorf("%s: the last line is %q, want %q", c.claim, lines[len(lines)-1], c.last)
		}
	}
}
