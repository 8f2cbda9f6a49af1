package optim

import (
	"github.com/gotrainer/gotrainer/torch"
)

// LowRank says how GaLore and APOLLO project gradients: see [GaLoreAdamW] and [APOLLOAdamW].
type LowRank struct {
	Rank       int64      // rank of the projected gradient, at most the smaller dimension; zero means 128
	UpdateGap  int        // updates between projection matrices, update_proj_gap; zero means 200
	Scale      float64    // factor of the update after it is projected back; zero means 0.25, for APOLLO 1
	Projection Projection // which sides are projected

	anyRank bool // allow a rank larger than the matrix, for the random matrices of APOLLOAdamW
}

// Projection is the side of a gradient matrix that is projected: proj_type.
type Projection string

const (
	ProjectStd        Projection = ""            // the shorter side is kept: std
	ProjectReverseStd Projection = "reverse_std" // the longer side is kept
	ProjectRight      Projection = "right"       // columns are projected
	ProjectLeft       Projection = "left"        // rows are projected
	ProjectFull       Projection = "full"        // both
)

// withDefaults fills in the defaults and checks the settings.
func (l LowRank) withDefaults(optimizer string) (*LowRank, error) {
	if l.Rank == 0 {
		l.Rank = 128
	}
	if l.UpdateGap == 0 {
		l.UpdateGap = 200
	}
	if l.Scale == 0 {
		l.Scale = 0.25
	}
	if l.Projection == "std" {
		l.Projection = ProjectStd
	}
	switch l.Projection {
	case ProjectStd, ProjectReverseStd, ProjectRight, ProjectLeft, ProjectFull:
	default:
		return nil, errorf(ErrOption, "%s.Projection is %q; want std, reverse_std, right, left or full", optimizer,
			l.Projection)
	}
	if l.Rank < 0 || l.UpdateGap < 0 {
		return nil, errorf(ErrOption, "%s has Rank %d and UpdateGap %d; want positive numbers", optimizer, l.Rank,
			l.UpdateGap)
	}
	return &l, checkSettings(optimizer, setting{name: "Scale", value: l.Scale})
}

// options returns the options that a low-rank group has in Python.
func (l *LowRank) options() map[string]any {
	kind := l.Projection
	if kind == ProjectStd {
		kind = "std"
	}
	return map[string]any{"rank": l.Rank, "update_proj_gap": l.UpdateGap, "scale": l.Scale, "proj_type": kind}
}

// The projector occupies states 1 to 3: one matrix, or the left and the right one for the full
// projection.
const projector, projectorLeft, projectorRight = 1, 2, 3

// states returns the states of the projector. dtype maps the dtype of a parameter to that in which
// its gradient is projected.
func (l *LowRank) states(dtype func(torch.DType) torch.DType) []state {
	matrix := func(name string, has func(m *member) (shape []int64, ok bool)) state {
		return state{name: name, make: func(m *member, _ float64) torch.Tensor {
			if !m.lowRank {
				return torch.Tensor{}
			}
			shape, ok := has(m)
			if !ok {
				return torch.Tensor{}
			}
			// Column-major, as LAPACK returns singular vectors, because matrix products round
			// differently in another layout.
			return torch.TensorOptions{DType: dtype(m.Tensor.DType()), Device: m.Tensor.Device()}.Zeros(shape[1],
				shape[0]).T()
		}}
	}
	full := l.Projection == ProjectFull
	return []state{
		matrix("projector", func(m *member) ([]int64, bool) {
			s := m.Tensor.Shape()
			if l.right(s) {
				return []int64{l.rank(s), s[1]}, !full
			}
			return []int64{s[0], l.rank(s)}, !full
		}),
		matrix("projector_left", func(m *member) ([]int64, bool) {
			s := m.Tensor.Shape()
			return []int64{s[0], l.rank(s)}, full
		}),
		matrix("projector_right", func(m *member) ([]int64, bool) {
			s := m.Tensor.Shape()
			return []int64{l.rank(s), s[1]}, full
		}),
	}
}

func (l *LowRank) check(g Group, p torch.Named) error {
	if !g.LowRank {
		return nil
	}
	return isMatrix("a low-rank group", p)
}

func (l *LowRank) rank(shape []int64) int64 {
	if l.anyRank {
		return l.Rank
	}
	return min(l.Rank, shape[0], shape[1])
}

// right reports whether columns are projected.
func (l *LowRank) right(shape []int64) bool {
	switch l.Projection {
	case ProjectRight:
		return true
	case ProjectLeft:
		return false
	case ProjectReverseStd:
		return shape[0] < shape[1]
	}
	return shape[0] >= shape[1]
}

// shape returns the shape of the projected gradient.
func (l *LowRank) shape(full []int64) []int64 {
	r := l.rank(full)
	switch {
	case l.Projection == ProjectFull:
		return []int64{r, r}
	case l.right(full):
		return []int64{full[0], r}
	}
	return []int64{r, full[1]}
}

// shapeOf returns the shape of a parameter's moments.
func (l *LowRank) shapeOf(m *member) []int64 {
	if m.lowRank {
		return l.shape(m.Tensor.Shape())
	}
	return m.Tensor.Shape()
}

// project projects a gradient to the lower rank. Every UpdateGap updates, it computes a new
// subspace first.
func (l *LowRank) project(m *member, g torch.Tensor, done float64) torch.Tensor {
	if int(done)%l.UpdateGap == 0 {
		l.renew(m, g)
	}
	switch {
	case l.Projection == ProjectFull:
		return m.states[projectorLeft].T().MatMul(g).MatMul(m.states[projectorRight].T())
	case l.right(g.Shape()):
		return g.MatMul(m.states[projector].T())
	}
	return m.states[projector].T().MatMul(g)
}

// renew sets the projector to the singular vectors of the largest singular values, computed in
// float32.
func (l *LowRank) renew(m *member, g torch.Tensor) {
	r := l.rank(g.Shape())
	svd := torch.Call("aten::linalg_svd", g.ToDType(torch.Float32), false)
	left, right := svd[0].Narrow(1, 0, r), svd[2].Narrow(0, 0, r)
	switch {
	case l.Projection == ProjectFull:
		m.states[projectorLeft].Copy_(left)
		m.states[projectorRight].Copy_(right)
	case l.right(g.Shape()):
		m.states[projector].Copy_(right)
	default:
		m.states[projector].Copy_(left)
	}
}

// projectBack projects an update back to the shape of its parameter and scales it.
func (l *LowRank) projectBack(m *member, update torch.Tensor) torch.Tensor {
	var full torch.Tensor
	switch {
	case l.Projection == ProjectFull:
		full = m.states[projectorLeft].MatMul(update).MatMul(m.states[projectorRight])
	case l.right(m.Tensor.Shape()):
		full = update.MatMul(m.states[projector])
	default:
		full = m.states[projector].MatMul(update)
	}
	return full.MulScalar_(l.Scale)
}
