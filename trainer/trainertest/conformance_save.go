package trainertest

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"github.com/gotrainer/gotrainer/trainer"
)

// savesLater compares what is written while training continues with what is written at once. The
// second time the step may use the memory of the first.
func (b *bench[S, B]) savesLater() error {
	s, err := b.step()
	if err != nil {
		return err
	}
	if !s.About().SavesLater {
		return skipped("About().SavesLater is false")
	}
	for range 2 {
		if _, err := b.windows(s, 2); err != nil {
			return err
		}
		want, got := b.t.TempDir(), b.t.TempDir()
		if err := s.Save(want, trainer.SaveOptions{}); err != nil {
			return fmt.Errorf("Save: %w", err)
		}
		var later []func() ([]string, error)
		o := trainer.SaveOptions{Later: func(write func() ([]string, error)) { later = append(later, write) }}
		if err := s.Save(got, o); err != nil {
			return fmt.Errorf("Save with Later: %w", err)
		}
		if _, err := b.windows(s, 2); err != nil {
			return err
		}
		for _, write := range later {
			if bad, err := write(); err != nil || len(bad) > 0 {
				return fmt.Errorf("the function that Save gave to Later: %w; weights that are not finite: %q", err, bad)
			}
		}
		if err := sameFiles(want, got); err != nil {
			return fmt.Errorf("a Save whose files were written two updates later: %w", err)
		}
	}
	return s.EmptyCache()
}

// sameFiles compares the files of two folders.
func sameFiles(want, got string) error {
	a, err := os.ReadDir(want)
	if err != nil {
		return err
	}
	b, err := os.ReadDir(got)
	if err != nil {
		return err
	}
	if len(a) != len(b) {
		return fmt.Errorf("it has %d files, want %d", len(b), len(a))
	}
	for _, e := range a {
		x, err := os.ReadFile(filepath.Join(want, e.Name()))
		if err != nil {
			return err
		}
		y, err := os.ReadFile(filepath.Join(got, e.Name()))
		if err != nil {
			return err
		}
		if !bytes.Equal(x, y) {
			return fmt.Errorf("%s differs", e.Name())
		}
	}
	return nil
}
