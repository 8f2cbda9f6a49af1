package checkpoint

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
)

// warnings are the warnings that [WriteFolder] has given.
var warnings sync.Map // map[string]bool

func warnOnce(err error) {
	if _, warned := warnings.LoadOrStore(err.Error(), true); !warned {
		slog.Warn(err.Error())
	}
}

// WriteFolder saves a single folder under any name in the same way as [Store.Write] saves a
// checkpoint. The function write fills a hidden folder next to it, which is recorded in a manifest,
// flushed to the disk, read back, and only then renamed to path. [Verify] can check it later.
//
// It is for loops that name their folders themselves. It takes no lock: two processes must not
// write the same path at once. The folder that contains path is created if necessary, and an
// existing folder at path is replaced. What a killed process left behind is removed or restored by
// the next WriteFolder for that path.
func WriteFolder(path string, write func(dir string) error) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return fmt.Errorf("checkpoint: %w", err)
	}
	s := &Store{dir: filepath.Dir(path), disk: realDisk(), options: Options{OnWarning: warnOnce}}
	if err := os.MkdirAll(s.dir, 0o777); err != nil {
		return fmt.Errorf("checkpoint: cannot make the folder of %s: %w", path, err)
	}
	if err := s.recover(func(name string) bool { return name == filepath.Base(path) }); err != nil {
		return err
	}
	step, _ := parseStep(filepath.Base(path), defaultPrefix)
	d, err := s.begin(path, step)
	if err != nil {
		return err
	}
	if err := d.Write(write); err != nil {
		return err
	}
	return d.commit()
}
