package repository

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"

	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/compat/internal/torchsave"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/safetensors/pickle"
)

// Names of Hezar's files.
const (
	ConfigFile  = "model_config.yaml"
	WeightsFile = "model.pt"
)

// maxConfig is far above any config.
const maxConfig = 4 << 20

// ReadConfig reads model_config.yaml of a folder.
func ReadConfig(dir string) (omegaconf.Map, error) {
	path := filepath.Join(dir, ConfigFile)
	if info, err := os.Stat(path); err == nil && info.Size() > maxConfig {
		return nil, fmt.Errorf("repository: %s has %d bytes; a description of a model has less than %d", path,
			info.Size(), maxConfig)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("repository: %w", err)
	}
	m, err := omegaconf.Unmarshal(text)
	if err != nil {
		return nil, fmt.Errorf("repository: %s: %w", path, err)
	}
	if kind, ok := m.Get("config_type"); ok && kind != "model" {
		return nil, fmt.Errorf("repository: %s: config_type is %v; want model", path, kind)
	}
	return m, nil
}

// WriteModel writes model.pt and model_config.yaml of any model into a folder, which is made if
// need be: torch.save of the state dict, and the config in Hezar's form. It is for models of kinds
// that this package does not know.
func WriteModel(dir string, model any, config omegaconf.Map) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("repository: %w", err)
	}
	state, err := torchsave.Module(model)
	if err != nil {
		return fmt.Errorf("repository: %w", err)
	}
	if err := pickle.WriteFile(filepath.Join(dir, WeightsFile), state); err != nil {
		return fmt.Errorf("repository: %w", err)
	}
	text, err := omegaconf.Marshal(config)
	if err == nil {
		err = renameio.WriteFile(filepath.Join(dir, ConfigFile), text, 0o644)
	}
	if err != nil {
		return fmt.Errorf("repository: %s: %w", ConfigFile, err)
	}
	return nil
}

// loadWeights fills a model with model.pt. Every tensor must be there and fit.
func loadWeights(dir string, model any) error {
	w, err := pretrained.OpenFile(filepath.Join(dir, WeightsFile))
	if err != nil {
		return fmt.Errorf("repository: %w", err)
	}
	defer w.Close() //nolint:errcheck // it was only read
	if _, err := nn.LoadStateDict(model, w, nn.LoadOptions{}); err != nil {
		return fmt.Errorf("repository: %s: %w", w.Path(), err)
	}
	return nil
}
