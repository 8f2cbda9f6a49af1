package hezar

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"github.com/gotrainer/gotrainer/internal/regularfile"
)

// folder is the folder of a model's pre-processors.
const folder = "preprocessor"

// maxConfig is far larger than any configuration file.
const maxConfig = 4 << 20

// readConfig reads a YAML file of the folder preprocessor/ in dir, or of dir itself if that is this
// folder.
func readConfig(dir, name string, to any) (string, error) {
	path := filepath.Join(dir, folder, name)
	data, err := regularfile.ReadFile(path, maxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		beside := filepath.Join(dir, name)
		if data, err = regularfile.ReadFile(beside, maxConfig); err == nil {
			path = beside
		} else if errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("neither %s nor %s is there: %w", path, beside, fs.ErrNotExist)
		}
	}
	if err != nil {
		return "", err
	}
	if err := yaml.Unmarshal(data, to); err != nil {
		return "", fmt.Errorf("%s: %w", path, err)
	}
	return path, nil
}
