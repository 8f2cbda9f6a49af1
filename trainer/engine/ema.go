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

// The files of a step with an average: the one or the other, besides model.safetensors.
const (
	averagesName = "ema.safetensors"           // the average; with EMA.Save it is model.safetensors
	trainedName  = "trained_model.safetensors" // the weights that are trained, with EMA.Save
)

// averageUpdates is the name of how many updates are in the average, in the metadata of that file.
const averageUpdates = "ema_updates"

// average is that of a model. A nil one does nothing.
type average struct {
	EMA
	*optim.Averaged
	tensors []torch.Named // that are averaged
	shown   bool          // the model has the averages for weights
}

func (s *Step[S, B]) buildAverage(model any) error {
	s.ema = nil
	if s.options.EMA.Decay == 0 {
		return nil
	}
	switch s.options.Optimizer.(type) {
	case optim.AdamWScheduleFree, optim.RAdamScheduleFree, optim.SGDScheduleFree:
		return fmt.Errorf("engine: Options.EMA is set, but the optimizer %T averages the weights itself; leave EMA out",
			s.options.Optimizer)
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
func (s *Step[S, B]) Average() []torch.Named {
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

// show gives the model the averages for weights, for an evaluation, and hide gives it its own back.
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

// files are that of the weights and that of the averages, the one that is called after the model
// first.
func (a *average) files(weights tensorFile) []tensorFile {
	if a == nil || a.Updates() == 0 {
		return []tensorFile{weights}
	}
	by := make(map[torch.Tensor]torch.Tensor, len(a.tensors))
	for i, t := range a.Tensors() {
		by[a.tensors[i].Tensor] = t.Tensor
	}
	averages := tensorFile{name: averagesName, metadata: maps.Clone(weights.metadata)}
	for _, t := range weights.tensors {
		if mean, ok := by[t.Tensor]; ok {
			t.Tensor = mean
		}
		averages.tensors = append(averages.tensors, t)
	}
	averages.metadata[averageUpdates] = strconv.Itoa(a.Updates())
	if a.Save {
		weights.tensors, averages.tensors, averages.name = averages.tensors, weights.tensors, trainedName
	}
	return []tensorFile{weights, averages}
}

// begin makes the average what the model holds now, as that of so many updates.
func (a *average) begin(updates int) error {
	if a == nil {
		return nil
	}
	return a.LoadState(a.tensors, updates)
}

// loadWeights takes over the weights of a saved step, with trained the trained ones where
// the average is saved as the model. The average continues with that of the checkpoint; where there
// is none it begins again with the weights.
func (s *Step[S, B]) loadWeights(dir string, trained bool) error {
	own, averages := filepath.Join(dir, s.weightsName()), filepath.Join(dir, averagesName)
	second := averages
	if path := filepath.Join(dir, trainedName); trained && isThere(path) {
		own, averages, second = path, own, path
	}
	s.fresh = false
	s.endsEval()
	if !trained {
		s.optimizerMode(false) // as the weights were saved
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

// updatesOfAverage is how many updates are in an average, as the second file of its step says.
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
