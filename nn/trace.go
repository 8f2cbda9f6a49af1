package nn

import (
	"cmp"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/gotrainer/gotrainer/torch"
)

// LayerShape describes a call of a layer in a dry run: see [Shapes].
type LayerShape struct {
	Named

	In  []int64 // the shape of its first input
	Out []int64 // the shape of its first output
}

// traced is embedded in every layer that has parameters. It lets [Shapes] and [FirstNonFinite]
// observe its calls.
type traced struct{ calls func(in, out torch.Tensor) }

// trace reports a call to the observer, if there is one, and returns out.
func (t *traced) trace(in, out torch.Tensor) torch.Tensor {
	if t.calls != nil {
		t.calls(in, out)
	}
	return out
}

func (t *traced) setCalls(f func(in, out torch.Tensor)) { t.calls = f }

// Shapes calls forward, which runs m on an input, and returns the shapes of inputs and outputs of
// the layers with parameters, in the order of the calls. It is a dry run, in evaluation mode and
// without gradients; the modes are restored afterwards. Nothing else may run m at the same time.
// Panics in forward are returned as errors.
//
//	shapes, err := nn.Shapes(net, func() { net.Forward(torch.Zeros(1, 3, 224, 224)) })
func Shapes(m any, forward func()) (shapes []LayerShape, err error) {
	defer observe(Modules(m), func(n Named, in, out torch.Tensor) {
		shapes = append(shapes, LayerShape{n, in.Shape(), out.Shape()})
	})()
	err = torch.Try(func() { Evaluating(m, func() { torch.NoGrad(func() { torch.Scope(forward) }) }) })
	return shapes, err
}

// observe calls f for every call of the layers with parameters, until the returned function is
// called.
func observe(modules []Named, f func(n Named, in, out torch.Tensor)) (end func()) {
	type observable interface {
		setCalls(f func(in, out torch.Tensor))
	}
	var all []observable
	for _, n := range modules {
		if t, ok := n.Module.(observable); ok {
			t.setCalls(func(in, out torch.Tensor) { f(n, in, out) })
			all = append(all, t)
		}
	}
	return func() {
		for _, t := range all {
			t.setCalls(nil)
		}
	}
}

// NonFinite is a layer whose output contains a nan or an infinity.
type NonFinite struct {
	Named

	Input bool // its input already contained one
}

// FirstNonFinite calls forward, which runs m on an input, and returns the first layer with
// parameters whose output is not finite, or nil if there is none. It does not change the modes of
// m or of the thread. Nothing else may run m at the same time.
func FirstNonFinite(m any, forward func()) (first *NonFinite) {
	finite := func(t torch.Tensor) bool {
		return !t.Defined() || !t.DType().IsFloatingPoint() || t.Detach().IsFinite().All().Item() != 0
	}
	defer observe(Modules(m), func(n Named, in, out torch.Tensor) {
		if first == nil && !finite(out) {
			first = &NonFinite{n, !finite(in)}
		}
	})()
	forward()
	return first
}

// SummaryRun is like [Summary], by layers instead of tensors: a table of the layers in the order
// in which forward calls them, with the shapes of inputs and outputs, numbers of parameters and
// megabytes, and the totals. Layers with parameters that forward does not reach are listed at the
// end, without shapes. A layer that is called more than once shows its parameters once. See
// [Shapes] for what forward does.
func SummaryRun(m any, forward func()) (string, error) {
	shapes, err := Shapes(m, forward)
	if err != nil {
		return "", err
	}
	var s strings.Builder
	w := tabwriter.NewWriter(&s, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "name\tmodule\tin\tout\tparameters\tMB")
	own := map[string]node{}
	each(m, func(n node) { own[n.name] = n })
	counted := map[torch.Tensor]bool{}
	var trained, total, bytes int64
	count := func(name string) (parameters, size int64) {
		for _, p := range own[name].params() {
			if counted[p.Tensor] {
				continue
			}
			counted[p.Tensor] = true
			n := p.Tensor.Numel()
			parameters += n
			size += n * p.Tensor.DType().Size()
			if p.Tensor.NeedsGrad() {
				trained += n
			}
		}
		total += parameters
		bytes += size
		return parameters, size
	}
	for _, c := range shapes {
		parameters, size := count(c.Name)
		fmt.Fprintf(w, "%s\t%s\t%v\t%v\t%d\t%s\n", cmp.Or(c.Name, "."), typeName(c.Module), c.In, c.Out, parameters,
			megabytes(size))
	}
	each(m, func(n node) {
		if parameters, size := count(n.name); parameters > 0 {
			fmt.Fprintf(w, "%s\t%s\t\t\t%d\t%s\n", cmp.Or(n.name, "."), typeName(n.module), parameters, megabytes(size))
		}
	})
	w.Flush() //nolint:errcheck // a strings.Builder does not fail
	fmt.Fprintf(&s, "%d parameters, %d of them trained; %s MB\n", total, trained, megabytes(bytes))
	return s.String(), nil
}
