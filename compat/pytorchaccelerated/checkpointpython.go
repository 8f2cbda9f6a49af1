package pytorchaccelerated

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/safetensors/pickle"
	"github.com/gotrainer/gotrainer/torch"
)

// This file writes and reads checkpoints as torch.save does: {"model_state_dict": ...,
// "optimizer_state_dict": {"state": ..., "param_groups": ...}, "scheduler_state_dict": ..., further
// keys}.

// isZip tells a file of torch.save from another one.
func isZip(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	begin := make([]byte, 4)
	_, err = f.Read(begin)
	return err == nil && string(begin) == "PK\x03\x04"
}

func (r *Run) writePython(path string, c Checkpoint) error {
	whole := new(pickle.Dict)
	model := &pickle.Dict{Ordered: true}
	for _, t := range nn.StateDict(r.model) {
		if err := putTensor(model, t.Name, t); err != nil {
			return err
		}
	}
	put(whole, modelKey, model)
	if slices.Contains(c.Keys, optimizerKey) {
		state, err := r.optimizerDict()
		if err != nil {
			return err
		}
		put(whole, optimizerKey, state)
	}
	if slices.Contains(c.Keys, schedulerKey) {
		state := new(pickle.Dict) // what a scheduler of PyTorch goes on from
		put(state, "last_epoch", int64(r.schedule.moves))
		put(state, "_step_count", int64(r.schedule.moves+1))
		put(state, "_last_lr", &pickle.List{Items: []any{r.LearningRate()}})
		if r.schedule.timm > 0 {
			put(state, "timm", int64(r.schedule.timm))
		}
		put(whole, schedulerKey, state)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Extra)) {
		v, err := pythonValue(c.Extra[name])
		if err != nil {
			return fmt.Errorf("cannot write Extra[%q]: %w", name, err)
		}
		put(whole, name, v)
	}
	return pickle.WriteFile(path, whole)
}

func put(d *pickle.Dict, key, value any) {
	d.Keys, d.Values = append(d.Keys, key), append(d.Values, value)
}

func putTensor(d *pickle.Dict, key any, t torch.Named) error {
	entry, err := tensorio.Entry(t.Name, t.Tensor)
	if err != nil {
		return err
	}
	put(d, key, &entry)
	return nil
}

// optimizerDict is optimizer.state_dict() in Python.
func (r *Run) optimizerDict() (*pickle.Dict, error) {
	tensors, text, err := optim.ToPyTorch(r.optimizer)
	if err != nil {
		return nil, err
	}
	state := new(pickle.Dict)
	byNumber := map[int64]*pickle.Dict{}
	for _, t := range tensors {
		parts := strings.SplitN(t.Name, ".", 3) // "state.0.exp_avg"
		if len(parts) != 3 {
			return nil, fmt.Errorf("the optimizer names a state %q", t.Name)
		}
		number, err := strconv.ParseInt(parts[1], 10, 64)
		if err != nil {
			return nil, err
		}
		of := byNumber[number]
		if of == nil {
			of = new(pickle.Dict)
			byNumber[number] = of
			put(state, number, of)
		}
		if err := putTensor(of, parts[2], t); err != nil {
			return nil, err
		}
	}
	var rest map[string]any
	if err := json.Unmarshal(text, &rest); err != nil {
		return nil, err
	}
	list, _ := rest["param_groups"].([]any)
	for i, g := range r.optimizer.Groups() {
		// the rate of the next update; the optimizer knows that of the last one
		if group, ok := list[i].(map[string]any); ok {
			group["lr"] = r.LearningRate() * orElseFloat(g.LRScale, 1)
		}
	}
	groups, err := pythonValue(list)
	if err != nil {
		return nil, err
	}
	whole := new(pickle.Dict)
	put(whole, "state", state)
	put(whole, "param_groups", groups)
	return whole, nil
}

// pythonValue makes what a pickle can hold of what JSON can hold.
func pythonValue(v any) (any, error) {
	switch v := v.(type) {
	case nil, bool, string, int, int64:
		return v, nil
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 && !math.Signbit(v) {
			// JSON does not tell 0 from 0.0; parameter numbers must be whole, and rates are as good
			// whole.
			return int64(v), nil
		}
		return v, nil
	case []any:
		list := new(pickle.List)
		for _, element := range v {
			e, err := pythonValue(element)
			if err != nil {
				return nil, err
			}
			list.Items = append(list.Items, e)
		}
		return list, nil
	case map[string]any:
		d := new(pickle.Dict)
		for _, name := range slices.Sorted(maps.Keys(v)) {
			e, err := pythonValue(v[name])
			if err != nil {
				return nil, err
			}
			put(d, name, e)
		}
		return d, nil
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var plain any
	if err := json.Unmarshal(text, &plain); err != nil {
		return nil, err
	}
	if _, again := plain.(map[string]any); !again && fmt.Sprintf("%T", plain) == fmt.Sprintf("%T", v) {
		return nil, fmt.Errorf("a %T cannot be kept in a checkpoint", v)
	}
	return pythonValue(plain)
}

func (r *Run) readPython(path string) (c contents, err error) {
	f, err := pickle.Open(path)
	if err != nil {
		return c, err
	}
	defer func() { _ = f.Close() }()
	whole, ok := f.Value().(*pickle.Dict)
	if !ok {
		return c, fmt.Errorf("it holds a %T, want a dictionary with %s", f.Value(), modelKey)
	}
	var states []torch.Named
	for _, info := range f.Tensors() {
		key, name, _ := strings.Cut(info.Name, ".")
		if key != modelKey && key != optimizerKey {
			continue
		}
		dtype, ok := tensorio.TorchDType(info.DType)
		if !ok {
			return c, fmt.Errorf("tensor %q has dtype %s, which tensors cannot have", info.Name, info.DType)
		}
		raw, err := f.Read(info.Name)
		if err != nil {
			return c, err
		}
		t := torch.Named{Name: name, Tensor: torch.FromBytes(raw, dtype, info.Shape...)}
		if key == modelKey {
			c.model = append(c.model, t)
		} else {
			states = append(states, t)
		}
	}
	if _, ok := whole.Get(modelKey); !ok {
		return c, fmt.Errorf("it has no %s", modelKey)
	}
	c.Extra = map[string]any{}
	for i, k := range whole.Keys {
		name, ok := k.(string)
		if !ok {
			return c, fmt.Errorf("it has a key %v, want texts", k)
		}
		c.Keys = append(c.Keys, name)
		switch v := whole.Values[i]; name {
		case modelKey:
		case optimizerKey:
			err = c.readOptimizer(r, v, states)
		case schedulerKey:
			c.readSchedule(v)
		default:
			if v = plainValue(v); v != nil {
				c.Extra[name] = v
			}
		}
		if err != nil {
			return c, fmt.Errorf("%s: %w", name, err)
		}
	}
	return c, nil
}

// readOptimizer prepares to load optimizer.state_dict().
func (c *contents) readOptimizer(r *Run, v any, states []torch.Named) error {
	d, ok := plainValue(v).(map[string]any)
	groups, some := d["param_groups"].([]any)
	if !ok || !some || len(groups) == 0 {
		return fmt.Errorf("want a dictionary with param_groups")
	}
	first, _ := groups[0].(map[string]any)
	rate, ok := first["lr"].(float64)
	if !ok {
		return fmt.Errorf("want a number for lr in param_groups[0], found %v", first["lr"])
	}
	if own := r.optimizer.Groups(); len(own) > 0 {
		rate /= orElseFloat(own[0].LRScale, 1)
	}
	text, err := json.Marshal(map[string]any{"param_groups": groups})
	if err != nil {
		return err
	}
	c.optimizer = func() (float64, error) { return rate, optim.FromPyTorch(r.optimizer, states, text) }
	return nil
}

// readSchedule finds how often a scheduler has moved: one of PyTorch counts last_epoch from 0, one
// of pytorch-accelerated num_updates from -1.
func (c *contents) readSchedule(v any) {
	d, _ := plainValue(v).(map[string]any)
	state := scheduleState{}
	if n, ok := d["last_epoch"].(float64); ok {
		state.Moves = int(n)
	} else if n, ok := d["num_updates"].(float64); ok {
		state.Moves = int(n) + 1
	} else {
		return // nothing that says where it stands
	}
	if n, ok := d["timm"].(float64); ok {
		state.Timm = int(n)
	}
	c.schedule = &state
}

// plainValue makes what JSON can hold of what a pickle can hold; nil for anything else, such as a
// tensor.
func plainValue(v any) any {
	switch v := v.(type) {
	case bool, string:
		return v
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return strconv.FormatFloat(v, 'g', -1, 64)
		}
		return v
	case int64:
		return float64(v)
	case pickle.Tuple:
		return plainList(v)
	case *pickle.List:
		return plainList(v.Items)
	case *pickle.Dict:
		d := map[string]any{}
		for i, k := range v.Keys {
			if name, ok := k.(string); ok {
				d[name] = plainValue(v.Values[i])
			}
		}
		return d
	}
	return nil
}

func plainList(items []any) []any {
	list := make([]any, len(items))
	for i, item := range items {
		list[i] = plainValue(item)
	}
	return list
}

func orElseFloat(v, otherwise float64) float64 {
	if v == 0 {
		return otherwise
	}
	return v
}
