package documents

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// states are the words in the second column; the value says whether such a row must name what shows
// it.
var states = map[string]bool{"yes": true, "in part": true, "not yet": false, "not here": false,
	"several processes": false}

var (
	tableRow = regexp.MustCompile(`(?m)^\| (.+) \| ([a-z ]+) \| (.*) \| (.*) \|$`)
	shownBy  = regexp.MustCompile("`([a-z0-9/_]+):((?:Test|Example|Fuzz)\\w*)`")
)

func TestWhatThePageNamesExists(t *testing.T) {
	page, err := os.ReadFile("../../docs/documents.md")
	require.NoError(t, err)
	rows, functions := 0, map[string]string{}
	for _, m := range tableRow.FindAllStringSubmatch(string(page), -1) {
		row, state, remark, named := m[1], m[2], m[3], shownBy.FindAllStringSubmatch(m[4], -1)
		if row == "row" {
			continue
		}
		rows++
		shown, known := states[state]
		assert.True(t, known, "%s: the state %q is none of the page's words", row, state)
		assert.True(t, !shown || len(named) > 0, "%s: it says %q and names nothing that shows it", row, state)
		assert.True(t, state != "not here" && state != "in part" || remark != "", "%s: the remark says why", row)
		assert.Equal(t, strings.Count(m[4], "`"), 2*len(named), "%s: want `package:Test`, found %s", row, m[4])
		for _, n := range named {
			if _, read := functions[n[1]]; !read {
				functions[n[1]] = testsOf(t, n[1])
			}
			assert.True(t, strings.Contains(functions[n[1]], "\nfunc "+n[2]+"("), "%s: %s has no %s", row, n[1], n[2])
		}
	}
	assert.Greater(t, rows, 150, "rows that were found")
}

// testsOf returns the text of a package's test files.
func testsOf(t *testing.T, folder string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("../..", folder, "*_test.go"))
	require.NoError(t, err)
	require.NotEmpty(t, files, folder)
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		all.Write(text)
	}
	return all.String()
}
