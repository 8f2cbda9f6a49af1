// Package sharded stores a checkpoint that several processes write together and that any number of
// processes can read. Each process writes a file with its parts of the tensors.
//
//	step-100/
//	  rank-00000-of-00002.safetensors   what rank 0 has, each part under the name of its tensor
//	  rank-00001-of-00002.safetensors
//	  index.json                        tensors: dtype, whole shape; parts: file, offset, length, CRC32C
//
// The files are written into a hidden folder next to it ([Begin], [WriteFile]). When those of all
// processes are on the disk, one process writes the index ([WriteIndex]) and gives the folder its
// name ([Publish]), so a checkpoint is either complete or not there. A caller that ensures this in
// another way, as package checkpoint does, uses only WriteFile and WriteIndex.
//
// [Open] checks that the files are those of the index, and [Reader.ReadRange] verifies the
// checksums of what it reads. [Convert] makes a folder in Hugging Face's layout. Package dist/shard
// does all of this for a model.
package sharded

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/gotrainer/gotrainer/safetensors"
)

// IndexName is the file that makes a folder a sharded checkpoint.
const IndexName = "index.json"

const format = "gotrainer sharded checkpoint"

// Index lists the contents of a sharded checkpoint.
type Index struct {
	Format   string            `json:"format"`
	Version  int               `json:"version"`
	ID       string            `json:"id"` // of this checkpoint; its files have the same
	Step     int               `json:"step"`
	Metadata map[string]string `json:"metadata,omitempty"`
	Files    []File            `json:"files"` // by rank
	Tensors  []Tensor          `json:"tensors"`
}

// File is the file of a process.
type File struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
}

// Tensor is a tensor whose parts are held by different processes.
type Tensor struct {
	Name  string  `json:"name"`
	DType string  `json:"dtype"` // as in safetensors: F32
	Shape []int64 `json:"shape"`
	Parts []Part  `json:"parts,omitempty"` // these cover the tensor, in order
}

// Part is a range of elements of a tensor, in C order.
type Part struct {
	File   int    `json:"file"`
	Offset int64  `json:"offset"` // of the first element
	Length int64  `json:"length"` // elements
	CRC32C uint32 `json:"crc32c"` // of their bytes
}

// elements returns the number of elements of a tensor and the size of one in bytes.
func (t Tensor) elements() (n, size int64, err error) {
	d, ok := safetensors.ParseDType(t.DType)
	if !ok || d.Bits()%8 != 0 {
		return 0, 0, fmt.Errorf("tensor %q has dtype %q; want one of whole bytes", t.Name, t.DType)
	}
	n, size = 1, int64(d.Bits()/8)
	for _, dim := range t.Shape {
		if dim < 0 || dim > 0 && n > math.MaxInt64/size/dim {
			return 0, 0, fmt.Errorf("tensor %q has shape %v, which is not a valid shape", t.Name, t.Shape)
		}
		n *= dim
	}
	return n, size, nil
}

// check returns an error if an index is invalid: the parts must cover each tensor exactly once.
func (x *Index) check() error {
	switch {
	case x.Format != format || x.Version != 1:
		return fmt.Errorf("it is of format %q, version %d; want %q, version 1", x.Format, x.Version, format)
	case len(x.Files) == 0:
		return errors.New("it names no file")
	}
	for _, f := range x.Files {
		if f.Name == "" || f.Name != filepath.Base(f.Name) || strings.ContainsAny(f.Name, `/\`) || f.Name == ".." {
			return fmt.Errorf("it names the file %q, which is not a file name in this folder", f.Name)
		}
	}
	names := map[string]bool{}
	for _, t := range x.Tensors {
		n, _, err := t.elements()
		if err != nil {
			return err
		}
		if names[t.Name] {
			return fmt.Errorf("it has tensor %q twice", t.Name)
		}
		names[t.Name] = true
		at := int64(0)
		for _, p := range t.Parts {
			if p.File < 0 || p.File >= len(x.Files) || p.Offset != at || p.Length < 1 || p.Length > n-at {
				return fmt.Errorf("a part of tensor %q has %d elements from %d on in file %d; want elements from %d to %d "+
					"in one of %d files", t.Name, p.Length, p.Offset, p.File, at, n, len(x.Files))
			}
			at += p.Length
		}
		if at != n {
			return fmt.Errorf("the parts of tensor %q end at element %d of %d: a process has not said what it has", t.Name,
				at, n)
		}
	}
	return nil
}

// merge combines what the processes have written, in the order of the ranks.
func merge(written []Written) ([]File, []Tensor, error) {
	var files []File
	var tensors []Tensor
	at := map[string]int{}
	for rank, w := range written {
		files = append(files, w.File)
		for _, t := range w.Tensors {
			i, ok := at[t.Name]
			if !ok {
				i = len(tensors)
				at[t.Name] = i
				tensors = append(tensors, Tensor{Name: t.Name, DType: t.DType, Shape: t.Shape})
			}
			if k := tensors[i]; k.DType != t.DType || !slices.Equal(k.Shape, t.Shape) {
				return nil, nil, fmt.Errorf("tensor %q is %s%v for rank %d, and %s%v for one before", t.Name, t.DType,
					t.Shape, rank, k.DType, k.Shape)
			}
			for _, p := range t.Parts {
				p.File = rank
				tensors[i].Parts = append(tensors[i].Parts, p)
			}
		}
	}
	for _, t := range tensors {
		slices.SortFunc(t.Parts, func(a, b Part) int { return int(min(max(a.Offset-b.Offset, -1), 1)) })
	}
	return files, tensors, nil
}

// readIndex reads and checks the index of a folder.
func readIndex(folder string) (*Index, error) {
	path := filepath.Join(folder, IndexName)
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
		return nil, fmt.Errorf("sharded: %s has no %s: it is not a sharded checkpoint, or was not finished: %w", folder,
			IndexName, err)
	}
	if err != nil {
		return nil, fmt.Errorf("sharded: %w", err)
	}
	var x Index
	if err := json.Unmarshal(text, &x); err != nil {
		return nil, fmt.Errorf("sharded: %s is damaged: %w", path, err)
	}
	if err := x.check(); err != nil {
		return nil, fmt.Errorf("sharded: %s is damaged: %w", path, err)
	}
	return &x, nil
}
