// Package gradcheck compares gradients from autograd with finite differences, as
// torch.autograd.gradcheck does in its fast mode: for one random combination of the outputs, at
// some elements of every input.
//
//	x := torch.TensorOptions{DType: torch.Float64}.Randn(3, 4).RequiresGrad()
//	f := func() []torch.Tensor { return []torch.Tensor{layer.Forward(x)} }
//	err := gradcheck.Check(f, []torch.Named{{Name: "x", Tensor: x}}, gradcheck.Options{})
package gradcheck

import (
	"cmp"
	"errors"
	"fmt"
	"math"

	"github.com/gotrainer/gotrainer/torch"
)

// Options configures [Check]. The zero value means the defaults.
type Options struct {
	Eps      float64 // how far an element is moved in both directions; zero means 1e-6
	RTol     float64 // zero means 1e-5
	ATol     float64 // zero means 1e-6
	Elements int64   // number of elements tested per input, spread evenly; zero means 8
	// Of the default generator before each call of f, so that dropout drops the same elements; also
	// of the combination.
	Seed uint64
}

// Check calls f, backpropagates, and compares the gradients of inputs, which must be contiguous
// float64 leaves that f reads. The error names the input and element that differ. Inputs that f
// does not depend on must have no gradient, or zeros. The gradients are left on the inputs.
func Check(f func() []torch.Tensor, inputs []torch.Named, o Options) error {
	o.Eps, o.RTol, o.ATol = cmp.Or(o.Eps, 1e-6), cmp.Or(o.RTol, 1e-5), cmp.Or(o.ATol, 1e-6)
	o.Elements = cmp.Or(o.Elements, 8)
	for _, in := range inputs {
		if t := in.Tensor; t.DType() != torch.Float64 || !t.IsLeaf() || !t.NeedsGrad() || !t.IsContiguous() {
			return fmt.Errorf("gradcheck: %s is %s; want a contiguous float64 leaf that requires gradients", in.Name,
				t.DType())
		}
		in.Tensor.SetGrad(torch.Tensor{})
	}
	var failed error
	err := torch.Try(func() {
		torch.Scope(func() { failed = check(f, inputs, o) })
	})
	return errors.Join(err, failed)
}

// check is Check inside a scope.
func check(f func() []torch.Tensor, inputs []torch.Named, o Options) error {
	torch.ManualSeed(o.Seed)
	draw := torch.TensorOptions{DType: torch.Float64, Generator: torch.NewGenerator(o.Seed)}
	var roots, gradients []torch.Tensor
	weights := map[int]torch.Tensor{} // of the outputs in the combination
	for i, y := range f() {
		if y.Defined() && y.NeedsGrad() {
			weights[i] = draw.Randn(y.Shape()...)
			roots, gradients = append(roots, y), append(gradients, weights[i])
		}
	}
	if len(roots) == 0 {
		return errors.New("gradcheck: no output depends on anything that requires gradients")
	}
	torch.Backward(torch.BackwardOptions{Gradients: gradients}, roots...)
	value := func() (sum float64) {
		torch.NoGrad(func() {
			torch.Scope(func() {
				torch.ManualSeed(o.Seed)
				for i, y := range f() {
					if w, ok := weights[i]; ok {
						sum += y.Mul(w).Sum(torch.DefaultDType).Item()
					}
				}
			})
		})
		return sum
	}
	for _, in := range inputs {
		if err := compare(in, value, o); err != nil {
			return err
		}
	}
	return nil
}

// compare checks the gradient of one input.
func compare(in torch.Named, value func() float64, o Options) error {
	n := in.Tensor.Numel()
	analytic := make([]float64, n)
	if g := in.Tensor.Grad(); g.Defined() {
		analytic = torch.Values[float64](g.Contiguous())
	}
	flat := in.Tensor.Detach().View(-1) // shares the memory, without history
	for k := range min(n, o.Elements) {
		i := k * n / min(n, o.Elements)
		element := flat.Narrow(0, i, 1)
		was := element.Item()
		element.Fill_(was + o.Eps)
		above := value()
		element.Fill_(was - o.Eps)
		below := value()
		element.Fill_(was)
		numeric := (above - below) / (2 * o.Eps)
		if d := math.Abs(numeric - analytic[i]); !(d <= o.ATol+o.RTol*math.Abs(numeric)) {
			return fmt.Errorf("gradcheck: element %d of %d of %s: the gradient is %g, but finite differences give %g",
				i, n, in.Name, analytic[i], numeric)
		}
	}
	return nil
}
