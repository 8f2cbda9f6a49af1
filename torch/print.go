package torch

import (
	"fmt"
	"math"
	"runtime"
	"strings"
	"unicode/utf8"

	"github.com/gotrainer/gotrainer/cgotorch"
)

// PrintOptions say how [Tensor.Format] writes a tensor: torch.set_printoptions. The zero value is
// PyTorch's default profile.
type PrintOptions struct {
	Precision int // digits after the point; 0 means 4, a negative number none
	// a tensor with more elements is summarised; 0 means 1000, a negative number summarises every
	// tensor
	Threshold int64
	// how many elements a summary shows at the beginning and end of each dimension; 0 means 3, a
	// negative number none
	EdgeItems int
	LineWidth int     // characters in a line; 0 means 80
	Sci       SciMode // scientific notation; the zero value decides by the range of the elements
}

// SciMode says when numbers are written in scientific notation.
type SciMode int

// The modes, as torch.set_printoptions(sci_mode=None, True, False).
const (
	SciAuto SciMode = iota
	SciAlways
	SciNever
)

// zeroMeans resolves a setting: 0 means the default, a negative number means 0.
func zeroMeans[T int | int64](v, def T) T {
	if v == 0 {
		return def
	}
	return max(v, 0)
}

// String returns exactly the text that Python prints for t:
//
//	tensor([[1., 2.],
//	        [3., 4.]], grad_fn=<MulBackward0>)
//
// It waits for the device. The undefined tensor prints as None and a freed one as "tensor(freed)".
// Tensors that are not strided print only their shape and dtype.
func (t Tensor) String() string { return t.Format(PrintOptions{}) }

// Format is [Tensor.String] with options.
func (t Tensor) Format(o PrintOptions) string {
	if t.h == nil {
		return "None"
	}
	if t.h.c == nil {
		return "tensor(freed)"
	}
	o.Precision = zeroMeans(o.Precision, 4)
	o.Threshold = zeroMeans(o.Threshold, 1000)
	o.EdgeItems = zeroMeans(o.EdgeItems, 3)
	o.LineWidth = zeroMeans(o.LineWidth, 80)
	var text string
	Scope(func() { NoGrad(func() { text = o.body(t) }) })
	return o.addSuffixes("tensor("+text, t.suffixes(o), len("tensor("))
}

// suffixes returns what is printed after the elements: size, device, dtype and autograd
// information.
func (t Tensor) suffixes(o PrintOptions) []string {
	info := t.info("String")
	var list []string
	if d := deviceOf(info.Device); d != CPU {
		list = append(list, "device='"+d.String()+"'")
	}
	dtype := dtypeOf(info.DType)
	isDefault := dtype == Float32
	if info.Numel == 0 {
		if len(info.Sizes) != 1 {
			list = append(list, "size="+tuple(info.Sizes))
		}
	} else {
		if o.EdgeItems == 0 {
			list = append(list, "size="+tuple(info.Sizes))
		}
		isDefault = isDefault || dtype == Complex64 || dtype == Int64 || dtype == Bool
	}
	if !isDefault {
		list = append(list, "dtype=torch."+dtype.String())
	}
	if info.Strides == nil {
		list = append(list, "layout=not strided")
	}
	name, code := cgotorch.GradName(t.ptr("String"))
	if code < 0 {
		fail("String", code, t)
	}
	runtime.KeepAlive(t.h)
	switch {
	case name != "":
		list = append(list, "grad_fn=<"+name+">")
	case info.RequiresGrad:
		list = append(list, "requires_grad=True")
	}
	return list
}

// tuple formats a shape as Python does: "(2, 3)", "(2,)", "()".
func tuple(sizes []int64) string {
	s := strings.ReplaceAll(strings.Trim(fmt.Sprint(sizes), "[]"), " ", ", ")
	if len(sizes) == 1 {
		s += ","
	}
	return "(" + s + ")"
}

func (o PrintOptions) addSuffixes(text string, suffixes []string, indent int) string {
	var b strings.Builder
	b.WriteString(text)
	last := len(text) - strings.LastIndexByte(text, '\n') + 1
	for _, s := range suffixes {
		if last+len(s)+2 > o.LineWidth {
			b.WriteString(",\n" + strings.Repeat(" ", indent) + s)
			last = indent + len(s)
		} else {
			b.WriteString(", " + s)
			last += len(s) + 2
		}
	}
	return b.String() + ")"
}

// body formats the elements as nested lists.
func (o PrintOptions) body(t Tensor) string {
	info := t.info("String")
	if info.Strides == nil {
		return "..."
	}
	if info.Numel == 0 {
		return "[]"
	}
	p := &printer{PrintOptions: o, sizes: info.Sizes, summarize: info.Numel > o.Threshold}
	if p.summarize && o.EdgeItems == 0 && len(info.Sizes) > 0 {
		return "[...]"
	}
	if p.summarize {
		t = p.edges(t)
	}
	shown := t.Detach()
	p.shown = shown.Shape()
	switch dtype := shown.DType(); {
	case dtype.IsComplex():
		parts := Values[float64](Call("aten::view_as_real", Call("aten::resolve_conj",
			shown)[0].ToDType(Complex128))[0])
		re, im := make([]float64, len(parts)/2), make([]float64, len(parts)/2)
		for i := range re {
			re[i], im[i] = parts[2*i], parts[2*i+1]
		}
		p.re, p.im = newFloatFormat(o, re), newFloatFormat(o, im)
		p.element = func(i int) string { return complexText(p.re.format(re[i]), p.im.format(im[i])) }
	case dtype == Bool || !isFloat(dtype):
		values := integers(shown)
		texts := make([]string, len(values))
		for i, v := range values {
			if texts[i] = fmt.Sprint(v); dtype == Bool {
				texts[i] = [...]string{"False", "True"}[v]
			} else if dtype == uint64DType {
				texts[i] = fmt.Sprint(uint64(v))
			}
			p.re.width = max(p.re.width, len(texts[i]))
		}
		p.element = func(i int) string { return pad(texts[i], p.re.width) }
	default:
		values := Values[float64](shown.ToDType(Float64))
		p.re = newFloatFormat(o, values)
		p.element = func(i int) string { return p.re.format(values[i]) }
	}
	if len(p.sizes) == 0 {
		return p.element(0)
	}
	return p.list(0, 0, len("tensor("))
}

// The element types of libtorch that have no Go constant but can be printed.
const (
	float8First DType = 24
	float8Last  DType = 27
	uint64DType DType = 30
	float8E8M0  DType = 45
)

func isFloat(d DType) bool {
	return d.IsFloatingPoint() || d >= float8First && d <= float8Last || d == float8E8M0
}

// integers reads a tensor of any integer type or of bool.
func integers(t Tensor) []int64 {
	if t.DType() == uint64DType { // a view keeps all bits
		return Values[int64](Call("aten::view.dtype", t.Contiguous(), Int64)[0])
	}
	return Values[int64](t.ToDType(Int64))
}

// printer formats the elements that are shown, in row-major order.
type printer struct {
	PrintOptions
	summarize    bool
	sizes, shown []int64
	re, im       floatFormat // im for complex tensors
	element      func(i int) string
}

// edges returns the part of t that a summary shows.
func (p *printer) edges(t Tensor) Tensor {
	for dim, size := range p.sizes {
		if n := int64(p.EdgeItems); size > 2*n {
			t = Cat([]Tensor{t.Narrow(int64(dim), 0, n), t.Narrow(int64(dim), size-n, n)}, int64(dim))
		}
	}
	return t
}

// cut reports whether dimension dim is abbreviated with "..." in the middle.
func (p *printer) cut(dim int) bool { return p.summarize && p.sizes[dim] > 2*int64(p.EdgeItems) }

// list formats dimension dim, starting with the element at offset.
func (p *printer) list(dim, offset, indent int) string {
	if dim == len(p.sizes)-1 {
		return p.row(dim, offset, indent)
	}
	stride := 1
	for _, n := range p.shown[dim+1:] {
		stride *= int(n)
	}
	var items []string
	for i := range int(p.shown[dim]) {
		if p.cut(dim) && i == p.EdgeItems {
			items = append(items, "...")
		}
		items = append(items, p.list(dim+1, offset+i*stride, indent+1))
	}
	return "[" + strings.Join(items, ","+strings.Repeat("\n", len(p.sizes)-dim-1)+strings.Repeat(" ", indent+1)) + "]"
}

// row formats the innermost dimension, broken into lines.
func (p *printer) row(dim, offset, indent int) string {
	var items []string
	for i := range int(p.shown[dim]) {
		if p.cut(dim) && i == p.EdgeItems {
			items = append(items, " ...")
		}
		items = append(items, p.element(offset+i))
	}
	width := max(p.re.width, 1) + 2
	if p.im.width > 0 {
		width += p.im.width + 1
	}
	perLine := max(1, (p.LineWidth-indent)/width)
	var lines []string
	for start := 0; start < len(items); start += perLine {
		lines = append(lines, strings.Join(items[start:min(start+perLine, len(items))], ", "))
	}
	return "[" + strings.Join(lines, ",\n"+strings.Repeat(" ", indent+1)) + "]"
}

// floatFormat is the format shared by all numbers of one tensor: PyTorch's _Formatter.
type floatFormat struct {
	precision, width     int
	integers, scientific bool
}

func newFloatFormat(o PrintOptions, values []float64) floatFormat {
	f := floatFormat{precision: o.Precision, width: 1, integers: true}
	least, most := math.Inf(1), 0.0
	var finite []float64
	for _, v := range values {
		if v == 0 || math.IsNaN(v) || math.IsInf(v, 0) {
			continue
		}
		finite = append(finite, v)
		least, most = min(least, math.Abs(v)), max(most, math.Abs(v))
		f.integers = f.integers && v == math.Ceil(v)
	}
	if finite == nil {
		return f
	}
	switch o.Sci {
	case SciAuto:
		f.scientific = most/least > 1000 || most > 1e8 || least < 1e-4
	case SciAlways:
		f.scientific = true
	}
	for _, v := range finite {
		f.width = max(f.width, len(f.number(v)))
	}
	return f
}

// number formats v without padding; nan and the infinities look as in Python.
func (f floatFormat) number(v float64) string {
	switch {
	case math.IsNaN(v):
		return "nan"
	case math.IsInf(v, 1):
		return "inf"
	case math.IsInf(v, -1):
		return "-inf"
	case f.scientific:
		return fmt.Sprintf("%.*e", f.precision, v)
	case f.integers:
		return fmt.Sprintf("%.0f.", v)
	}
	return fmt.Sprintf("%.*f", f.precision, v)
}

func (f floatFormat) format(v float64) string { return pad(f.number(v), f.width) }

func pad(s string, width int) string {
	return strings.Repeat(" ", max(0, width-utf8.RuneCountInString(s))) + s
}

// complexText joins the real and the imaginary part; any padding of the imaginary part is dropped,
// so that its sign directly follows the real part.
func complexText(re, im string) string {
	im = strings.TrimLeft(im+"j", " ")
	if im[0] != '-' {
		re += "+"
	}
	return re + im
}
