// Package parquet reads the rows of Parquet files as data sets of typed rows. The structs are those
// of package data/table: the same struct reads a CSV file and a Parquet file.
//
//	type Pair struct {
//		Text  string  `table:"text"`
//		Label int     `table:"label"`
//		Score *float64 `table:"score,optional"` // nil where the value is missing
//		IDs   []int32 `table:"ids"`
//	}
//	rows, err := parquet.Open[Pair]("train.parquet", parquet.Options{})
//	row, err := rows.At(7)
//
// Columns may hold strings, bytes, bools, integers, floats, lists of them, and structs of all
// these, which a struct takes; a file may have any number of other columns, as long as no field
// asks for one. Only the columns asked for are read. The pictures of a Hugging Face data set are
//
//	Image struct {
//		Bytes *[]byte `table:"bytes"` // nil where the file is elsewhere
//		Path  *string `table:"path"`
//	} `table:"image"`
//
// # How much memory
//
// A Parquet file can only be read by row groups, mostly of some thousand to a million rows. Asking
// for a row decodes its whole group, and groups are kept until together they exceed
// [Options].Cache. For a larger file, visit the rows in an order that stays within a group for a
// while: as a stream ([Rows.Samples]) that is shuffled by
// [github.com/gotrainer/gotrainer/data.ShuffleStream], not in the order of data.Shuffled.
package parquet

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"reflect"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/regularfile"
)

// Options configures [Open].
type Options struct {
	// Cache is how many bytes of decoded row groups are kept; zero means 256 MiB. The one in use is
	// kept even if it is larger.
	Cache int64

	// MaxRowGroup is how many bytes a row group may have when it is decoded; zero means 4 GiB. A
	// larger one is an error, since a damaged file can claim any size.
	MaxRowGroup int64

	// Names are the columns of the file for fields whose own names, or tags, it does not have.
	Names map[string]string
}

// Errors that callers may want to tell apart.
var (
	// wrapped by errors about a file that is damaged or of another format
	ErrFormat = errors.New("not a valid Parquet file")
	// wrapped by errors about such a file
	ErrChanged = errors.New("the file has changed since it was opened; its rows are not where they were")
	// wrapped by errors about rows asked for after Close
	ErrClosed = errors.New("the file has been closed")
)

// Rows is the data set of the rows of a file, each a T. Its methods may be called by several
// goroutines at a time.
type Rows[T any] struct {
	path    string
	options Options
	os      *os.File
	size    int64
	time    time.Time
	file    *parquet.File
	groups  []parquet.RowGroup
	ends    []int // ends[k] is the number of rows in groups[:k+1]
	names   []string
	columns []column

	mutex  sync.Mutex
	kept   map[int]*group
	recent []int // the groups in kept, the one used last at the end
	weight int64
	closed bool
}

// Open opens a Parquet file. It reads what stands at its end: which columns and row groups there
// are.
func Open[T any](path string, o Options) (*Rows[T], error) {
	r := &Rows[T]{path: path, options: o, kept: make(map[int]*group)}
	if err := r.open(); err != nil {
		if r.os != nil {
			_ = r.os.Close() // the first error counts
		}
		var where *os.PathError
		if errors.As(err, &where) {
			err = where.Err
		}
		return nil, fmt.Errorf("parquet: %s: %w", path, err)
	}
	return r, nil
}

func (r *Rows[T]) open() (err error) {
	if r.options.Cache < 0 || r.options.MaxRowGroup < 0 {
		return fmt.Errorf("Options{Cache: %d, MaxRowGroup: %d}: neither can be negative", r.options.Cache,
			r.options.MaxRowGroup)
	}
	if r.options.Cache == 0 {
		r.options.Cache = 256 << 20
	}
	if r.options.MaxRowGroup == 0 {
		r.options.MaxRowGroup = 4 << 30
	}
	file, info, err := regularfile.Open(r.path)
	if err != nil {
		return err
	}
	r.os = file
	r.size, r.time = info.Size(), info.ModTime()
	if err := checkFooter(r.os, r.size); err != nil {
		return err
	}
	return guard(func() error {
		r.file, err = parquet.OpenFile(r.os, r.size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true))
		if err != nil {
			return fmt.Errorf("%w: %w", ErrFormat, err)
		}
		for _, c := range r.file.Root().Columns() {
			r.names = append(r.names, c.Name())
		}
		if r.columns, err = bind(reflect.TypeFor[T](), r.file.Root(), r.options.Names); err != nil {
			return err
		}
		if err := r.checkCodecs(); err != nil {
			return err
		}
		total := 0
		for _, g := range r.file.RowGroups() {
			n := g.NumRows()
			if n < 0 || n > int64(1)<<40 || total > 1<<40 {
				return fmt.Errorf("%w: a row group claims %d rows", ErrFormat, n)
			}
			total += int(n)
			r.groups, r.ends = append(r.groups, g), append(r.ends, total)
		}
		return nil
	})
}

// checkCodecs refuses a compression that cannot be read. LZ4 is one: unless it has made the pages of
// a column to a third, parquet-go v0.32 takes what its memory held before for their values; and of
// damaged pages it doubles the memory without end.
func (r *Rows[T]) checkCodecs() error {
	for k, g := range r.file.Metadata().RowGroups {
		for _, c := range r.columns {
			if c.leaf < 0 || c.leaf >= len(g.Columns) {
				continue // a group without the column is refused when it is read
			}
			switch codec := g.Columns[c.leaf].MetaData.Codec; codec {
			case format.Uncompressed, format.Snappy, format.Gzip, format.Brotli, format.Zstd:
			default:
				return fmt.Errorf("row group %d: column %q: its compression, %v, cannot be read; write the file with "+
					"SNAPPY or ZSTD", k, c.name, codec)
			}
		}
	}
	return nil
}

// checkFooter makes sure that the description at the end of the file is in it, before it is read.
func checkFooter(in io.ReaderAt, size int64) error {
	var tail [8]byte
	if size < 12 {
		return fmt.Errorf("%w: it has %d bytes", ErrFormat, size)
	}
	if _, err := in.ReadAt(tail[:], size-8); err != nil {
		return err
	}
	if magic := string(tail[4:]); magic != "PAR1" {
		return fmt.Errorf("%w: it ends with %q, want \"PAR1\"; is it truncated, or still being written?", ErrFormat,
			magic)
	}
	if n := int64(tail[0]) | int64(tail[1])<<8 | int64(tail[2])<<16 | int64(tail[3])<<24; n > size-12 {
		return fmt.Errorf("%w: its description claims %d of the %d bytes", ErrFormat, n, size)
	}
	return nil
}

// guard turns a panic about damaged bytes, which the decoder does not always check, into an error.
func guard(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%w: %v", ErrFormat, p)
		}
	}()
	return f()
}

// Len returns the number of rows.
func (r *Rows[T]) Len() int {
	if len(r.ends) == 0 {
		return 0
	}
	return r.ends[len(r.ends)-1]
}

// Columns returns the names of all columns of the file.
func (r *Rows[T]) Columns() []string { return slices.Clone(r.names) }

// Metadata returns a text of the file's own about itself, by its key. Under "huggingface" is the
// JSON of the features of a data set.
func (r *Rows[T]) Metadata(key string) (string, bool) { return r.file.Lookup(key) }

// find returns the group that row i is in, and its index there.
func (r *Rows[T]) find(i int) (k, at int) {
	k = sort.SearchInts(r.ends, i+1)
	return k, i - r.ends[k] + int(r.groups[k].NumRows())
}

// At returns row i.
func (r *Rows[T]) At(i int) (row T, err error) {
	k, at := r.find(i)
	rows, bad, err := r.group(k)
	if err != nil {
		return row, err
	}
	return r.row(i, at, rows, bad)
}

// Describe says where row i stands.
func (r *Rows[T]) Describe(i int) string { return fmt.Sprintf("row %d of %s", i, r.path) }

// Samples returns the rows in their order without the first skip; row groups before those are not
// read. It is the file as a stream, the same in every pass. A row whose values T cannot hold is an
// error of one sample ([data.OneSample]), and the rows after it follow; that of a whole row group
// ends the pass.
func (r *Rows[T]) Samples(_, skip int) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		if skip < 0 {
			yield(none, fmt.Errorf("parquet: %s: cannot skip %d rows", r.path, skip))
			return
		}
		for i := skip; i < r.Len(); {
			k, at := r.find(i)
			rows, bad, err := r.group(k)
			if err != nil {
				yield(none, err)
				return
			}
			for ; at < len(rows); at++ {
				row, err := r.row(i, at, rows, bad)
				if !yield(row, data.OneSample(err)) {
					return
				}
				i++
			}
		}
	}
}

// Close closes the file and lets go of the rows it kept.
func (r *Rows[T]) Close() error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.closed {
		return nil
	}
	r.closed, r.kept, r.recent, r.weight = true, nil, nil, 0
	return r.os.Close()
}
