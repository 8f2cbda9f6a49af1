package expected

import (
	"encoding/json"
	"fmt"

	"github.com/gotrainer/gotrainer/internal/conformance/pylambda"
	"github.com/gotrainer/gotrainer/optim/lr"
)

// rateTolerance allows for the last bits of another C library's cos and pow, whose misses some
// schedules carry on.
const rateTolerance = 1e-12

// schedule is an entry of "schedules".
type schedule struct {
	Function  string // of transformers; such an entry has one list of rates
	Scheduler string // of PyTorch; such an entry has a list for each parameter group
	Kwargs    map[string]any
	BaseLR    json.RawMessage `json:"base_lr"` // one for all groups, or a list

	Peer      []float64 `json:"peer_expected"` // what the peer's test says, rounded
	Tolerance float64
	Exact     []float64 `json:"exact_float64"`

	LR       [][]float64 `json:"lr"` // by group and update
	Momentum [][]float64
}

func readSchedules(d *document) ([]Entry, error) {
	return entriesOf(d, "schedules", func(_ string, s schedule) error {
		switch {
		case s.Function != "" && s.Scheduler == "":
			return s.runFunction()
		case s.Scheduler != "" && s.Function == "":
			return s.runScheduler()
		}
		return unsupported("the entry names the function %q and the scheduler %q; want one of them", s.Function,
			s.Scheduler)
	})
}

// runFunction compares one of transformers' get_..._schedule functions.
func (s schedule) runFunction() error {
	if len(s.Peer) == 0 && len(s.Exact) == 0 || len(s.LR) > 0 || len(s.Momentum) > 0 {
		return unsupported("an entry with a function has peer_expected or exact_float64, and nothing else to compare")
	}
	peak, err := groupValues(s.BaseLR, 1)
	if err != nil {
		return err
	}
	kwargs, err := kwargsOfGroup(s.Kwargs, 0)
	if err != nil {
		return err
	}
	updates := max(len(s.Peer), len(s.Exact))
	if total, ok := kwargs["num_training_steps"].(float64); ok { // belongs to the plan
		updates = int(total)
		delete(kwargs, "num_training_steps")
	}
	rate, _, err := plan(s.Function, kwargs, peak[0], updates)
	if err != nil {
		return err
	}
	if err := allNear("peer's rate of update", rate, s.Peer, s.Tolerance, s.Tolerance); err != nil {
		return err
	}
	return allNear("rate of update", rate, s.Exact, rateTolerance, rateTolerance)
}

// runScheduler compares one of PyTorch's classes, group by group.
func (s schedule) runScheduler() error {
	if len(s.LR) == 0 || len(s.Peer) > 0 || len(s.Exact) > 0 {
		return unsupported("an entry with a scheduler has lr, and neither peer_expected nor exact_float64")
	}
	if len(s.Momentum) != 0 && len(s.Momentum) != len(s.LR) {
		return unsupported("there are %d groups of momentum and %d of lr", len(s.Momentum), len(s.LR))
	}
	peaks, err := groupValues(s.BaseLR, len(s.LR))
	if err != nil {
		return err
	}
	for g, peak := range peaks {
		if len(s.LR[g]) == 0 {
			return unsupported("group %d has no rates to compare", g)
		}
		kwargs, err := kwargsOfGroup(s.Kwargs, g)
		if err != nil {
			return err
		}
		rate, momentum, err := plan(s.Scheduler, kwargs, peak, len(s.LR[g]))
		if err != nil {
			return err
		}
		if err := allNear(fmt.Sprintf("group %d: rate of update", g), rate, s.LR[g], rateTolerance,
			rateTolerance); err != nil {
			return err
		}
		if len(s.Momentum) == 0 {
			continue
		}
		if momentum == nil { // it stays what it was
			if len(s.Momentum[g]) == 0 {
				continue
			}
			momentum = func(int) float64 { return s.Momentum[g][0] }
		}
		if err := allNear(fmt.Sprintf("group %d: momentum of update", g), momentum, s.Momentum[g], rateTolerance,
			rateTolerance); err != nil {
			return err
		}
	}
	return nil
}

// plan makes the rate, and the momentum where the schedule moves it. Arguments that the schedule
// cannot take leave the entry unsupported.
func plan(name string, kwargs map[string]any, peak float64, updates int) (rate, momentum lr.Rate, err error) {
	s, err := lr.ByName(name, kwargs, 0)
	if err == nil {
		err = lr.Validate(s, peak, updates)
	}
	if err != nil {
		return nil, nil, unsupported("%v", err)
	}
	if m, ok := s.(lr.MomentumSchedule); ok {
		momentum = m.PlanMomentum(updates)
	}
	return s.Plan(peak, updates), momentum, nil
}

// groupValues reads one value for all groups, or a list with one for each.
func groupValues(raw json.RawMessage, groups int) ([]float64, error) {
	var one float64
	if json.Unmarshal(raw, &one) == nil {
		list := make([]float64, groups)
		for i := range list {
			list[i] = one
		}
		return list, nil
	}
	var list []float64
	if err := json.Unmarshal(raw, &list); err != nil || len(list) != groups {
		return nil, unsupported("the initial rates are %s; want a number, or a list of %d", raw, groups)
	}
	return list, nil
}

// kwargsOfGroup takes the values of one group from the arguments that PyTorch lets be lists, and
// leaves out what a schedule without state does not have.
func kwargsOfGroup(kwargs map[string]any, g int) (map[string]any, error) {
	mine := map[string]any{}
	for name, v := range kwargs {
		switch name {
		case "max_lr", "base_lr", "min_lr", "base_momentum", "max_momentum", "lr_lambda":
			if list, ok := v.([]any); ok {
				if g >= len(list) {
					return nil, unsupported("%s has %d values, but there is a group %d", name, len(list), g)
				}
				v = list[g]
			}
			if text, ok := v.(string); ok && name == "lr_lambda" {
				f, err := pylambda.Parse(text, nil)
				if err != nil {
					return nil, unsupported("%v", err)
				}
				v = func(update int) float64 { return f(float64(update)) }
			}
		case "scale_fn":
			if text, ok := v.(string); ok {
				f, err := pylambda.Parse(text, nil)
				if err != nil {
					return nil, unsupported("%v", err)
				}
				v = f
			}
		case "schedulers":
			parts, err := partsOfGroup(v, g)
			if err != nil {
				return nil, err
			}
			v = parts
		case "verbose":
			if v == false { // it only prints
				continue
			}
		case "last_epoch":
			if v == -1.0 { // a start from the beginning
				continue
			}
		}
		mine[name] = v
	}
	return mine, nil
}

// partsOfGroup does the same for the schedules inside another one. A part is called by "name" or,
// as entries are, by "scheduler".
func partsOfGroup(v any, g int) (any, error) {
	list, ok := v.([]any)
	if !ok {
		return v, nil
	}
	parts := make([]any, len(list))
	for i, p := range list {
		part, ok := p.(map[string]any)
		if !ok {
			return nil, unsupported("schedulers[%d] is %v; want a name and kwargs", i, p)
		}
		kwargs, _ := part["kwargs"].(map[string]any)
		inner, err := kwargsOfGroup(kwargs, g)
		if err != nil {
			return nil, err
		}
		name := part["name"]
		if name == nil {
			name = part["scheduler"]
		}
		parts[i] = map[string]any{"name": name, "kwargs": inner}
	}
	return parts, nil
}
