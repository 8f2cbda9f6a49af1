package pytorchaccelerated

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/safetensors/pickle"
	"github.com/gotrainer/gotrainer/torch"
)

// CheckpointOptions say what [Run.SaveCheckpoint] leaves out.
type CheckpointOptions struct {
	NoOptimizer bool           // save_optimizer=False
	NoScheduler bool           // save_scheduler=False
	Extra       map[string]any // checkpoint_kwargs: what JSON can hold
}

// Checkpoint is what [Run.LoadCheckpoint] found in a file.
type Checkpoint struct {
	Keys  []string       // "model_state_dict", "optimizer_state_dict", "scheduler_state_dict" and those of Extra, sorted
	Extra map[string]any // checkpoint_kwargs; numbers are float64
}

// The parts of a checkpoint: keys of the dictionary in Python, prefixes of tensor names and keys of the metadata here.
const (
	modelKey     = "model_state_dict"
	optimizerKey = "optimizer_state_dict"
	schedulerKey = "scheduler_state_dict"
	extraKey     = "checkpoint_kwargs"
)

// SaveCheckpoint writes the model, and unless told otherwise the optimizer and the schedule, as one safetensors file: "model_state_dict.fc.weight" and so
// on. The file is whole or not there at any instant. It serves to hand a model on; to go on with a run, save its state with
// [Run.SaveTrainingState].
func (r *Run) SaveCheckpoint(path string, o CheckpointOptions) error {
	for name := range o.Extra {
		if slices.Contains([]string{modelKey, optimizerKey, schedulerKey, ""}, name) {
			return fmt.Errorf("pytorchaccelerated: SaveCheckpoint(%q): Extra may not be named %q", path, name)
		}
	}
	extra, err := json.Marshal(finite(o.Extra))
	if err != nil {
		return fmt.Errorf("pytorchaccelerated: SaveCheckpoint(%q): Extra: %w", path, err)
	}
	metadata := map[string]string{"format": "pt", extraKey: string(extra)}
	tensors, keys := under(modelKey, nn.StateDict(r.model)), []string{modelKey}
	if !o.NoOptimizer {
		tensors = append(tensors, under(optimizerKey, r.optimizer.State())...)
		state, err := json.Marshal(optimizerState{r.optimizer.Updates(), r.LearningRate()})
		if err != nil {
			return fmt.Errorf("pytorchaccelerated: SaveCheckpoint(%q): %w", path, err)
		}
		metadata[optimizerKey] = string(state)
		keys = append(keys, optimizerKey)
	}
	if !o.NoScheduler && r.schedule != nil {
		state, err := r.schedule.MarshalState()
		if err != nil {
			return fmt.Errorf("pytorchaccelerated: SaveCheckpoint(%q): %w", path, err)
		}
		metadata[schedulerKey] = string(state)
		keys = append(keys, schedulerKey)
	}
	entries, err := tensorio.Entries(tensors)
	if err == nil {
		err = safetensors.WriteFile(path, entries, metadata)
	}
	if err != nil {
		return fmt.Errorf("pytorchaccelerated: SaveCheckpoint(%q): %w", path, err)
	}
	c := Checkpoint{append(keys, slices.Sorted(maps.Keys(o.Extra))...), o.Extra}
	return CallEvent(r, "OnCheckpointSaved", func(h CheckpointSavedHook) error { return h.OnCheckpointSaved(r, path, c) })
}

func under(key string, list []torch.Named) []torch.Named {
	out := make([]torch.Named, len(list))
	for i, t := range list {
		out[i] = torch.Named{Name: key + "." + t.Name, Tensor: t.Tensor}
	}
	return out
}

type optimizerState struct {
	Updates int     `json:"updates"`
	Rate    float64 `json:"rate"`
}

// LoadOptions say what [Run.LoadCheckpoint] leaves out.
type LoadOptions struct {
	NoOptimizer bool // load_optimizer=False
	NoScheduler bool // load_scheduler=False
}

// LoadCheckpoint puts a checkpoint of [Run.SaveCheckpoint] into the model and, where the file has them and unless told otherwise, into the optimizer and the
// schedule. Everything is read and checked before anything changes, but for the model, which is checked first and loaded last. A .pt file that
// pytorch-accelerated wrote in Python is read too, of which the model is taken: its optimizer and schedule are Python's.
func (r *Run) LoadCheckpoint(path string, o LoadOptions) (Checkpoint, error) {
	var c Checkpoint
	var err error
	panicked := torch.Try(func() { torch.Scope(func() { c, err = r.loadCheckpoint(path, o) }) })
	if err = errors.Join(panicked, err); err != nil {
		return Checkpoint{}, fmt.Errorf("pytorchaccelerated: LoadCheckpoint(%q): %w", path, err)
	}
	return c, nil
}

func (r *Run) loadCheckpoint(path string, o LoadOptions) (Checkpoint, error) {
	if isZip(path) {
		return r.loadPython(path)
	}
	f, err := safetensors.Open(path)
	if err != nil {
		return Checkpoint{}, err
	}
	defer func() { _ = f.Close() }()
	parts := map[string][]torch.Named{}
	for _, info := range f.Tensors() {
		key, name, ok := strings.Cut(info.Name, ".")
		if !ok || key != modelKey && key != optimizerKey {
			return Checkpoint{}, fmt.Errorf("tensor %q belongs neither to %s nor to %s, so this is no checkpoint of SaveCheckpoint", info.Name, modelKey, optimizerKey)
		}
		t, err := tensorio.Read(f.Reader, info.Name)
		if err != nil {
			return Checkpoint{}, err
		}
		parts[key] = append(parts[key], torch.Named{Name: name, Tensor: t})
	}
	metadata := f.Metadata()
	c := Checkpoint{Keys: []string{modelKey}}
	if err := json.Unmarshal([]byte(metadata[extraKey]), &c.Extra); metadata[extraKey] != "" && err != nil {
		return Checkpoint{}, fmt.Errorf("%s: %w", extraKey, err)
	}
	var state optimizerState
	optimizer, hasOptimizer := metadata[optimizerKey]
	if hasOptimizer {
		c.Keys = append(c.Keys, optimizerKey)
		if err := json.Unmarshal([]byte(optimizer), &state); err != nil || state.Updates < 0 {
			return Checkpoint{}, fmt.Errorf("%s: want the number of updates and the rate, found %s", optimizerKey, strconv.Quote(optimizer))
		}
	}
	schedule, hasSchedule := metadata[schedulerKey]
	if hasSchedule {
		c.Keys = append(c.Keys, schedulerKey)
		if !o.NoScheduler && r.schedule == nil {
			return Checkpoint{}, errors.New("it has the state of a schedule, but the run has none; load it in a run with CreateSchedulerFn, or set LoadOptions.NoScheduler")
		}
	}
	if _, err := nn.LoadStateDict(r.model, nn.Tensors(parts[modelKey]), nn.LoadOptions{}); err != nil {
		return Checkpoint{}, err
	}
	if hasOptimizer && !o.NoOptimizer {
		if err := r.optimizer.LoadState(parts[optimizerKey], state.Updates); err != nil {
			return Checkpoint{}, err
		}
		r.setRate(state.Rate)
	}
	if hasSchedule && !o.NoScheduler {
		if err := r.schedule.UnmarshalState([]byte(schedule)); err != nil {
			return Checkpoint{}, fmt.Errorf("%s: %w", schedulerKey, err)
		}
	}
	c.Keys = append(c.Keys, slices.Sorted(maps.Keys(c.Extra))...)
	return c, nil
}

func (r *Run) setRate(rate float64) {
	r.rate = rate
	if r.prepared != nil {
		r.prepared.SetRate(rate)
	}
}

// isZip tells a file of torch.save from one of ours.
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

// loadPython takes the model out of a checkpoint of pytorch-accelerated.
func (r *Run) loadPython(path string) (Checkpoint, error) {
	f, err := pickle.Open(path)
	if err != nil {
		return Checkpoint{}, err
	}
	defer func() { _ = f.Close() }()
	var tensors []torch.Named
	for _, info := range f.Tensors() {
		name, ok := strings.CutPrefix(info.Name, modelKey+".")
		if !ok {
			continue
		}
		dtype, ok := tensorio.TorchDType(info.DType)
		if !ok {
			return Checkpoint{}, fmt.Errorf("tensor %q has dtype %s, which tensors cannot have", info.Name, info.DType)
		}
		raw, err := f.Read(info.Name)
		if err != nil {
			return Checkpoint{}, err
		}
		tensors = append(tensors, torch.Named{Name: name, Tensor: torch.FromBytes(raw, dtype, info.Shape...)})
	}
	if tensors == nil {
		return Checkpoint{}, fmt.Errorf("it has no %s", modelKey)
	}
	if _, err := nn.LoadStateDict(r.model, nn.Tensors(tensors), nn.LoadOptions{}); err != nil {
		return Checkpoint{}, err
	}
	return pythonContents(f.Value()), nil
}

// pythonContents are the keys of the dictionary, and what of it is a number, a text or a truth.
func pythonContents(value any) Checkpoint {
	c := Checkpoint{Extra: map[string]any{}}
	d, ok := value.(*pickle.Dict)
	if !ok {
		return c
	}
	for i, key := range d.Keys {
		name, ok := key.(string)
		if !ok {
			continue
		}
		c.Keys = append(c.Keys, name)
		switch v := d.Values[i].(type) {
		case float64, bool, string:
			c.Extra[name] = v
		case int64:
			c.Extra[name] = float64(v)
		}
	}
	slices.Sort(c.Keys)
	return c
}
