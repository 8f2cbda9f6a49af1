package repository

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/compat/hezar/internal/configfile"
	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/internal/torchsave"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/nn"
)

// WeightsFile is Hezar's name of the file.
const WeightsFile = "model.pt"

// WriteModel writes model.pt and model_config.yaml of any model into a folder, which is made if
// need be: torch.save of the state dict, and the config in Hezar's form. It is for models of kinds
// that this package does not know.
func WriteModel(dir string, model any, config omegaconf.Map) error {
	err := configfile.Save(filepath.Join(dir, ConfigFile), config)
	if err == nil {
		err = torchsave.WriteModule(filepath.Join(dir, WeightsFile), model)
	}
	if err != nil {
		return fmt.Errorf("repository: %w", err)
	}
	return nil
}

// loadWeights fills a model with model.pt. Every tensor must be there and fit: by its name or, in
// files of earlier versions of a model, whose layers had other names, by its place.
func loadWeights(dir string, model any) error {
	w, err := pretrained.OpenFile(filepath.Join(dir, WeightsFile))
	if err != nil {
		return fmt.Errorf("repository: %w", err)
	}
	defer w.Close() //nolint:errcheck // it was only read
	if _, err = nn.LoadStateDict(model, w, nn.LoadOptions{Rename: weight}); err == nil {
		return nil
	}
	if r, placed := nn.LoadStateDict(model, w, ByPosition(model, w)); placed != nil || r.Missing != nil {
		return fmt.Errorf("repository: %s: %w", w.Path(), err)
	}
	return nil
}

// weight leaves the positions out, which older files hold and which are the numbers from 0 on.
func weight(name string) string {
	if strings.HasSuffix(name, "embeddings.position_ids") {
		return ""
	}
	return name
}

// ByPosition matches weights by their place, as Hezar does where names or shapes do not fit.
func ByPosition(model any, w *pretrained.Weights) nn.LoadOptions {
	names := map[string]string{}
	contents := slices.DeleteFunc(w.Contents(), func(t nn.TensorInfo) bool { return weight(t.Name) == "" })
	for i, own := range nn.StateDict(model) {
		if i < len(contents) && slices.Equal(contents[i].Shape, own.Tensor.Shape()) {
			names[contents[i].Name] = own.Name
		}
	}
	return nn.LoadOptions{IgnoreMissing: true, IgnoreUnexpected: true, Rename: func(name string) string {
		return names[name]
	}}
}
