package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"time"

	"github.com/gotrainer/gotrainer/checkpoint"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// The workloads checkpoint and checkpoint_small save and load the training state of bert_base and
// bert_small: files in the page cache or, with -fsync, whole checkpoints that are flushed, read
// back and verified. They also measure how long a save blocks the loop, with and without AsyncSave.

type bertStep = engine.Step[bert.Sample, classify.Batch]

// bertState returns a BERT with an AdamW whose moments are not zero.
func bertState(o settings, w workload, seed uint64) (*bertStep, error) {
	torch.ManualSeed(seed)
	model, err := newBERT(w)
	if err != nil {
		return nil, err
	}
	task, err := classify.NewTask(model, classify.TaskOptions{})
	if err != nil {
		return nil, err
	}
	s, err := engine.New(task, engine.Options{Optimizer: optim.AdamW{LR: 5e-5, WeightDecay: new(0.0)}, MaxGradNorm: -1,
		Device: o.device})
	if err != nil {
		return nil, err
	}
	torch.NoGrad(func() {
		torch.Scope(func() { // free the gradients after the update
			for _, p := range nn.Params(model) {
				p.Tensor.SetGrad(p.Tensor.Detach().MulScalar(0.01))
			}
		})
	})
	_, err = s.Update(context.Background(), 5e-5)
	return s, err
}

// sizeOf returns the sum of the absolute weights and first moments.
func sizeOf(s *bertStep) (sum float64) {
	torch.NoGrad(func() {
		for _, t := range slices.Concat(nn.Params(s.Model()), s.Optimizer().State()) {
			if filepath.Ext(t.Name) != ".exp_avg_sq" && filepath.Ext(t.Name) != ".step" {
				// In pieces, because the memory of saves and loads is measured, not that of this
				// sum.
				torch.Scope(func() {
					for _, piece := range t.Tensor.Reshape(-1).Split(1<<18, 0) {
						torch.Scope(func() { sum += piece.Abs().Sum(torch.Float64).Item() })
					}
				})
			}
		}
	})
	return sum
}

func saveAndLoadRounds(o settings) (map[string]any, error) {
	w, rounds := workloads["bert_base"], 3
	w.name = "bert_base"
	if o.workload == "checkpoint_small" {
		w = workloads["bert_small"]
	}
	if o.tiny {
		w, rounds = w.tiny(), 1
	}
	if o.steps > 0 {
		rounds = o.steps
	}
	if o.threads > 0 {
		torch.SetThreads(o.threads)
	}
	from, err := bertState(o, w, seed)
	if err != nil {
		return nil, err
	}
	to, err := bertState(o, w, 99)
	if err != nil {
		return nil, err
	}
	want, first := sizeOf(from), sinceStart()
	var saves, loads []float64
	var bytes int64
	for range rounds + 1 { // the first is the warm-up
		save, load, size, err := saveAndLoad(o, from, to)
		if err != nil {
			return nil, err
		}
		saves, loads, bytes = append(saves, save), append(loads, load), size
	}
	saves, loads = saves[1:], loads[1:]
	got := sizeOf(to)
	if math.Abs(got-want) > 1e-9*want {
		return nil, fmt.Errorf("the state that was loaded is another one: %v, want %v", got, want)
	}
	// Some rounds wait for the disk to write what earlier ones have left, so take the median.
	save, load := median(saves), median(loads)
	seconds := float64(rounds) * (save + load)
	peak, anonymous := memory("VmHWM"), memory("RssAnon") // of saves and loads: training needs more
	held, _, err := heldBySaves(o, w, from, false, rounds)
	if err != nil {
		return nil, err
	}
	async, waited, err := heldBySaves(o, w, from, true, rounds)
	if err != nil {
		return nil, err
	}
	return result{workload: o.workload, steps: rounds, seconds: seconds, samples: rounds, firstStep: first,
		first: round(want, 3), last: round(got, 3), threads: torch.Threads()}.line(map[string]any{
		"save_s": round(save, 4), "load_s": round(load, 4), "held_s": round(held, 4),
		"held_async_s": round(async, 5), "update_waits_s": round(waited, 5),
		"mb": round(float64(bytes)/(1<<20), 1), "params": parameters(from), "fsync": o.fsync, "drop_cache": false,
		"peak_rss_mb": round(peak, 1), "anon_rss_mb": round(anonymous, 1), "device": o.device.String()}), nil
}

func parameters(s *bertStep) (n int64) {
	for _, p := range nn.Params(s.Model()) {
		n += p.Tensor.Numel()
	}
	return n
}

// saveAndLoad runs one round.
func saveAndLoad(o settings, from, to *bertStep) (save, load float64, bytes int64, err error) {
	dir, err := os.MkdirTemp(o.dir, "bench-")
	if err != nil {
		return 0, 0, 0, err
	}
	defer os.RemoveAll(dir)
	write := func(dir string) error { return from.Save(dir, trainer.SaveOptions{}) }
	begin := time.Now()
	if o.fsync {
		dir = filepath.Join(dir, "checkpoint-1")
		err = checkpoint.WriteFolder(dir, write)
	} else {
		err = write(dir)
	}
	save = time.Since(begin).Seconds()
	if err != nil {
		return 0, 0, 0, err
	}
	begin = time.Now()
	if o.fsync {
		err = checkpoint.Verify(dir)
	}
	err = errors.Join(err, to.Load(dir, trainer.LoadOptions{}))
	load = time.Since(begin).Seconds()
	files, listErr := os.ReadDir(dir)
	for _, f := range files {
		if info, err := f.Info(); err == nil {
			bytes += info.Size()
		}
	}
	return save, load, bytes, errors.Join(err, listErr)
}

// timedSaves is a step that trains and measures how long a save blocks the loop: from the end of an
// update to the next batch, and in the next update, which waits for the copy. Every second update
// is followed by a save; the others are the reference.
type timedSaves struct {
	*bertStep
	dir     string
	updates int
	updated time.Time
	between [2][]float64 // from an update to the next batch: with a save, without
	update  [2][]float64 // of an update: possibly during a copy, without
}

func (u *timedSaves) Train(ctx context.Context, b classify.Batch, w trainer.Window) error {
	if u.updates > 0 {
		u.between[u.updates%2] = append(u.between[u.updates%2], time.Since(u.updated).Seconds())
	}
	if u.updates > 2 && u.updates%2 == 1 {
		if err := u.settled(u.updates - 1); err != nil {
			return err
		}
	}
	return u.bertStep.Train(ctx, b, w)
}

// settled waits until a save is complete.
func (u *timedSaves) settled(save int) error {
	for begin := time.Now(); time.Since(begin) < 5*time.Minute; time.Sleep(5 * time.Millisecond) {
		_, err := os.Stat(filepath.Join(u.dir, "checkpoint-"+strconv.Itoa(save)))
		hidden, _ := filepath.Glob(filepath.Join(u.dir, ".checkpoint-*")) // being written or deleted
		if err == nil && len(hidden) == 0 {
			time.Sleep(100 * time.Millisecond)
			return nil
		}
	}
	return errors.New("there is no checkpoint after five minutes")
}

func (u *timedSaves) Update(ctx context.Context, rate float64) (bool, error) {
	begin := time.Now()
	applied, err := u.bertStep.Update(ctx, rate)
	u.updated = time.Now()
	u.update[u.updates%2] = append(u.update[u.updates%2], u.updated.Sub(begin).Seconds())
	u.updates++
	return applied, err
}

// held returns by how much a save delays the next batch and the next update, as medians; the first
// save, which allocates the memory of the copy, is left out.
func (u *timedSaves) held() (between, update float64) {
	return median(u.between[0][1:]) - median(u.between[1][1:]), median(u.update[0][2:]) - median(u.update[1][1:])
}

// heldBySaves measures how long a save blocks the loop.
func heldBySaves(o settings, w workload, s *bertStep, async bool, rounds int) (between, update float64, err error) {
	dir, err := os.MkdirTemp(o.dir, "bench-")
	if err != nil {
		return 0, 0, err
	}
	defer os.RemoveAll(dir)
	updates := 2*rounds + 5
	step := &timedSaves{bertStep: s, dir: dir}
	t, err := trainer.New[bert.Sample, classify.Batch](step, trainer.Options{OutputDir: dir, MaxSteps: updates,
		BatchSize: w.batch, Workers: 1, Save: trainer.Every(2, trainer.Update), AsyncSave: async, KeepCheckpoints: 2,
		Progress: io.Discard})
	if err != nil {
		return 0, 0, err
	}
	samples := make(data.Slice[bert.Sample], w.batch*updates)
	for i := range samples {
		samples[i] = bert.Sample{InputIDs: make([]int64, mostTokens), TokenTypeIDs: make([]int64, mostTokens)}
		for j := range samples[i].InputIDs {
			samples[i].InputIDs[j] = int64(1000 + (i*mostTokens+j)*7919%20000)
		}
	}
	if _, err := t.Fit(context.Background(), samples, nil); err != nil {
		return 0, 0, err
	}
	fmt.Fprintln(os.Stderr, "async", async, "between update and batch", step.between, "in the update", step.update)
	between, update = step.held()
	return between, update, nil
}
