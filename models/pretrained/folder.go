package pretrained

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// LoadFolder builds a model and loads the weights in dir, as [Load] does. build need not draw
// weights. The model is in evaluation mode, as after transformers' from_pretrained:
// [nn.SetTraining] switches it to training, which every trainer of this module does.
func LoadFolder[M any](dir string, build func() M, options func(m M) LoadOptions) (m M, r *Report, err error) {
	w, err := Open(dir)
	if err != nil {
		return m, nil, err
	}
	defer w.Close() //nolint:errcheck // it was only read
	if err := torch.Try(func() { m = build() }); err != nil {
		return m, nil, fmt.Errorf("pretrained: %w", err)
	}
	if r, err = Load(m, w, options(m)); err == nil {
		nn.SetTraining(m, false)
	}
	return m, r, err
}

// SaveFolder writes config.json and model.safetensors into dir, for transformers to read. It
// creates dir if needed.
func SaveFolder(dir string, model any, d Document) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("pretrained: %w", err)
	}
	if err := d.Write(dir); err != nil {
		return err
	}
	return nn.Save(filepath.Join(dir, SafetensorsName), model, nil)
}
