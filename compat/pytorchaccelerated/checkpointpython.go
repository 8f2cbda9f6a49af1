package pytorchaccelerated

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/compat/internal/torchsave"
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
	model, err := torchsave.Module(r.model)
	if err != nil {
		return err
	}
	torchsave.Set(whole, modelKey, model)
	if slices.Contains(c.Keys, optimizerKey) {
		state, err := r.optimizerDict()
		if err != nil {
			return err
		}
		torchsave.Set(whole, optimizerKey, state)
	}
	if slices.Contains(c.Keys, schedulerKey) {
		state := torchsave.Dict("last_epoch", r.schedule.moves, "_step_count", r.schedule.moves+1,
			"_last_lr", &pickle.List{Items: []any{r.LearningRate()}}) // what a scheduler of PyTorch needs
		if r.schedule.timm > 0 {
			torchsave.Set(state, "timm", r.schedule.timm)
		}
		torchsave.Set(whole, schedulerKey, state)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Extra)) {
		v, err := pythonValue(c.Extra[name])
		if err != nil {
			return fmt.Errorf("cannot write Extra[%q]: %w", name, err)
		}
		torchsave.Set(whole, name, v)
	}
	return pickle.WriteFile(path, whole)
}

// optimizerDict is optimizer.state_dict() in Python.
func (r *Run) optimizerDict() (*pickle.Dict, error) {
	state, text, err := torchsave.Optimizer(r.optimizer)
	if err != nil {
		return nil, err
	}
	rest, err := decodeJSON(text)
	if err != nil {
		return nil, err
	}
	layout, _ := rest.(map[string]any)
	list, _ := layout["param_groups"].([]any)
	for i, g := range r.optimizer.Groups() {
		// the rate of the next update; the optimizer knows that of the last one
		if group, ok := list[i].(map[string]any); ok {
			group["lr"] = r.LearningRate() * cmp.Or(g.LRScale, 1)
		}
	}
	groups, err := torchsave.Value("param_groups", list)
	if err != nil {
		return nil, err
	}
	return torchsave.Dict("state", state, "param_groups", groups), nil
}

// pythonValue makes what a file can hold of a value that JSON can hold. A whole float64 becomes an
// int, since numbers of JSON come as float64.
func pythonValue(v any) (any, error) {
	switch f := v.(type) {
	case float64:
		if f == math.Trunc(f) && math.Abs(f) < 1<<53 && !math.Signbit(f) {
			return int64(f), nil
		}
		return f, nil
	case nil, bool, string, int, int64, []any, map[string]any:
		return torchsave.Value("", v)
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	plain, err := decodeJSON(text)
	if err != nil {
		return nil, err
	}
	return torchsave.Value("", plain)
}

// decodeJSON keeps whole numbers apart from fractions.
func decodeJSON(text []byte) (v any, err error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	err = d.Decode(&v)
	return v, err
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
		read, err := torchsave.Tensor(f.Reader, info.Name)
		if err != nil {
			return c, err
		}
		t := torch.Named{Name: name, Tensor: read}
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
			if v = torchsave.Plain(v); v != nil {
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
	d, ok := torchsave.Plain(v).(map[string]any)
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
		rate /= cmp.Or(own[0].LRScale, 1)
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
	d, _ := torchsave.Plain(v).(map[string]any)
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
