package lora

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gotrainer/gotrainer/internal/regularfile"
	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// The files of an adapter.
const (
	ConfigName  = "adapter_config.json"
	WeightsName = "adapter_model.safetensors"
	PickleName  = "adapter_model.bin" // of older versions of peft
)

// maxConfig is a size limit far above that of any adapter_config.json.
const maxConfig = 4 << 20

// ReadConfig reads adapter_config.json from a folder. If there is none, the error is
// fs.ErrNotExist.
func ReadConfig(dir string) (c Config, err error) {
	path := filepath.Join(dir, ConfigName)
	text, err := regularfile.ReadFile(path, maxConfig)
	if err != nil {
		return c, fmt.Errorf("lora: %w", err)
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return c, fmt.Errorf("lora: %s: %w", path, err)
	}
	return c, nil
}

// AdapterState returns what a file of the adapter holds: its name, the tensors by their names
// there, and metadata. It makes a model that embeds the Adapter an engine.Adapted.
func (a *Adapter) AdapterState() (file string, tensors []torch.Named, metadata map[string]string) {
	return WeightsName, a.state, map[string]string{"format": "pt"}
}

// Save writes adapter_config.json and adapter_model.safetensors into dir, for peft and this
// package: save_pretrained. It creates dir if needed.
func (a *Adapter) Save(dir string) error {
	if a.layers == nil {
		return errMerged
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("lora: %w", err)
	}
	if err := a.WriteConfig(dir); err != nil {
		return err
	}
	name, tensors, metadata := a.AdapterState()
	return nn.SaveTensors(filepath.Join(dir, name), tensors, metadata)
}

// WriteConfig writes adapter_config.json into a folder.
func (a *Adapter) WriteConfig(dir string) error {
	fanInFanOut := false
	for _, t := range a.layers {
		_, _, _, is := sizes(t.layer)
		fanInFanOut = fanInFanOut || is
	}
	text, err := a.config.marshal(fanInFanOut)
	if err != nil {
		return fmt.Errorf("lora: %w", err)
	}
	return pretrained.WriteJSON(dir, ConfigName, json.RawMessage(text))
}

// Load loads the weights of an adapter with the same configuration from a folder:
// adapter_model.safetensors or, if there is none, adapter_model.bin. Names and shapes are checked
// first.
func (a *Adapter) Load(dir string) error {
	if a.layers == nil {
		return errMerged
	}
	path := filepath.Join(dir, WeightsName)
	if older := filepath.Join(dir, PickleName); !exists(path) && exists(older) {
		path = older
	}
	if _, err := nn.LoadTensors(path, a.state, nn.LoadOptions{}); err != nil {
		return fmt.Errorf("lora: %w", err)
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
