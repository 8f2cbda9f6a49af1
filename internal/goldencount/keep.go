package goldencount

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
	"sync"
)

// KeptAs returns the name of the file in which the test binary of a package is kept.
func KeptAs(importPath string) string { return strings.ReplaceAll(importPath, "/", "_") + ".test" }

var (
	keeping sync.Once
	kept    error
)

func keepOnce(folder string) error {
	keeping.Do(func() {
		if err := keep(folder); err != nil {
			kept = fmt.Errorf("this test binary is not kept for %s: %w", Binaries, err)
		}
	})
	return kept
}

// keep keeps this test binary in a folder: as a link, or as a copy if the folder is on another file
// system.
func keep(folder string) error {
	info, ok := debug.ReadBuildInfo()
	importPath, isTest := strings.CutSuffix(info.Path, ".test")
	if !ok || !isTest {
		return errors.New("it is not that of a module's package")
	}
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	name := filepath.Join(folder, KeptAs(importPath))
	if err := os.Remove(name); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if os.Link(binary, name) == nil {
		return nil
	}
	return copyProgram(binary, name)
}

func copyProgram(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close() //nolint:errcheck // it was only read
	out, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	if err = errors.Join(err, out.Close()); err != nil {
		return errors.Join(err, os.Remove(to))
	}
	return nil
}
