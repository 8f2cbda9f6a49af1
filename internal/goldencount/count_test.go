package goldencount

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestCasesAreWrittenWhenTheirTestEnds(t *testing.T) {
	path := filepath.Join(t.TempDir(), "count")
	t.Setenv(File, path)
	t.Run("two comparisons", func(t *testing.T) {
		c := Start(t, "family", "name")
		c.Compare(true)
		Of(t).Compare(false)
		c.Explain("first")
		c.Explain("second")
	})
	t.Run("skipped", func(t *testing.T) {
		Start(t, "family", "skipped")
		t.Skip()
	})
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"Family":"family","Name":"name","Test":"TestCasesAreWrittenWhenTheirTestEnds","Compared":2,"Equal":1,"Reason":"first","Failed":false}`; strings.TrimSpace(string(got)) != want {
		t.Errorf("wrote %s, want %s", got, want)
	}
	if Of(t) != nil {
		t.Error("a test that began no case has one")
	}
}

func TestNothingIsCountedWithoutTheVariable(t *testing.T) {
	t.Setenv(File, "")
	c := Start(t, "family", "name")
	if c != nil {
		t.Error("a case was begun")
	}
	c.Compare(true)
	c.Explain("nobody asks")
}

func TestTheTestBinaryIsKept(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "new")
	t.Setenv(File, filepath.Join(t.TempDir(), "count"))
	t.Setenv(Binaries, folder)
	t.Run("a case", func(t *testing.T) { Start(t, "family", "name") })
	binary, err := os.Executable()
	require.NoError(t, err)
	want, err := os.ReadFile(binary)
	require.NoError(t, err)
	name := filepath.Join(folder, KeptAs("github.com/gotrainer/gotrainer/internal/goldencount"))
	got, err := os.ReadFile(name)
	require.NoError(t, err)
	assert.True(t, bytes.Equal(want, got))

	require.NoError(t, keep(folder), "it replaces an earlier one")
	require.NoError(t, os.Remove(name))
	require.NoError(t, copyProgram(binary, name))
	require.NoError(t, exec.Command(name, "-test.run", "^$").Run(), "a copy is a program")
	require.ErrorIs(t, copyProgram(binary, name), os.ErrExist)
}
