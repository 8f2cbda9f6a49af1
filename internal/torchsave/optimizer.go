package torchsave

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// StateDict returns optimizer.state_dict() in the form of [Value]: "state", with the tensors
// themselves by parameter number, and "param_groups", with the rates of the next update.
func StateDict(o optim.Optimizer, rate float64) (map[string]any, error) {
	tensors, text, err := optim.ToPyTorch(o)
	if err != nil {
		return nil, err
	}
	layout, err := FromStruct(json.RawMessage(text))
	if err != nil {
		return nil, err
	}
	groups, _ := layout["param_groups"].([]any)
	for i, g := range o.Groups() {
		group, ok := groups[i].(map[string]any)
		if !ok {
			return nil, fmt.Errorf("group %d of the optimizer is a %T, want an object", i, groups[i])
		}
		group["lr"] = rate * Scale(g)
	}
	state := map[int]any{}
	for _, t := range tensors {
		number, kind, err := StateKey(t.Name)
		if err != nil {
			return nil, err
		}
		if state[number] == nil {
			state[number] = map[string]any{}
		}
		state[number].(map[string]any)[kind] = t.Tensor //nolint:forcetypeassert // set above
	}
	return map[string]any{"state": state, "param_groups": groups}, nil
}

// LoadStateDict restores an optimizer from a result of [StateDict] or PyTorch, and returns the
// saved rate. The settings of the optimizer do not change.
func LoadStateDict(o optim.Optimizer, saved map[string]any) (rate float64, err error) {
	groups, ok := saved["param_groups"].([]any)
	if !ok {
		return 0, fmt.Errorf("want a list param_groups, found %T", saved["param_groups"])
	}
	own := o.Groups()
	if len(groups) != len(own) {
		return 0, fmt.Errorf("it has %d groups of parameters, and the optimizer has %d", len(groups), len(own))
	}
	first, ok := groups[0].(map[string]any)
	if !ok {
		return 0, fmt.Errorf("param_groups[0] is %T, want a dictionary", groups[0])
	}
	if rate, ok = Float(first["lr"]); !ok {
		return 0, fmt.Errorf("param_groups[0] has no learning rate lr, found %v", first["lr"])
	}
	tensors, err := stateTensors(saved["state"])
	if err != nil {
		return 0, err
	}
	var text json.RawMessage
	if err := ToStruct(map[string]any{"param_groups": groups}, &text); err != nil {
		return 0, err
	}
	return rate / Scale(own[0]), optim.FromPyTorch(o, tensors, text)
}

// stateTensors returns the tensors of a state under the names that optim.FromPyTorch expects.
func stateTensors(state any) (tensors []torch.Named, err error) {
	numbers, ok := state.(map[int]any)
	if empty, isMap := state.(map[string]any); !ok && (!isMap || len(empty) > 0) {
		return nil, fmt.Errorf("want a dictionary of the states by the numbers of their parameters, found %T", state)
	}
	for number, entry := range numbers {
		kinds, ok := entry.(map[string]any)
		if !ok {
			return nil, fmt.Errorf("state %d is %T, want a dictionary", number, entry)
		}
		for kind, v := range kinds {
			switch v := v.(type) {
			case torch.Tensor:
				tensors = append(tensors, torch.Named{Name: fmt.Sprintf("state.%d.%s", number, kind), Tensor: v})
			case nil: // SGD's momentum_buffer before its first step
			default:
				return nil, fmt.Errorf("state %d.%s is %T, want a tensor", number, kind, v)
			}
		}
	}
	slices.SortFunc(tensors, func(a, b torch.Named) int { return strings.Compare(a.Name, b.Name) })
	return tensors, nil
}

// Named returns the tensors of a state dict, sorted by name.
func Named(state map[string]any) (tensors []torch.Named, err error) {
	for name, v := range state {
		t, ok := v.(torch.Tensor)
		if !ok {
			return nil, fmt.Errorf("%q is %T, want a tensor", name, v)
		}
		tensors = append(tensors, torch.Named{Name: name, Tensor: t})
	}
	slices.SortFunc(tensors, func(a, b torch.Named) int { return strings.Compare(a.Name, b.Name) })
	return tensors, nil
}

// Float converts an int or a float64.
func Float(v any) (float64, bool) {
	switch v := v.(type) {
	case float64:
		return v, true
	case int:
		return float64(v), true
	}
	return 0, false
}

// FromStruct converts what package json encodes as an object to the form of [Value].
func FromStruct(v any) (map[string]any, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	plain, err := FromText(text)
	object, ok := plain.(map[string]any)
	if err == nil && !ok {
		err = fmt.Errorf("a %T makes %s, want an object", v, text)
	}
	return object, err
}

// FromText converts JSON to the form of [Value].
func FromText(text []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	err = d.Decode(&v)
	return Numbers(v), err
}

// ToStruct is the inverse of FromStruct; tensors become null.
func ToStruct(v any, into any) error {
	file, err := Value("", v)
	if err != nil {
		return err
	}
	text, err := json.Marshal(Plain(file))
	if err != nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// Numbers converts each json.Number in a value of package json to an int or float64; one that is
// too large for either becomes a string.
func Numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := strconv.Atoi(v.String()); err == nil {
			return n
		}
		if f, err := v.Float64(); err == nil {
			return f
		}
		return v.String()
	case []any:
		for i, x := range v {
			v[i] = Numbers(x)
		}
	case map[string]any:
		for k, x := range v {
			v[k] = Numbers(x)
		}
	}
	return v
}
