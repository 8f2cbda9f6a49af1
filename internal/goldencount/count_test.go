package goldencount

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
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
