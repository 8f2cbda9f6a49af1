package tensorio

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/torch"
)

// Save writes a safetensors file as [Create] does.
func Save(path string, ts []torch.Named, metadata map[string]string) error {
	entries, err := Entries(ts)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return Create(path, func(w io.Writer) error { return safetensors.Write(w, entries, metadata) })
}

// Create writes a file of a folder that package checkpoint flushes as a whole: it leaves that to
// it, so that each file goes to the disk once.
func Create(path string, write func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	if err := write(f); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", path, err), f.Close())
	}
	return f.Close()
}

// Load reads all tensors of a safetensors file into the CPU's memory.
func Load(path string) (ts []torch.Named, metadata map[string]string, err error) {
	file, err := safetensors.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	for _, info := range file.Tensors() {
		t, err := Read(file.Reader, info.Name)
		if err != nil {
			Free(ts)
			return nil, nil, fmt.Errorf("%s: %w", path, err)
		}
		ts = append(ts, torch.Named{Name: info.Name, Tensor: t})
	}
	return ts, file.Metadata(), nil
}

// Free frees what [Load] has read.
func Free(ts []torch.Named) {
	for _, t := range ts {
		t.Tensor.Free()
	}
}
