package repository

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/gotrainer/gotrainer/compat/hezar/internal/configfile"
	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/internal/torchsave"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/nn"
)

// WeightsFile is Hezar's name for the file.
const WeightsFile = "model.pt"

// WriteModel writes model.pt and model_config.yaml for any model into a folder, which is created if
// needed: torch.save of the state dict, and the config in Hezar's form. It is for kinds of models
// that this package does not know. Existing files are replaced once the new ones are complete.
func WriteModel(dir string, model any, config omegaconf.Map) error {
	return replaceFiles(dir, func(dir string) error { return writeModel(dir, model, config) })
}

func writeModel(dir string, model any, config omegaconf.Map) error {
	err := configfile.Save(filepath.Join(dir, ConfigFile), config)
	if err == nil {
		err = torchsave.WriteModule(filepath.Join(dir, WeightsFile), model)
	}
	if err != nil {
		return fmt.Errorf("repository: %w", err)
	}
	return nil
}

// stagingName is the folder inside the model's where files are written before they are moved into
// place.
const stagingName = ".saving"

// replaceFiles moves the files that write creates in a folder into dir. The old files stay until
// all new ones are complete, so that neither a full disk nor a killed process leaves a model with
// the config of another. The config is moved last. The next call removes what a killed process has
// left.
func replaceFiles(dir string, write func(dir string) error) error {
	staging := filepath.Join(dir, stagingName)
	if err := errors.Join(os.RemoveAll(staging), os.MkdirAll(staging, 0o777)); err != nil {
		return fmt.Errorf("repository: %w", err)
	}
	err := write(staging)
	if err == nil {
		if err = moveFiles(staging, dir); err != nil {
			err = fmt.Errorf("repository: %w", err)
		}
	}
	return errors.Join(err, os.RemoveAll(staging))
}

// moveFiles first creates the folders, which may fail, and then renames all files.
func moveFiles(from, to string) error {
	var files []string
	err := fs.WalkDir(os.DirFS(from), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir():
			return os.MkdirAll(filepath.Join(to, name), 0o777)
		case name != WeightsFile && name != ConfigFile:
			files = append(files, name)
		}
		return nil
	})
	for _, name := range append(files, WeightsFile, ConfigFile) {
		if err == nil {
			err = os.Rename(filepath.Join(from, name), filepath.Join(to, name))
		}
	}
	return err
}

// loadWeights loads model.pt into a model. All tensors must be present and match, by name or, in
// files of earlier versions of a model with other layer names, by position.
func (m *Model) loadWeights(dir string) error {
	model := m.Module()
	w, err := pretrained.OpenFile(filepath.Join(dir, WeightsFile))
	if err != nil {
		return fmt.Errorf("repository: %w", err)
	}
	defer w.Close() //nolint:errcheck // it was only read
	if err = m.Untie(w); err != nil {
		return fmt.Errorf("repository: %w", err)
	}
	if _, err = nn.LoadStateDict(model, w, nn.LoadOptions{Rename: weightName}); err == nil {
		return nil
	}
	if r, placed := nn.LoadStateDict(model, w, ByPosition(model, w)); placed != nil || r.Missing != nil {
		return fmt.Errorf("repository: %s: %w", w.Path(), err)
	}
	return nil
}

// ByPosition matches weights by position, as Hezar does if names or shapes differ.
func ByPosition(model any, w *pretrained.Weights) nn.LoadOptions {
	names := map[string]string{}
	contents := slices.DeleteFunc(w.Contents(), func(t nn.TensorInfo) bool { return weightName(t.Name) == "" })
	for i, own := range nn.StateDict(model) {
		if i < len(contents) && slices.Equal(contents[i].Shape, own.Tensor.Shape()) {
			names[contents[i].Name] = own.Name
		}
	}
	return nn.LoadOptions{IgnoreMissing: true, IgnoreUnexpected: true, Rename: func(name string) string {
		return names[name]
	}}
}
