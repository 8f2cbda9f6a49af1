package sharded

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"syscall"

	"github.com/gotrainer/gotrainer/safetensors"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Entry is a part of a tensor that a process writes.
type Entry struct {
	Name   string
	DType  safetensors.DType
	Shape  []int64 // of the whole tensor
	Offset int64   // of the first element, in C order
	Length int64   // elements; if zero, nothing is written

	// Data writes the elements, little-endian.
	Data func(w io.Writer) error
}

// Written describes what a process has written, for the process that commits the checkpoint.
type Written struct {
	File    File
	Tensors []Tensor
}

// hidden returns the path at which the checkpoint for path is written.
func hidden(path string) string {
	return filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".incomplete")
}

// Begin creates the hidden folder and returns its path. Only one process must call it. A hidden
// folder left by a killed run is removed. If the checkpoint already exists, Begin returns an error.
func Begin(path string) (folder string, err error) {
	if _, err := os.Lstat(path); err == nil {
		return "", fmt.Errorf("sharded: %s already exists; remove it, or choose another name: %w", path, os.ErrExist)
	}
	if err := os.RemoveAll(hidden(path)); err != nil {
		return "", fmt.Errorf("sharded: cannot remove what an earlier run left behind: %w", err)
	}
	if err := os.MkdirAll(hidden(path), 0o777); err != nil {
		return "", fmt.Errorf("sharded: cannot make the folder of the checkpoint: %w", err)
	}
	return hidden(path), nil
}

// WriteFile writes the file of one of world processes into a folder, and returns when it is on the
// disk. id must be the same for all processes and different from that of any other checkpoint.
func WriteFile(folder string, rank, world int, id string, entries []Entry) (w Written, err error) {
	w.File.Name = fmt.Sprintf("rank-%05d-of-%05d.safetensors", rank, world)
	var files []safetensors.Entry
	for _, e := range entries {
		t := Tensor{Name: e.Name, DType: e.DType.String(), Shape: e.Shape}
		n, _, err := t.elements()
		if err != nil {
			return w, fmt.Errorf("sharded: %w", err)
		}
		if e.Offset < 0 || e.Length < 0 || e.Offset > n || e.Length > n-e.Offset {
			return w, fmt.Errorf("sharded: the part of tensor %q is %d elements from %d on; it has %d", e.Name, e.Length,
				e.Offset, n)
		}
		if e.Length > 0 {
			t.Parts = []Part{{File: rank, Offset: e.Offset, Length: e.Length}}
		}
		w.Tensors = append(w.Tensors, t)
		if e.Length == 0 {
			continue
		}
		sum := &t.Parts[0].CRC32C // w.Tensors shares this element
		files = append(files, safetensors.Entry{Name: e.Name, DType: e.DType, Shape: []int64{e.Length},
			Data: func(to io.Writer) error {
				crc := crc32.New(castagnoli)
				err := e.Data(io.MultiWriter(to, crc))
				*sum = crc.Sum32()
				return err
			}})
	}
	file := filepath.Join(folder, w.File.Name)
	if err := safetensors.WriteFile(file, files, map[string]string{"id": id, "rank": strconv.Itoa(rank)}); err != nil {
		return w, fmt.Errorf("sharded: %w", err)
	}
	info, err := os.Stat(file)
	if err != nil {
		return w, fmt.Errorf("sharded: %w", err)
	}
	w.File.Size = info.Size()
	return w, nil
}

// syncParent is syncFolder; tests make it fail.
var syncParent = syncFolder

// Publish gives the hidden folder its name. When it returns, the checkpoint is on the disk; if it
// fails, the folder remains hidden.
func Publish(path string) error {
	if err := os.Rename(hidden(path), path); err != nil {
		return fmt.Errorf("sharded: cannot give the checkpoint its name: %w", err)
	}
	if err := syncParent(filepath.Dir(path)); err != nil {
		return errors.Join(fmt.Errorf("sharded: cannot give the checkpoint its name: %w", err),
			os.Rename(path, hidden(path)))
	}
	return nil
}

// WriteIndex writes the index of what all processes have written to a folder, by rank. Without it
// the folder is not a checkpoint. When it returns, everything in the folder is on the disk.
func WriteIndex(folder, id string, step int, metadata map[string]string, written []Written) error {
	x := Index{Format: format, Version: 1, ID: id, Step: step, Metadata: metadata}
	var err error
	if x.Files, x.Tensors, err = merge(written); err != nil {
		return fmt.Errorf("sharded: %w", err)
	}
	if err := x.check(); err != nil {
		return fmt.Errorf("sharded: the index of %s: %w", folder, err)
	}
	text, err := json.MarshalIndent(x, "", " ")
	if err != nil {
		return fmt.Errorf("sharded: %w", err)
	}
	if err := writeSynced(filepath.Join(folder, IndexName), text); err != nil {
		return fmt.Errorf("sharded: %w", err)
	}
	return syncFolder(folder)
}

// Abandon removes the hidden folder.
func Abandon(path string) error { return os.RemoveAll(hidden(path)) }

func writeSynced(path string, text []byte) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Sync(), f.Close())
}

// syncFolder flushes the entries of a folder to the disk.
func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("sharded: %w", err)
	}
	err = d.Sync()
	if errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) { // some file systems can flush only files
		err = nil
	}
	return errors.Join(err, d.Close())
}
