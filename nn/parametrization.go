package nn

import (
	"cmp"
	"reflect"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/nn/initialize"
	"github.com/gotrainer/gotrainer/torch"
)

// Parametrized is a layer whose weight is recomputed in every Forward: torch.nn.utils.parametrize.
// Names are PyTorch's: the layer's other parameters keep theirs, and those that the weight is
// computed from are in parametrizations.weight.
type Parametrized struct {
	Parametrizations map[string]any `module:"parametrizations"` // of "weight"

	layer   Layer `module:"-"`
	compute func() torch.Tensor

	traced
}

// NewWeightNorm splits a layer's weight into its length along dim and its direction, which are
// trained instead: torch.nn.utils.parametrizations.weight_norm, after Salimans and Kingma (2016),
// whose default dim is 0. A dim of -1 is PyTorch's None, one length for the whole weight. The
// layer must have a parameter "weight", and must not be used directly any more.
func NewWeightNorm(layer Layer, dim int64) *Parametrized {
	const op = "NewWeightNorm"
	weight := weightOf(op, layer)
	if d := int64(weight.Dim()); dim < -1 || dim >= d {
		panic(torch.Errorf("nn."+op, torch.ErrIndex, "dim must be between -1 and %d, found %d", d-1, dim))
	}
	w := &weightNorm{}
	torch.NoGrad(func() {
		length := torch.Call("aten::norm_except_dim", weight, 2, dim)[0]
		w.Length, w.Direction = Parameter(length), Parameter(weight.Clone())
	})
	return &Parametrized{Parametrizations: map[string]any{"weight": w}, layer: layer, compute: func() torch.Tensor {
		return torch.Call("aten::_weight_norm", w.Direction, w.Length, dim)[0]
	}}
}

type weightNorm struct {
	Length    torch.Tensor `param:"original0"`
	Direction torch.Tensor `param:"original1"`
}

// SpectralNormOptions configures [NewSpectralNorm]. Nil and the zero value mean PyTorch's defaults.
type SpectralNormOptions struct {
	PowerIterations int     // per Forward in training; zero means 1
	Eps             float64 // the minimum norm; zero means 1e-12
	Dim             *int64  // the dimension of the outputs; nil means 0, and 1 for transposed convolutions
}

// NewSpectralNorm divides a layer's weight by its largest singular value, which is tracked by
// power iteration while training: torch.nn.utils.parametrizations.spectral_norm, after Miyato et
// al. (2018). The layer must have a parameter "weight", and must not be used directly any more.
func NewSpectralNorm(layer Layer, o *SpectralNormOptions) *Parametrized {
	const op = "NewSpectralNorm"
	weight, opt := weightOf(op, layer), deref(o)
	var dim int64
	switch layer.(type) {
	case *ConvTranspose1d, *ConvTranspose2d, *ConvTranspose3d:
		dim = 1
	}
	dim = optional.Or(opt.Dim, dim)
	d := int64(weight.Dim())
	if dim < -d || dim >= d {
		panic(torch.Errorf("nn."+op, torch.ErrIndex, "Dim must be between %d and %d, found %d", -d, d-1, dim))
	}
	if opt.PowerIterations < 0 {
		panic(torch.Errorf("nn."+op, torch.ErrValue, "PowerIterations must be positive, found %d", opt.PowerIterations))
	}
	n := &spectralNorm{dim: (dim + d) % d, iterations: cmp.Or(opt.PowerIterations, 1), eps: cmp.Or(opt.Eps, 1e-12)}
	if d > 1 {
		torch.NoGrad(func() {
			torch.Scope(func() {
				matrix := n.matrix(weight)
				like := torch.TensorOptions{DType: weight.DType(), Device: weight.Device()}
				u, v := initialize.Normal(like.Empty(matrix.Size(0)), 0, 1, nil),
					initialize.Normal(like.Empty(matrix.Size(1)), 0, 1, nil)
				n.U, n.V = Buffer(functional.Normalize(u, 2, 0, n.eps)), Buffer(functional.Normalize(v, 2, 0, n.eps))
				n.iterate(matrix, 15)
				// PyTorch computes the weight once when it registers the parametrization.
				n.iterate(matrix, n.iterations)
			})
		})
	}
	list := &spectralNormList{copied(weight), n}
	return &Parametrized{Parametrizations: map[string]any{"weight": list}, layer: layer, compute: func() torch.Tensor {
		return n.apply(list.Original)
	}}
}

// spectralNormList gives the tensors the names that they have in PyTorch's list of
// parametrizations.
type spectralNormList struct {
	Original torch.Tensor  `param:"original"`
	Norm     *spectralNorm `module:"0"`
}

type spectralNorm struct {
	Mode

	U torch.Tensor `buffer:"_u"` // the singular vectors of the largest singular value
	V torch.Tensor `buffer:"_v"`

	dim        int64
	iterations int
	eps        float64
}

// matrix returns the weight as a matrix whose rows are the outputs.
func (n *spectralNorm) matrix(weight torch.Tensor) torch.Tensor {
	if n.dim != 0 {
		order := []int64{n.dim}
		for d := range int64(weight.Dim()) {
			if d != n.dim {
				order = append(order, d)
			}
		}
		weight = weight.Permute(order...)
	}
	return weight.Flatten(1, -1)
}

func (n *spectralNorm) iterate(matrix torch.Tensor, times int) {
	torch.NoGrad(func() {
		for range times {
			n.U.Copy_(functional.Normalize(matrix.MV(n.V), 2, 0, n.eps))
			n.V.Copy_(functional.Normalize(matrix.T().MV(n.U), 2, 0, n.eps))
		}
	})
}

func (n *spectralNorm) apply(weight torch.Tensor) torch.Tensor {
	if weight.Dim() == 1 {
		return functional.Normalize(weight, 2, 0, n.eps)
	}
	matrix := n.matrix(weight)
	if n.Training() {
		n.iterate(matrix, n.iterations)
	}
	u, v := n.U.Clone(), n.V.Clone() // the next iteration changes U and V before backward reads them
	return weight.Div(torch.Call("aten::vdot", u, matrix.MV(v))[0])
}

// Forward computes the weight and runs the layer with it.
func (p *Parametrized) Forward(x torch.Tensor) torch.Tensor {
	return p.trace(x, torch.Return(func() torch.Tensor { return withWeight(p.layer, p.compute()).Forward(x) }))
}

// OwnParams lists the layer's other parameters.
func (p *Parametrized) OwnParams() []torch.Named {
	var list []torch.Named
	n, _ := resolve("", reflect.ValueOf(p.layer))
	for _, t := range n.params() {
		if t.Name != "weight" {
			list = append(list, t)
		}
	}
	return list
}

// weightOf returns the weight of a layer that can be parametrized. It must be a struct that has
// only parameters: no buffers, modules or mode.
func weightOf(op string, layer Layer) torch.Tensor {
	n, ok := resolve("", reflect.ValueOf(layer))
	if !ok {
		panic(torch.Errorf("nn."+op, torch.ErrUndefined, "the layer is nil"))
	}
	if _, mode := layer.(interface{ SetTraining(bool) }); mode || n.value.Kind() != reflect.Struct ||
		len(n.buffers()) > 0 || len(n.children()) > 0 {
		panic(torch.Errorf("nn."+op, torch.ErrType, "want a layer with parameters only, such as a Linear or a "+
			"convolution, "+
			"found %s", typeName(layer)))
	}
	for _, f := range layoutOf(n.value.Type()).params {
		if t := n.value.FieldByIndex(f.index).Interface().(torch.Tensor); f.name == "weight" && t.Defined() {
			return t
		}
	}
	panic(torch.Errorf("nn."+op, torch.ErrType, "%s has no parameter \"weight\"", typeName(layer)))
}

// withWeight returns a copy of the layer with another weight, so that several goroutines can run
// the layer at the same time.
func withWeight(layer Layer, weight torch.Tensor) Layer {
	c := reflect.New(reflect.TypeOf(layer).Elem())
	c.Elem().Set(reflect.ValueOf(layer).Elem())
	for _, f := range layoutOf(c.Elem().Type()).params {
		if f.name == "weight" {
			c.Elem().FieldByIndex(f.index).Set(reflect.ValueOf(weight))
		}
	}
	return c.Interface().(Layer)
}
