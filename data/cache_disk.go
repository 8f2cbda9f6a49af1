package data

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// Codec turns samples into bytes and back, for [CacheOnDisk].
type Codec[S any] struct {
	Encode func(S) ([]byte, error)
	Decode func([]byte) (S, error)
}

// CacheOnDisk returns d with its samples kept in a file after they have been loaded, for samples
// that are more expensive to make than to read: resized images, tokenized documents. The next run
// finds the samples of the last. Key identifies what made the samples, such as the version of the
// tokenizer and its settings: a file with another key, or for another number of samples, is started
// over. A file that CacheOnDisk did not write is refused and left unchanged.
//
// Each sample is written with a checksum. If a run was killed while writing, the incomplete sample
// is removed. A damaged sample is loaded and written again. If a sample cannot be written because
// the disk is full, it is still returned; the default logger of log/slog reports this once, and
// nothing more is written. Only one process can use the file at a time; it is refused to others.
// Close releases it.
//
// As with [Cache], a data set whose samples differ from epoch to epoch is refused.
func CacheOnDisk[S any](d Dataset[S], path, key string, codec Codec[S]) (*DiskCache[S], error) {
	switch {
	case varies(d):
		return nil, fmt.Errorf("data: CacheOnDisk: the samples of %T differ from epoch to epoch; cache the data set "+
			"below Augment and augment the cached one", d)
	case codec.Encode == nil || codec.Decode == nil:
		return nil, errors.New("data: CacheOnDisk: the Codec needs both Encode and Decode")
	}
	c := &DiskCache[S]{Dataset: d, path: path, codec: codec, places: make(map[int]place)}
	if err := c.open(key); err != nil {
		if c.file != nil {
			_ = c.file.Close() // the first error counts
		}
		return nil, fmt.Errorf("data: CacheOnDisk: %s: %w", filepath.Clean(path), err)
	}
	return c, nil
}

// DiskCache is a data set whose samples are kept in a file; see [CacheOnDisk].
type DiskCache[S any] struct {
	Dataset[S]
	path  string
	codec Codec[S]
	file  *os.File

	mutex  sync.RWMutex
	places map[int]place
	end    int64
	closed bool
	failed error // why nothing is written any longer
}

// place locates a sample in the file.
type place struct {
	offset int64
	size   uint32
	sum    uint32
}

const (
	diskMagic  = "gotrainer samples 1\n"
	diskRecord = 16 // index, size and checksum before each sample
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// checksum covers the index too, so that one sample cannot be mistaken for another.
func checksum(i int, content []byte) uint32 {
	return crc32.Update(crc32.Checksum(binary.LittleEndian.AppendUint64(nil, uint64(i)), castagnoli), castagnoli,
		content)
}

// lockOf is lockFile, except in tests.
var lockOf = lockFile

// open opens and locks the file, and finds the samples that the last run left.
func (c *DiskCache[S]) open(key string) (err error) {
	if c.file, err = os.OpenFile(c.path, os.O_RDWR|os.O_CREATE, 0o644); err != nil {
		return err
	}
	switch err := lockOf(c.file); {
	case err == nil:
	case errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.ENOLCK):
		slog.Warn("data: CacheOnDisk: the file system cannot lock files; make sure that only one process uses "+
			"this one", "file", c.path, "reason", err.Error())
	default:
		return fmt.Errorf("another process is using it; give each its own file: %w", err)
	}
	header := []byte(diskMagic)
	header = binary.LittleEndian.AppendUint64(header, uint64(c.Dataset.Len()))
	header = binary.LittleEndian.AppendUint32(header, crc32.Checksum([]byte(key), castagnoli))
	header = binary.LittleEndian.AppendUint32(header, uint32(len(key)))
	header = append(header, key...)
	found := make([]byte, len(header))
	n, err := c.file.ReadAt(found, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if begin := found[:min(n, len(diskMagic))]; !strings.HasPrefix(diskMagic, string(begin)) {
		return fmt.Errorf("it begins with %q, expected %q: CacheOnDisk did not write it and leaves it as it is; name "+
			"another file, or delete this one if it is a damaged cache", begin, diskMagic)
	}
	c.end = int64(len(header))
	if string(found) != string(header) {
		if err := c.file.Truncate(0); err != nil {
			return err
		}
		_, err := c.file.WriteAt(header, 0)
		return err
	}
	info, err := c.file.Stat()
	if err != nil {
		return err
	}
	for c.end+diskRecord <= info.Size() {
		var record [diskRecord]byte
		if _, err := c.file.ReadAt(record[:], c.end); err != nil {
			return err
		}
		index, size := binary.LittleEndian.Uint64(record[:]), binary.LittleEndian.Uint32(record[8:])
		next := c.end + diskRecord + int64(size)
		if index >= uint64(c.Dataset.Len()) || next > info.Size() {
			break
		}
		c.places[int(index)] = place{c.end + diskRecord, size, binary.LittleEndian.Uint32(record[12:])}
		c.end = next
	}
	return c.file.Truncate(c.end)
}

// Describe returns the description that the underlying data set gives for sample i.
func (c *DiskCache[S]) Describe(i int) string { return describe(c.Dataset, i) }

// At returns sample i from the file, or loads it and adds it to the file.
func (c *DiskCache[S]) At(i int) (S, error) { return c.at(context.Background(), 0, i) }

func (c *DiskCache[S]) at(ctx context.Context, epoch, i int) (S, error) {
	c.mutex.RLock()
	p, ok := c.places[i]
	closed := c.closed
	full := c.failed != nil
	c.mutex.RUnlock()
	if ok && !closed {
		content := make([]byte, p.size)
		if _, err := c.file.ReadAt(content, p.offset); err == nil && checksum(i, content) == p.sum {
			return c.codec.Decode(content)
		}
	}
	s, err := at(ctx, c.Dataset, epoch, i)
	if err != nil || closed || full {
		return s, err
	}
	content, err := c.codec.Encode(s)
	if err != nil {
		return s, err
	}
	if len(content) > 1<<31 {
		return s, fmt.Errorf("data: CacheOnDisk: %s: sample %d has %d bytes; want at most %d", c.path, i, len(content),
			int64(1)<<31)
	}
	c.add(i, content)
	return s, nil
}

// add writes a sample at the end of the file. If it fails, the samples already in the file remain,
// and nothing more is written: the run needs the rest of the disk for its checkpoints.
func (c *DiskCache[S]) add(i int, content []byte) {
	record := binary.LittleEndian.AppendUint64(make([]byte, 0, diskRecord+len(content)), uint64(i))
	record = binary.LittleEndian.AppendUint32(record, uint32(len(content)))
	sum := checksum(i, content)
	record = append(binary.LittleEndian.AppendUint32(record, sum), content...)
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.closed || c.failed != nil {
		return
	}
	if _, c.failed = c.file.WriteAt(record, c.end); c.failed != nil {
		_ = c.file.Truncate(c.end) // remove what was written; if this fails, the next run does it
		slog.Warn("data: CacheOnDisk cannot write; samples that it does not have are made each time", "file", c.path,
			"samples", len(c.places), "of", c.Dataset.Len(), "reason", c.failed.Error())
		return
	}
	c.places[i] = place{c.end + diskRecord, uint32(len(content)), sum}
	c.end += int64(len(record))
}

// Close releases the file. Samples requested afterwards are loaded and not kept.
func (c *DiskCache[S]) Close() error {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	return c.file.Close()
}
