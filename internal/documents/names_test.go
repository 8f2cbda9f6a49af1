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

// declaration matches a line of api/*.txt: a name, and a field or method of it.
var declaration = regexp.MustCompile(`(?m)^(?:const|var|func|type|method) (?:\(\*?(\w+)[^)]*\) )?(\w+)(?:, (\w+))?`)

// exported returns the exported names of the packages in api/ by the last words of their paths, and
// the fields and methods of their types as Type.Name.
func exported(t *testing.T) map[string]map[string]bool {
	t.Helper()
	lists, err := filepath.Glob("../../api/*.txt")
	require.NoError(t, err)
	require.NotEmpty(t, lists)
	names := map[string]map[string]bool{}
	for _, list := range lists {
		text, err := os.ReadFile(list)
		require.NoError(t, err)
		words := strings.Split(strings.TrimSuffix(filepath.Base(list), ".txt"), "_")
		of := names[words[len(words)-1]]
		if of == nil {
			of = map[string]bool{}
			names[words[len(words)-1]] = of
		}
		for _, m := range declaration.FindAllStringSubmatch(string(text), -1) {
			switch receiver, name, member := m[1], m[2], m[3]; {
			case receiver != "":
				of[receiver+"."+name] = true
			case member != "":
				of[name+"."+member] = true
			default:
				of[name] = true
			}
		}
	}
	return names
}

// TestGoNamesOnThePagesExist looks each name such as trainer.Options.Epochs up in the list of its
// package in api/.
func TestGoNamesOnThePagesExist(t *testing.T) {
	names := exported(t)
	found := 0
	for _, pattern := range []string{"../../*.md", "../../docs/*.md"} {
		pages, err := filepath.Glob(pattern)
		require.NoError(t, err)
		require.NotEmpty(t, pages, pattern)
		for _, page := range pages {
			text, err := os.ReadFile(page)
			require.NoError(t, err)
			for _, m := range inBackticks.FindAllStringSubmatch(string(text), -1) {
				if of := names[m[1]]; of != nil {
					found++
					assert.True(t, of[m[2]], "%s names %s.%s, which does not exist", filepath.Base(page), m[1], m[2])
				}
			}
		}
	}
	assert.Greater(t, found, 600, "names that were found")
}

var inBackticks = regexp.MustCompile("`(\\w+)\\.([A-Z]\\w*(?:\\.[A-Z]\\w*)?)`")

func TestEveryOptionIsOnThePageOfTrainingArguments(t *testing.T) {
	text, err := os.ReadFile("../../docs/training-arguments.md")
	require.NoError(t, err)
	for name := range exported(t)["trainer"] {
		if field, ok := strings.CutPrefix(name, "Options."); ok {
			assert.Contains(t, string(text), "trainer.Options."+field+"`")
		}
	}
}
