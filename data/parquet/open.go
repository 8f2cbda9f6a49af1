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
// these, which are read into a struct. Only the columns that a field names are read; the file may
// have any number of other columns. The images of a Hugging Face data set are
//
//	Image struct {
//		Bytes *[]byte `table:"bytes"` // nil where the file is elsewhere
//		Path  *string `table:"path"`
//	} `table:"image"`
//
// # How much memory
//
// A Parquet file can only be read by row groups, usually of some thousand to a million rows.
// Reading a row decodes its whole group, and groups are kept until together they exceed
// [Options].Cache. For a larger file, visit the rows in an order that stays within a group for a
// while: as a stream ([Rows.Samples]) that is shuffled by
// [github.com/gotrainer/gotrainer/data.ShuffleStream], not in the order of data.Shuffled, where
// almost every row decodes a group again. The default logger of log/slog reports such an order once.
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
	// Cache is the limit for decoded row groups kept in memory, in bytes; zero means 256 MiB. The
	// row group in use is kept even if it is larger.
	Cache int64

	// MaxRowGroup is the limit for the size of a decoded row group, in bytes; zero means 4 GiB. A
	// larger group is an error, since a damaged file can claim any size.
	MaxRowGroup int64

	// Names maps fields to columns of the file, for fields whose own name or tag is not the name of
	// a column.
	Names map[string]string
}

// Errors that callers may want to tell apart.
var (
	// ErrFormat is wrapped by errors about a file that is damaged or of another format.
	ErrFormat = errors.New("not a valid Parquet file")
	// ErrChanged is wrapped by errors about a file that has changed.
	ErrChanged = errors.New("the file has changed since it was opened; its rows are not where they were")
	// ErrClosed is wrapped by errors about rows requested after Close.
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

	estimate int64 // size of all groups when decoded, from the metadata

	mutex  sync.Mutex
	order  order
	kept   map[int]*group
	recent []int // the groups in kept, the most recently used last
	weight int64
	closed bool
}

// Open opens a Parquet file. It reads only the information at its end about columns and row groups.
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
		for k, g := range r.file.RowGroups() {
			n := g.NumRows()
			if n < 0 || n > int64(1)<<40 || total > 1<<40 {
				return fmt.Errorf("%w: a row group claims %d rows", ErrFormat, n)
			}
			total += int(n)
			r.groups, r.ends = append(r.groups, g), append(r.ends, total)
			if weight, err := r.weigh(k); err == nil { // else the error is that of the group's rows
				r.estimate += weight
			}
		}
		return nil
	})
}

// checkCodecs refuses compressions that cannot be read. LZ4 is one: unless it has compressed the
// pages of a column to a third, parquet-go v0.32 returns stale memory as their values; and for
// damaged pages it doubles its buffer without end.
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

// checkFooter checks that the metadata at the end of the file fits into the file, before it is
// read.
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

// guard turns a panic of the decoder, which does not check all damaged bytes, into an error.
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

// Metadata returns an entry of the file's own metadata by its key. The entry "huggingface" is the
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
	rows, bad, err := r.group(k, 1)
	if err != nil {
		return row, err
	}
	return r.row(i, at, rows, bad)
}

// Describe says where row i is.
func (r *Rows[T]) Describe(i int) string { return fmt.Sprintf("row %d of %s", i, r.path) }

// Samples returns the rows in order, without the first skip; row groups before those are not read.
// It is the file as a stream, the same in every pass. A row with values that T cannot hold is an
// error of one sample ([data.OneSample]), and the following rows are still delivered. An error of a
// whole row group ends the pass.
func (r *Rows[T]) Samples(_, skip int) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		if skip < 0 {
			yield(none, fmt.Errorf("parquet: %s: cannot skip %d rows", r.path, skip))
			return
		}
		for i := skip; i < r.Len(); {
			k, at := r.find(i)
			rows, bad, err := r.group(k, r.ends[k]-i)
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
			r.pass(k)
		}
	}
}

// Close closes the file and releases cached rows.
func (r *Rows[T]) Close() error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.closed {
		return nil
	}
	r.closed, r.kept, r.recent, r.weight = true, nil, nil, 0
	return r.os.Close()
}
