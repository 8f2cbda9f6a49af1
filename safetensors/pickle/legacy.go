package pickle

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/gotrainer/gotrainer/internal/regularfile"
)

// This file reads the format of torch.save before PyTorch 1.6, in which many older models on the
// Hub are stored: a sequence of pickles (a magic number, a version, the sizes of C types, the
// value, the keys of the storages), followed by the storages in the order of those keys, each after
// the number of its elements.

const legacyVersion = 1001

// legacyStart is the pickle of the magic number, without the two bytes of its protocol.
var legacyStart = []byte("\x8a\n\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.")

// legacyStorage is a storage of such a file. Its offset is known only after the pickles have been
// read.
type legacyStorage struct{ count, bytes, offset int64 }

// isLegacy reports by the first bytes of a file whether it has the older format.
func isLegacy(source io.ReaderAt, size int64) bool {
	head := make([]byte, min(size, int64(2+len(legacyStart))))
	return regularfile.ReadFullAt(source, head, 0) == nil && len(head) > 2 && head[0] == opProto &&
		bytes.Equal(head[2:], legacyStart)
}

// readLegacy reads the pickles after the magic number and locates the storages.
func (a *archive) readLegacy(spent *budget) (value any, made int, err error) {
	code := make([]byte, min(a.size, maxPickle))
	if err := regularfile.ReadFullAt(a.source, code, 0); err != nil {
		return nil, 0, fmt.Errorf("pickle: %w", err)
	}
	at := 2 + len(legacyStart)
	next := func() (v any, made int, err error) {
		m := &machine{code: code, at: at, a: a, memo: map[uint32]any{}, spent: spent}
		v, err = m.run()
		at = m.at
		return v, m.made, err
	}
	version, _, err := next()
	if err != nil {
		return nil, 0, err
	}
	if version != int64(legacyVersion) {
		return nil, 0, fault(ErrMalformed, "", "it has version %v; want %d", version, legacyVersion)
	}
	sizes, _, err := next()
	if err != nil {
		return nil, 0, err
	}
	info, _ := sizes.(*Dict)
	if info == nil {
		return nil, 0, fault(ErrMalformed, "", "a %s says what machine wrote it; want a dict", describe(sizes))
	}
	if little, _ := info.Get("little_endian"); little != true {
		return nil, 0, fault(ErrBigEndian, "", "convert it on such a machine")
	}
	if value, made, err = next(); err != nil {
		return nil, 0, err
	}
	keys, _, err := next()
	if err != nil {
		return nil, 0, err
	}
	list, _ := keys.(*List)
	if list == nil {
		return nil, 0, fault(ErrMalformed, "", "a %s has the keys of the storages; want a list", describe(keys))
	}
	return value, made, a.placeLegacy(list.Items, int64(at))
}

// placeLegacy locates the storages, the first of which begins at byte at of the file.
func (a *archive) placeLegacy(keys []any, at int64) error {
	for _, key := range keys {
		name, _ := key.(string)
		s := a.legacy[name]
		if s == nil || s.offset > 0 {
			return fault(ErrMalformed, fmt.Sprintf("storage %.40q", name), "no tensor has it, or it appears twice in the "+
				"list of storages")
		}
		var count [8]byte
		if err := regularfile.ReadFullAt(a.source, count[:], at); err != nil {
			return fault(ErrMalformed, "storage "+name, "its size cannot be read at byte %d: %v; was the file cut short?",
				at, err)
		}
		if n := binary.LittleEndian.Uint64(count[:]); n != uint64(s.count) {
			return fault(ErrMalformed, "storage "+name, "it has %d elements, but the pickle counts %d", n, s.count)
		}
		at += int64(len(count))
		if s.bytes > a.size-at {
			return fault(ErrMalformed, "storage "+name, "it has %d bytes from byte %d on, but the file ends at %d; was it "+
				"cut short?", s.bytes, at, a.size)
		}
		s.offset = at
		at += s.bytes
	}
	for name, s := range a.legacy {
		if s.offset == 0 {
			return fault(ErrMalformed, "storage "+name, "the list of storages does not have it")
		}
	}
	return nil
}

// holdsLegacy records a storage of the pickle, and checks that its size is always the same.
func (a *archive) holdsLegacy(s storage, count int64, spent *budget) error {
	old := a.legacy[s.key]
	if old == nil {
		if err := spent.take(200 + 2*len(s.key)); err != nil {
			return err
		}
		old = &legacyStorage{count: count, bytes: count * s.dtype.size}
		a.legacy[s.key] = old
	}
	switch {
	case old.count != count || old.bytes != count*s.dtype.size:
		return fault(ErrMalformed, s.name, "it has %d elements in %d bytes, and %d in %d elsewhere", count,
			count*s.dtype.size, old.count, old.bytes)
	case old.bytes > a.size:
		return fault(ErrMalformed, s.name, "it has %d bytes, the file %d; was it cut short?", old.bytes, a.size)
	}
	return nil
}
