package pytorchaccelerated

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/gotrainer/gotrainer/compat/internal/loops"
	"github.com/gotrainer/gotrainer/internal/torchsave"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// CheckpointOptions say what [Run.SaveCheckpoint] omits.
type CheckpointOptions struct {
	NoOptimizer bool // save_optimizer=False
	NoScheduler bool // save_scheduler=False
	// only the main process writes; otherwise one on each machine: save_per_node=False
	NotPerNode bool
	Extra      map[string]any // checkpoint_kwargs: what JSON can hold
}

// Checkpoint describes what [Run.LoadCheckpoint] found in a file.
type Checkpoint struct {
	// "model_state_dict", "optimizer_state_dict", "scheduler_state_dict" and those of Extra, sorted
	Keys  []string
	Extra map[string]any // checkpoint_kwargs; numbers are float64
}

// The keys of a checkpoint's parts, in order.
const (
	modelKey     = "model_state_dict"
	optimizerKey = "optimizer_state_dict"
	schedulerKey = "scheduler_state_dict"
)

var parts = []string{modelKey, optimizerKey, schedulerKey}

// newCheckpoint describes a file with these contents.
func newCheckpoint(contents, extra map[string]any) Checkpoint {
	c := Checkpoint{Extra: extra}
	for _, key := range append(slices.Clone(parts), slices.Sorted(maps.Keys(contents))...) {
		if _, ok := contents[key]; ok && !slices.Contains(c.Keys, key) {
			c.Keys = append(c.Keys, key)
		}
	}
	return c
}

// SaveCheckpoint atomically writes the model and, by default, the optimizer and the schedule as
// one file. A path that ends in .safetensors gets a safetensors file with
// "model_state_dict.fc.weight" and so on; any other path gets a torch.save file, which
// pytorch-accelerated loads in Python. A checkpoint is for handing a model on; to continue a run,
// save its state with [Run.SaveTrainingState]. With several processes, all must call it; it
// returns when the file exists.
func (r *Run) SaveCheckpoint(path string, o CheckpointOptions) error {
	for name := range o.Extra {
		if name == "" || slices.Contains(parts, name) {
			return fmt.Errorf("pytorchaccelerated: SaveCheckpoint(%q): Extra may not be named %q", path, name)
		}
	}
	contents := map[string]any{}
	err := loops.Scoped(func() error {
		if err := r.collect(contents, o); err != nil || !r.printsHere() || o.NotPerNode && !r.group().Main() {
			return err
		}
		return torchsave.WriteFile(path, contents)
	})
	if err := loops.Together(r.group(), err); err != nil {
		return fmt.Errorf("pytorchaccelerated: SaveCheckpoint(%q): %w", path, err)
	}
	c := newCheckpoint(contents, o.Extra)
	return event(r, func(h CheckpointSavedHook, r *Run) error { return h.OnCheckpointSaved(r, path, c) })
}

// collect fills in the contents of a checkpoint.
func (r *Run) collect(contents map[string]any, o CheckpointOptions) (err error) {
	if contents[modelKey], err = torchsave.Module(r.model); err != nil {
		return err
	}
	if !o.NoOptimizer { // with the rate of the next update, whereas the optimizer itself holds that of the last one
		if contents[optimizerKey], err = torchsave.StateDict(r.optimizer, r.LearningRate()); err != nil {
			return err
		}
	}
	if s := r.schedule; !o.NoScheduler && s != nil {
		state := map[string]any{"last_epoch": s.moves, "_step_count": s.moves + 1,
			"_last_lr": []any{r.LearningRate()}} // required by PyTorch's schedulers
		if s.timm > 0 {
			state["timm"] = s.timm
		}
		contents[schedulerKey] = state
	}
	for name, v := range o.Extra {
		if contents[name], err = plainValue(v); err != nil {
			return fmt.Errorf("cannot write Extra[%q]: %w", name, err)
		}
	}
	return nil
}

// plainValue converts a value that JSON can represent to one that a file can hold. An integral
// float64 becomes an int, since numbers decoded from JSON are float64.
func plainValue(v any) (any, error) {
	if f, ok := v.(float64); !ok || f-math.Trunc(f) != 0 {
		if _, err := torchsave.Value("", v); err == nil {
			return v, nil
		}
	}
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	return torchsave.FromText(text)
}

// LoadOptions say what [Run.LoadCheckpoint] skips.
type LoadOptions struct {
	NoOptimizer bool // load_optimizer=False
	NoScheduler bool // load_scheduler=False
}

// LoadCheckpoint loads a checkpoint written by [Run.SaveCheckpoint], or by pytorch-accelerated in
// Python, into the model and, if the file has them and by default, into the optimizer and the
// schedule. A file that does not match is refused, and nothing has changed. The exception is a
// state that does not match the optimizer: this is only noticed after the model has been loaded.
func (r *Run) LoadCheckpoint(path string, o LoadOptions) (c Checkpoint, err error) {
	if err = loops.Scoped(func() error { c, err = r.loadCheckpoint(path, o); return err }); err != nil {
		return Checkpoint{}, fmt.Errorf("pytorchaccelerated: LoadCheckpoint(%q): %w", path, err)
	}
	return c, nil
}

func (r *Run) loadCheckpoint(path string, o LoadOptions) (c Checkpoint, err error) {
	saved, err := torchsave.ReadFile(path)
	if err != nil {
		return c, err
	}
	defer torchsave.EachTensor(saved, torch.Tensor.Free)
	weights, ok := saved[modelKey].(map[string]any)
	if !ok {
		return c, fmt.Errorf("%s is a %T, want a dictionary of the model's tensors", modelKey, saved[modelKey])
	}
	model, err := torchsave.Named(weights)
	if err != nil {
		return c, fmt.Errorf("%s: %w", modelKey, err)
	}
	schedule := readSchedule(saved[schedulerKey])
	if o.NoScheduler {
		schedule = nil
	}
	if schedule != nil && r.schedule == nil {
		return c, errors.New("it has the state of a schedule, but the run has none; load it in a run with " +
			"CreateSchedulerFn, or set LoadOptions.NoScheduler")
	}
	if _, err := nn.LoadStateDict(r.model, nn.Tensors(model), nn.LoadOptions{}); err != nil {
		return c, err
	}
	if state, ok := saved[optimizerKey]; ok && !o.NoOptimizer {
		if err := r.loadOptimizer(state); err != nil {
			return c, fmt.Errorf("%s: %w", optimizerKey, err)
		}
	}
	if schedule != nil {
		if err := r.schedule.take(*schedule); err != nil {
			return c, fmt.Errorf("%s: %w", schedulerKey, err)
		}
	}
	extra := map[string]any{}
	for name, v := range saved {
		if slices.Contains(parts, name) {
			continue
		}
		value, err := torchsave.Value(name, v)
		if err != nil {
			return c, err
		}
		if value = torchsave.Plain(value); value != nil {
			extra[name] = value
		}
	}
	return newCheckpoint(saved, extra), nil
}

func (r *Run) loadOptimizer(state any) error {
	d, ok := state.(map[string]any)
	if !ok {
		return fmt.Errorf("want a dictionary with state and param_groups, found %T", state)
	}
	rate, err := torchsave.LoadStateDict(r.optimizer, d)
	if err != nil {
		return err
	}
	r.rate = rate
	if r.prepared != nil {
		r.prepared.SetRate(rate)
	}
	return nil
}

// readSchedule determines how many steps a scheduler has made: PyTorch's count last_epoch from 0,
// those of pytorch-accelerated count num_updates from -1. It returns nil if the state has neither.
func readSchedule(v any) *scheduleState {
	d, _ := v.(map[string]any)
	timm, _ := d["timm"].(int)
	if n, ok := d["last_epoch"].(int); ok {
		return &scheduleState{n, timm}
	}
	if n, ok := d["num_updates"].(int); ok {
		return &scheduleState{n + 1, timm}
	}
	return nil
}
