package tensorio

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/gotrainer/gotrainer/internal/osthread"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/torch"
)

// Save writes a safetensors file like [Create].
func Save(path string, ts []torch.Named, metadata map[string]string) error {
	entries, err := Entries(ts)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return Create(path, func(w io.Writer) error { return safetensors.Write(w, entries, metadata) })
}

// Create writes a file in a folder that package checkpoint will flush as a whole, so it does not
// flush the file itself.
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

// Load reads all tensors of a safetensors file into CPU memory, using several goroutines for large
// files.
func Load(path string) (ts []torch.Named, metadata map[string]string, err error) {
	err = opened(path, func(file *safetensors.File) error {
		ts, err = load(file, math.MaxInt64)
		metadata = file.Metadata()
		return err
	})
	return ts, metadata, err
}

// leastOutlined is the size in bytes from which [Outline] does not read a tensor.
const leastOutlined = 64 << 10

// Outline is like [Load] for a state whose memory already exists: tensors of 64 KiB or more are
// returned on [torch.Meta], with only shape and dtype. The function fill reads them into the
// tensors of the same names, whose contents are undefined if it fails.
func Outline(path string) (ts []torch.Named, metadata map[string]string, fill func(into []torch.Named) error,
	err error) {
	err = opened(path, func(file *safetensors.File) error {
		ts, err = load(file, leastOutlined)
		metadata = file.Metadata()
		return err
	})
	var left []string
	for _, t := range ts {
		if t.Tensor.Device() == torch.Meta {
			left = append(left, t.Name)
		}
	}
	return ts, metadata, func(into []torch.Named) error {
		return opened(path, func(file *safetensors.File) error { return fillOf(left, into, file.Reader) })
	}, err
}

// opened calls f with a file, and adds the file's name to its error.
func opened(path string, f func(*safetensors.File) error) error {
	file, err := safetensors.Open(path)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }() // opened for reading
	if err := f(file); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// load reads the tensors of a file into new memory, except that those of outlined or more bytes are
// on torch.Meta.
func load(file *safetensors.File, outlined int64) (ts []torch.Named, err error) {
	var own []torch.Named
	for _, info := range file.Tensors() {
		on := torch.CPU
		if info.Size >= outlined {
			on = torch.Meta
		}
		t, err := empty(info, on)
		if err != nil {
			Free(ts)
			return nil, err
		}
		ts = append(ts, torch.Named{Name: info.Name, Tensor: t})
		if on == torch.CPU {
			own = append(own, ts[len(ts)-1])
		}
	}
	if err := readAll(own, file.Reader); err != nil {
		Free(ts)
		return nil, err
	}
	return ts, nil
}

// fillOf reads the tensors with these names.
func fillOf(names []string, into []torch.Named, r *safetensors.Reader) error {
	byName := map[string]torch.Tensor{}
	for _, t := range into {
		byName[t.Name] = t.Tensor
	}
	list := make([]torch.Named, len(names))
	for i, name := range names {
		list[i] = torch.Named{Name: name, Tensor: byName[name]}
		if !list[i].Tensor.Defined() {
			return fmt.Errorf("tensor %q: there is no tensor of that name to read it into", name)
		}
	}
	return readAll(list, r)
}

// readAll reads tensors from a file, using several goroutines for large amounts.
func readAll(ts []torch.Named, r *safetensors.Reader) error {
	size := int64(0)
	for _, t := range ts {
		info, _ := r.Tensor(t.Name)
		size += info.Size
	}
	return Each(Readers(size), len(ts), func(i int) error { return ReadInto(ts[i].Tensor, r, ts[i].Name) })
}

// Readers returns how many goroutines should read a number of bytes.
func Readers(size int64) int { return max(1, min(runtime.GOMAXPROCS(0), int(size/leastPart))) }

// leastPart is the number of bytes that are worth a goroutine.
const leastPart = 8 << 20

// Each calls f for 0 to n-1 in a number of goroutines, including this one. After an error it starts no
// further calls. It returns all errors.
func Each(goroutines, n int, f func(i int) error) error {
	errs := make([]error, n)
	var next atomic.Int64
	var failed atomic.Bool
	work := func() {
		for i := int(next.Add(1)) - 1; i < n && !failed.Load(); i = int(next.Add(1)) - 1 {
			if errs[i] = f(i); errs[i] != nil {
				failed.Store(true)
			}
		}
	}
	var others sync.WaitGroup
	for range min(goroutines, n) - 1 {
		others.Add(1)
		osthread.Brief(func() { // f may compute
			defer others.Done()
			work()
		})
	}
	work()
	others.Wait()
	return errors.Join(errs...)
}

// Free frees the tensors that [Load] has read.
func Free(ts []torch.Named) {
	for _, t := range ts {
		t.Tensor.Free()
	}
}
