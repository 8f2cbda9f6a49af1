package table

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"time"

	"github.com/gotrainer/gotrainer/internal/regularfile"
)

// offsets holds the positions of rows in a file, in ascending order, in four bytes each: the
// position of every 64th row, and the distance of each row from the one of its group. 64 rows of at
// most 64 MiB and their empty lines usually lie within 4 GiB; a row beyond that begins a new group.
type offsets struct {
	groups []group
	deltas []uint32
}

// group is a group of rows. It begins at row first, whose position is base.
type group struct {
	first int64
	base  int64
}

const groupSize = 64

func (o *offsets) len() int { return len(o.deltas) }

func (o *offsets) add(place int64) {
	n := len(o.deltas)
	if n == 0 || int64(n)-o.groups[len(o.groups)-1].first >= groupSize ||
		place-o.groups[len(o.groups)-1].base > 1<<32-1 {
		o.groups = append(o.groups, group{int64(n), place})
	}
	o.deltas = append(o.deltas, uint32(place-o.groups[len(o.groups)-1].base))
}

func (o *offsets) at(i int) int64 {
	_ = o.deltas[i] // an index out of range panics here, as that of a slice does
	k := sort.Search(len(o.groups), func(k int) bool { return o.groups[k].first > int64(i) }) - 1
	return o.groups[k].base + int64(o.deltas[i])
}

const indexMagic = "gotrainer rows 1\n"

// indexKey returns what must be the same in an index file and its table.
func indexKey(size int64, changed time.Time, start int64, f Format) []byte {
	key := []byte(indexMagic)
	for _, v := range []int64{size, changed.UnixNano(), start, int64(f.Syntax), int64(f.Quoting), int64(f.Separator),
		int64(f.MaxRecord)} {
		key = binary.LittleEndian.AppendUint64(key, uint64(v))
	}
	return key
}

// save writes the positions to a temporary file and renames it, so that no reader sees a partial
// index.
func (o *offsets) save(path string, key []byte) error {
	data := append([]byte(nil), key...)
	data = binary.LittleEndian.AppendUint64(data, uint64(len(o.groups)))
	data = binary.LittleEndian.AppendUint64(data, uint64(len(o.deltas)))
	for _, g := range o.groups {
		data = binary.LittleEndian.AppendUint64(data, uint64(g.first))
		data = binary.LittleEndian.AppendUint64(data, uint64(g.base))
	}
	for _, d := range o.deltas {
		data = binary.LittleEndian.AppendUint32(data, d)
	}
	data = binary.LittleEndian.AppendUint32(data, crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli)))
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.new")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
		return fmt.Errorf("writing it: %w", err)
	}
	return nil
}

// replaceable refuses an index file that save did not write, such as the table itself: save would
// replace it.
func replaceable(path string) error {
	file, info, err := regularfile.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close() //nolint:errcheck // only read
	begin := make([]byte, min(int64(len(indexMagic)), info.Size()))
	if err := regularfile.ReadFullAt(file, begin, 0); err != nil {
		return err
	}
	if !strings.HasPrefix(indexMagic, string(begin)) {
		return fmt.Errorf("%s begins with %q, expected %q: OpenRows did not write it and leaves it as it is; name another "+
			"file, or delete this one if it is a damaged index", path, begin, indexMagic)
	}
	return nil
}

// load reads what save wrote. It returns false if the file does not exist, is damaged or belongs to
// another table; the index is then built again.
func (o *offsets) load(path string, key []byte) bool {
	data, err := os.ReadFile(path)
	if err != nil || len(data) < len(key)+20 || !bytes.HasPrefix(data, key) {
		return false
	}
	body, sum := data[:len(data)-4], binary.LittleEndian.Uint32(data[len(data)-4:])
	if crc32.Checksum(body, crc32.MakeTable(crc32.Castagnoli)) != sum {
		return false
	}
	body = body[len(key):]
	groups, deltas := binary.LittleEndian.Uint64(body), binary.LittleEndian.Uint64(body[8:])
	body = body[16:]
	if groups > uint64(len(body)) || deltas > uint64(len(body)) || groups*16+deltas*4 != uint64(len(body)) {
		return false
	}
	o.groups, o.deltas = make([]group, groups), make([]uint32, deltas)
	for k := range o.groups {
		o.groups[k] = group{int64(binary.LittleEndian.Uint64(body)), int64(binary.LittleEndian.Uint64(body[8:]))}
		body = body[16:]
	}
	for k := range o.deltas {
		o.deltas[k] = binary.LittleEndian.Uint32(body)
		body = body[4:]
	}
	return true
}
