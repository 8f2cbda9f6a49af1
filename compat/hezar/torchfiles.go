package hezar

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"

	"github.com/gotrainer/gotrainer/internal/torchsave"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/safetensors/pickle"
)

// The files in the format of torch.save: train/optimizer.pt and train/lr_scheduler.pt.

// saveOptimizer writes optimizer.state_dict(), in which PyTorch stores the next rate.
func saveOptimizer(path string, o optim.Optimizer, rate, initial float64, scheduled bool) error {
	state, err := torchsave.StateDict(o, rate)
	if err != nil {
		return err
	}
	groups, _ := state["param_groups"].([]any)
	for i, own := range o.Groups() {
		group, _ := groups[i].(map[string]any)
		delete(group, "param_names") // Hezar's optimizers are created from unnamed parameters
		if scheduled {
			group["initial_lr"] = initial * torchsave.Scale(own)
		}
	}
	return torchsave.WriteFile(path, state)
}

// adoptSettings sets rate, weight decay and kind of the optimizer from a state written by
// saveOptimizer or Python, as load_state_dict does. If the state belongs to another family of
// optimizers than the configuration's, foreign is that family, and nothing is set.
func (c *TrainerConfig) adoptSettings(state map[string]any) (foreign string, err error) {
	groups, _ := state["param_groups"].([]any)
	if len(groups) != 1 {
		return "", errors.New("no list of one group in param_groups; want what torch.save(optimizer.state_dict()) writes")
	}
	group, ok := groups[0].(map[string]any)
	if !ok {
		return "", fmt.Errorf("the group of param_groups is a %T; want a dictionary", groups[0])
	}
	_, adam := group["betas"]
	if adam == (c.Optimizer == "sdg" || c.Optimizer == "sgd") {
		return map[bool]string{true: "adam", false: "sdg"}[adam], nil
	}
	if decoupled, ok := group["decoupled_weight_decay"]; ok && adam {
		c.Optimizer = map[bool]string{true: "adamw", false: "adam"}[decoupled == true]
	}
	take := func(key string, to *float64) {
		if v, ok := torchsave.Float(group[key]); ok {
			*to = v
		}
	}
	take("weight_decay", &c.WeightDecay)
	take("lr", &c.LearningRate)
	if c.LRScheduler != "" {
		take("initial_lr", &c.LearningRate)
	}
	return "", nil
}

// save writes the rate and the number of steps of the schedule, as PyTorch needs them.
func (s *scheduler) save(path string) error {
	state := map[string]any{"base_lrs": []any{s.config.LearningRate}, "last_epoch": s.moves, "_step_count": s.moves + 1}
	if s.controller != nil {
		text, err := s.controller.State()
		if err == nil {
			state, err = torchsave.FromStruct(json.RawMessage(text))
		}
		if err != nil {
			return err
		}
		delete(state, "last_lr")
		for key, v := range state {
			if text, ok := v.(string); ok { // an infinity, which JSON cannot represent
				if f, err := strconv.ParseFloat(text, 64); err == nil {
					state[key] = f
				}
			}
		}
	}
	state["_last_lr"] = []any{s.rate()}
	// These two do not store their arguments as they are given.
	if s.config.LRScheduler != "one_cycle" && s.config.LRScheduler != "cyclic" {
		for _, item := range s.config.LRSchedulerKwargs {
			key := fmt.Sprint(item.Key)
			if _, err := torchsave.Value(key, item.Value); err == nil && state[key] == nil {
				state[key] = item.Value
			}
		}
	}
	return torchsave.WriteFile(path, state)
}

// load restores the schedule from a file written by save or Python.
func (s *scheduler) load(path string) error {
	f, err := pickle.Open(path)
	if err != nil {
		return err
	}
	defer f.Close() //nolint:errcheck // it was only read
	state, _ := torchsave.Plain(f.Value()).(map[string]any)
	moves, ok := state["last_epoch"].(float64)
	if !ok || moves < 0 || moves != math.Trunc(moves) {
		return fmt.Errorf("%s: last_epoch is %v; want a dictionary in which it is how often the schedule has moved", path,
			state["last_epoch"])
	}
	if s.controller == nil {
		s.moves = int(moves)
		return nil
	}
	if list, ok := state["_last_lr"].([]any); ok && len(list) > 0 {
		state["last_lr"] = list[0]
	}
	maps.DeleteFunc(state, func(key string, _ any) bool {
		return !slices.Contains([]string{"best", "num_bad_epochs", "cooldown_counter", "last_epoch", "last_lr"}, key)
	})
	text, err := json.Marshal(state)
	if err == nil {
		err = s.controller.LoadState(text)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", path, err)
	}
	return err
}
