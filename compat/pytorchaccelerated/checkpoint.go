package pytorchaccelerated

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/safetensors"
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
	// "model_state_dict", "optimizer_state_dict", "scheduler_state_dict" and those of Extra, sorted
	Keys  []string
	Extra map[string]any // checkpoint_kwargs; numbers are float64
}

// The parts of a checkpoint: keys of the dictionary in Python, prefixes of tensor names and keys of
// the metadata here.
const (
	modelKey     = "model_state_dict"
	optimizerKey = "optimizer_state_dict"
	schedulerKey = "scheduler_state_dict"
	extraKey     = "checkpoint_kwargs"
)

// SaveCheckpoint writes the model, and unless told otherwise the optimizer and the schedule, as one
// file, which is whole or not there at any instant. A path that ends in .safetensors gets a
// safetensors file with "model_state_dict.fc.weight" and so on; every other path a file of
// torch.save, which pytorch-accelerated loads in Python. A checkpoint serves to hand a model on; to
// go on with a run, save its state with [Run.SaveTrainingState].
func (r *Run) SaveCheckpoint(path string, o CheckpointOptions) error {
	for name := range o.Extra {
		if slices.Contains([]string{modelKey, optimizerKey, schedulerKey, ""}, name) {
			return fmt.Errorf("pytorchaccelerated: SaveCheckpoint(%q): Extra may not be named %q", path, name)
		}
	}
	c := Checkpoint{Keys: []string{modelKey}, Extra: o.Extra}
	if !o.NoOptimizer {
		c.Keys = append(c.Keys, optimizerKey)
	}
	if !o.NoScheduler && r.schedule != nil {
		c.Keys = append(c.Keys, schedulerKey)
	}
	write := r.writePython
	if strings.HasSuffix(path, ".safetensors") {
		write = r.writeSafetensors
	}
	var err error
	panicked := torch.Try(func() { torch.Scope(func() { err = write(path, c) }) })
	if err = errors.Join(panicked, err); err != nil {
		return fmt.Errorf("pytorchaccelerated: SaveCheckpoint(%q): %w", path, err)
	}
	c.Keys = append(c.Keys, slices.Sorted(maps.Keys(o.Extra))...)
	return CallEvent(r, "OnCheckpointSaved", func(h CheckpointSavedHook) error {
		return h.OnCheckpointSaved(r, path, c)
	})
}

func (r *Run) writeSafetensors(path string, c Checkpoint) error {
	extra, err := json.Marshal(finite(c.Extra))
	if err != nil {
		return fmt.Errorf("cannot write Extra: %w", err)
	}
	metadata := map[string]string{"format": "pt", extraKey: string(extra)}
	tensors := under(modelKey, nn.StateDict(r.model))
	if slices.Contains(c.Keys, optimizerKey) {
		tensors = append(tensors, under(optimizerKey, r.optimizer.State())...)
		state, err := json.Marshal(optimizerState{r.optimizer.Updates(), r.LearningRate()})
		if err != nil {
			return err
		}
		metadata[optimizerKey] = string(state)
	}
	if slices.Contains(c.Keys, schedulerKey) {
		state, err := r.schedule.MarshalState()
		if err != nil {
			return err
		}
		metadata[schedulerKey] = string(state)
	}
	entries, err := tensorio.Entries(tensors)
	if err != nil {
		return err
	}
	return safetensors.WriteFile(path, entries, metadata)
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

// LoadCheckpoint puts a checkpoint of [Run.SaveCheckpoint], or one that pytorch-accelerated saved
// in Python, into the model and, where the file has them and unless told otherwise, into the
// optimizer and the schedule. A file that does not fit is refused, and nothing has changed, but for
// an optimizer's state that does not fit the optimizer, which shows when the model has been loaded.
func (r *Run) LoadCheckpoint(path string, o LoadOptions) (Checkpoint, error) {
	var c Checkpoint
	var err error
	panicked := torch.Try(func() { torch.Scope(func() { c, err = r.loadCheckpoint(path, o) }) })
	if err = errors.Join(panicked, err); err != nil {
		return Checkpoint{}, fmt.Errorf("pytorchaccelerated: LoadCheckpoint(%q): %w", path, err)
	}
	return c, nil
}

// contents are what a checkpoint holds.
type contents struct {
	Checkpoint
	model     []torch.Named
	optimizer func() (rate float64, err error) // puts the state into the optimizer; nil: there is none
	schedule  *scheduleState                   // nil: there is none
}

func (r *Run) loadCheckpoint(path string, o LoadOptions) (Checkpoint, error) {
	read := r.readSafetensors
	if isZip(path) {
		read = r.readPython
	}
	c, err := read(path)
	if err != nil {
		return Checkpoint{}, err
	}
	if c.schedule != nil && !o.NoScheduler && r.schedule == nil {
		return Checkpoint{}, errors.New("it has the state of a schedule, but the run has none; load it in a run with " +
			"CreateSchedulerFn, or set LoadOptions.NoScheduler")
	}
	if _, err := nn.LoadStateDict(r.model, nn.Tensors(c.model), nn.LoadOptions{}); err != nil {
		return Checkpoint{}, err
	}
	if c.optimizer != nil && !o.NoOptimizer {
		rate, err := c.optimizer()
		if err != nil {
			return Checkpoint{}, err
		}
		r.setRate(rate)
	}
	if c.schedule != nil && !o.NoScheduler {
		if err := r.schedule.take(*c.schedule); err != nil {
			return Checkpoint{}, fmt.Errorf("%s: %w", schedulerKey, err)
		}
	}
	return c.Checkpoint, nil
}

func (r *Run) readSafetensors(path string) (c contents, err error) {
	f, err := safetensors.Open(path)
	if err != nil {
		return c, err
	}
	defer func() { _ = f.Close() }()
	parts := map[string][]torch.Named{}
	for _, info := range f.Tensors() {
		key, name, ok := strings.Cut(info.Name, ".")
		if !ok || key != modelKey && key != optimizerKey {
			return c,
				fmt.Errorf("tensor %q belongs neither to %s nor to %s, so this is no checkpoint of SaveCheckpoint",
					info.Name, modelKey, optimizerKey)
		}
		t, err := tensorio.Read(f.Reader, info.Name)
		if err != nil {
			return c, err
		}
		parts[key] = append(parts[key], torch.Named{Name: name, Tensor: t})
	}
	c.model, c.Keys = parts[modelKey], []string{modelKey}
	metadata := f.Metadata()
	if text := metadata[extraKey]; text != "" {
		if err := json.Unmarshal([]byte(text), &c.Extra); err != nil {
			return c, fmt.Errorf("%s: %w", extraKey, err)
		}
	}
	if text, ok := metadata[optimizerKey]; ok {
		var state optimizerState
		if err := json.Unmarshal([]byte(text), &state); err != nil || state.Updates < 0 {
			return c, fmt.Errorf("%s: want the number of updates and the rate, found %s", optimizerKey,
				strconv.Quote(text))
		}
		c.Keys = append(c.Keys, optimizerKey)
		c.optimizer = func() (float64, error) {
			return state.Rate, r.optimizer.LoadState(parts[optimizerKey], state.Updates)
		}
	}
	if text, ok := metadata[schedulerKey]; ok {
		c.Keys = append(c.Keys, schedulerKey)
		c.schedule = new(scheduleState)
		if err := json.Unmarshal([]byte(text), c.schedule); err != nil {
			return c, fmt.Errorf("%s: %w", schedulerKey, err)
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
