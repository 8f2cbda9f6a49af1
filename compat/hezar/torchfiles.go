package hezar

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/safetensors/pickle"
	"github.com/gotrainer/gotrainer/torch"
)

// The files that torch.save writes: model.pt, train/optimizer.pt, train/lr_scheduler.pt.

// saveModel writes the state dict of a model.
func saveModel(path string, model any) error {
	entries, err := tensorio.Entries(nn.StateDict(model))
	if err != nil {
		return err
	}
	state, err := pickle.StateDict(entries)
	if err != nil {
		return err
	}
	return pickle.WriteFile(path, state)
}

// saveOptimizer writes optimizer.state_dict(). rate is that of the next update, which PyTorch keeps
// in the groups.
func saveOptimizer(path string, o optim.Optimizer, rate, initial float64, scheduled bool) error {
	tensors, text, err := optim.ToPyTorch(o)
	if err != nil {
		return err
	}
	state := &pickle.Dict{}
	for _, t := range tensors { // "state.0.exp_avg", in the order of the numbers
		parts := strings.SplitN(t.Name, ".", 3)
		if len(parts) != 3 {
			return fmt.Errorf("the state %q has no name of the form state.0.exp_avg", t.Name)
		}
		number, err := strconv.ParseInt(parts[1], 10, 64)
		if err != nil {
			return err
		}
		entry, err := tensorio.Entry(t.Name, t.Tensor)
		if err != nil {
			return err
		}
		if n := len(state.Keys); n == 0 || state.Keys[n-1] != any(number) {
			set(state, number, &pickle.Dict{})
		}
		set(state.Values[len(state.Values)-1].(*pickle.Dict), parts[2], &entry)
	}
	value, err := fromJSON(text)
	if err != nil {
		return err
	}
	groups, ok := value.(*pickle.Dict).Get("param_groups")
	list, isList := groups.(*pickle.List)
	if !ok || !isList {
		return errors.New("the optimizer's settings are no list of param_groups")
	}
	scales := o.Groups()
	for i, item := range list.Items {
		group := &pickle.Dict{}
		from := item.(*pickle.Dict)
		scale := 1.0
		if i < len(scales) && scales[i].LRScale != 0 {
			scale = scales[i].LRScale
		}
		for j, key := range from.Keys {
			switch key {
			case "param_names": // Hezar's optimizers are made of parameters without names
				continue
			case "lr":
				from.Values[j] = rate * scale
			case "betas":
				from.Values[j] = pickle.Tuple(from.Values[j].(*pickle.List).Items)
			}
			set(group, key, from.Values[j])
			if key == "lr" && scheduled {
				set(group, "initial_lr", initial*scale)
			}
		}
		list.Items[i] = group
	}
	whole := &pickle.Dict{}
	set(whole, "state", state)
	set(whole, "param_groups", list)
	return pickle.WriteFile(path, whole)
}

// set adds an item to a dictionary.
func set(d *pickle.Dict, key, value any) {
	_ = d.Set(key, value) // it refuses keys that are no strings and no integers, and all of ours are
}

// loadOptimizer continues an optimizer from a file of saveOptimizer, or of Python's.
func loadOptimizer(path string, o optim.Optimizer) error {
	f, err := pickle.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it was only read
	top, ok := f.Value().(*pickle.Dict)
	if !ok {
		return fmt.Errorf("%s holds a %T; want a dictionary with state and param_groups", path, f.Value())
	}
	groups, ok := top.Get("param_groups")
	if !ok {
		return fmt.Errorf("%s has no param_groups; want what torch.save(optimizer.state_dict()) writes", path)
	}
	settings, err := json.Marshal(map[string]any{"param_groups": toJSON(groups)})
	if err != nil {
		return fmt.Errorf("%s: param_groups: %w", path, err)
	}
	var tensors []torch.Named
	defer func() {
		for _, t := range tensors {
			t.Tensor.Free()
		}
	}()
	for _, t := range f.Tensors() {
		raw, err := f.Read(t.Name)
		if err != nil {
			return err
		}
		dtype, ok := tensorio.TorchDType(t.DType)
		if !ok {
			return fmt.Errorf("%s: %s has dtype %s", path, t.Name, t.DType)
		}
		tensors = append(tensors, torch.Named{Name: t.Name, Tensor: torch.FromBytes(raw, dtype, t.Shape...).Keep()})
	}
	if len(tensors) == 0 {
		return nil // plain stochastic gradient descent keeps nothing, and no update has been made
	}
	return optim.FromPyTorch(o, tensors, settings)
}

// takeUp takes rate, weight decay and kind of the optimizer from a file of saveOptimizer, or of
// Python's, as load_state_dict does, where there is one. foreign is the family of the file's
// optimizer where it is not the configuration's, and the settings of neither would do.
func (c *TrainerConfig) takeUp(path string) (foreign string, err error) {
	if !exists(path) {
		return "", nil
	}
	f, err := pickle.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close() //nolint:errcheck // it was only read
	top, _ := f.Value().(*pickle.Dict)
	if top == nil {
		return "", fmt.Errorf("%s holds a %T; want a dictionary with state and param_groups", path, f.Value())
	}
	groups, _ := top.Get("param_groups")
	list, _ := groups.(*pickle.List)
	if list == nil || len(list.Items) != 1 {
		return "", fmt.Errorf("%s has no list of one group in param_groups; want what "+
			"torch.save(optimizer.state_dict()) writes", path)
	}
	group, _ := list.Items[0].(*pickle.Dict)
	if group == nil {
		return "", fmt.Errorf("%s: the group of param_groups is a %T; want a dictionary", path, list.Items[0])
	}
	_, adam := group.Get("betas")
	if adam == (c.Optimizer == "sdg" || c.Optimizer == "sgd") {
		return map[bool]string{true: "adam", false: "sdg"}[adam], nil
	}
	if decoupled, ok := group.Get("decoupled_weight_decay"); ok && adam {
		c.Optimizer = map[bool]string{true: "adamw", false: "adam"}[decoupled == true]
	}
	for _, setting := range []struct {
		key string
		to  *float64
	}{{"weight_decay", &c.WeightDecay}, {"lr", &c.LearningRate}, {"initial_lr", &c.LearningRate}} {
		v, ok := group.Get(setting.key)
		if !ok || setting.key == "initial_lr" && c.LRScheduler == "" {
			continue
		}
		switch v := v.(type) {
		case float64:
			*setting.to = v
		case int64:
			*setting.to = float64(v)
		}
	}
	return "", nil
}

// save writes what PyTorch's scheduler needs to go on, and what this one does: how often it has
// moved.
func (s *scheduler) save(path string) error {
	d := &pickle.Dict{}
	put := func(key string, value any) { set(d, key, value) }
	for _, item := range s.config.LRSchedulerKwargs {
		// which keep other things than what they are given
		if v, ok := pickleValue(item.Value); ok && s.config.LRScheduler != "one_cycle" &&
			s.config.LRScheduler != "cyclic" {
			put(fmt.Sprint(item.Key), v)
		}
	}
	if s.controller != nil {
		text, err := s.controller.State()
		if err != nil {
			return err
		}
		value, err := fromJSON(text)
		if err != nil {
			return err
		}
		state := value.(*pickle.Dict)
		for i, key := range state.Keys {
			switch v := state.Values[i].(type) {
			case string: // an infinity, which JSON has not
				if f, err := strconv.ParseFloat(v, 64); err == nil {
					state.Values[i] = f
				}
			}
			if key == "last_lr" {
				put("_last_lr", &pickle.List{Items: []any{state.Values[i]}})
			} else {
				put(fmt.Sprint(key), state.Values[i])
			}
		}
		return pickle.WriteFile(path, d)
	}
	put("base_lrs", &pickle.List{Items: []any{s.config.LearningRate}})
	put("last_epoch", s.moves)
	put("_step_count", s.moves+1)
	put("_last_lr", &pickle.List{Items: []any{s.rate()}})
	return pickle.WriteFile(path, d)
}

// load continues from a file of save, or of Python's.
func (s *scheduler) load(path string) error {
	f, err := pickle.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it was only read
	d, ok := f.Value().(*pickle.Dict)
	if !ok {
		return fmt.Errorf("%s holds a %T; want a dictionary", path, f.Value())
	}
	moves, ok := d.Get("last_epoch")
	n, isInt := moves.(int64)
	if !ok || !isInt || n < 0 {
		return fmt.Errorf("%s: last_epoch is %v; want how often the schedule has moved", path, moves)
	}
	if s.controller == nil {
		s.moves = int(n)
		return nil
	}
	state := map[string]any{}
	for _, key := range []string{"best", "num_bad_epochs", "cooldown_counter", "last_epoch"} {
		if v, ok := d.Get(key); ok {
			state[key] = jsonNumber(v)
		}
	}
	if v, ok := d.Get("_last_lr"); ok {
		if list, ok := v.(*pickle.List); ok && len(list.Items) > 0 {
			state["last_lr"] = jsonNumber(list.Items[0])
		}
	}
	text, err := json.Marshal(state)
	if err != nil {
		return err
	}
	if err := s.controller.LoadState(text); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}

// jsonNumber is a number as package lr writes it: what is not finite as a string.
func jsonNumber(v any) any {
	if f, ok := v.(float64); ok {
		if _, err := json.Marshal(f); err != nil {
			return strings.ToLower(strings.TrimPrefix(strconv.FormatFloat(f, 'g', -1, 64), "+"))
		}
	}
	return v
}

// pickleValue turns a value of a configuration into one of a pickle.
func pickleValue(v any) (any, bool) {
	switch v := v.(type) {
	case nil, bool, int, int64, float64, string:
		return v, true
	case []any:
		list := &pickle.List{}
		for _, item := range v {
			p, ok := pickleValue(item)
			if !ok {
				return nil, false
			}
			list.Items = append(list.Items, p)
		}
		return list, true
	}
	return nil, false
}

// fromJSON reads JSON into the values of a pickle. Numbers with a point or an exponent are float64,
// others int64.
func fromJSON(text []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	v, err := decodeJSON(d)
	if err == nil {
		if _, end := d.Token(); !errors.Is(end, io.EOF) {
			err = errors.New("there is more than one value")
		}
	}
	return v, err
}

func decodeJSON(d *json.Decoder) (any, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch t := token.(type) {
	case json.Number:
		if n, err := t.Int64(); err == nil {
			return n, nil
		}
		return t.Float64()
	case json.Delim:
		dict, list := &pickle.Dict{}, &pickle.List{}
		for d.More() {
			var key any
			if t == '{' {
				if key, err = d.Token(); err != nil {
					return nil, err
				}
			}
			v, err := decodeJSON(d)
			if err != nil {
				return nil, err
			}
			if t == '{' {
				set(dict, key, v)
			} else {
				list.Items = append(list.Items, v)
			}
		}
		if _, err := d.Token(); err != nil {
			return nil, err
		}
		if t == '{' {
			return dict, nil
		}
		return list, nil
	}
	return token, nil
}

// toJSON turns the values of a pickle into what package json writes. Tensors, such as a rate that
// lives on the device, become null.
func toJSON(v any) any {
	switch v := v.(type) {
	case pickle.Tuple:
		return listJSON(v)
	case *pickle.List:
		return listJSON(v.Items)
	case *pickle.Dict:
		m := map[string]any{}
		for i, key := range v.Keys {
			m[fmt.Sprint(key)] = toJSON(v.Values[i])
		}
		return m
	case nil, bool, int64, string, *big.Int:
		return v
	case float64:
		return jsonNumber(v)
	}
	return nil
}

func listJSON(items []any) []any {
	out := make([]any, len(items))
	for i, item := range items {
		out[i] = toJSON(item)
	}
	return out
}

// saveGenerators writes the states of the generators that a run draws from.
func saveGenerators(path string, devices []torch.Device) error {
	var entries []safetensors.Entry
	for _, d := range devices {
		state := torch.DefaultGenerator(d).State()
		entries = append(entries, safetensors.Entry{Name: d.String(), DType: safetensors.U8,
			Shape: []int64{int64(len(state))}, Data: safetensors.Bytes(state)})
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
		return err
	}
	return tensorio.Create(path, func(w io.Writer) error { return safetensors.Write(w, entries, nil) })
}

// loadGenerators puts the generators back. One that the file lacks stays as it is.
func loadGenerators(path string, devices []torch.Device) error {
	f, err := safetensors.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it was only read
	for _, d := range devices {
		state, err := f.Read(d.String())
		if err != nil {
			return fmt.Errorf("%s: the state of the generator of %s: %w", path, d, err)
		}
		if err := torch.Try(func() { torch.DefaultGenerator(d).SetState(state) }); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return nil
}
