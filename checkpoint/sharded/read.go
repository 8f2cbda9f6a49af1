package sharded

import (
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"

	"github.com/gotrainer/gotrainer/safetensors"
)

// Reader reads a sharded checkpoint. Its methods are safe for use by several goroutines.
type Reader struct {
	Index
	folder string
	files  []*safetensors.File
	at     map[string]int
}

// Open checks that a checkpoint is complete: that all files exist, belong to this checkpoint, and
// contain what the index says. Values are checked when they are read.
func Open(folder string) (*Reader, error) {
	x, err := readIndex(folder)
	if err != nil {
		return nil, err
	}
	r := &Reader{Index: *x, folder: folder, at: map[string]int{}}
	for rank, f := range x.Files {
		opened, err := r.open(rank, f)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("sharded: %s: the file of rank %d: %w", folder, rank, err), r.Close())
		}
		r.files = append(r.files, opened)
	}
	for i, t := range x.Tensors {
		r.at[t.Name] = i
		for _, p := range t.Parts {
			d, _ := safetensors.ParseDType(t.DType)
			found, ok := r.files[p.File].Tensor(t.Name)
			if !ok || found.DType != d || len(found.Shape) != 1 || found.Shape[0] != p.Length {
				return nil, errors.Join(fmt.Errorf("sharded: %s: %s does not have the %d elements %s of tensor %q that the "+
					"index lists", folder, x.Files[p.File].Name, p.Length, t.DType, t.Name), r.Close())
			}
		}
	}
	return r, nil
}

func (r *Reader) open(rank int, f File) (*safetensors.File, error) {
	path := filepath.Join(r.folder, f.Name)
	info, err := os.Stat(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("%s is missing: the checkpoint of %d processes needs the files of all; was it copied "+
			"whole? copy it again, or load an earlier checkpoint: %w", f.Name, len(r.Files), err)
	}
	if err != nil {
		return nil, err
	}
	if info.Size() != f.Size {
		return nil, fmt.Errorf("%s has %d bytes, the index says %d: it was cut short or is of another step; copy the "+
			"folder again, or load an earlier checkpoint", f.Name, info.Size(), f.Size)
	}
	opened, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	if m := opened.Metadata(); m["id"] != r.ID || m["rank"] != fmt.Sprint(rank) {
		return nil, errors.Join(fmt.Errorf("%s is rank %s of another checkpoint than the index, which is of step %d: "+
			"copy both from one folder, or load an earlier checkpoint", f.Name, m["rank"], r.Step), opened.Close())
	}
	return opened, nil
}

// Close closes the files.
func (r *Reader) Close() (err error) {
	for _, f := range r.files {
		err = errors.Join(err, f.Close())
	}
	return err
}

// Tensor returns the description of a tensor.
func (r *Reader) Tensor(name string) (Tensor, bool) {
	i, ok := r.at[name]
	if !ok {
		return Tensor{}, false
	}
	return r.Tensors[i], true
}

// ReadRange writes length elements of a tensor, starting at offset, to w. It reads all parts that
// contain some of them, and checks these parts completely before it returns. If it returns an
// error, discard what it has written.
func (r *Reader) ReadRange(name string, offset, length int64, w io.Writer) error {
	t, ok := r.Tensor(name)
	if !ok {
		return fmt.Errorf("sharded: %s has no tensor %q", r.folder, name)
	}
	n, size, err := t.elements()
	if err != nil {
		return err
	}
	if offset < 0 || length < 0 || offset > n || length > n-offset {
		return fmt.Errorf("sharded: %d elements from %d on of tensor %q, which has %d", length, offset, name, n)
	}
	for _, p := range t.Parts {
		low, high := max(offset, p.Offset), min(offset+length, p.Offset+p.Length)
		if low >= high {
			continue
		}
		section, err := r.files[p.File].Section(name)
		if err != nil {
			return fmt.Errorf("sharded: %w", err)
		}
		crc := crc32.New(castagnoli)
		summed := io.TeeReader(section, crc)
		for _, piece := range []struct {
			to    io.Writer
			bytes int64
		}{{io.Discard, (low - p.Offset) * size}, {w, (high - low) * size}, {io.Discard,
			(p.Offset + p.Length - high) * size}} {
			if _, err := io.CopyN(piece.to, summed, piece.bytes); err != nil {
				return fmt.Errorf("sharded: cannot read tensor %q from %s: %w", name, r.Files[p.File].Name, err)
			}
		}
		if crc.Sum32() != p.CRC32C {
			return fmt.Errorf("sharded: %s is damaged: the elements from %d on of tensor %q in %s have the checksum "+
				"%08x, the index says %08x", r.folder, p.Offset, name, r.Files[p.File].Name, crc.Sum32(), p.CRC32C)
		}
	}
	return nil
}
