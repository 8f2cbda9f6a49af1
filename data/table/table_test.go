package table_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/data/table"
)

var _ data.Dataset[table.Row] = (*table.Set)(nil)

func TestRead(t *testing.T) {
	for _, c := range []struct {
		name, text string
		options    table.Options
		want       []table.Row
	}{
		{"lines of file and label", "a.jpg\tone\nb.jpg\ttwo\n", table.Options{},
			[]table.Row{{File: "a.jpg", Label: "one", Line: 1}, {File: "b.jpg", Label: "two", Line: 2}}},
		{"no line break at the end", "a.jpg\tone", table.Options{},
			[]table.Row{{File: "a.jpg", Label: "one", Line: 1}}},
		{"a byte order mark", "\ufeffa.jpg\tone\n", table.Options{},
			[]table.Row{{File: "a.jpg", Label: "one", Line: 1}}},
		{"CRLF and empty lines", "\r\na.jpg\tone\r\n\r\nb.jpg\ttwo\r\n\r\n", table.Options{},
			[]table.Row{{File: "a.jpg", Label: "one", Line: 2}, {File: "b.jpg", Label: "two", Line: 4}}},
		{"quotes are text", "a.jpg\t\"so\nb.jpg\t5\"\n", table.Options{},
			[]table.Row{{File: "a.jpg", Label: `"so`, Line: 1}, {File: "b.jpg", Label: `5"`, Line: 2}}},
		{"spaces are text", "a b.jpg\t one \n", table.Options{}, []table.Row{{File: "a b.jpg", Label: " one ",
			Line: 1}}},
		{"Persian", "پلاک.jpg\t۱۲ب۳۴۵\n", table.Options{}, []table.Row{{File: "پلاک.jpg", Label: "۱۲ب۳۴۵", Line: 1}}},
		{"an empty label that is allowed", "a.jpg\t\n", table.Options{AllowEmpty: true},
			[]table.Row{{File: "a.jpg", Line: 1}}},
		{"an empty table", "", table.Options{}, nil},
		{"a header", "id\tlabel\tfile\n7\tone\ta.jpg\n", table.Options{Header: true},
			[]table.Row{{File: "a.jpg", Label: "one", Line: 2}}},
		{"a header of other names", "image_path\ttext\na.jpg\tone\n", table.Options{Header: true, File: "image_path",
			Label: "text"}, []table.Row{{File: "a.jpg", Label: "one", Line: 2}}},
		{"a header only", "file\tlabel\n", table.Options{Header: true}, nil},
		{"commas with quotes", "\ufeffa.jpg,\"one, \"\"two\"\"\nthree\"\nb.jpg,four\n", table.Options{Separator: ','},
			[]table.Row{{File: "a.jpg", Label: "one, \"two\"\nthree", Line: 1}, {File: "b.jpg", Label: "four",
				Line: 3}}},
	} {
		got, err := table.Read(strings.NewReader(c.text), c.options)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	for _, c := range []struct {
		name, text string
		options    table.Options
		want       string
	}{
		{"one column", "a.jpg\tone\nb.jpg\n", table.Options{}, "line 2: 1 columns, expected 2"},
		{"three columns", "a.jpg\tone\ttwo\n", table.Options{}, "line 1: 3 columns, expected 2"},
		{"an empty label", "a.jpg\tone\n\nb.jpg\t\n", table.Options{}, `line 3: the label of "b.jpg" is empty`},
		{"an empty file name", "\tone\n", table.Options{}, "line 1: the file name is empty"},
		{"a zero byte in a file name", "a\x00.jpg\tone\n", table.Options{}, "zero byte"},
		{"UTF-16", "\xff\xfea\x00\t\x00b\x00\n", table.Options{}, "line 1: not valid UTF-8"},
		{"Windows-1256 in CSV", "a.jpg,\xc7\xc8\n", table.Options{Separator: ','}, "line 1: not valid UTF-8"},
		{"a line without end", strings.Repeat("x", 2<<20), table.Options{}, "line 1: longer than"},
		{"commas and a line without end", "a,one\n\"b\n\",two\n" + strings.Repeat("x", 4<<20),
			table.Options{Separator: ','}, "line 4: longer than"},
		{"a quote that swallows the table", "a,one\nb,\"" + strings.Repeat("x\n", 2<<20), table.Options{Separator: ','},
			"line 2: longer than"},
		{"a quote that never ends", "a.jpg,one\nb.jpg,\"two\n", table.Options{Separator: ','}, "line 2: "},
		{"no header", "", table.Options{Header: true}, "expected a header"},
		{"a header without the column", "file\ttext\n", table.Options{Header: true},
			`line 1: no column "label"; the header has ["file" "text"]`},
		{"a header with the column twice", "file\tlabel\tlabel\n", table.Options{Header: true}, `two columns "label"`},
		{"a separator that is a quote", "a", table.Options{Separator: '"'}, "cannot separate columns"},
		{"a separator that is no character", "a", table.Options{Separator: -1}, "not a character"},
	} {
		if rows, err := table.Read(strings.NewReader(c.text), c.options); err == nil || !strings.Contains(err.Error(),
			c.want) {
			t.Errorf("%s: Read = %v, %v, want %q", c.name, rows, err, c.want)
		}
	}
}

// folder creates a folder with a table and empty files.
func folder(t testing.TB, text string, files ...string) (tablePath string) {
	t.Helper()
	dir := t.TempDir()
	tablePath = filepath.Join(dir, "train.tsv")
	if err := os.WriteFile(tablePath, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return tablePath
}

func TestOpenFindsFilesBesideTheTable(t *testing.T) {
	path := folder(t, "images/a.jpg\tba\nb.jpg\tcb\n", "images/a.jpg", "b.jpg")
	set, err := table.Open(path, table.Options{})
	if err != nil {
		t.Fatal(err)
	}
	row, _ := set.At(0)
	if want := filepath.Join(filepath.Dir(path), "images", "a.jpg"); row.Path != want {
		t.Errorf("Path = %q, want %q", row.Path, want)
	}
	if got := string(set.Characters()); got != "abc" {
		t.Errorf("Characters() = %q, want abc", got)
	}
	if got := set.Describe(1); !strings.Contains(got, "line 2 of "+path) {
		t.Errorf("Describe(1) = %q, want the line and the table", got)
	}
}

func TestOpenFindsFilesInDir(t *testing.T) {
	path := folder(t, "a.jpg\tone\n")
	other := folder(t, "", "a.jpg")
	if _, err := table.Open(path, table.Options{}); err == nil {
		t.Error("Open found a file that is not beside the table")
	}
	if _, err := table.Open(path, table.Options{Dir: filepath.Dir(other)}); err != nil {
		t.Error(err)
	}
}

func TestMissingFilesAreCountedAndNamed(t *testing.T) {
	var text strings.Builder
	for i := range 9 {
		fmt.Fprintf(&text, "%d.jpg\tlabel\n", i)
	}
	text.WriteString("folder\tlabel\n")
	path := folder(t, text.String(), "4.jpg", "folder/x")
	_, err := table.Open(path, table.Options{})
	var missing *table.MissingFilesError
	if !errors.As(err, &missing) || len(missing.Missing) != 9 || !errors.Is(err, fs.ErrNotExist) {
		t.Fatalf("Open = %v, want a MissingFilesError of 9", err)
	}
	for _, want := range []string{"9 of its 10 files are missing", "line 6: " + filepath.Join(filepath.Dir(path),
		"5.jpg"), "and 4 more"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %q in it", err, want)
		}
	}
	if strings.Contains(err.Error(), "6.jpg") {
		t.Errorf("error %v, want five names only", err)
	}
}

func FuzzRead(f *testing.F) {
	for _, text := range []string{"a.jpg\tone\nb.jpg\ttwo\r\n", "\ufeffa\tb", "file\tlabel\nx\ty\n", "a,\"b\nc\"\n",
		"\"a\",b\n"} {
		f.Add(text, true)
		f.Add(text, false)
	}
	f.Fuzz(func(t *testing.T, text string, tabs bool) {
		o := table.Options{}
		if !tabs {
			o.Separator = ','
		}
		rows, err := table.Read(strings.NewReader(text), o)
		if err != nil {
			return
		}
		line := 0
		for _, row := range rows {
			if row.Line <= line || row.File == "" || row.Label == "" {
				t.Fatalf("row %+v after line %d", row, line)
			}
			line = row.Line
			if tabs && !strings.Contains(text, row.File+"\t"+row.Label) {
				t.Fatalf("row %+v is not in %q", row, text)
			}
		}
	})
}

func ExampleRead() {
	rows, err := table.Read(strings.NewReader("0001.jpg\t۱۲ب۳۴۵\n0002.jpg\t۷۸د۹۱۱\n"), table.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, row := range rows {
		fmt.Println(row.Line, row.File, row.Label)
	}
	// Output:
	// 1 0001.jpg ۱۲ب۳۴۵
	// 2 0002.jpg ۷۸د۹۱۱
}
