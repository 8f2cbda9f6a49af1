// Package tensorio converts tensors between package torch and package safetensors, which do not
// depend on each other.
package tensorio

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/torch"
)

// dtypes lists the element types that both packages have.
var dtypes = []struct {
	torch torch.DType
	file  safetensors.DType
}{
	{torch.Bool, safetensors.Bool},
	{torch.Uint8, safetensors.U8},
	{torch.Int8, safetensors.I8},
	{torch.Int16, safetensors.I16},
	{torch.Int32, safetensors.I32},
	{torch.Int64, safetensors.I64},
	{torch.Float16, safetensors.F16},
	{torch.BFloat16, safetensors.BF16},
	{torch.Float32, safetensors.F32},
	{torch.Float64, safetensors.F64},
	{torch.Complex64, safetensors.C64},
}

// FileDType returns the safetensors type for d; ok is false if files cannot hold it.
func FileDType(d torch.DType) (safetensors.DType, bool) {
	for _, p := range dtypes {
		if p.torch == d {
			return p.file, true
		}
	}
	return 0, false
}

// TorchDType returns the tensor type for d; ok is false if tensors cannot have it.
func TorchDType(d safetensors.DType) (torch.DType, bool) {
	for _, p := range dtypes {
		if p.file == d {
			return p.torch, true
		}
	}
	return 0, false
}

// Read returns the tensor with a name as a new CPU tensor.
func Read(r *safetensors.Reader, name string) (torch.Tensor, error) {
	info, ok := r.Tensor(name)
	if !ok {
		return torch.Tensor{}, fmt.Errorf("tensor %q: %w", name, safetensors.ErrNotFound)
	}
	t, err := empty(info, torch.CPU)
	if err != nil {
		return torch.Tensor{}, err
	}
	if err := fill(t, r, name); err != nil {
		t.Free()
		return torch.Tensor{}, err
	}
	return t, nil
}

// ReadInto reads the tensor with a name into t, which must have the same shape. If the dtypes are
// equal and t is on the CPU, it reads directly into t's memory. If it fails, the contents of t are
// undefined.
func ReadInto(t torch.Tensor, r *safetensors.Reader, name string) error {
	if info, ok := r.Tensor(name); ok && InPlace(t, info) {
		return fill(t, r, name)
	}
	from, err := Read(r, name)
	if err != nil {
		return err
	}
	defer from.Free()
	if !slices.Equal(t.Shape(), from.Shape()) {
		return fmt.Errorf("tensor %q has the shape %v, want %v", name, from.Shape(), t.Shape())
	}
	return torch.Try(func() { torch.NoGrad(func() { t.Copy_(from) }) })
}

// InPlace reports whether t can be filled from this tensor of a file without an intermediate
// tensor.
func InPlace(t torch.Tensor, info safetensors.Tensor) bool {
	file, same := FileDType(t.DType())
	return same && file == info.DType && slices.Equal(t.Shape(), info.Shape)
}

// empty makes the tensor to read a tensor of a file into.
func empty(info safetensors.Tensor, on torch.Device) (t torch.Tensor, err error) {
	dtype, ok := TorchDType(info.DType)
	if !ok {
		return t, fmt.Errorf("tensor %q has dtype %s, which tensors here cannot have", info.Name, info.DType)
	}
	if err := torch.Try(func() { t = torch.TensorOptions{DType: dtype, Device: on}.Empty(info.Shape...) }); err != nil {
		return t, fmt.Errorf("tensor %q: %w", info.Name, err)
	}
	return t, nil
}

// fill reads the elements of t from a file, where it has the same dtype and shape.
func fill(t torch.Tensor, r *safetensors.Reader, name string) error {
	section, err := r.Section(name)
	if err != nil {
		return err
	}
	panicked := torch.Try(func() { err = t.FillFrom(section) })
	if err = errors.Join(panicked, err); err != nil {
		return fmt.Errorf("tensor %q: %w", name, err)
	}
	return nil
}

// Entry describes t for a file. Its elements are fetched, if necessary from a GPU, when they are
// written.
func Entry(name string, t torch.Tensor) (safetensors.Entry, error) {
	var (
		dtype torch.DType
		shape []int64
	)
	if err := torch.Try(func() { dtype, shape = t.DType(), t.Shape() }); err != nil {
		return safetensors.Entry{}, fmt.Errorf("tensor %q: %w", name, err)
	}
	file, ok := FileDType(dtype)
	if !ok {
		return safetensors.Entry{}, fmt.Errorf("tensor %q has dtype %s, which safetensors files cannot hold", name,
			dtype)
	}
	return safetensors.Entry{Name: name, DType: file, Shape: shape, Data: func(w io.Writer) error {
		var err error
		if panicked := torch.Try(func() { _, err = t.WriteTo(w) }); panicked != nil {
			return fmt.Errorf("tensor %q: %w", name, panicked)
		}
		return err
	}}, nil
}

// Entries describes tensors for a file: see [Entry].
func Entries(ts []torch.Named) ([]safetensors.Entry, error) {
	entries := make([]safetensors.Entry, len(ts))
	for i, t := range ts {
		var err error
		if entries[i], err = Entry(t.Name, t.Tensor); err != nil {
			return nil, err
		}
	}
	return entries, nil
}
