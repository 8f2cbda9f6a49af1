package pymarlin

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/compat/internal/torchsave"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// Optimizer is one of the optimizers of a module, together with its learning rate. A module may
// have several, each with parameters and a schedule of its own; the gradients of all are clipped by
// one norm.
type Optimizer struct {
	optimizer optim.Optimizer
	peak      float64 // the rate that a schedule starts from
	rate      float64
	scheduled *LRScheduler // the last schedule that was made for it; nil: none
	pre, post []func()
}

// NewOptimizer makes an optimizer of settings such as optim.AdamW for some parameters.
func NewOptimizer(settings optim.Builder, params []torch.Named) (*Optimizer, error) {
	return NewGroupedOptimizer(settings, []optim.Group{{Params: params}})
}

// NewGroupedOptimizer makes an optimizer whose parameters have groups: optim.NoDecay makes some,
// for one.
func NewGroupedOptimizer(settings optim.Builder, groups []optim.Group) (*Optimizer, error) {
	o, err := settings.Build(groups)
	if err != nil {
		return nil, fmt.Errorf("pymarlin: NewOptimizer: %w", err)
	}
	return &Optimizer{optimizer: o, peak: settings.LearningRate(), rate: settings.LearningRate()}, nil
}

// Rate is the learning rate of the next step.
func (o *Optimizer) Rate() float64 { return o.rate }

// Rates are those of the groups: param_groups[i]["lr"].
func (o *Optimizer) Rates() []float64 {
	rates := make([]float64, 0, 1)
	for _, g := range o.optimizer.Groups() {
		rates = append(rates, o.rate*scaleOf(g))
	}
	return rates
}

// SetRate changes the learning rate, until a schedule changes it again.
func (o *Optimizer) SetRate(rate float64) { o.rate = rate }

// Params are its parameters.
func (o *Optimizer) Params() []torch.Named { return o.optimizer.Params() }

// Optimizer is the optimizer behind it.
func (o *Optimizer) Optimizer() optim.Optimizer { return o.optimizer }

// RegisterStepPreHook has f called before each step: register_step_pre_hook.
func (o *Optimizer) RegisterStepPreHook(f func()) { o.pre = append(o.pre, f) }

// RegisterStepPostHook has f called after each step that was made: register_step_post_hook.
func (o *Optimizer) RegisterStepPostHook(f func()) { o.post = append(o.post, f) }

// Step changes the parameters by their gradients, at the rate at hand.
func (o *Optimizer) Step() {
	_ = o.step(func() (bool, error) { o.optimizer.Step(o.rate); return true, nil })
}

// step runs what makes the step between the hooks.
func (o *Optimizer) step(make func() (applied bool, err error)) error {
	for _, f := range o.pre {
		f()
	}
	applied, err := make()
	if err != nil || !applied {
		return err
	}
	for _, f := range o.post {
		f()
	}
	return nil
}

// ZeroGrad removes the gradients of its parameters.
func (o *Optimizer) ZeroGrad() { o.optimizer.ZeroGrad() }

func scaleOf(g optim.Group) float64 {
	if g.LRScale == 0 {
		return 1
	}
	return g.LRScale
}

// State is the optimizer's state_dict() as PyTorch has it, so that a checkpoint continues in Python
// too.
func (o *Optimizer) State() (State, error) {
	tensors, text, err := optim.ToPyTorch(o.optimizer)
	if err != nil {
		return nil, err
	}
	groups, err := decodeGroups(text)
	if err != nil {
		return nil, err
	}
	for i, g := range groups {
		group, ok := g.(State)
		if !ok {
			return nil, fmt.Errorf("pymarlin: group %d of the optimizer is %T, want an object", i, g)
		}
		group["lr"] = o.Rates()[i]
		if o.scheduled != nil {
			o.scheduled.addTo(group, scaleOf(o.optimizer.Groups()[i]))
		}
	}
	state := map[int]any{}
	for _, t := range tensors {
		number, kind, err := torchsave.StateKey(t.Name)
		if err != nil {
			return nil, err
		}
		entry, ok := state[number].(State)
		if !ok {
			entry = State{}
			state[number] = entry
		}
		entry[kind] = t.Tensor
	}
	return State{"state": state, "param_groups": groups}, nil
}

// LoadState continues from a state_dict() of PyTorch, or of State. The settings stay those that the
// optimizer was made with; only the rate is the saved one.
func (o *Optimizer) LoadState(s State) error {
	groups, ok := s["param_groups"].([]any)
	if !ok {
		return fmt.Errorf("want a list param_groups, found %T", s["param_groups"])
	}
	if len(groups) != len(o.optimizer.Groups()) {
		return fmt.Errorf("it has %d groups of parameters, and the optimizer has %d", len(groups),
			len(o.optimizer.Groups()))
	}
	var tensors []torch.Named
	numbers, ok := s["state"].(map[int]any)
	if empty, isState := s["state"].(State); !ok && (!isState || len(empty) > 0) {
		return fmt.Errorf("want a dictionary of the states by the numbers of their parameters, found %T", s["state"])
	}
	for number, entry := range numbers {
		kinds, ok := entry.(State)
		if !ok {
			return fmt.Errorf("state %d is %T, want a dictionary", number, entry)
		}
		for kind, v := range kinds {
			switch v := v.(type) {
			case torch.Tensor:
				tensors = append(tensors, torch.Named{Name: fmt.Sprintf("state.%d.%s", number, kind), Tensor: v})
			case nil: // SGD's momentum_buffer before its first step
			default:
				return fmt.Errorf("state %d.%s is %T, want a tensor", number, kind, v)
			}
		}
	}
	slices.SortFunc(tensors, func(a, b torch.Named) int { return strings.Compare(a.Name, b.Name) })
	layout, err := encodeGroups(groups)
	if err != nil {
		return err
	}
	first, ok := groups[0].(State)
	if !ok {
		return fmt.Errorf("param_groups[0] is %T, want a dictionary", groups[0])
	}
	rate, ok := number(first["lr"])
	if !ok {
		return fmt.Errorf("param_groups[0] has no learning rate lr, found %v", first["lr"])
	}
	if err := optim.FromPyTorch(o.optimizer, tensors, layout); err != nil {
		return err
	}
	o.rate = rate / scaleOf(o.optimizer.Groups()[0])
	return nil
}

// decodeGroups reads the JSON of optim.ToPyTorch.
func decodeGroups(text []byte) ([]any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var layout struct {
		Groups []any `json:"param_groups"`
	}
	if err := d.Decode(&layout); err != nil {
		return nil, fmt.Errorf("pymarlin: %w", err)
	}
	for i, g := range layout.Groups {
		layout.Groups[i] = fromJSON(g)
	}
	return layout.Groups, nil
}

// fromJSON turns numbers into int or float64, and objects into State.
func fromJSON(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := strconv.Atoi(v.String()); err == nil {
			return n
		}
		f, err := v.Float64()
		if err != nil {
			return v.String()
		}
		return f
	case []any:
		for i := range v {
			v[i] = fromJSON(v[i])
		}
		return v
	case map[string]any:
		s := State{}
		for k, x := range v {
			s[k] = fromJSON(x)
		}
		return s
	}
	return v
}

// encodeGroups writes what optim.FromPyTorch reads: which parameters a group has.
func encodeGroups(groups []any) ([]byte, error) {
	var out []map[string]any
	for i, g := range groups {
		group, ok := g.(State)
		if !ok {
			return nil, fmt.Errorf("param_groups[%d] is %T, want a dictionary", i, g)
		}
		kept := map[string]any{"params": group["params"]}
		if names, ok := group["param_names"]; ok {
			kept["param_names"] = names
		}
		out = append(out, kept)
	}
	return json.Marshal(map[string]any{"param_groups": out})
}

// number reads an int or a float64.
func number(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case int:
		return float64(v), true
	}
	return 0, false
}
