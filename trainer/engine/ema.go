package engine

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strconv"

	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// EMA is an exponential moving average of the parameters, updated after every update that changes
// them. It equals torch.optim.swa_utils.AveragedModel with get_ema_multi_avg_fn, bit for bit. It is
// saved in every checkpoint, and a resumed run continues with it.
type EMA struct {
	Decay   float64 // average += (1-Decay) * (weights - average); zero: no average
	Buffers bool    // also average the buffers: use_buffers=True; otherwise they are those of the model
	// Evaluate makes evaluations and predictions use the average.
	Evaluate bool
	// Save makes the average the model that is saved: it is model.safetensors of a checkpoint, is
	// uploaded, and is loaded by trainer.Options.LoadBestAtEnd. The trained weights are then kept
	// in another file.
	Save bool
}

func (e EMA) validate(r *refusals) {
	r.when(!(e.Decay >= 0 && e.Decay < 1), "EMA.Decay is %g; want 0 < Decay < 1, such as 0.999, or 0 for no average",
		e.Decay)
	r.when(e.Decay == 0 && e != (EMA{}), "EMA is set, but its Decay is 0; want 0 < Decay < 1, such as 0.999")
}

// The additional file of a step with an average: one of these two.
const (
	averagesName = "ema.safetensors"           // the average; with EMA.Save it is model.safetensors
	trainedName  = "trained_model.safetensors" // the weights that are trained, with EMA.Save
)

// averageUpdates is the metadata key for the number of updates in the average.
const averageUpdates = "ema_updates"

// average is the moving average of a model. A nil average does nothing.
type average struct {
	EMA
	*optim.Averaged
	tensors []torch.Named // the model's tensors that are averaged
	shown   bool          // the model holds the averages instead of its weights
}

func (s *core) buildAverage(model any) error {
	s.ema = nil
	if s.options.EMA.Decay == 0 {
		return nil
	}
	builders := []optim.Builder{s.options.Optimizer}
	for _, g := range s.optimizer.Groups() {
		builders = append(builders, g.Optimizer)
	}
	for _, b := range builders {
		switch b.(type) {
		case optim.AdamWScheduleFree, optim.RAdamScheduleFree, optim.SGDScheduleFree:
			return fmt.Errorf("engine: Options.EMA is set, but the optimizer %T averages the weights itself; leave EMA out",
				b)
		}
	}
	tensors := nn.Params(model)
	if s.options.EMA.Buffers {
		tensors = append(tensors, nn.Buffers(model)...)
	}
	s.ema = &average{EMA: s.options.EMA, tensors: tensors,
		Averaged: optim.NewAveraged(tensors, optim.Averaging{Decay: s.options.EMA.Decay})}
	return nil
}

// Average returns the averages kept by Options.EMA, by the names of the model's parameters; nil
// without it. The next update changes the tensors.
func (s *core) Average() []torch.Named {
	if s.ema == nil {
		return nil
	}
	return s.ema.Tensors()
}

func (a *average) update() {
	if a != nil {
		a.Update()
	}
}

// show puts the averages into the model for an evaluation, and hide puts the weights back.
func (a *average) show() {
	if a != nil && a.Evaluate && !a.shown && a.Updates() > 0 {
		a.Exchange()
		a.shown = true
	}
}

func (a *average) hide() {
	if a != nil && a.shown {
		a.Exchange()
		a.shown = false
	}
}

// files returns the files of the model's weights and the averages; first comes the one that is saved
// as the model.
func (a *average) files(model any, weights tensorFile) []tensorFile {
	if a == nil || a.Updates() == 0 {
		return []tensorFile{weights}
	}
	by, parts := make(map[torch.Tensor]torch.Tensor, len(a.tensors)), map[string]torch.Tensor{}
	for i, t := range a.Tensors() {
		by[a.tensors[i].Tensor] = t.Tensor
	}
	if f, ok := model.(nn.FileForm); ok { // it makes new views for each file, which only their names tell apart
		for _, t := range f.InFiles(a.Tensors()) {
			parts[t.Name] = t.Tensor
		}
	}
	averages := tensorFile{name: averagesName, metadata: maps.Clone(weights.metadata)}
	for _, t := range weights.tensors {
		if mean, ok := by[t.Tensor]; ok {
			t.Tensor = mean
		} else if part, ok := parts[t.Name]; ok {
			t.Tensor = part
		}
		averages.tensors = append(averages.tensors, t)
	}
	averages.metadata[averageUpdates] = strconv.Itoa(a.Updates())
	if a.Save {
		weights.tensors, averages.tensors, averages.name = averages.tensors, weights.tensors, trainedName
	}
	return []tensorFile{weights, averages}
}

// begin sets the average to the model's current weights, as an average over the given number of
// updates.
func (a *average) begin(updates int) error {
	if a == nil {
		return nil
	}
	return a.LoadState(a.tensors, updates)
}

// loadWeights loads the weights of a saved step. If the average was saved as the model, trained
// asks for the trained weights instead. The average continues with that of the checkpoint; without
// one, it starts over from the weights.
func (s *core) loadWeights(dir string, trained bool) error {
	own, averages := filepath.Join(dir, s.weightsName()), filepath.Join(dir, averagesName)
	second := averages
	if path := filepath.Join(dir, trainedName); trained && isThere(path) {
		own, averages, second = path, own, path
	}
	s.fresh = false
	s.endsEval()
	if !trained {
		s.optimizerMode(false) // weights are saved in this mode
	}
	updates := 0
	if s.ema != nil && isThere(second) {
		var err error
		if updates, err = updatesOfAverage(second); err != nil {
			return err
		}
		if err := s.readWeights(averages); err != nil {
			return err
		}
		if err := s.ema.begin(updates); err != nil {
			return err
		}
	}
	if err := s.readWeights(own); err != nil || updates > 0 {
		return err
	}
	return s.ema.begin(0)
}

func isThere(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

// updatesOfAverage reads the number of updates in an average from the metadata of its file.
func updatesOfAverage(path string) (int, error) {
	metadata, err := metadataOf(path)
	if err != nil {
		return 0, err
	}
	text := metadata[averageUpdates]
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, fmt.Errorf("%s: want the number of updates in its average under %s in its metadata, found %q", path,
			averageUpdates, text)
	}
	return n, nil
}
