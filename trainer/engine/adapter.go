package engine

import (
	"os"
	"path/filepath"

	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// Adapted is a model (see [Task].Model) of which a run trains and saves only a part: an adapter,
// such as those of package models/lora. Checkpoints hold the adapter's file instead of
// model.safetensors. To continue, the program must supply the rest of the model unchanged. (With
// Options.Sharding, checkpoints hold all weights.)
type Adapted interface {
	// AdapterState returns the name of the file, the tensors by their names in it, and its
	// metadata. An empty name means that there is no adapter, and the model is saved like any
	// other.
	AdapterState() (file string, tensors []torch.Named, metadata map[string]string)
}

// adapter returns what is saved of an adapted model; ok is false for other models.
func (s *core) adapter() (f tensorFile, ok bool) {
	a, ok := s.task.Model().(Adapted)
	if !ok {
		return f, false
	}
	name, tensors, metadata := a.AdapterState()
	return tensorFile{name, tensors, metadata}, name != ""
}

// weights returns what is saved of the model.
func (s *core) weights() (tensorFile, error) {
	if f, ok := s.adapter(); ok {
		return f, nil
	}
	tensors, metadata, err := nn.Saved(s.task.Model())
	return tensorFile{weightsName, tensors, metadata}, err
}

// weightsName returns the name of the file that weights is saved to.
func (s *core) weightsName() string {
	if f, ok := s.adapter(); ok {
		return f.name
	}
	return weightsName
}

// readWeights loads a file with what weights returns.
func (s *core) readWeights(path string) error {
	if f, ok := s.adapter(); ok {
		_, err := nn.LoadTensors(path, f.tensors, nn.LoadOptions{})
		return err
	}
	_, err := nn.Load(path, s.task.Model(), nn.LoadOptions{})
	return err
}

// weightsFile returns the path of the weights in a folder; a path that is no folder is returned as
// it is.
func (s *core) weightsFile(path string) string {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return path
	}
	if f, ok := s.adapter(); ok {
		return filepath.Join(path, f.name)
	}
	weights, older := filepath.Join(path, weightsName), filepath.Join(path, "pytorch_model.bin")
	if !isThere(weights) && isThere(older) {
		return older
	}
	return weights
}
