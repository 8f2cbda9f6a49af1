package optim

import (
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/torch"
)

// State names the state after the first parameter, as PyTorch does.
func (l *lbfgs) State() []torch.Named {
	if l.iterations == 0 {
		return nil
	}
	ro := make([]float64, len(l.ro))
	for i, r := range l.ro {
		ro[i] = r.v
	}
	rows := func(ts []torch.Tensor) torch.Tensor {
		if len(ts) == 0 {
			return torch.TensorOptions{DType: l.formerGrad.DType(), Device: l.formerGrad.Device()}.Zeros(0,
				l.formerGrad.Numel())
		}
		return torch.Stack(ts, 0)
	}
	numbers := []float64{float64(l.iterations), float64(l.evaluations), l.step.v, l.diagonal.v, l.formerLoss}
	state := []torch.Named{
		{Name: "d", Tensor: l.direction.Clone()}, {Name: "prev_flat_grad", Tensor: l.formerGrad.Clone()},
		{Name: "old_dirs", Tensor: rows(l.dirs)}, {Name: "old_stps", Tensor: rows(l.steps)},
		{Name: "ro", Tensor: torch.From(ro, int64(len(ro)))},
	}
	for i, name := range lbfgsNumbers {
		state = append(state, torch.Named{Name: name, Tensor: torch.From(numbers[i:i+1], 1)})
	}
	for i := range state {
		state[i].Name = l.params[0].Name + "." + state[i].Name
	}
	return state
}

// lbfgsNumbers are the states that consist of one number.
var lbfgsNumbers = []string{"n_iter", "func_evals", "t", "H_diag", "prev_loss"}

func (l *lbfgs) LoadState(state []torch.Named) error {
	if len(state) == 0 {
		l.iterations, l.evaluations, l.dirs, l.steps, l.ro = 0, 0, nil, nil, nil
		l.direction, l.formerGrad = torch.Tensor{}, torch.Tensor{}
		return nil
	}
	found := map[string]torch.Tensor{}
	wanted := append([]string{"d", "prev_flat_grad", "old_dirs", "old_stps", "ro"}, lbfgsNumbers...)
	for _, s := range state {
		name, mine := strings.CutPrefix(s.Name, l.params[0].Name+".")
		if !mine || !slices.Contains(wanted, name) {
			return errorf(ErrState, "state %q is not a state that this LBFGS keeps; it keeps %s, each after %q",
				s.Name,
				strings.Join(wanted, ", "), l.params[0].Name+".")
		}
		if found[name].Defined() {
			return errorf(ErrState, "state %q was given twice", s.Name)
		}
		if !s.Tensor.Defined() {
			return errorf(ErrState, "state %q is undefined", s.Name)
		}
		found[name] = s.Tensor
	}
	var n int64
	for _, p := range l.params {
		n += p.Tensor.Numel()
	}
	var history int64
	if ro := found["ro"]; ro.Defined() {
		history = ro.Numel()
	}
	if history > int64(l.HistorySize) {
		return errorf(ErrState, "the state remembers %d updates; want at most HistorySize, %d", history,
			l.HistorySize)
	}
	dtype := l.params[0].Tensor.DType()
	for _, name := range wanted {
		t := found[name]
		if !t.Defined() {
			return errorf(ErrState, "state %q is missing", l.params[0].Name+"."+name)
		}
		shape, d := []int64{1}, torch.Float64
		switch name {
		case "d", "prev_flat_grad":
			shape, d = []int64{n}, dtype
		case "old_dirs", "old_stps":
			shape, d = []int64{history, n}, dtype
		case "ro":
			shape = []int64{history}
		}
		if got := t.Shape(); !slices.Equal(got, shape) || t.DType() != d {
			return errorf(ErrState, "state %q has shape %v and dtype %s; want %v and %s", l.params[0].Name+"."+name,
				got, t.DType(), shape, d)
		}
	}
	device := l.params[0].Tensor.Device()
	return torch.Try(func() {
		torch.Scope(func() {
			own := func(t torch.Tensor) torch.Tensor { return t.ToDevice(device).Clone().Keep() }
			rows := func(t torch.Tensor) (out []torch.Tensor) {
				for i := range history {
					out = append(out, own(t.Select(0, i)))
				}
				return out
			}
			direction, former, dirs, steps := own(found["d"]), own(found["prev_flat_grad"]), rows(found["old_dirs"]),
				rows(found["old_stps"])
			l.direction, l.formerGrad, l.dirs, l.steps, l.ro = direction, former, dirs, steps, nil
			for _, r := range torch.Values[float64](found["ro"]) {
				l.ro = append(l.ro, scalar{r, l.kind})
			}
			l.iterations, l.evaluations = int(found["n_iter"].Item()), int(found["func_evals"].Item())
			l.step, l.diagonal, l.formerLoss = num(found["t"].Item()), num(found["H_diag"].Item()),
				found["prev_loss"].Item()
		})
	})
}
