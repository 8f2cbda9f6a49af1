package parquet_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/data/parquet"
	parquetgo "github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// row is a row of the files written by testdata/tables.py.
type row struct {
	Text    string   `table:"text"`
	Label   int      `table:"label"`
	Small   int8     `table:"small"`
	Large   uint64   `table:"large"`
	Score   *float64 `table:"score"`
	Exact   float64  `table:"exact"`
	Flag    bool     `table:"flag"`
	IDs     []int64  `table:"ids"`
	Words   []string `table:"words"`
	Image   []byte   `table:"image"`
	Missing string   `table:"missing,optional"`
}

var (
	_ data.Dataset[row] = (*parquet.Rows[row])(nil)
	_ data.Stream[row]  = (*parquet.Rows[row])(nil)
)

func want(i int) row {
	r := row{Text: "the same text", Label: i % 2, Small: int8(i - 5), Large: 1<<63 + uint64(i), Exact: float64(i) / 3,
		Flag: i%3 == 0, Image: []byte{byte(i), 255}}
	if i%3 != 0 {
		r.Text = fmt.Sprintf("row %d گ", i)
	}
	if score := float64(i) / 4; i != 4 {
		r.Score = &score
	}
	for k := range i % 4 {
		r.IDs = append(r.IDs, int64(k))
	}
	if i != 2 {
		r.Words = []string{"a", strings.Repeat("b", i)}
	}
	return r
}

func TestRowsAreThoseOfPyarrow(t *testing.T) {
	for _, name := range []string{"plain", "snappy", "zstd_v2", "gzip"} {
		for _, cache := range []int64{0, 1} {
			rows, err := parquet.Open[row](filepath.Join("testdata", name+".parquet"), parquet.Options{Cache: cache})
			if err != nil {
				t.Errorf("%s: %v", name, err)
				continue
			}
			if rows.Len() != 10 || len(rows.Columns()) != 10 {
				t.Errorf("%s: %d rows of %q", name, rows.Len(), rows.Columns())
			}
			for _, i := range []int{7, 0, 9, 4, 2, 3, 1, 8, 6, 5} {
				got, err := rows.At(i)
				if err != nil {
					t.Fatalf("%s: At(%d): %v", name, i, err)
				}
				if diff := cmp.Diff(want(i), got); diff != "" {
					t.Errorf("%s: row %d (-want +got):\n%s", name, i, diff)
				}
			}
			for skip := range 11 {
				at := skip
				for got, err := range rows.Samples(1, skip) {
					if err != nil || got.Exact != want(at).Exact {
						t.Fatalf("%s: Samples(1, %d) gives %v, %v at %d", name, skip, got, err, at)
					}
					at++
				}
				if at != 10 {
					t.Errorf("%s: Samples(1, %d) ends at %d", name, skip, at)
				}
			}
			if err := rows.Close(); err != nil {
				t.Error(err)
			}
			if _, err := rows.At(0); !errors.Is(err, parquet.ErrClosed) {
				t.Errorf("after Close: %v", err)
			}
		}
	}
}

func TestRowsAreSafeForManyGoroutines(t *testing.T) {
	rows, err := parquet.Open[row]("testdata/snappy.parquet", parquet.Options{Cache: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var wg sync.WaitGroup
	for k := range 4 {
		wg.Go(func() {
			for i := range 40 {
				i = (i*7 + k) % 10
				if got, err := rows.At(i); err != nil || got.Label != i%2 {
					t.Errorf("At(%d) = %v, %v", i, got, err)
				}
			}
		})
	}
	wg.Wait()
}

func refused[T any](path string) error {
	rows, err := parquet.Open[T](path, parquet.Options{})
	if err != nil {
		return err
	}
	defer rows.Close()
	for i := range rows.Len() {
		if _, err := rows.At(i); err != nil {
			return err
		}
	}
	return nil
}

func TestOpenRefuses(t *testing.T) {
	nested, snappy := "testdata/nested.parquet", "testdata/snappy.parquet"
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"a missing column", refused[struct{ Words, Nothing string }](snappy),
			`no column "Nothing"; there are ["text" "label"`},
		{"a struct", refused[struct{ Answer string }](nested), `column "answer": it is nested (start, end)`},
		{"a map", refused[struct{ Pairs []string }](nested), `column "pairs": it is nested (key_value)`},
		{"a list of lists", refused[struct{ Matrix []int }](nested), `column "matrix": it is a list of lists`},
		{"a decimal", refused[struct{ Price *int }](nested), `column "price": it holds DECIMAL`},
		{"a time", refused[struct{ Day *int64 }](nested), `column "day": it holds TIMESTAMP`},
		{"a null in a list", refused[struct{ Holes []int }](nested),
			`row 0: column "holes": an item of the list is null`},
		{"a null", refused[struct{ Score float32 }](snappy),
			`row 4: column "score": the value is null; make the field *float32`},
		{"a list for a scalar", refused[struct{ IDs int }](snappy), `column "ids": it is a list, the field is int`},
		{"a scalar for a list", refused[struct{ Label []int }](snappy),
			`column "label": its values are INT64, the field takes []int`},
		{"text for a number", refused[struct{ Text int }](snappy),
			`column "text": its values are STRING, the field takes int`},
		{"a number for text", refused[struct{ Label string }](snappy),
			`column "label": its values are INT64, the field takes string`},
		{"a number that does not fit", refused[struct{ Large int64 }](snappy),
			"9223372036854775808 does not fit into int64"},
		{"a negative number", refused[struct{ Small uint8 }](snappy), "-5 does not fit into uint8"},
		{"bytes that are no text", refused[struct{ Image string }](snappy),
			"is not valid UTF-8; a field of type []byte"},
		{"no struct", refused[int](snappy), "int is no struct"},
		{"a Go file", refused[row]("parquet_test.go"), "not a valid Parquet file: it ends with"},
	} {
		if c.err == nil || !strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, c.err, c.want)
		}
	}
	if err := refused[row]("/no/such/file.parquet"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := parquet.Open[row](snappy, parquet.Options{Cache: -1}); err == nil {
		t.Error("a negative cache is accepted")
	}
	small, err := parquet.Open[row](snappy, parquet.Options{MaxRowGroup: 10})
	if err != nil {
		t.Fatal(err)
	}
	defer small.Close()
	if _, err := small.At(0); err == nil || !strings.Contains(err.Error(), "Options.MaxRowGroup, 10") {
		t.Errorf("a row group over the limit: %v", err)
	}
}

// TestLZ4IsRefused tests that LZ4 columns are rejected: the underlying reader silently returned the
// values of another page.
func TestLZ4IsRefused(t *testing.T) {
	type pair struct {
		ID    int64   `parquet:"id" table:"id"`
		Score float64 `parquet:"score,lz4" table:"score"`
	}
	path := filepath.Join(t.TempDir(), "x.parquet")
	require.NoError(t, parquetgo.WriteFile(path, []pair{{1, 0.5}, {2, 0.25}}))
	_, err := parquet.Open[pair](path, parquet.Options{})
	require.ErrorContains(t, err, `column "score": its compression, LZ4_RAW, cannot be read; write the file with SNAPPY`)

	type id struct {
		ID int64 `table:"id"`
	}
	rows, err := parquet.Open[id](path, parquet.Options{})
	require.NoError(t, err, "a column that no field asks for may have any compression")
	defer func() { assert.NoError(t, rows.Close()) }()
	last, err := rows.At(1)
	require.NoError(t, err)
	assert.Equal(t, id{2}, last)
}

// TestFloatFieldTakesIntegers covers a column of scores stored as integers because all of them are
// whole numbers.
func TestFloatFieldTakesIntegers(t *testing.T) {
	type numbers struct {
		A int64 `parquet:"a"`
		B int32 `parquet:"b,optional"`
	}
	path := filepath.Join(t.TempDir(), "x.parquet")
	type floats struct {
		A float64  `table:"a"`
		B *float32 `table:"b"`
	}
	read := func(n ...numbers) (all []floats, err error) {
		require.NoError(t, parquetgo.WriteFile(path, n))
		rows, err := parquet.Open[floats](path, parquet.Options{})
		require.NoError(t, err)
		defer func() { assert.NoError(t, rows.Close()) }()
		for row, err := range rows.Samples(0, 0) {
			if err != nil {
				return nil, err
			}
			all = append(all, row)
		}
		return all, nil
	}
	three := float32(-3)
	got, err := read(numbers{5, -3}, numbers{1 << 53, 0})
	require.NoError(t, err)
	assert.Equal(t, []floats{{5, &three}, {1 << 53, nil}}, got)
	_, err = read(numbers{1<<53 + 1, 1})
	require.ErrorContains(t, err, "9007199254740993 does not fit into float64")
	_, err = read(numbers{1<<63 - 1, 1})
	require.ErrorContains(t, err, "9223372036854775807 does not fit into float64")
	_, err = read(numbers{1, 1<<24 + 1})
	require.ErrorContains(t, err, "16777217 does not fit into float32")
}

// TestAnErrorIsThatOfItsRow tests that a row that does not fit is skipped alone, not with its row
// group.
func TestAnErrorIsThatOfItsRow(t *testing.T) {
	type written struct {
		Text  *string `parquet:"text,optional"`
		Label *int32  `parquet:"label,optional"`
	}
	type pair struct {
		Text  string `table:"text"`
		Label int8   `table:"label"`
	}
	path := filepath.Join(t.TempDir(), "x.parquet")
	list := make([]written, 1000)
	for i := range list {
		text, label := fmt.Sprint(i), int32(i%7)
		if list[i] = (written{&text, &label}); i%100 == 50 {
			list[i].Text = nil
		}
		if i%100 == 75 {
			label = 300
		}
	}
	require.NoError(t, parquetgo.WriteFile(path, list, parquetgo.MaxRowsPerRowGroup(300)))
	rows, err := parquet.Open[pair](path, parquet.Options{})
	require.NoError(t, err)
	defer func() { assert.NoError(t, rows.Close()) }()
	i := 0
	for row, err := range rows.Samples(0, 0) {
		one, oneErr := rows.At(i)
		assert.Equal(t, row, one)
		switch i % 100 {
		case 50:
			require.ErrorContains(t, err, fmt.Sprintf("row %d: column \"text\": the value is null", i))
			require.ErrorContains(t, oneErr, err.Error())
			assert.Zero(t, row)
		case 75:
			require.ErrorContains(t, err, fmt.Sprintf("row %d: column \"label\": 300 does not fit into int8", i))
			require.ErrorContains(t, oneErr, err.Error())
			assert.Zero(t, row)
		default:
			require.NoError(t, err)
			require.NoError(t, oneErr)
			assert.Equal(t, pair{fmt.Sprint(i), int8(i % 7)}, row)
		}
		i++
	}
	assert.Equal(t, 1000, i)

	// The loader skips them in a stream, also at the end of a pass.
	keep := func(s []pair) (int, error) { return len(s), nil }
	loader, err := data.NewStreamLoader(data.Stream[pair](rows), keep, data.LoaderOptions{BatchSize: 25,
		BadSample: func(int, error) error { return nil }})
	require.NoError(t, err)
	n := 0
	for batch, err := range loader.Pass(t.Context(), 0, 0) {
		require.NoError(t, err)
		n += batch.Samples
	}
	assert.Equal(t, 980, n)
}

// TestDamagedFiles truncates a file in many places and flips many bits, which must give an error or
// other values, never a panic.
func TestDamagedFiles(t *testing.T) {
	good, err := os.ReadFile("testdata/snappy.parquet")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a.parquet")
	try := func(text []byte) error {
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		return refused[row](path)
	}
	for n := 0; n < len(good); n += 101 {
		if err := try(good[:n]); !errors.Is(err, parquet.ErrFormat) {
			t.Errorf("the first %d bytes: %v, want ErrFormat", n, err)
		}
	}
	for at := 4; at < len(good); at += 31 {
		bad := bytes.Clone(good)
		bad[at] ^= 1 << (at % 8)
		_ = try(bad) // many bits change only a value
	}
}

func TestFileThatChangesIsNoticed(t *testing.T) {
	good, err := os.ReadFile("testdata/snappy.parquet")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a.parquet")
	if err := os.WriteFile(path, good, 0o644); err != nil {
		t.Fatal(err)
	}
	rows, err := parquet.Open[row](path, parquet.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	if err := os.Truncate(path, 100); err != nil {
		t.Fatal(err)
	}
	if _, err := rows.At(0); !errors.Is(err, parquet.ErrChanged) {
		t.Errorf("At = %v, want ErrChanged", err)
	}
}

// repeated writes a file whose rows all have the same 64 KiB. The dictionary has them once, so that
// neither the file nor the sizes in its metadata are large.
func repeated(t *testing.T, rows, groupRows int) string {
	t.Helper()
	type long struct {
		Text string `parquet:"text,dict,snappy"`
	}
	path := filepath.Join(t.TempDir(), "a.parquet")
	text := strings.Repeat("x", 1<<16)
	require.NoError(t, parquetgo.WriteFile(path, slices.Repeat([]long{{text}}, rows),
		parquetgo.MaxRowsPerRowGroup(int64(groupRows))))
	return path
}

func TestBytesOfADictionaryAreWeighedForEveryRow(t *testing.T) {
	type long struct {
		Text []byte `table:"text"`
	}
	path := repeated(t, 1000, 1000)
	for limit, want := range map[int64]string{1 << 20: "more bytes than Options.MaxRowGroup",
		0: ""} {
		rows, err := parquet.Open[long](path, parquet.Options{MaxRowGroup: limit})
		require.NoError(t, err)
		defer rows.Close()
		if _, err = rows.At(999); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("with MaxRowGroup %d: At = %v, want %q", limit, err, want)
		}
	}
}

// TestRowsShareTheTextsOfADictionary covers columns such as the context of a question or the name
// of a source.
func TestRowsShareTheTextsOfADictionary(t *testing.T) {
	type long struct {
		Text string `table:"text"`
	}
	rows, err := parquet.Open[long](repeated(t, 1000, 1000), parquet.Options{MaxRowGroup: 1 << 20})
	require.NoError(t, err)
	defer rows.Close()
	first, err := rows.At(0)
	require.NoError(t, err)
	last, err := rows.At(999)
	require.NoError(t, err)
	assert.Len(t, last.Text, 1<<16)
	assert.Same(t, unsafe.StringData(first.Text), unsafe.StringData(last.Text))
}

func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestTheCacheCountsWhatRowsReallyTake(t *testing.T) {
	type long struct {
		Text []byte `table:"text"`
	}
	const groups, each = 20, 50 // a group takes 3 MiB, and 70 KiB by its metadata
	rows, err := parquet.Open[long](repeated(t, groups*each, each), parquet.Options{Cache: 8 << 20})
	require.NoError(t, err)
	defer rows.Close()
	before := heap()
	for k := range groups {
		_, err := rows.At(k * each)
		require.NoError(t, err)
	}
	assert.Less(t, heap()-before, int64(10<<20))
	runtime.KeepAlive(rows)
}

func TestAStreamKeepsNoGroupsThatWillBeEvicted(t *testing.T) {
	type long struct {
		Text string `table:"text"`
	}
	const groups, each = 200, 5
	path := repeated(t, groups*each, each)
	for cache, kept := range map[int64]bool{4 << 20: false, 64 << 20: true} {
		rows, err := parquet.Open[long](path, parquet.Options{Cache: cache})
		require.NoError(t, err)
		defer rows.Close()
		before := heap()
		for _, err := range rows.Samples(0, 0) {
			require.NoError(t, err)
		}
		assert.Equal(t, kept, heap()-before > 2<<20, "with a cache of %d", cache)
		runtime.KeepAlive(rows)
	}
}

func TestAnOrderThatDecodesGroupsAgainIsReportedOnce(t *testing.T) {
	type long struct {
		Text string `table:"text"`
	}
	const groups, each = 4, 500
	path := repeated(t, groups*each, each)
	for _, c := range []struct {
		name  string
		cache int64
		visit func(rows *parquet.Rows[long]) error
		want  int
	}{
		{"shuffled", 1, func(rows *parquet.Rows[long]) error {
			for i := range 40 {
				if _, err := rows.At(i % groups * each); err != nil {
					return err
				}
			}
			return nil
		}, 1},
		{"shuffled, but everything fits", 0, func(rows *parquet.Rows[long]) error {
			for i := range 40 {
				if _, err := rows.At(i % groups * each); err != nil {
					return err
				}
			}
			return nil
		}, 0},
		{"streams", 1, func(rows *parquet.Rows[long]) error {
			for pass := range 10 {
				for _, err := range rows.Samples(pass, 0) {
					if err != nil {
						return err
					}
				}
			}
			return nil
		}, 0},
	} {
		var log bytes.Buffer
		old := slog.Default()
		slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
		rows, err := parquet.Open[long](path, parquet.Options{Cache: c.cache})
		if err == nil {
			err = c.visit(rows)
		}
		slog.SetDefault(old)
		require.NoError(t, err)
		require.NoError(t, rows.Close())
		assert.Equal(t, c.want, strings.Count(log.String(), "raise Options.Cache"), "%s: %s", c.name, &log)
	}
}

func FuzzOpen(f *testing.F) {
	f.Setenv("TMPDIR", f.TempDir()) // of its workers too, which may be killed
	files, err := filepath.Glob("testdata/*.parquet")
	if err != nil || len(files) == 0 {
		f.Fatal(err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(dir, "a.parquet")
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		rows, err := parquet.Open[row](path, parquet.Options{MaxRowGroup: 1 << 20})
		if err != nil {
			return
		}
		defer rows.Close()
		for i := 0; i < rows.Len(); i += 1 + rows.Len()/8 {
			if _, err := rows.At(i); err != nil {
				return
			}
		}
	})
}

func ExampleOpen() {
	type message struct {
		Text  string   `table:"text"`
		Score *float64 `table:"score"`
	}
	rows, err := parquet.Open[message]("testdata/snappy.parquet", parquet.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer rows.Close()
	m, err := rows.At(5)
	fmt.Println(rows.Len(), m.Text, *m.Score, err)
	// Output: 10 row 5 گ 1.25 <nil>
}

// Nothing writes to the pipe: a blocking open would never return.
func TestNamedPipeIsRefusedAtOnce(t *testing.T) {
	path := filepath.Join(t.TempDir(), "table.parquet")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Skip("no named pipes here:", err)
	}
	if err := refused[row](path); err == nil || !strings.Contains(err.Error(), "named pipe") ||
		!strings.Contains(err.Error(), path) {
		t.Errorf("Open = %v, want %q and the path", err, "named pipe")
	}
}

func TestAStructTakesTheColumnsInAColumn(t *testing.T) {
	type picture struct {
		Picture struct {
			Bytes *[]byte `table:"bytes"`
			Path  *string `table:"path"`
		} `table:"picture"`
		Class int `table:"class"`
	}
	o := parquet.Options{Names: map[string]string{"picture": "image", "class": "label"}}
	rows, err := parquet.Open[picture]("testdata/pictures.parquet", o)
	require.NoError(t, err)
	defer rows.Close()
	var all []picture
	for row, err := range rows.Samples(0, 0) {
		require.NoError(t, err)
		all = append(all, row)
	}
	require.Len(t, all, 3)
	assert.Equal(t, "PNG 0", string(*all[0].Picture.Bytes))
	assert.Equal(t, "a.png", *all[0].Picture.Path)
	assert.Nil(t, all[1].Picture.Bytes, "bytes that are null")
	assert.Equal(t, "b.png", *all[1].Picture.Path)
	assert.Nil(t, all[2].Picture.Path, "a struct that is null")
	assert.Equal(t, 1, all[2].Class)
	features, ok := rows.Metadata("huggingface")
	assert.True(t, ok)
	assert.Contains(t, features, `"names": ["no", "yes"]`)
	_, ok = rows.Metadata("pandas")
	assert.False(t, ok)

	_, err = parquet.Open[struct {
		Image string `table:"image"`
	}]("testdata/pictures.parquet", parquet.Options{})
	require.ErrorContains(t, err, `column "image": it is nested (bytes, path)`)
	_, err = parquet.Open[struct {
		Image struct {
			Size int `table:"size"`
		} `table:"image"`
	}]("testdata/pictures.parquet", parquet.Options{})
	require.ErrorContains(t, err, `column "image": no column "size"; there are ["bytes" "path"]`)
	strict, err := parquet.Open[struct {
		Image struct {
			Path string `table:"path"`
		} `table:"image"`
	}]("testdata/pictures.parquet", parquet.Options{})
	require.NoError(t, err)
	_, err = strict.At(0)
	require.NoError(t, err)
	_, err = strict.At(2)
	require.ErrorContains(t, err, `row 2: column "image.path": the value is null`)
}
