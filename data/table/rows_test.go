package table_test

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/data/table"
)

var _ data.Dataset[string] = (*table.Rows[string])(nil)

// message is a row of most of these tables.
type message struct {
	Label string   `table:"label"`
	Text  string   `table:"text"`
	Score *float32 `table:"score,optional"`
	Count int      `table:"count,optional"`
}

func pointer[T any](v T) *T { return &v }

// write writes a text to a file and returns its path.
func write(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

// read reads the rows of a text in all possible ways, which must agree: by index from memory and
// from the file, as a stream from any row, and in one scan.
func read[T any](t testing.TB, name, text string, f table.Format) ([]T, error) {
	t.Helper()
	path := write(t, name, text)
	var want []T
	var wantErr error
	for k, memory := range []int64{0, -1} {
		f.Memory = memory
		rows, err := table.OpenRows[T](path, f)
		var got []T
		if err == nil {
			for i := range rows.Len() {
				var row T
				if row, err = rows.At(i); err != nil {
					break
				}
				got = append(got, row)
			}
			for _, skip := range []int{0, 1, rows.Len()} {
				if skip > len(got) {
					continue // an earlier row has an error
				}
				at := skip
				for row, streamErr := range rows.Samples(0, skip) {
					if streamErr != nil {
						if fmt.Sprint(streamErr) != fmt.Sprint(err) {
							t.Errorf("Samples(0, %d) ends with %v, At with %v", skip, streamErr, err)
						}
						break
					}
					if at >= len(got) || !cmp.Equal(row, got[at]) {
						t.Fatalf("Samples(0, %d) gives %v at row %d", skip, row, at)
					}
					at++
				}
				if err == nil && at < len(got) {
					t.Errorf("Samples(0, %d) ends at row %d of %d", skip, at, len(got))
				}
			}
			if err := rows.Close(); err != nil {
				t.Error(err)
			}
		}
		if k > 0 && (fmt.Sprint(err) != fmt.Sprint(wantErr) || !cmp.Equal(got, want)) {
			t.Fatalf("from the file: %v, %v; from memory: %v, %v", got, err, want, wantErr)
		}
		want, wantErr = got, err
	}
	if f.Syntax != table.ByExtension {
		var got []T
		var err error
		for row, scanErr := range table.Scan[T](iotest.OneByteReader(strings.NewReader(text)), f) {
			if err = scanErr; err == nil {
				got = append(got, row)
			}
		}
		if (err == nil) != (wantErr == nil) || err == nil && !cmp.Equal(got, want) {
			t.Fatalf("Scan: %v, %v; OpenRows: %v, %v", got, err, want, wantErr)
		}
	}
	return want, wantErr
}

func TestRows(t *testing.T) {
	for _, c := range []struct {
		name, file, text string
		format           table.Format
		want             []message
	}{
		{"TSV with a header", "a.tsv", "label\ttext\nham\tHello\nspam\tWin\n", table.Format{},
			[]message{{Label: "ham", Text: "Hello"}, {Label: "spam", Text: "Win"}}},
		{"TSV without a header", "a.tsv", "ham\tHello", table.Format{Columns: []string{"label", "text"}},
			[]message{{Label: "ham", Text: "Hello"}}},
		{"quotes of TSV are text", "a.tsv", "text\tlabel\n\"so\t\"\nb\"\t\"c\"\n", table.Format{},
			[]message{{Label: `"`, Text: `"so`}, {Label: `"c"`, Text: `b"`}}},
		{"a byte order mark, CRLF and empty lines", "a.tsv",
			"\ufeff\r\nlabel\ttext\r\n\r\nham\tHi\r\n\r\n\nspam\tWin\r\n", table.Format{Syntax: table.TSV},
			[]message{{Label: "ham", Text: "Hi"}, {Label: "spam", Text: "Win"}}},
		{"CSV with quotes", "a.csv",
			"text,label,score,count\n\"one, \"\"two\"\"\r\nthree\",a,0.5,7\nfour,b,,-2\n\"\",\"\",1e3,0\n",
			table.Format{Syntax: table.CSV},
			[]message{{Text: "one, \"two\"\r\nthree", Label: "a", Score: pointer[float32](0.5), Count: 7},
				{Text: "four", Label: "b", Count: -2}, {Score: pointer[float32](1000)}}},
		{"a quote inside an unquoted field is text", "a.csv", "label,text\na,5\" wide\n", table.Format{},
			[]message{{Label: "a", Text: `5" wide`}}},
		{"CSV whose quotes are text", "a.csv", "label;text\n\"a;b\n", table.Format{Syntax: table.CSV, Separator: ';',
			Quoting: table.QuoteNone}, []message{{Label: `"a`, Text: "b"}}},
		{"TSV with quotes", "a.tsv", "label\ttext\na\t\"b\tc\"\n", table.Format{Quoting: table.QuoteMinimal},
			[]message{{Label: "a", Text: "b\tc"}}},
		{"other columns are left out", "a.csv", "id,label,x,text\n1,a,2,b\n", table.Format{},
			[]message{{Label: "a", Text: "b"}}},
		{"JSONL", "a.jsonl",
			"{\"text\":\"a\\n\\u0628\",\"label\":\"b\",\"extra\":{\"deep\":[1,{}]},\"score\":null}\n\n " +
				"{\"label\":\"\",\"text\":\"\",\"score\":-1.5e1,\"count\":3} \r\n", table.Format{Syntax: table.JSONL},
			[]message{{Label: "b", Text: "a\nب"}, {Score: pointer[float32](-15), Count: 3}}},
		{"an empty file whose columns the format names", "a.csv", "", table.Format{Columns: []string{"label", "text"}},
			nil},
		{"an empty file of JSONL", "a.jsonl", "", table.Format{}, nil},
		{"a header only", "a.csv", "label,text", table.Format{}, nil},
		{"Latin-1", "a.tsv", "label\ttext\nd\tcaf\xe9\n", table.Format{Encoding: table.Latin1},
			[]message{{Label: "d", Text: "café"}}},
	} {
		got, err := read[message](t, c.file, c.text, c.format)
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

// TestColumnsThatNobodyAsksFor covers Kaggle's spam.csv, whose header ends with three unnamed
// columns.
func TestColumnsThatNobodyAsksFor(t *testing.T) {
	type message struct {
		Label string `table:"v1"`
		Text  string `table:"v2"`
	}
	const text = "v1,v2,,,\r\nham,\"Ok lar, joking\",,,\r\n"
	format := table.Format{Syntax: table.CSV, Encoding: table.Latin1}
	got, err := read[message](t, "spam.csv", text, format)
	require.NoError(t, err)
	assert.Equal(t, []message{{"ham", "Ok lar, joking"}}, got)
	all, err := read[[]string](t, "spam.csv", text, format)
	require.NoError(t, err)
	assert.Equal(t, [][]string{{"ham", "Ok lar, joking", "", "", ""}}, all)
	_, err = read[map[string]string](t, "spam.csv", text, format)
	require.ErrorContains(t, err, `two columns are called "", so that map[string]string cannot hold both`)
}

func TestSpacesAroundNumbers(t *testing.T) {
	type sample struct {
		Text  string   `table:"text"`
		Count int      `table:"count"`
		Score *float64 `table:"score"`
		Good  bool     `table:"good"`
	}
	score := 0.5
	got, err := read[sample](t, "a.csv", "text,count,score,good\n a , 3,0.5 ,\ttrue\n", table.Format{Syntax: table.CSV})
	require.NoError(t, err)
	assert.Equal(t, []sample{{" a ", 3, &score, true}}, got)
}

func TestLinesOfSpacesBetweenObjects(t *testing.T) {
	got, err := read[map[string]json.RawMessage](t, "a.jsonl", "  \n{\"a\":1}\n\t \r\n {\"a\":2} \n   ",
		table.Format{Syntax: table.JSONL})
	require.NoError(t, err)
	assert.Equal(t, []map[string]json.RawMessage{{"a": json.RawMessage("1")}, {"a": json.RawMessage("2")}}, got)
	_, err = read[[]string](t, "a.csv", "a,b\n  \nc,d\n", table.Format{Syntax: table.CSV})
	require.ErrorContains(t, err, "line 2: 1 columns, expected 2", "only JSON says that spaces mean nothing")
}

// TestAFileThatIsNotThere is about a name without an extension, which is not what is wrong with it.
func TestAFileThatIsNotThere(t *testing.T) {
	_, err := table.OpenRows[message](filepath.Join(t.TempDir(), "train"), table.Format{})
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestRowsRefuse(t *testing.T) {
	type numbers struct {
		N []int64 `table:"n"`
	}
	for _, c := range []struct {
		name, file, text string
		format           table.Format
		want             string
	}{
		{"an empty file without a header", "a.csv", "", table.Format{}, "the file is empty, expected a first line " +
			"that names the columns; write it again, or name the columns in Format.Columns"},
		{"a file of empty lines", "a.tsv", "\ufeff\r\n\n", table.Format{}, "the file is empty"},
		{"a missing column", "a.csv", "label,words\n", table.Format{}, `no column "text"; there are ["label" "words"]`},
		{"a column twice", "a.csv", "label,text,text\n", table.Format{}, `two columns "text"`},
		{"a column that is named twice", "a.csv", "", table.Format{Columns: []string{"label", "text", "text"}},
			`two columns are called "text"`},
		{"too few columns", "a.csv", "label,text\na,b\n\na\n", table.Format{},
			`line 4: 1 columns, expected 2 ["label" "text"]`},
		{"too many columns", "a.csv", "label,text\na,b,c\n", table.Format{}, "line 2: 3 columns, expected 2"},
		{"a word for a number", "a.csv", "label,text,count\na,b,many\n", table.Format{},
			`line 2: column "count": "many" is no int: invalid syntax`},
		{"a number out of range", "a.csv", "label,text,score\na,b,1e99\n", table.Format{},
			`line 2: column "score": "1e99" is no float32: value out of range`},
		{"a quote that never closes", "a.csv", "label,text\na,\"b\nc,d\n", table.Format{},
			"line 2: column 2: a quote is opened and never closed"},
		{"text after a quote", "a.csv", "label,text\na,\"b\"c\n", table.Format{},
			"line 2: column 2: text after its closing quote"},
		{"bytes that are no UTF-8", "a.tsv", "label\ttext\na\t\xe9\n", table.Format{}, "line 2: not valid UTF-8"},
		{"UTF-16", "a.tsv", "\xff\xfel\x00", table.Format{}, "UTF-16"},
		{"UTF-16 without a byte order mark", "a.csv", "t\x00e\x00x\x00t\x00", table.Format{}, "as in UTF-16"},
		{"another separator", "a.csv", "text;label\n", table.Format{}, `separated by ';', set Format.Syntax to CSV and`},
		{"tabs in CSV", "a.csv", "text\tlabel\n", table.Format{}, `separated by '\t', set Format.Syntax`},
		{"gzip by its name", "a.csv.gz", "\x1f\x8b\x08\x00", table.Format{}, "compressed by gzip"},
		{"gzip", "a.tsv", "\x1f\x8b\x08\x00", table.Format{}, "compressed by gzip"},
		{"Parquet", "a.csv", "PAR1\x15\x04", table.Format{}, "data/parquet"},
		{"a row without end", "a.tsv", "label\ttext\n" + strings.Repeat("x", 200), table.Format{MaxRecord: 100},
			"line 2: a row is longer than 100 bytes; is this a table?"},
		{"a quote that swallows the table", "a.csv", "label,text\na,\"" + strings.Repeat("x\n", 100),
			table.Format{MaxRecord: 100}, "line 2: a row is longer than 100 bytes and holds line breaks"},
		{"a string for a number of JSON", "a.jsonl", `{"label":"a","text":"b","count":"3"}`, table.Format{},
			`line 1: column "count": a string ("3"), want a number`},
		{"a fraction for an int of JSON", "a.jsonl", `{"label":"a","text":"b","count":3.5}`, table.Format{},
			`"3.5" is no int`},
		{"an object for a string", "a.jsonl", `{"label":{"id":1},"text":"b"}`, table.Format{},
			`line 1: column "label": an object, want a string; a field of type json.RawMessage`},
		{"null for a string", "a.jsonl", `{"label":null,"text":"b"}`, table.Format{},
			`column "label": null, want a string`},
		{"a key that is missing", "a.jsonl", "\n" + `{"label":"a"}`, table.Format{}, `line 2: no column "text"`},
		{"a key twice", "a.jsonl", `{"label":"a","text":"b","text":"c"}`, table.Format{},
			`column "text": it appears twice`},
		{"an array of JSON", "a.jsonl", `["a","b"]`, table.Format{}, "line 1: want a JSON object, " +
			"found an array"},
		{"a file that is an array", "a.jsonl", "[\n{}\n]", table.Format{}, "into a data.Slice"},
		{"half an object", "a.jsonl", `{"label":"a","te`, table.Format{}, "line 1: a key: the JSON ends"},
		{"two objects in a line", "a.jsonl", `{"label":"a","text":"b"}{}`, table.Format{}, "text after the JSON object"},
		{"an extension nobody knows", "a.dat", "", table.Format{}, `the extension ".dat" is not`},
		{"a separator that is a quote", "a.csv", "", table.Format{Separator: '"'}, "cannot separate"},
		{"a separator for TSV", "a.tsv", "", table.Format{Separator: ';'}, "only CSV"},
		{"columns for JSONL", "a.jsonl", "", table.Format{Columns: []string{"a"}}, "the keys of JSONL"},
		{"quoting for JSONL", "a.jsonl", "", table.Format{Quoting: table.QuoteMinimal}, "no quoting to choose"},
		{"a syntax that does not exist", "a.csv", "", table.Format{Syntax: 9}, "no such constant"},
		{"a row limit over the largest", "a.csv", "", table.Format{MaxRecord: 1 << 30},
			"Format.MaxRecord is 1073741824"},
	} {
		if got, err := read[message](t, c.file, c.text, c.format); err == nil || !strings.Contains(err.Error(),
			c.want) {
			t.Errorf("%s: %v, %v; want %q", c.name, got, err, c.want)
		}
	}
	for name, err := range map[string]error{
		"a list in CSV":    second(table.OpenRows[numbers](write(t, "a.csv", "n\n1\n"), table.Format{})),
		"an int as a row":  second(table.OpenRows[int](write(t, "a.csv", "n\n1\n"), table.Format{})),
		"a string for CSV": second(table.OpenRows[string](write(t, "a.csv", "n\n1\n"), table.Format{})),
		"a nested struct in JSONL": second(table.OpenRows[struct{ A struct{ B int } }](write(t, "a.jsonl", "{}"),
			table.Format{})),
		"a struct without fields": second(table.OpenRows[struct{}](write(t, "a.csv", "n\n1\n"), table.Format{})),
		"a tag with another option": second(table.OpenRows[struct {
			A int `table:"n,omitempty"`
		}](write(t, "a.csv", "n\n1\n"), table.Format{})),
		"two fields for the column": second(table.OpenRows[struct {
			A, B int `table:"n"`
		}](write(t, "a.csv", "n\n1\n"), table.Format{})),
		"a pointer to a pointer": second(table.OpenRows[struct{ N **int }](write(t, "a.csv", "n\n1\n"),
			table.Format{})),
		"a folder": second(table.OpenRows[message](t.TempDir(), table.Format{Syntax: table.CSV})),
		"an index file in no folder": second(table.OpenRows[[]string](write(t, "a.csv", "n\n1\n"),
			table.Format{IndexFile: "/no/such/folder/a.index"})),
		"a scan by extension": scanError(""),
	} {
		if err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}

func second[T any](_ *table.Rows[T], err error) error { return err }

func scanError(text string) (err error) {
	for _, err = range table.Scan[message](strings.NewReader(text), table.Format{}) {
	}
	return err
}

func TestRowsOfOtherTypes(t *testing.T) {
	lists, err := read[[]string](t, "a.csv", "a,b\n1,\"2\"\n", table.Format{})
	if diff := cmp.Diff([][]string{{"1", "2"}}, lists); diff != "" || err != nil {
		t.Error(diff, err)
	}
	maps, err := read[map[string]string](t, "a.tsv", "a\tb\n1\t2\n", table.Format{})
	if diff := cmp.Diff([]map[string]string{{"a": "1", "b": "2"}}, maps); diff != "" || err != nil {
		t.Error(diff, err)
	}
	lines, err := read[string](t, "a.txt", "one, \"two\"\nthree\n", table.Format{})
	if diff := cmp.Diff([]string{`one, "two"`, "three"}, lines); diff != "" || err != nil {
		t.Error(diff, err)
	}
	raw, err := read[map[string]json.RawMessage](t, "a.jsonl", `{"a":[1, 2],"b":{"c":null}}`, table.Format{})
	if diff := cmp.Diff([]map[string]json.RawMessage{{"a": json.RawMessage("[1, 2]"),
		"b": json.RawMessage(`{"c":null}`)}}, raw); diff != "" || err != nil {
		t.Error(diff, err)
	}
	whole, err := read[json.RawMessage](t, "a.jsonl", `{"a":1}`, table.Format{})
	if diff := cmp.Diff([]json.RawMessage{json.RawMessage(`{"a":1}`)}, whole); diff != "" || err != nil {
		t.Error(diff, err)
	}
	type tokens struct {
		IDs    []int64         `table:"ids"`
		Words  []string        `table:"words"`
		Boxes  [][]float32     `table:"boxes"`
		Answer json.RawMessage `table:"answer,optional"`
		When   time.Time       `table:"-"`
		Flag   bool
	}
	got, err := read[tokens](t, "a.jsonl",
		`{"ids":[1, -2],"words":["a","\"b"],"boxes":[[1,2],[]],"answer":{"x":[1]},"FLAG":true}`, table.Format{})
	want := []tokens{{IDs: []int64{1, -2}, Words: []string{"a", `"b`}, Boxes: [][]float32{{1, 2}, {}},
		Answer: json.RawMessage(`{"x":[1]}`), Flag: true}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if _, err := read[tokens](t, "a.jsonl", `{"ids":[1,"2"],"words":[],"boxes":[],"FLAG":true}`,
		table.Format{}); err == nil || !strings.Contains(err.Error(),
		`column "ids": item 1: a string ("2"), want a number`) {
		t.Errorf("a string among numbers: %v", err)
	}
	dates, err := read[struct{ Day time.Time }](t, "a.csv", "day\n2026-01-02T00:00:00Z\n", table.Format{})
	if err != nil || dates[0].Day.Year() != 2026 {
		t.Errorf("TextUnmarshaler: %v, %v", dates, err)
	}
}

func TestCSVIsThatOfEncodingCSV(t *testing.T) {
	dir := t.TempDir()
	rapid.Check(t, func(rt *rapid.T) {
		field := rapid.StringOf(rapid.SampledFrom([]rune("ab,\"\n ;é")))
		columns := rapid.IntRange(2, 4).Draw(rt, "columns")
		want := rapid.SliceOf(rapid.SliceOfN(field, columns, columns)).Draw(rt, "rows")
		var text bytes.Buffer
		w := csv.NewWriter(&text)
		w.UseCRLF = rapid.Bool().Draw(rt, "crlf")
		if err := w.WriteAll(want); err != nil {
			rt.Fatal(err)
		}
		if w.UseCRLF { // encoding/csv writes line breaks in fields as CRLF too, and reads them as LF
			for _, row := range want {
				for k := range row {
					row[k] = strings.ReplaceAll(row[k], "\n", "\r\n")
				}
			}
		}
		path := filepath.Join(dir, "a.csv")
		if err := os.WriteFile(path, text.Bytes(), 0o644); err != nil {
			rt.Fatal(err)
		}
		names := []string{"a", "b", "c", "d"}[:columns]
		rows, err := table.OpenRows[[]string](path, table.Format{Columns: names,
			Memory: int64(rapid.SampledFrom([]int{0, -1}).Draw(rt, "memory"))})
		if err != nil {
			rt.Fatal(err)
		}
		defer rows.Close()
		var got [][]string
		for i := range rows.Len() {
			row, err := rows.At(i)
			if err != nil {
				rt.Fatal(err)
			}
			got = append(got, row)
		}
		if len(got) != len(want) || len(want) > 0 && !cmp.Equal(got, want) {
			rt.Fatalf("%q: got %q, want %q", text.String(), got, want)
		}
	})
}

func TestLargeTableHasEveryRow(t *testing.T) {
	var text strings.Builder
	text.WriteString("n,text\n")
	const n = 20_000
	for i := range n {
		fmt.Fprintf(&text, "%d,\"%s\"\n", i, strings.Repeat("x\n", i%7))
		if i%1000 == 0 {
			text.WriteString("\n\n")
		}
	}
	type row struct {
		N    int
		Text string
	}
	path := write(t, "a.csv", text.String())
	index := filepath.Join(t.TempDir(), "a.index")
	for pass := range 2 { // the second pass opens with the index file
		rows, err := table.OpenRows[row](path, table.Format{Memory: -1, IndexFile: index})
		if err != nil {
			t.Fatal(err)
		}
		if rows.Len() != n {
			t.Fatalf("pass %d: %d rows, want %d", pass, rows.Len(), n)
		}
		var wg sync.WaitGroup
		for k := range 4 {
			wg.Go(func() {
				for i := k; i < n; i += 4 * 17 {
					if r, err := rows.At(i); err != nil || r.N != i || len(r.Text) != 2*(i%7) {
						t.Errorf("At(%d) = %v, %v", i, r, err)
						return
					}
				}
			})
		}
		wg.Wait()
		at := 12_345
		for r, err := range rows.Samples(3, at) {
			if err != nil || r.N != at {
				t.Fatalf("Samples: row %v, %v, want %d", r, err, at)
			}
			at++
		}
		if at != n {
			t.Errorf("Samples ends at %d", at)
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestFileThatChangesIsNoticed(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(path string) error
	}{
		{"it is truncated", func(path string) error { return os.Truncate(path, 5) }},
		{"it grows", func(path string) error { return appendTo(path, "x,y\n") }},
		{"it is written to", func(path string) error {
			if err := os.WriteFile(path, []byte("label,text\nA,B\nc,d\n"), 0o644); err != nil {
				return err
			}
			return os.Chtimes(path, time.Time{}, time.Now().Add(time.Hour))
		}},
	} {
		path := write(t, "a.csv", "label,text\na,b\nc,d\n")
		large, err := table.OpenRows[message](path, table.Format{Memory: -1})
		if err != nil {
			t.Fatal(err)
		}
		small, err := table.OpenRows[message](path, table.Format{})
		if err != nil {
			t.Fatal(err)
		}
		if err := c.change(path); err != nil {
			t.Fatal(err)
		}
		if _, err := large.At(1); !errors.Is(err, table.ErrChanged) {
			t.Errorf("%s: At = %v, want ErrChanged", c.name, err)
		}
		for _, err := range large.Samples(0, 0) {
			if !errors.Is(err, table.ErrChanged) {
				t.Errorf("%s: Samples = %v, want ErrChanged", c.name, err)
			}
			break
		}
		if row, err := small.At(1); err != nil || row.Label != "c" {
			t.Errorf("%s: a table in memory gives %v, %v", c.name, row, err)
		}
		if err := large.Close(); err != nil {
			t.Error(err)
		}
		if _, err := large.At(0); !errors.Is(err, table.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
		for _, err := range large.Samples(0, 0) {
			if !errors.Is(err, table.ErrClosed) {
				t.Errorf("Samples after Close: %v", err)
			}
		}
		if err := large.Close(); err != nil {
			t.Errorf("Close twice: %v", err)
		}
	}
	if _, err := table.OpenRows[message]("/no/such/file.csv", table.Format{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	secret := write(t, "a.csv", "label,text\n")
	if err := os.Chmod(secret, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := table.OpenRows[message](secret, table.Format{}); os.Getuid() != 0 &&
		!errors.Is(err, fs.ErrPermission) {
		t.Errorf("a file that may not be read: %v", err)
	}
}

func TestARowThatCannotBeParsedIsOneSampleOfTheStream(t *testing.T) {
	path := write(t, "a.csv", "label,text,count\na,b,1\nc,d,x\ne,f,3\ng,h,x\n")
	for _, memory := range []int64{0, -1} {
		rows, err := table.OpenRows[message](path, table.Format{Memory: memory})
		if err != nil {
			t.Fatal(err)
		}
		var bad []string
		l, err := data.NewStreamLoader(rows, func(batch []message) (string, error) {
			text := ""
			for _, m := range batch {
				text += m.Label
			}
			return text, nil
		}, data.LoaderOptions{BatchSize: 2, BadSample: func(_ int, err error) error {
			bad = append(bad, err.Error())
			return nil
		}})
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for b, err := range l.Pass(t.Context(), 0, 0) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, b.Batch)
		}
		if !slices.Equal(got, []string{"a", "e"}) || len(bad) != 2 || !strings.Contains(bad[1], "line 5") {
			t.Errorf("the batches are %q, left out was %q", got, bad)
		}
		if err := rows.Close(); err != nil {
			t.Error(err)
		}
	}
}

func appendTo(path, text string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	return errors.Join(err, f.Close())
}

func TestScanPassesReadErrorsOn(t *testing.T) {
	broken := errors.New("the network is gone")
	in := iotest.ErrReader(broken)
	for _, err := range table.Scan[message](in, table.Format{Syntax: table.CSV}) {
		if !errors.Is(err, broken) {
			t.Errorf("Scan = %v", err)
		}
	}
	var got int
	var last error
	source := iotest.TimeoutReader(iotest.OneByteReader(strings.NewReader("label,text\na,b\n")))
	for _, err := range table.Scan[message](source, table.Format{Syntax: table.CSV}) {
		if last = err; err == nil {
			got++
		}
	}
	if !errors.Is(last, iotest.ErrTimeout) || got != 0 {
		t.Errorf("Scan = %d rows, %v", got, last)
	}
}

func FuzzRows(f *testing.F) {
	for _, seed := range []string{"label,text\na,b\n", "\ufefflabel\ttext\r\n\"a\tb\r\n\r\n",
		"label,text\n\"a\"\"\n\",b", `{"label":"a","text":"\u00e9","x":[1,{"y":-1.5e-3}]}`, "\x00\n\xff", "\n\n\n",
		"\"\n"} {
		for syntax := range 4 {
			f.Add([]byte(seed), syntax, false)
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, syntax int, quoted bool) {
		format := table.Format{Syntax: table.CSV + table.Syntax(uint(syntax)%4), MaxRecord: 1 << 10}
		if quoted && format.Syntax == table.TSV {
			format.Quoting = table.QuoteMinimal
		}
		if format.Syntax == table.JSONL {
			if rows, err := read[json.RawMessage](t, "a", string(text), format); err == nil {
				for _, row := range rows {
					if !json.Valid(row) {
						t.Errorf("%q is accepted as JSON", row)
					}
				}
			}
			_, _ = read[message](t, "a", string(text), format)
			return
		}
		_, _ = read[map[string]string](t, "a", string(text), format)
	})
}

func FuzzJSONRow(f *testing.F) {
	for _, seed := range []string{`{}`, `{"a":1}`, `{"a":[1,2,{"b":"\\\"\u1234"}],"c":null}`, `{"a":-0.5E+7,"b":01}`,
		`{"a":"` + "\t" + `"}`, `{"a":tru}`, `{"a":1,}`, strings.Repeat(`{"a":`, 200)} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		text = bytes.ReplaceAll(text, []byte("\n"), nil)
		var err error
		rows := 0
		for _, err = range table.Scan[json.RawMessage](bytes.NewReader(text), table.Format{Syntax: table.JSONL}) {
			rows++
		}
		trimmed := bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))
		valid := json.Valid(trimmed) && bytes.HasPrefix(bytes.TrimLeft(trimmed, " \t\r"), []byte("{"))
		if rows > 0 && err == nil && !valid {
			t.Errorf("%q is accepted", text)
		}
		if valid && err != nil && !strings.Contains(err.Error(), "in one another") && !errors.Is(err, table.ErrUTF8) &&
			!strings.Contains(err.Error(), "longer") {
			t.Errorf("%q is refused: %v", text, err)
		}
	})
}

func BenchmarkRowsAt(b *testing.B) {
	for _, c := range []struct {
		name   string
		memory int64
	}{{"memory", 0}, {"file", -1}} {
		b.Run(c.name, func(b *testing.B) {
			rows, err := table.OpenRows[message](write(b, "a.tsv", "label\ttext\n"+
				strings.Repeat("ham\tGo until jurong point, crazy.. Available only in bugis\n", 100_000)),
				table.Format{Memory: c.memory})
			if err != nil {
				b.Fatal(err)
			}
			defer rows.Close()
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				if _, err := rows.At(i % rows.Len()); err != nil {
					b.Fatal(err)
				}
				i += 7919
			}
		})
	}
}

// BenchmarkScan measures 10,000 rows of about 60 bytes.
func BenchmarkScan(b *testing.B) {
	for _, c := range []struct {
		name, row string
		syntax    table.Syntax
	}{
		{"TSV", "ham\tGo until jurong point, crazy.. Available only in bugis\n", table.TSV},
		{"CSV", "ham,\"Go until jurong point, crazy.. Available only in bugis\"\n", table.CSV},
		{"JSONL", `{"label":"ham","text":"Go until jurong point, crazy.. Available"}` + "\n", table.JSONL},
	} {
		b.Run(c.name, func(b *testing.B) {
			text := strings.Repeat(c.row, 10_000)
			format := table.Format{Syntax: c.syntax}
			if c.syntax != table.JSONL {
				format.Columns = []string{"label", "text"}
			}
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				for _, err := range table.Scan[message](strings.NewReader(text), format) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
			b.ReportMetric(float64(b.N)*10_000/b.Elapsed().Seconds(), "rows/s")
		})
	}
}

func ExampleOpenRows() {
	dir, _ := os.MkdirTemp("", "table")
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "sms.tsv")
	_ = os.WriteFile(path, []byte("ham\tOk lar... Joking wif u oni...\nspam\tWINNER!! \"Claim\" code KL341\n"), 0o644)

	type Message struct {
		Label string `table:"label"`
		Text  string `table:"text"`
	}
	messages, err := table.OpenRows[Message](path, table.Format{Columns: []string{"label", "text"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer messages.Close()
	m, err := messages.At(1)
	fmt.Println(messages.Len(), m.Label, m.Text, err)
	// Output: 2 spam WINNER!! "Claim" code KL341 <nil>
}

// Nothing writes to the pipe: a blocking open would never return.
func TestNamedPipeIsRefusedAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table.csv")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip("no named pipes here:", err)
	}
	if _, err := table.OpenRows[[]string](path, table.Format{}); err == nil || !strings.Contains(err.Error(),
		"named pipe") || !strings.Contains(err.Error(), path) {
		t.Errorf("Open = %v, want %q and the path", err, "named pipe")
	}
}
