// Package configfile reads and writes Hezar's YAML files, and the Go values behind their keys.
package configfile

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/google/renameio/v2"

	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/internal/regularfile"
)

// most is far larger than any configuration.
const most = 4 << 20

// Load reads a file. Errors contain the path.
func Load(path string) (omegaconf.Map, error) {
	text, err := regularfile.ReadFile(path, most)
	if err != nil {
		return nil, err
	}
	m, err := omegaconf.Unmarshal(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return m, nil
}

// Save writes a file atomically.
func Save(path string, m omegaconf.Map) error {
	text, err := omegaconf.Marshal(m)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return Write(path, text)
}

// Write atomically replaces a file, and creates its folder. It removes what a killed process has
// left of an earlier attempt.
func Write(path string, text []byte) error {
	dir, name := filepath.Split(path)
	err := os.MkdirAll(filepath.Clean(dir), 0o777)
	entries, _ := os.ReadDir(filepath.Clean(dir)) // if it cannot be read, writing will fail as well
	for _, e := range entries {
		if number, ok := strings.CutPrefix(e.Name(), "."+name); ok && strings.Trim(number, "0123456789") == "" {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	if err == nil {
		err = renameio.WriteFile(path, text, 0o644, renameio.WithTempDir(filepath.Dir(path)))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return nil
}
