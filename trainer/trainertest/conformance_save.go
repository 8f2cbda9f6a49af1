package trainertest

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/gotrainer/gotrainer/trainer"
)

// savesLater compares files that are written while training continues with files written
// immediately. The second time, the step may reuse the memory of the first.
func (b *bench[S, B]) savesLater() error {
	s := b.step()
	if !s.About().SavesLater {
		return skipped("About().SavesLater is false")
	}
	for range 2 {
		b.windows(s, 2)
		want, got := b.t.TempDir(), b.t.TempDir()
		must("Save", s.Save(want, trainer.SaveOptions{}))
		var later []func() ([]string, error)
		o := trainer.SaveOptions{Later: func(write func() ([]string, error)) { later = append(later, write) }}
		must("Save with Later", s.Save(got, o))
		b.windows(s, 2)
		for _, write := range later {
			if bad, err := write(); err != nil || len(bad) > 0 {
				return fmt.Errorf("the function that Save gave to Later: %w; weights that are not finite: %q", err, bad)
			}
		}
		must("a Save whose files were written two updates later", sameFiles(want, got))
	}
	return s.EmptyCache()
}

func sameFiles(want, got string) error {
	a, b := contents(want), contents(got)
	if len(a) != len(b) {
		return fmt.Errorf("it has %d files, want %d", len(b), len(a))
	}
	for name, text := range a {
		if other, ok := b[name]; !ok || other != text {
			return fmt.Errorf("%s differs", name)
		}
	}
	return nil
}

func contents(dir string) map[string]string {
	entries, err := os.ReadDir(dir)
	must("read what Save has written", err)
	files := map[string]string{}
	for _, e := range entries {
		text, err := os.ReadFile(filepath.Join(dir, e.Name()))
		must("read what Save has written", err)
		files[e.Name()] = string(text)
	}
	return files
}
