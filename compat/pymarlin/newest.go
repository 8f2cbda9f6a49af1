package pymarlin

import (
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// loadExact is DefaultCheckpointer.load, see CheckpointerArguments.Exact.
func (c *DefaultCheckpointer) loadExact() (Checkpoint, error) {
	path := filepath.Join(c.args.LoadDir, c.args.LoadFilename)
	if c.args.LoadFilename == "" {
		var err error
		if path, err = greatestNumber(c.args.LoadDir, c.args.FilePrefix, c.args.FileExt); err != nil {
			return Checkpoint{}, fmt.Errorf("pymarlin: look for checkpoints: %w", err)
		}
		if path == "" {
			c.logger.Info("no checkpoint to go on from", "folder", c.args.LoadDir)
			return Checkpoint{}, nil
		}
	}
	checkpoint, err := readCheckpoint(path)
	if errors.Is(err, fs.ErrNotExist) {
		c.logger.Error("no checkpoint to go on from", "error", err)
		return Checkpoint{}, nil
	}
	return checkpoint, err
}

var digits = regexp.MustCompile(`[0-9]+`)

// greatestNumber is get_latest_file to the letter; empty if there is none.
func greatestNumber(dir, prefix, ext string) (path string, err error) {
	greatest := new(big.Int)
	for _, candidate := range walk(dir) {
		if name := filepath.Base(candidate); !strings.HasPrefix(name, prefix) || !strings.HasSuffix(name, ext) {
			continue
		}
		numbers := digits.FindAllString(candidate, -1)
		if len(numbers) == 0 {
			return "", fmt.Errorf("%s has no number in its path; name a LoadFilename", candidate)
		}
		number, _ := new(big.Int).SetString(numbers[len(numbers)-1], 10)
		if path == "" || number.Cmp(greatest) > 0 {
			path, greatest = candidate, number
		}
	}
	return path, nil
}

// walk lists the files below a folder as Python's os.walk does: those of a folder before those of
// the folders in it, both in the order of the file system. What cannot be read is passed over.
func walk(dir string) (files []string) {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	// in the order of the folder, which os.ReadDir does not keep; what was read before an error
	// counts
	entries, _ := f.ReadDir(-1)
	_ = f.Close()
	var folders []string
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if e.IsDir() {
			folders = append(folders, path)
		} else if info, err := os.Stat(path); err != nil || !info.IsDir() { // a link to a folder is neither
			files = append(files, path)
		}
	}
	for _, folder := range folders {
		files = append(files, walk(folder)...)
	}
	return files
}
