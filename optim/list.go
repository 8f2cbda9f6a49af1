package optim

import "github.com/gotrainer/gotrainer/torch"

// list holds one tensor for each parameter of a batch. Its methods are the operators that
// optimizers are composed of; a trailing underscore means that the list itself is changed. A single
// _foreach_ operator works on all tensors. On the CPU, _foreach_ operators run the same kernels as
// the plain ones, so plain calls are only needed on a GPU, for [ForLoop].
type list struct {
	ts []torch.Tensor
	operators
}

// operators says which operators are used for a list.
type operators struct {
	foreach bool // use _foreach_ operators instead of plain ones
	// round products with a number like Python's t.mul_(x), which, unlike mul_.Scalar, does not
	// round x to float16 or bfloat16 first
	python bool
}

// in_ runs an operator that changes the list. Lists among args are replaced by their tensors.
func (l list) in_(foreach, plain string, args ...any) {
	if l.foreach {
		torch.Call(foreach, l.arguments(args)...)
		return
	}
	for i := range l.ts {
		torch.Call(plain, l.argumentsOf(i, args)...)
	}
}

// out runs an operator that returns a new list.
func (l list) out(foreach, plain string, args ...any) list {
	if l.foreach {
		return list{torch.Call(foreach, l.arguments(args)...), l.operators}
	}
	made := make([]torch.Tensor, len(l.ts))
	for i := range l.ts {
		made[i] = torch.Call(plain, l.argumentsOf(i, args)...)[0]
	}
	return list{made, l.operators}
}

func (l list) arguments(args []any) []any {
	all := make([]any, 1, len(args)+1)
	all[0] = l.ts
	for _, a := range args {
		if other, ok := a.(list); ok {
			a = other.ts
		}
		all = append(all, a)
	}
	return all
}

func (l list) argumentsOf(i int, args []any) []any {
	all := make([]any, 1, len(args)+1)
	all[0] = l.ts[i]
	for _, a := range args {
		if other, ok := a.(list); ok {
			a = other.ts[i]
		}
		all = append(all, a)
	}
	return all
}

// at returns the list that consists of the i-th tensor.
func (l list) at(i int) list { return list{l.ts[i : i+1], l.operators} }

// to returns the list in another dtype. Tensors that already have it are not copied.
func (l list) to(d torch.DType) list {
	return l.each(func(t torch.Tensor) torch.Tensor { return t.ToDType(d) })
}

// each returns the list of the results of f.
func (l list) each(f func(t torch.Tensor) torch.Tensor) list {
	made := make([]torch.Tensor, len(l.ts))
	for i, t := range l.ts {
		made[i] = f(t)
	}
	return list{made, l.operators}
}

func (l list) add_(o list, alpha float64) {
	l.in_("aten::_foreach_add_.List", "aten::add_.Tensor", o, alpha)
}
func (l list) addScalar_(x float64) { l.in_("aten::_foreach_add_.Scalar", "aten::add_.Scalar", x) }
func (l list) mul_(o list)          { l.in_("aten::_foreach_mul_.List", "aten::mul_.Tensor", o) }
func (l list) div_(o list)          { l.in_("aten::_foreach_div_.List", "aten::div_.Tensor", o) }
func (l list) divScalar_(x float64) { l.in_("aten::_foreach_div_.Scalar", "aten::div_.Scalar", x) }
func (l list) sub_(o list, alpha float64) {
	l.in_("aten::_foreach_sub_.List", "aten::sub_.Tensor", o, alpha)
}
func (l list) lerp_(end list, w float64) {
	l.in_("aten::_foreach_lerp_.Scalar", "aten::lerp_.Scalar", end, w)
}
func (l list) addcmul_(a, b list, v float64) {
	l.in_("aten::_foreach_addcmul_.Scalar", "aten::addcmul_", a, b, v)
}
func (l list) addcdiv_(a, b list, v float64) {
	l.in_("aten::_foreach_addcdiv_.Scalar", "aten::addcdiv_", a, b, v)
}
func (l list) copy_(o list)        { l.in_("aten::_foreach_copy_", "aten::copy_", o) }
func (l list) sqrt_()              { l.in_("aten::_foreach_sqrt_", "aten::sqrt_") }
func (l list) sign_()              { l.in_("aten::_foreach_sign_", "aten::sign_") }
func (l list) reciprocal_()        { l.in_("aten::_foreach_reciprocal_", "aten::reciprocal_") }
func (l list) rsqrt_()             { l.in_("aten::_foreach_rsqrt_", "aten::rsqrt_") }
func (l list) clampMin_(x float64) { l.in_("aten::_foreach_clamp_min_.Scalar", "aten::clamp_min_", x) }

func (l list) mulScalar_(x float64) {
	if l.python {
		l.in_("aten::_foreach_mul_.Tensor", "aten::mul_.Tensor", torch.Full(x))
	} else {
		l.in_("aten::_foreach_mul_.Scalar", "aten::mul_.Scalar", x)
	}
}

func (l list) mulScalar(x float64) list {
	if l.python {
		return l.out("aten::_foreach_mul.Tensor", "aten::mul.Tensor", torch.Full(x))
	}
	return l.out("aten::_foreach_mul.Scalar", "aten::mul.Scalar", x)
}

func (l list) maximum_(o list) {
	if l.foreach {
		l.in_("aten::_foreach_maximum_.List", "", o)
		return
	}
	for i, t := range l.ts {
		torch.Call("aten::maximum.out", t, o.ts[i], t)
	}
}

func (l list) add(o list, alpha float64) list {
	return l.out("aten::_foreach_add.List", "aten::add.Tensor", o, alpha)
}
func (l list) addScalar(x float64) list {
	return l.out("aten::_foreach_add.Scalar", "aten::add.Scalar", x)
}
func (l list) div(o list) list { return l.out("aten::_foreach_div.List", "aten::div.Tensor", o) }
func (l list) sub(o list) list { return l.out("aten::_foreach_sub.List", "aten::sub.Tensor", o) }
func (l list) mul(o list) list { return l.out("aten::_foreach_mul.List", "aten::mul.Tensor", o) }
func (l list) divScalar(x float64) list {
	return l.out("aten::_foreach_div.Scalar", "aten::div.Scalar", x)
}
func (l list) addcmul(a, b list, v float64) list {
	return l.out("aten::_foreach_addcmul.Scalar", "aten::addcmul", a, b, v)
}
func (l list) sqrt() list { return l.out("aten::_foreach_sqrt", "aten::sqrt") }
func (l list) neg() list  { return l.out("aten::_foreach_neg", "aten::neg") }
func (l list) abs() list  { return l.out("aten::_foreach_abs", "aten::abs") }
func (l list) norm() list { return l.out("aten::_foreach_norm.Scalar", "aten::linalg_vector_norm", 2) }

// norms returns the 2-norms as numbers.
func (l list) norms() []float64 { return numbers(l.norm()) }

// numbers reads tensors of one element each. It waits for a GPU only once.
func numbers(l list) []float64 {
	if len(l.ts) > 0 && l.ts[0].Device().IsCUDA() {
		wide := l.each(func(t torch.Tensor) torch.Tensor { return t.ToDType(torch.Float64) })
		return torch.Values[float64](torch.Stack(wide.ts, 0).CPU())
	}
	values := make([]float64, len(l.ts))
	for i, t := range l.ts {
		values[i] = t.Item()
	}
	return values
}
