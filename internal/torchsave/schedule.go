package torchsave

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/safetensors/pickle"
)

// Schedule is where an lr_scheduler of PyTorch stands whose rate is a function of the update. The
// function is not in the file.
type Schedule struct {
	Steps int     // last_epoch: how often the rate has moved
	Base  float64 // of base_lrs: the peak rate of the first group
	Rate  float64 // of _last_lr: that of the next update
}

// WriteSchedule writes the state_dict of a schedule over the groups of an optimizer, as LambdaLR
// has it: those of transformers.
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

// ReadSchedule reads what WriteSchedule or PyTorch wrote, of as many groups.
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

// Scale is what a group's rate is a multiple by.
func Scale(g optim.Group) float64 { return cmp.Or(g.LRScale, 1) }

// Rates are those of the groups of an optimizer at a rate.
func Rates(o optim.Optimizer, rate float64) (rates []float64) {
	for _, g := range o.Groups() {
		rates = append(rates, rate*Scale(g))
	}
	return rates
}
