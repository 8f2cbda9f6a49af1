package parquet

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"sync"

	"github.com/parquet-go/parquet-go"
)

// group is a row group; the first goroutine that requests it decodes it.
type group struct {
	once   sync.Once
	weight int64
	rows   any           // []T
	bad    map[int]error // errors of rows whose values do not fit into T
	err    error
}

// group returns the rows of a group, and the errors of individual rows. The caller wants so many of
// the rows.
func (r *Rows[T]) group(k, wanted int) ([]T, map[int]error, error) {
	g, err := r.hold(k, wanted)
	if err == nil {
		g.once.Do(func() {
			var rows []T
			var weight int64
			g.bad = map[int]error{}
			g.err = guard(func() (err error) { rows, weight, err = r.decode(k, g.bad); return err })
			g.rows = rows
			r.settle(k, g, weight)
		})
		err = g.err
	}
	if err != nil {
		r.drop(k, g)
		return nil, nil, fmt.Errorf("parquet: %s: row group %d: %w", r.path, k, err)
	}
	return g.rows.([]T), g.bad, nil
}

// row returns row i of the file, which is row at of its group, or its error.
func (r *Rows[T]) row(i, at int, rows []T, bad map[int]error) (row T, err error) {
	if err := bad[at]; err != nil {
		return row, fmt.Errorf("parquet: %s: row %d: %w", r.path, i, err)
	}
	return rows[at], nil
}

// hold returns a group and marks it as the most recently used. A new group evicts the least
// recently used ones if the cache is full.
func (r *Rows[T]) hold(k, wanted int) (*group, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.closed {
		return nil, ErrClosed
	}
	r.order.wanted += int64(wanted)
	if g := r.kept[k]; g != nil {
		r.recent = append(slices.DeleteFunc(r.recent, func(i int) bool { return i == k }), k)
		return g, nil
	}
	weight, err := r.weigh(k)
	if err != nil {
		return nil, err
	}
	r.order.decodes(r.path, r.groups[k].NumRows(), int64(r.Len()), r.options.Cache, r.estimate)
	r.evict(r.options.Cache-weight, k)
	g := &group{weight: weight}
	r.kept[k], r.recent, r.weight = g, append(r.recent, k), r.weight+weight
	return g, nil
}

// evict forgets the least recently used groups, but not group k, until the rest is not larger than
// limit. The mutex is held.
func (r *Rows[T]) evict(limit int64, k int) {
	for len(r.recent) > 0 && r.recent[0] != k && r.weight > limit {
		r.forget(r.recent[0])
	}
}

// forget removes a group from the cache, if it is there. The mutex is held.
func (r *Rows[T]) forget(k int) {
	if g := r.kept[k]; g != nil {
		delete(r.kept, k)
		r.recent = slices.DeleteFunc(r.recent, func(i int) bool { return i == k })
		r.weight -= g.weight
	}
}

// settle replaces the estimated size of a group by that of its decoded rows.
func (r *Rows[T]) settle(k int, g *group, weight int64) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.kept[k] == g {
		r.weight += weight - g.weight
		g.weight = weight
		r.evict(r.options.Cache, k)
	}
}

// pass forgets a group that a stream has passed, if not all groups fit into the cache: by the time
// the stream comes back, it would have been evicted.
func (r *Rows[T]) pass(k int) {
	if r.estimate > r.options.Cache {
		r.mutex.Lock()
		defer r.mutex.Unlock()
		r.forget(k)
	}
}

// drop forgets a group that could not be read, so that the next request tries again.
func (r *Rows[T]) drop(k int, g *group) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	if r.kept[k] == g {
		r.forget(k)
	}
}

// weigh estimates the size of a decoded group in bytes.
func (r *Rows[T]) weigh(k int) (int64, error) {
	rows := r.groups[k].NumRows()
	weight := rows * int64(reflect.TypeFor[T]().Size()+1)
	meta := r.file.Metadata().RowGroups[k]
	for _, c := range r.columns {
		if c.leaf < 0 {
			continue
		}
		if c.leaf >= len(meta.Columns) {
			return 0, fmt.Errorf("%w: it has %d columns, the file %d", ErrFormat, len(meta.Columns), c.leaf+1)
		}
		m := meta.Columns[c.leaf].MetaData
		if m.TotalCompressedSize < 0 || m.TotalCompressedSize > r.size || m.TotalUncompressedSize < 0 {
			return 0, fmt.Errorf("%w: column %q claims %d bytes of a file of %d", ErrFormat, c.name,
				m.TotalCompressedSize, r.size)
		}
		weight += m.TotalUncompressedSize
	}
	if weight > r.options.MaxRowGroup || weight < 0 {
		return 0, fmt.Errorf("it has %d bytes when decoded, more than Options.MaxRowGroup, %d", weight,
			r.options.MaxRowGroup)
	}
	return weight, nil
}

// decode reads the columns of a group, one after the other, and returns how many bytes the rows
// take. The first error of each row whose values do not fit goes to bad.
func (r *Rows[T]) decode(k int, bad map[int]error) (rows []T, weight int64, err error) {
	info, err := r.os.Stat()
	if err != nil {
		return nil, 0, err
	}
	if info.Size() != r.size || !info.ModTime().Equal(r.time) {
		return nil, 0, ErrChanged
	}
	// Rows are allocated as their values are read, since a damaged file can claim any number of
	// them.
	total := int(r.groups[k].NumRows())
	rows = make([]T, min(total, 1<<12))
	left := r.options.MaxRowGroup
	for _, c := range r.columns {
		if c.leaf < 0 {
			continue
		}
		f := &columnReader{column: c, rows: reflect.ValueOf(&rows).Elem(), total: total, row: -1, bad: bad, left: &left}
		if err := f.read(r.groups[k].ColumnChunks()[c.leaf]); err != nil {
			return nil, 0, fmt.Errorf("column %q: %w", c.name, err)
		}
	}
	if len(rows) < total { // no field has a column in the file
		rows = append(rows, make([]T, total-len(rows))...)
	}
	return rows, int64(total)*int64(reflect.TypeFor[T]().Size()) + r.options.MaxRowGroup - left, nil
}

// errTooLarge is the error about a group that takes more memory than its metadata says.
var errTooLarge = errors.New("the decoded rows have more bytes than Options.MaxRowGroup")

const badWeight = 300 // bytes counted for the error of a row

// columnReader reads a column into its field of all rows. It subtracts the memory of the values
// from left: bytes that the file has once, in a dictionary, may be the value of every row. The rows
// of a text in a dictionary share one string.
type columnReader struct {
	column
	rows  reflect.Value
	total int
	row   int           // the row of the last value
	bad   map[int]error // the first error of each row that does not fit
	left  *int64

	texts  map[string]string // those of the dictionary; nil while values are not in a dictionary
	shared bool              // the last value is one of texts
}

// shareTexts makes c.set look in texts before it makes a string.
func (f *columnReader) shareTexts() {
	set := f.set
	f.set = func(v reflect.Value, value parquet.Value) error {
		text, known := f.texts[string(value.ByteArray())]
		if f.shared = known; known {
			v.SetString(text)
			return nil
		}
		err := set(v, value)
		if err == nil && f.texts != nil {
			f.texts[v.String()] = v.String()
		}
		return err
	}
}

func (f *columnReader) read(chunk parquet.ColumnChunk) error {
	if f.text {
		f.shareTexts()
	}
	pages := chunk.Pages()
	defer func() { _ = pages.Close() }() // they were only read
	buffer := make([]parquet.Value, 256)
	for {
		page, err := pages.ReadPage()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrFormat, err)
		}
		switch {
		case page.Dictionary() == nil:
			f.texts = nil
		case f.texts == nil:
			f.texts = make(map[string]string)
		}
		err = f.readPage(page, buffer)
		parquet.Release(page)
		if err != nil {
			return err
		}
	}
	if f.row != f.total-1 {
		return fmt.Errorf("%w: %d rows, want %d", ErrFormat, f.row+1, f.total)
	}
	return nil
}

func (f *columnReader) readPage(page parquet.Page, buffer []parquet.Value) error {
	values := page.Values()
	for {
		n, err := values.ReadValues(buffer)
		for _, v := range buffer[:n] {
			if err := f.add(v); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrFormat, err)
		}
		if n == 0 {
			return fmt.Errorf("%w: a page without end", ErrFormat)
		}
	}
}

// add stores a value in the row it belongs to: the next row, or the current one if the value
// continues a list.
func (f *columnReader) add(v parquet.Value) error {
	if v.RepetitionLevel() == 0 {
		f.row++
	}
	if f.row < 0 || f.row >= f.total {
		return fmt.Errorf("%w: more than %d rows", ErrFormat, f.total)
	}
	if f.row == f.rows.Len() {
		f.rows.Grow(1)
		f.rows.SetLen(min(f.rows.Cap(), f.total))
	}
	if f.bad[f.row] != nil {
		return nil
	}
	f.shared = false
	if err := f.put(f.rows.Index(f.row).FieldByIndex(f.field), v); err != nil {
		*f.left -= badWeight
		f.bad[f.row] = fmt.Errorf("column %q: %w", f.name, err)
	}
	if *f.left -= f.weigh(v, f.shared); *f.left < 0 {
		return errTooLarge
	}
	return nil
}
