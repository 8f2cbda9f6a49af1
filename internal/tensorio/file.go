package tensorio

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"sync"
	"sync/atomic"

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

// Load reads all tensors of a safetensors file into the CPU's memory, large files by several
// goroutines.
func Load(path string) (ts []torch.Named, metadata map[string]string, err error) {
	return load(path, read)
}

// Map is [Load] for tensors that are only read, and freed soon: where the system allows it they are
// views of the file, for which there is neither a copy nor memory.
func Map(path string) (ts []torch.Named, metadata map[string]string, err error) {
	return load(path, func(file *safetensors.File) (ts []torch.Named, err error) {
		if panicked := torch.Try(func() { ts, err = views(file) }); panicked != nil || err != nil {
			return read(file) // which says what is wrong with the file, if something is
		}
		return ts, nil
	})
}

func load(path string, tensors func(*safetensors.File) ([]torch.Named, error)) ([]torch.Named, map[string]string,
	error) {
	file, err := safetensors.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = file.Close() }() // it was only read
	ts, err := tensors(file)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", path, err)
	}
	return ts, file.Metadata(), nil
}

// read are the tensors of a file in memory of their own.
func read(file *safetensors.File) (ts []torch.Named, err error) {
	size := int64(0)
	for _, info := range file.Tensors() {
		t, err := empty(info)
		if err != nil {
			Free(ts)
			return nil, err
		}
		ts = append(ts, torch.Named{Name: info.Name, Tensor: t})
		size += info.Size
	}
	readers := min(runtime.GOMAXPROCS(0), int(size/leastPart))
	if err := Each(readers, len(ts), func(i int) error {
		return fill(ts[i].Tensor, file.Reader, ts[i].Name)
	}); err != nil {
		Free(ts)
		return nil, err
	}
	return ts, nil
}

// views are the tensors of a file that is mapped.
func views(file *safetensors.File) (ts []torch.Named, err error) {
	list := file.Tensors()
	size := int64(0)
	for _, info := range list {
		size = max(size, info.Offset+info.Size)
	}
	whole, err := torch.FromFile(fmt.Sprint("/proc/self/fd/", file.Fd()), size)
	if err != nil {
		return nil, err
	}
	defer whole.Free() // the views keep the mapping
	for _, info := range list {
		dtype, ok := TorchDType(info.DType)
		if !ok || info.Offset%int64(dtype.Size()) != 0 {
			Free(ts)
			return nil, fmt.Errorf("tensor %q: there is no view of %v at byte %d", info.Name, info.DType, info.Offset)
		}
		view := torch.Return(func() torch.Tensor {
			part := whole.Narrow(0, info.Offset, info.Size)
			return torch.Call("aten::view.dtype", part, dtype)[0].View(info.Shape...)
		})
		ts = append(ts, torch.Named{Name: info.Name, Tensor: view})
	}
	return ts, nil
}

// leastPart is how many bytes are worth a goroutine.
const leastPart = 8 << 20

// Each calls f for 0 to n-1 in so many goroutines, or in this one, and returns the errors up to
// which it came.
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
		others.Go(work)
	}
	work()
	others.Wait()
	return errors.Join(errs...)
}

// Free frees what [Load] has read.
func Free(ts []torch.Named) {
	for _, t := range ts {
		t.Tensor.Free()
	}
}
