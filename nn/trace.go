package nn

import (
	"cmp"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/gotrainer/gotrainer/torch"
)

// LayerShape is a call of a layer in a dry run: see [Shapes].
type LayerShape struct {
	Named

	In  []int64 // the shape of its first input
	Out []int64 // the shape of its first output
}

// traced is in every layer with parameters; it lets [Shapes] see its calls.
type traced struct{ calls func(in, out []int64) }

// trace reports a call, if somebody asked, and returns out.
func (t *traced) trace(in, out torch.Tensor) torch.Tensor {
	if t.calls != nil {
		t.calls(in.Shape(), out.Shape())
	}
	return out
}

func (t *traced) setCalls(f func(in, out []int64)) { t.calls = f }

// Shapes calls forward, which runs m on an input, and returns the shapes that went through the
// layers with parameters, in the order of the calls. It is a dry run: in evaluation mode, without
// gradients, and the modes are restored. Nothing else may run m at the same time. Mistakes in
// forward are returned as errors.
//
//	shapes, err := nn.Shapes(net, func() { net.Forward(torch.Zeros(1, 3, 224, 224)) })
func Shapes(m any, forward func()) (shapes []LayerShape, err error) {
	modules := Modules(m)
	for _, n := range modules {
		if s, ok := n.Module.(interface {
			Training() bool
			SetTraining(bool)
		}); ok {
			defer s.SetTraining(s.Training())
			s.SetTraining(false)
		}
		if t, ok := n.Module.(interface{ setCalls(func(in, out []int64)) }); ok {
			t.setCalls(func(in, out []int64) { shapes = append(shapes, LayerShape{n, in, out}) })
			defer t.setCalls(nil)
		}
	}
	err = torch.Try(func() { torch.NoGrad(func() { torch.Scope(forward) }) })
	return shapes, err
}

// SummaryRun is [Summary] by layers instead of tensors: a table of the layers in the order in which
// forward calls them, with the shapes of inputs and outputs, numbers of parameters and megabytes,
// and the totals. Layers with parameters that forward does not reach stand at the end, without
// shapes; a layer that is called again shows its parameters once. See [Shapes] for what forward
// does.
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
