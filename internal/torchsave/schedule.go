package torchsave

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/safetensors/pickle"
)

// Schedule is the state of an lr_scheduler of PyTorch whose rate is a function of the update. The
// function is not in the file.
type Schedule struct {
	Steps int     // last_epoch: number of steps
	Base  float64 // from base_lrs: the peak rate of the first group
	Rate  float64 // from _last_lr: the rate of the next update
}

// WriteSchedule writes the state_dict of a schedule for the groups of an optimizer, in the form of
// LambdaLR, which transformers uses.
func WriteSchedule(path string, s Schedule, groups []optim.Group) error {
	base, last, lambdas := &pickle.List{}, &pickle.List{}, &pickle.List{}
	for _, g := range groups {
		base.Items = append(base.Items, s.Base*Scale(g))
		last.Items = append(last.Items, s.Rate*Scale(g))
		lambdas.Items = append(lambdas.Items, &pickle.Dict{})
	}
	return pickle.WriteFile(path, Dict("base_lrs", base, "last_epoch", s.Steps, "_step_count", s.Steps+1,
		"_is_initial", false, "_get_lr_called_within_step", false, "_last_lr", last, "lr_lambdas", lambdas))
}

// ReadSchedule reads what WriteSchedule or PyTorch wrote, for the same number of groups.
func ReadSchedule(path string, groups []optim.Group) (s Schedule, err error) {
	state, err := ReadFile(path)
	if err != nil {
		return s, err
	}
	if _, ok := state["base_lrs"]; !ok {
		return s, errors.New("it holds no base_lrs, so it is the state of no schedule that is a function of the " +
			"update, as linear and cosine are")
	}
	steps, ok := state["last_epoch"].(int)
	if !ok || steps < 0 {
		return s, fmt.Errorf("its last_epoch is %v, want how often the rate has moved", state["last_epoch"])
	}
	s.Steps = steps
	for _, x := range []struct {
		key string
		to  *float64
	}{{"base_lrs", &s.Base}, {"_last_lr", &s.Rate}} {
		list, _ := state[x.key].([]any)
		if len(list) != len(groups) || len(list) == 0 {
			return s, fmt.Errorf("its %s has the rates of %d groups, and the optimizer has %d", x.key, len(list),
				len(groups))
		}
		rate, ok := Float(list[0])
		if !ok {
			return s, fmt.Errorf("its %s[0] is %v, want a learning rate", x.key, list[0])
		}
		*x.to = rate / Scale(groups[0])
	}
	return s, nil
}

// Scale returns the factor of a group's rate.
func Scale(g optim.Group) float64 { return cmp.Or(g.LRScale, 1) }

// Rates returns the rates of an optimizer's groups for a given rate.
func Rates(o optim.Optimizer, rate float64) (rates []float64) {
	for _, g := range o.Groups() {
		rates = append(rates, rate*Scale(g))
	}
	return rates
}
