package table_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data/table"
)

// TestLinesOfManyErrors tests that every error has its line number, without reading everything
// before it each time.
func TestLinesOfManyErrors(t *testing.T) {
	type row struct {
		N int `table:"n"`
	}
	const n = 20_000 // more than one piece of feeds
	text := "n\n" + strings.Repeat("\nno number\n", n)
	path := filepath.Join(t.TempDir(), "a.csv")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	for _, memory := range []int64{0, -1} { // from memory, and from the file
		rows, err := table.OpenRows[row](path, table.Format{Memory: memory})
		require.NoError(t, err)
		_, err = rows.At(n - 1)
		require.ErrorContains(t, err, fmt.Sprintf("line %d: ", 2*n+1))
		i := 0
		for _, err := range rows.Samples(0, 0) {
			var where *table.Error
			if !errors.As(err, &where) || where.Line != 2*i+3 {
				t.Fatalf("row %d: %v, want an error in line %d", i, err, 2*i+3)
			}
			i++
		}
		assert.Equal(t, n, i)
		assert.Equal(t, fmt.Sprintf("line 3 of %s", path), rows.Describe(0))
		require.NoError(t, rows.Close())
	}
}
