// Package golden compares tensors with values that PyTorch computed. These are stored in a
// package's testdata as safetensors files, next to the Python script of the same name that wrote
// them.
//
//	g := golden.Load(t, "testdata/linear.safetensors")
//	l := &nn.Linear{Weight: g.Tensor("weight"), Bias: g.Tensor("bias")}
//	golden.Recorded(t, "y", l.Forward(g.Tensor("x")), g.Tensor("y"))
package golden

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/gotrainer/gotrainer/internal/goldencount"
	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/torch"
)

// File holds the tensors of one golden file.
type File struct {
	Metadata map[string]string // what the script says about the case

	t       testing.TB
	path    string
	names   []string
	tensors map[string]torch.Tensor
}

// Load reads a golden file into CPU tensors that outlive any scope. It fails the test on an error.
func Load(t testing.TB, path string) *File {
	t.Helper()
	r, err := safetensors.Open(path)
	if err != nil {
		t.Fatalf("%v (make golden writes the golden files)", err)
	}
	defer func() { _ = r.Close() }()
	f := &File{Metadata: r.Metadata(), t: t, path: path, tensors: map[string]torch.Tensor{}}
	for _, info := range r.Tensors() {
		tensor, err := tensorio.Read(r.Reader, info.Name)
		if err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		f.names = append(f.names, info.Name)
		f.tensors[info.Name] = tensor.Keep()
	}
	slices.Sort(f.names)
	return f
}

// Names returns the names of all tensors, sorted.
func (f *File) Names() []string { return f.names }

// Has reports whether the file has a tensor with a name.
func (f *File) Has(name string) bool { _, ok := f.tensors[name]; return ok }

// Tensor returns the tensor with a name, and fails the test if there is none.
func (f *File) Tensor(name string) torch.Tensor {
	f.t.Helper()
	t, ok := f.tensors[name]
	if !ok {
		f.t.Fatalf("%s has no tensor %q; it has %q", f.path, name, f.names)
	}
	return t
}

// Close fails the test if not |got-want| <= atol + rtol*|want| for all elements, or if shapes or
// dtypes differ. NaN equals NaN, and infinities equal only themselves.
func Close(t testing.TB, name string, got, want torch.Tensor, rtol, atol float64) {
	t.Helper()
	if !sameKind(t, name, got, want) {
		return
	}
	if c := goldencount.Of(t); c != nil {
		equal := bytes.Equal(got.Bytes(), want.Bytes())
		c.Compare(equal)
		if !equal {
			c.Explain(testenv.Deviation())
		}
	}
	a, b := numbers(got), numbers(want)
	worst, at, count := 0.0, -1, 0
	for i := range a {
		if a[i] == b[i] || math.IsNaN(a[i]) && math.IsNaN(b[i]) {
			continue
		}
		d := math.Abs(a[i] - b[i])
		if d <= atol+rtol*math.Abs(b[i]) && !math.IsInf(a[i], 0) && !math.IsInf(b[i], 0) {
			continue
		}
		count++
		if at < 0 || d > worst {
			worst, at = d, i
		}
	}
	if count > 0 {
		width := elementWidth(got, len(a))
		t.Errorf("%s: %d of %d elements differ by more than atol %g + rtol %g; the worst: %s is %v, want %v", name,
			count, len(a), atol, rtol,
			index(at/width, want.Shape()), a[at], b[at])
	}
}

// Bits fails the test unless got and want are bitwise equal, with the same shape and dtype. It is
// for values that do not depend on the CPU; [Recorded] compares computed ones.
func Bits(t testing.TB, name string, got, want torch.Tensor) {
	t.Helper()
	if !sameKind(t, name, got, want) {
		return
	}
	equal := bytes.Equal(got.Bytes(), want.Bytes())
	goldencount.Of(t).Compare(equal)
	if !equal {
		bits(t, name, got, want)
	}
}

// bits reports the first element whose bits differ; there must be one.
func bits(t testing.TB, name string, got, want torch.Tensor) {
	t.Helper()
	a, b := got.Bytes(), want.Bytes()
	size := int(want.DType().Size())
	first, count := -1, 0
	for i := 0; i < len(a); i += size {
		if !bytes.Equal(a[i:i+size], b[i:i+size]) {
			if first < 0 {
				first = i / size
			}
			count++
		}
	}
	x, y := numbers(got), numbers(want)
	width := elementWidth(got, len(x))
	t.Errorf("%s: %d of %d elements differ in their bits; the first: %s is %v (%x), want %v (%x)", name, count,
		len(a)/size,
		index(first, want.Shape()), x[first*width], bigEndian(a[first*size:(first+1)*size]), y[first*width],
		bigEndian(b[first*size:(first+1)*size]))
}

// sameKind compares shapes and dtypes.
func sameKind(t testing.TB, name string, got, want torch.Tensor) bool {
	t.Helper()
	if !got.Defined() || !want.Defined() {
		if got.Defined() != want.Defined() {
			t.Errorf("%s: defined is %t, want %t", name, got.Defined(), want.Defined())
		}
		return false
	}
	if got.DType() != want.DType() || !slices.Equal(got.Shape(), want.Shape()) {
		t.Errorf("%s is %s%v, want %s%v", name, got.DType(), got.Shape(), want.DType(), want.Shape())
		return false
	}
	return true
}

// numbers returns the elements of any tensor as float64; a complex element gives two.
func numbers(t torch.Tensor) []float64 {
	t = t.Detach()
	if t.DType().IsComplex() {
		t = torch.Call("aten::view_as_real", t)[0]
	}
	return torch.Values[float64](t.ToDevice(torch.CPU).ToDType(torch.Float64))
}

// elementWidth returns how many numbers represent one element.
func elementWidth(t torch.Tensor, count int) int {
	if n := int(t.Numel()); n > 0 {
		return count / n
	}
	return 1
}

// index formats the index of the element at a row-major position, such as "[1,2]".
func index(flat int, shape []int64) string {
	if len(shape) == 0 {
		return "the element"
	}
	at := make([]int, len(shape))
	for d := len(shape) - 1; d >= 0; d-- {
		at[d] = flat % int(shape[d])
		flat /= int(shape[d])
	}
	return fmt.Sprintf("element %v", at)
}

// bigEndian reverses little-endian bytes, so that they print like the number.
func bigEndian(b []byte) []byte {
	b = slices.Clone(b)
	slices.Reverse(b)
	return b
}
