package hezar

import (
	"fmt"
	"path/filepath"
	"slices"

	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/nn"
)

// loadWeights fills the model from a checkpoint, or a fresh one from InitWeightsFrom.
func (t *Trainer[S, B]) loadWeights(from string) error {
	switch {
	case from != "":
		w, err := pretrained.OpenFile(filepath.Join(from, modelFile))
		if err != nil {
			return fmt.Errorf("hezar: ResumeFromCheckpoint: %w", err)
		}
		defer w.Close() //nolint:errcheck // it was only read
		if _, err := nn.LoadStateDict(t.model.Model(), w, nn.LoadOptions{}); err != nil {
			return fmt.Errorf("hezar: ResumeFromCheckpoint: %w", err)
		}
		t.options.Logger.Info("Resuming training from checkpoint", "path", from)
	case t.Config.InitWeightsFrom != "" && t.Config.ResumeFromCheckpoint == "" || t.Config.InitWeightsFrom != "" &&
		t.State.GlobalStep == 0:
		return t.initWeights()
	}
	return nil
}

// initWeights takes over what fits of a model of the same kind.
func (t *Trainer[S, B]) initWeights() error {
	dir, err := t.fetch(t.Config.InitWeightsFrom)
	if err != nil {
		return err
	}
	w, err := pretrained.Open(dir)
	if err != nil {
		return fmt.Errorf("hezar: InitWeightsFrom: %w", err)
	}
	defer w.Close() //nolint:errcheck // it was only read
	model := t.model.Model()
	if t.options.Rules.WeightsByPosition {
		if t.initReport, err = nn.LoadStateDict(model, w, nn.LoadOptions{}); err == nil {
			return nil
		}
		t.initReport, err = nn.LoadStateDict(model, w, byPosition(model, w))
	} else {
		t.initReport, err = nn.LoadStateDict(model, w, nn.LoadOptions{IgnoreMissing: true, IgnoreUnexpected: true,
			IgnoreMismatched: true})
	}
	if err != nil {
		return fmt.Errorf("hezar: InitWeightsFrom: %w", err)
	}
	if len(t.initReport.Loaded) == 0 {
		return fmt.Errorf("hezar: InitWeightsFrom: %s has no weight of this model: none of its %d names occurs here "+
			"in the same shape; want a model of the same kind", w.Path(), len(w.Contents()))
	}
	if t.initReport.Missing != nil || t.initReport.Mismatched != nil || t.initReport.Unexpected != nil {
		t.options.Logger.Warn("Partially loading the weights as the model architecture and the given state dict are "+
			"incompatible", "report", t.initReport.String())
	}
	return nil
}

// byPosition matches weights by their place, as Hezar does where names or shapes do not fit.
func byPosition(model any, w *pretrained.Weights) nn.LoadOptions {
	names := map[string]string{}
	contents := w.Contents()
	for i, own := range nn.StateDict(model) {
		if i < len(contents) && slices.Equal(contents[i].Shape, own.Tensor.Shape()) {
			names[contents[i].Name] = own.Name
		}
	}
	return nn.LoadOptions{IgnoreMissing: true, IgnoreUnexpected: true, Rename: func(name string) string {
		return names[name]
	}}
}
