package hezar

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"

	"github.com/gotrainer/gotrainer/compat/internal/torchsave"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/safetensors/pickle"
	"github.com/gotrainer/gotrainer/torch"
)

// The files that torch.save writes: model.pt, train/optimizer.pt, train/lr_scheduler.pt.

// saveModel writes the state dict of a model.
func saveModel(path string, model any) error {
	state, err := torchsave.Module(model)
	if err != nil {
		return err
	}
	return pickle.WriteFile(path, state)
}

// saveOptimizer writes optimizer.state_dict(). rate is that of the next update, which PyTorch keeps
// in the groups.
func saveOptimizer(path string, o optim.Optimizer, rate, initial float64, scheduled bool) error {
	state, text, err := torchsave.Optimizer(o)
	if err != nil {
		return err
	}
	value, err := torchsave.FromJSON(text)
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
			torchsave.Set(group, key, from.Values[j])
			if key == "lr" && scheduled {
				torchsave.Set(group, "initial_lr", initial*scale)
			}
		}
		list.Items[i] = group
	}
	return pickle.WriteFile(path, torchsave.Dict("state", state, "param_groups", list))
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
	settings, err := json.Marshal(map[string]any{"param_groups": torchsave.Plain(groups)})
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
		read, err := torchsave.Tensor(f.Reader, t.Name)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		tensors = append(tensors, torch.Named{Name: t.Name, Tensor: read.Keep()})
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

// save writes what PyTorch's scheduler needs to continue, and what this one does: how often it has
// moved.
func (s *scheduler) save(path string) error {
	d := &pickle.Dict{}
	put := func(key string, value any) { torchsave.Set(d, key, value) }
	for _, item := range s.config.LRSchedulerKwargs {
		// which keep other things than what they are given
		if v, err := torchsave.Value("", item.Value); err == nil && s.config.LRScheduler != "one_cycle" &&
			s.config.LRScheduler != "cyclic" {
			put(fmt.Sprint(item.Key), v)
		}
	}
	if s.controller != nil {
		text, err := s.controller.State()
		if err != nil {
			return err
		}
		value, err := torchsave.FromJSON(text)
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
			state[key] = torchsave.Plain(v)
		}
	}
	if v, ok := d.Get("_last_lr"); ok {
		if list, ok := v.(*pickle.List); ok && len(list.Items) > 0 {
			state["last_lr"] = torchsave.Plain(list.Items[0])
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
