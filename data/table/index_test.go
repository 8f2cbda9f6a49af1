package table_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data/table"
)

func TestIndexFileThatDoesNotFitIsMadeAnew(t *testing.T) {
	path := write(t, "a.csv", "a\n1\n2\n")
	index := filepath.Join(t.TempDir(), "a.index")
	count := func() int {
		rows, err := table.OpenRows[[]string](path, table.Format{IndexFile: index})
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		return rows.Len()
	}
	if n := count(); n != 2 {
		t.Fatalf("%d rows", n)
	}
	good, err := os.ReadFile(index)
	if err != nil {
		t.Fatal(err)
	}
	for at := len("gotrainer rows 1\n"); at < len(good); at++ { // a file that begins otherwise is not replaced
		bad := bytes.Clone(good)
		bad[at] ^= 0x40
		if err := os.WriteFile(index, bad, 0o644); err != nil {
			t.Fatal(err)
		}
		if n := count(); n != 2 {
			t.Fatalf("with byte %d of the index flipped: %d rows", at, n)
		}
		if now, _ := os.ReadFile(index); !bytes.Equal(now, good) {
			t.Fatalf("with byte %d flipped the index was not made again", at)
		}
	}
	if err := os.WriteFile(index, good[:len(good)-3], 0o644); err != nil {
		t.Fatal(err)
	}
	if n := count(); n != 2 {
		t.Errorf("with half an index: %d rows", n)
	}
	if err := os.WriteFile(path, []byte("a\n1\n2\n3\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if n := count(); n != 3 {
		t.Errorf("of a table that grew: %d rows", n)
	}
}

func TestIndexFileDoesNotReplaceAnotherFile(t *testing.T) {
	const text = "a\n1\n2\n"
	path := write(t, "a.csv", text)
	_, err := table.OpenRows[[]string](path, table.Format{IndexFile: path})
	require.ErrorContains(t, err, fmt.Sprintf("Format.IndexFile: %s begins with %q", path, text))
	now, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, text, string(now))

	for _, begun := range []string{"", "gotrainer r"} { // what a machine that lost power may have left
		index := write(t, "a.index", begun)
		rows, err := table.OpenRows[[]string](path, table.Format{IndexFile: index})
		require.NoError(t, err, "an index of %q", begun)
		require.NoError(t, rows.Close())
	}
}
