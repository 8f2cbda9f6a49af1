package expected

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/internal/conformance/pylambda"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/optim/lr"
)

// rateTolerance allows for the last bits of cos and pow in another C library, whose errors
// accumulate in some schedules.
const rateTolerance = 1e-12

// schedule is an entry of "schedules".
type schedule struct {
	Function  string // of transformers; such an entry has one list of rates
	Scheduler string // of PyTorch; such an entry has a list for each parameter group
	Kwargs    map[string]any
	BaseLR    json.RawMessage `json:"base_lr"` // one value for all groups, or a list

	Peer      []float64 `json:"peer_expected"` // asserted by the peer's test, rounded
	Tolerance float64
	Exact     []float64 `json:"exact_float64"`

	LR       [][]float64 `json:"lr"` // by group and update
	Momentum [][]float64
}

func readSchedules(d *document) []Entry {
	return entriesOf(d, "schedules", func(_ string, s schedule) {
		if (s.Function == "") == (s.Scheduler == "") {
			unsupported("the entry names the function %q and the scheduler %q; want one of them", s.Function,
				s.Scheduler)
		}
		if s.Function != "" {
			s.runFunction()
		} else {
			s.runScheduler()
		}
	})
}

// runFunction compares one of transformers' get_..._schedule functions.
func (s schedule) runFunction() {
	if len(s.Peer) == 0 && len(s.Exact) == 0 || len(s.LR) > 0 || len(s.Momentum) > 0 {
		unsupported("an entry with a function has peer_expected or exact_float64, and nothing else to compare")
	}
	kwargs := kwargsOfGroup(s.Kwargs, 0)
	updates := max(len(s.Peer), len(s.Exact))
	if total, ok := kwargs["num_training_steps"].(float64); ok { // needed to plan the schedule
		updates = int(total)
		delete(kwargs, "num_training_steps")
	}
	rate, _ := plan(s.Function, kwargs, groupValues(s.BaseLR, 1)[0], updates)
	allNear("peer's rate of update", rate, s.Peer, s.Tolerance, s.Tolerance)
	allNear("rate of update", rate, s.Exact, rateTolerance, rateTolerance)
}

// runScheduler compares one of PyTorch's classes, group by group.
func (s schedule) runScheduler() {
	if len(s.LR) == 0 || len(s.Peer) > 0 || len(s.Exact) > 0 {
		unsupported("an entry with a scheduler has lr, and neither peer_expected nor exact_float64")
	}
	if len(s.Momentum) != 0 && len(s.Momentum) != len(s.LR) {
		unsupported("there are %d groups of momentum and %d of lr", len(s.Momentum), len(s.LR))
	}
	for g, peak := range groupValues(s.BaseLR, len(s.LR)) {
		if len(s.LR[g]) == 0 {
			unsupported("group %d has no rates to compare", g)
		}
		rate, momentum := plan(s.Scheduler, kwargsOfGroup(s.Kwargs, g), peak, len(s.LR[g]))
		allNear(fmt.Sprintf("group %d: rate of update", g), rate, s.LR[g], rateTolerance, rateTolerance)
		if len(s.Momentum) == 0 || len(s.Momentum[g]) == 0 {
			continue
		}
		if momentum == nil { // unchanged
			momentum = func(int) float64 { return s.Momentum[g][0] }
		}
		allNear(fmt.Sprintf("group %d: momentum of update", g), momentum, s.Momentum[g], rateTolerance, rateTolerance)
	}
}

// plan returns the rate, and the momentum if the schedule changes it. Invalid arguments make the
// entry unsupported.
func plan(name string, kwargs map[string]any, peak float64, updates int) (rate, momentum lr.Rate) {
	s := supported(lr.ByName(name, kwargs, 0))
	supported(0, lr.Validate(s, peak, updates))
	return s.Plan(peak, updates), lr.PlanMomentum(s, updates)
}

// groupValues decodes one value for all groups, or a list with one for each.
func groupValues(raw json.RawMessage, groups int) (list []float64) {
	var one float64
	if json.Unmarshal(raw, &one) == nil {
		return slices.Repeat([]float64{one}, groups)
	}
	if err := json.Unmarshal(raw, &list); err != nil || len(list) != groups {
		unsupported("the initial rates are %s; want a number, or a list of %d", raw, groups)
	}
	return list
}

// kwargsOfGroup returns the arguments for one group: PyTorch allows lists for some of them.
// Arguments that do not apply to a stateless schedule are left out.
func kwargsOfGroup(kwargs map[string]any, g int) map[string]any {
	mine := map[string]any{}
	for name, v := range kwargs {
		switch name {
		case "max_lr", "base_lr", "min_lr", "base_momentum", "max_momentum", "lr_lambda":
			v = ofGroup(name, v, g)
		case "schedulers":
			v = partsOfGroup(v, g)
		}
		text, isText := v.(string)
		switch {
		case name == "verbose" && v == false: // only prints
			continue
		case name == "last_epoch" && v == -1.0: // starts from the beginning
			continue
		case name == "lr_lambda" && isText:
			f := supported(pylambda.Parse(text, nil))
			v = func(update int) float64 { return f(float64(update)) }
		case name == "scale_fn" && isText:
			v = supported(pylambda.Parse(text, nil))
		}
		mine[name] = v
	}
	return mine
}

// ofGroup returns the value for a group if v is a list, and otherwise v.
func ofGroup(name string, v any, g int) any {
	list, ok := v.([]any)
	if !ok {
		return v
	}
	if g >= len(list) {
		unsupported("%s has %d values, but there is a group %d", name, len(list), g)
	}
	return list[g]
}

// partsOfGroup does the same for nested schedules. A part is named by "name" or, as in entries, by
// "scheduler".
func partsOfGroup(v any, g int) any {
	list, ok := v.([]any)
	if !ok {
		return v
	}
	parts := make([]any, len(list))
	for i, p := range list {
		part, ok := p.(map[string]any)
		if !ok {
			unsupported("schedulers[%d] is %v; want a name and kwargs", i, p)
		}
		kwargs, _ := part["kwargs"].(map[string]any)
		parts[i] = map[string]any{"name": cmp.Or(part["name"], part["scheduler"]), "kwargs": kwargsOfGroup(kwargs, g)}
	}
	return parts
}

// plateau is an entry of "plateau": a ReduceLROnPlateau, measured values and the resulting rates.
type plateau struct {
	Kwargs      map[string]any
	InitialLR   json.RawMessage `json:"initial_lr"`
	Metrics     []float64
	LRAfterStep [][]float64 `json:"lr_after_step"` // by group and measurement
	Peer        [][]float64 `json:"peer_targets"`  // the literal lists in the peer's test
	Consistent  *bool       `json:"consistent_with_peer"`
}

// peerRateTolerance is that of PyTorch's own test, which compares with atol 1e-5.
const peerRateTolerance = 1e-5

func readPlateau(d *document) []Entry {
	return entriesOf(d, "plateau", func(_ string, p plateau) { p.run() })
}

func (p plateau) run() {
	groups := len(p.LRAfterStep)
	rates := groupValues(p.InitialLR, groups)
	if groups == 0 || len(p.Metrics) == 0 {
		unsupported("the entry has %d metrics and %d lists of rates", len(p.Metrics), groups)
	}
	for g, peak := range rates {
		if n := len(p.LRAfterStep[g]); n == 0 || n > len(p.Metrics) {
			unsupported("there are %d rates for %d metrics", n, len(p.Metrics))
		}
		got := p.observe(g, peak)
		allNear(fmt.Sprintf("group %d: rate after metric", g), at(got), p.LRAfterStep[g], rateTolerance, rateTolerance)
		if g < len(p.Peer) && (p.Consistent == nil || *p.Consistent) {
			// The peer's lists are longer than its metrics, and its test stops at the shorter one.
			want := p.Peer[g][:min(len(p.Peer[g]), len(got))]
			allNear(fmt.Sprintf("group %d: peer's rate after metric", g), at(got), want, 0, peerRateTolerance)
		}
	}
}

// observe passes the metrics to a controller, which is saved and restored halfway, as in a resumed
// run.
func (p plateau) observe(g int, peak float64) (rates []float64) {
	kwargs := kwargsOfGroup(p.Kwargs, g)
	start := func() lr.Controller {
		return supported(supported(lr.AdaptiveByName("ReduceLROnPlateau", kwargs)).Start(peak))
	}
	c := start()
	for i, m := range p.Metrics {
		if i == len(p.Metrics)/2 {
			state := spec.Must(c.State())
			c = start()
			spec.Check(c.LoadState(state))
		}
		rates = append(rates, c.Observe(m))
	}
	return rates
}
