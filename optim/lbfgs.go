package optim

import (
	"errors"
	"math"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/torch"
)

// LBFGS is the limited-memory method of Broyden, Fletcher, Goldfarb and Shanno: torch.optim.LBFGS.
// It evaluates the loss several times in one update, so its Step takes a closure. It is therefore
// not a [Builder], and a trainer, which computes one gradient per update, cannot use it. It is for
// small problems with all the data in one batch. Every iteration reads numbers and so waits for a
// GPU.
//
// Source: Nocedal and Wright, Numerical Optimization, chapter 7. As in PyTorch, the line search is
// that of Mark Schmidt's minFunc.
type LBFGS struct {
	LR              float64  // length of a step along the direction; zero means 1
	MaxIter         int      // iterations in one Step; zero means 20
	MaxEval         int      // evaluations of the closure in one Step; zero means MaxIter*5/4
	ToleranceGrad   *float64 // stop if no element of the gradients is larger; nil means 1e-7
	ToleranceChange *float64 // stop if the change of loss or weights is no larger; nil means 1e-9
	HistorySize     int      // number of updates that the direction is computed from; zero means 100
	// search along the direction until the strong Wolfe conditions hold:
	// line_search_fn="strong_wolfe"
	StrongWolfe bool
}

// ClosureOptimizer is an optimizer that evaluates the loss itself. It is not safe for use by
// several goroutines at once.
type ClosureOptimizer interface {
	// Step makes one update. closure must remove the gradients, compute the loss, run the backward
	// pass and return the loss. It is called at least once, each time in its own scope with
	// gradients enabled. Step returns the loss before the update.
	Step(closure func() float64) float64
	// ZeroGrad removes the gradients of all parameters.
	ZeroGrad()
	// Updates returns the number of iterations made so far, and Evaluations the number of calls of
	// closures.
	Updates() int
	Evaluations() int
	// Params returns the parameters in order. The slice must not be changed.
	Params() []torch.Named
	// State returns copies of the state, for LoadState. Flat tensors span all parameters in order;
	// old_dirs and old_stps have one row for each remembered update.
	State() []torch.Named
	// LoadState restores what State returned. State that does not match is refused with
	// [ErrState], and then nothing has changed.
	LoadState(state []torch.Named) error
}

// lbfgs follows torch/optim/lbfgs.py line by line. A scalar here is a tensor without dimensions or
// a Python number there.
type lbfgs struct {
	LBFGS
	toleranceGrad, toleranceChange float64
	params                         []torch.Named
	list                           *torch.List
	kind                           scalarKind // kind of a sum over the parameters

	iterations, evaluations int
	direction               torch.Tensor
	step                    scalar
	dirs, steps             []torch.Tensor // differences of gradients and of weights
	ro                      []scalar
	diagonal                scalar
	formerGrad              torch.Tensor
	formerLoss              float64
}

// NewLBFGS makes the optimizer. It panics with [*torch.Error] where [LBFGS.Build] would fail.
func NewLBFGS(params []torch.Named, o LBFGS) ClosureOptimizer {
	opt, err := o.Build(params)
	if err != nil {
		code := torch.ErrInvalid
		if errors.Is(err, ErrOption) {
			code = torch.ErrValue
		}
		panic(&torch.Error{Op: "optim.NewLBFGS", Code: code, Msg: err.Error()})
	}
	return opt
}

// Build makes the optimizer. All parameters must be float32, or all float64, and on one device.
func (o LBFGS) Build(params []torch.Named) (ClosureOptimizer, error) {
	if o.LR == 0 {
		o.LR = 1
	}
	if o.MaxIter == 0 {
		o.MaxIter = 20
	}
	if o.MaxEval == 0 {
		o.MaxEval = o.MaxIter * 5 / 4
	}
	if o.HistorySize == 0 {
		o.HistorySize = 100
	}
	l := &lbfgs{LBFGS: o, toleranceGrad: optional.Or(o.ToleranceGrad, 1e-7),
		toleranceChange: optional.Or(o.ToleranceChange, 1e-9),
		params:          params}
	err := checkSettings("LBFGS", setting{name: "LR", value: o.LR}, setting{name: "ToleranceGrad",
		value: l.toleranceGrad},
		setting{name: "ToleranceChange", value: l.toleranceChange})
	if err != nil {
		return nil, err
	}
	if o.MaxIter < 0 || o.MaxEval < 0 || o.HistorySize < 0 {
		return nil, errorf(ErrOption, "LBFGS has MaxIter %d, MaxEval %d and HistorySize %d; want positive numbers",
			o.MaxIter, o.MaxEval, o.HistorySize)
	}
	// Names and tensors are checked as in every other optimizer.
	checked, err := SGD{}.Build([]Group{{Params: params}})
	if err != nil {
		return nil, err
	}
	l.list = checked.(*optimizer).all
	dtype, device := params[0].Tensor.DType(), params[0].Tensor.Device()
	if dtype != torch.Float32 && dtype != torch.Float64 {
		return nil, errorf(ErrParam, "parameter %q has dtype %s; LBFGS wants float32 or float64", params[0].Name,
			dtype)
	}
	for _, p := range params {
		if p.Tensor.DType() != dtype || p.Tensor.Device() != device {
			return nil, errorf(ErrParam, "parameter %q is %s on %s and %q is %s on %s; LBFGS wants all of one "+
				"dtype on one device", params[0].Name, dtype, device,
				p.Name, p.Tensor.DType(), p.Tensor.Device())
		}
	}
	l.kind = kindOf(dtype)
	return l, nil
}

func (l *lbfgs) ZeroGrad()             { l.list.ZeroGrad(false) }
func (l *lbfgs) Updates() int          { return l.iterations }
func (l *lbfgs) Evaluations() int      { return l.evaluations }
func (l *lbfgs) Params() []torch.Named { return l.params }

func (l *lbfgs) Step(closure func() float64) (loss float64) {
	torch.Scope(func() {
		defer l.keep()
		torch.NoGrad(func() { loss = l.update(closure) })
	})
	return loss
}

// keep makes the tensors of the state outlive the scope of a step.
func (l *lbfgs) keep() {
	for _, t := range append(append([]torch.Tensor{l.direction, l.formerGrad}, l.dirs...), l.steps...) {
		if t.Defined() {
			t.Keep()
		}
	}
}

func (l *lbfgs) update(closure func() float64) float64 {
	before := l.evaluate(closure)
	loss, evaluations := before, 1
	gradient := l.gradient()
	if l.flat(gradient) {
		return before
	}
	for n := 1; n <= l.MaxIter; n++ {
		l.iterations++
		if l.iterations == 1 {
			l.direction, l.diagonal = gradient.Neg(), num(1)
		} else {
			l.remember(gradient)
			former := l.direction
			l.direction = l.newDirection(gradient)
			former.Free()
		}
		if l.formerGrad.Defined() {
			l.formerGrad.Copy_(gradient)
		} else {
			l.formerGrad = gradient.Clone()
		}
		lossBefore := loss
		l.formerLoss = loss
		l.step = num(l.LR)
		if l.iterations == 1 {
			l.step = least(num(1), num(1).over(l.item(gradient.Abs().Sum(torch.DefaultDType)))).times(num(l.LR))
		}
		slope := l.item(gradient.Dot(l.direction))
		if slope.above(num(-l.toleranceChange)) {
			break
		}
		calls := 0
		optimal := false
		if l.StrongWolfe {
			loss, gradient, calls = l.lineSearch(closure, loss, gradient, slope, l.MaxEval-evaluations)
			l.move(l.step)
			optimal = l.flat(gradient)
		} else {
			l.move(l.step)
			if n != l.MaxIter {
				loss, calls = l.evaluate(closure), 1
				gradient = l.gradient()
				optimal = l.flat(gradient)
			}
		}
		evaluations += calls
		if n == l.MaxIter || evaluations >= l.MaxEval || optimal {
			break
		}
		if l.item(l.direction.MulScalar(l.step.v).Abs().Max()).atMost(num(l.toleranceChange)) {
			break
		}
		if math.Abs(loss-lossBefore) < l.toleranceChange {
			break
		}
	}
	return before
}

// remember adds the last step to the history if the curvature along it is positive.
func (l *lbfgs) remember(gradient torch.Tensor) {
	y, s := gradient.Sub(l.formerGrad), l.direction.MulScalar(l.step.v)
	curvature := l.item(y.Dot(s))
	if !curvature.above(num(1e-10)) {
		return
	}
	if len(l.dirs) == l.HistorySize {
		l.dirs[0].Free()
		l.steps[0].Free()
		l.dirs, l.steps, l.ro = l.dirs[1:], l.steps[1:], l.ro[1:]
	}
	l.dirs, l.steps = append(l.dirs, y), append(l.steps, s)
	l.ro = append(l.ro, num(1).over(curvature))
	l.diagonal = curvature.over(l.item(y.Dot(y)))
}

// newDirection multiplies the negative gradient by the approximate inverse Hessian, using the
// two-loop recursion of L-BFGS.
func (l *lbfgs) newDirection(gradient torch.Tensor) torch.Tensor {
	q := gradient.Neg()
	al := make([]scalar, len(l.dirs))
	for i := len(l.dirs) - 1; i >= 0; i-- {
		al[i] = l.item(l.steps[i].Dot(q)).times(l.ro[i])
		q.AddScaled_(l.dirs[i], -al[i].v)
	}
	r := q.MulScalar(l.diagonal.v)
	for i := range l.dirs {
		be := l.item(l.dirs[i].Dot(r)).times(l.ro[i])
		r.AddScaled_(l.steps[i], al[i].minus(be).v)
	}
	return r
}

// flat reports whether the gradient is small enough to stop.
func (l *lbfgs) flat(gradient torch.Tensor) bool {
	return l.item(gradient.Abs().Max()).atMost(num(l.toleranceGrad))
}

func (l *lbfgs) item(t torch.Tensor) scalar { return scalar{t.Item(), l.kind} }

// evaluate calls the closure with gradients enabled and frees all tensors that it makes.
func (l *lbfgs) evaluate(closure func() float64) (loss float64) {
	l.evaluations++
	torch.Scope(func() { torch.EnableGrad(func() { loss = closure() }) })
	return loss
}

// gradient returns all gradients in one flat tensor, with zeros for missing ones.
func (l *lbfgs) gradient() torch.Tensor {
	flat := make([]torch.Tensor, len(l.params))
	for i, g := range l.list.Grads() {
		if !g.Defined() {
			g = l.params[i].Tensor.ZerosLike()
		}
		flat[i] = g.Reshape(-1)
	}
	return torch.Cat(flat, 0)
}

// move adds t times the direction to the parameters.
func (l *lbfgs) move(t scalar) {
	var offset int64
	for _, p := range l.params {
		n := p.Tensor.Numel()
		p.Tensor.AddScaled_(l.direction.Narrow(0, offset, n).Reshape(p.Tensor.Shape()...), t.v)
		offset += n
	}
}
