package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/gotrainer/gotrainer/checkpoint"
)

// damageKinds are the ways to damage a file. Each changes at least one byte.
var damageKinds = []struct {
	name  string
	spoil func(r *rand.Rand, path, other string) error
}{
	{"a flipped bit", edited(func(r *rand.Rand, text []byte) []byte {
		text[r.IntN(len(text))] ^= 1 << r.IntN(8)
		return text
	})},
	{"cut off", edited(func(r *rand.Rand, text []byte) []byte { return text[:r.IntN(len(text))] })},
	{"lengthened", edited(func(r *rand.Rand, text []byte) []byte { return append(text, byte(r.IntN(256))) })},
	{"a run of zeros", edited(func(r *rand.Rand, text []byte) []byte {
		at := r.IntN(len(text))
		changed := false
		for i := at; i < min(len(text), at+512); i++ {
			changed = changed || text[i] != 0
			text[i] = 0
		}
		if !changed {
			text[at] = 1
		}
		return text
	})},
	{"missing", func(_ *rand.Rand, path, _ string) error { return os.Remove(path) }},
	{"swapped with another", func(_ *rand.Rand, path, other string) error {
		return errors.Join(os.Rename(path, path+"~"), os.Rename(other, path), os.Rename(path+"~", other))
	}},
}

func edited(edit func(r *rand.Rand, text []byte) []byte) func(*rand.Rand, string, string) error {
	return func(r *rand.Rand, path, _ string) error {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if len(text) == 0 {
			return fmt.Errorf("%s is empty", path)
		}
		return os.WriteFile(path, edit(r, text), 0o666)
	}
}

// damage damages files of the newest checkpoint: each time, the damage must be found and named, and
// an older checkpoint used.
func damage(b *bench) error {
	p := small("bert", b.folder())
	p.Keep = 3
	want, _, err := b.whole(p)
	if err != nil {
		return err
	}
	steps, err := checkpoints(p.Dir)
	if err != nil {
		return err
	}
	if len(steps) < 3 {
		return fmt.Errorf("only the checkpoints %v", steps)
	}
	total := b.either(10_000, 600)
	seeds := make([]uint64, total)
	for i := range seeds {
		seeds[i] = b.random.Uint64()
	}
	var mu sync.Mutex
	kinds := map[string]int{}
	done := b.each(total, func(i int) {
		kind, err := spoiled(b, p.Dir, steps, seeds[i])
		if err != nil {
			b.fail("damage %d: %v", i, err)
			return
		}
		mu.Lock()
		kinds[kind]++
		mu.Unlock()
	})
	resumed := b.either(60, 6)
	for i := range resumed { // a run that finds the damage resumes from the previous checkpoint
		again := p
		again.Dir = b.folder()
		if err := copyFolder(again.Dir, p.Dir); err != nil {
			return err
		}
		r := rand.New(rand.NewPCG(seeds[i], 1))
		newest := filepath.Join(again.Dir, fmt.Sprint("checkpoint-", steps[len(steps)-1]))
		kind := damageKinds[r.IntN(len(damageKinds))]
		file, other, err := twoFiles(r, newest)
		if err == nil {
			err = kind.spoil(r, file, other)
		}
		if err != nil {
			return err
		}
		b.same(again, want, fmt.Sprintf("%s: %s", filepath.Base(file), kind.name))
	}
	b.count("%d damaged files found and named (%s), the checkpoint before taken each time; %d runs continued", done,
		counts(kinds), resumed)
	return nil
}

// spoiled copies a run's checkpoints, damages the newest, and checks what the store reports.
func spoiled(b *bench, from string, steps []int, seed uint64) (kind string, err error) {
	r := rand.New(rand.NewPCG(seed, 0))
	dir := b.folder()
	defer os.RemoveAll(dir)
	newest, older := steps[len(steps)-1], steps[len(steps)-2]
	for _, step := range []int{newest, older} {
		name := fmt.Sprint("checkpoint-", step)
		if err := copyFolder(filepath.Join(dir, name), filepath.Join(from, name)); err != nil {
			return "", err
		}
	}
	path := filepath.Join(dir, fmt.Sprint("checkpoint-", newest))
	file, other, err := twoFiles(r, path)
	if err != nil {
		return "", err
	}
	k := damageKinds[r.IntN(len(damageKinds))]
	if err := k.spoil(r, file, other); err != nil {
		return "", err
	}
	what := fmt.Sprintf("%s, %s", filepath.Base(file), k.name)
	found := checkpoint.Verify(path)
	damaged, ok := errors.AsType[*checkpoint.DamagedError](found)
	named := ok && (strings.Contains(found.Error(), filepath.Base(file)) ||
		strings.Contains(found.Error(), filepath.Base(other)))
	if !named || damaged.Path != path {
		return "", fmt.Errorf("%s: Verify = %s; want an error that names the checkpoint and the file", what,
			fmt.Sprint(found)) // may be nil
	}
	var told []string
	store, err := checkpoint.Open(dir, checkpoint.Options{OnDamaged: func(e *checkpoint.DamagedError) {
		told = append(told, filepath.Base(e.Path))
	}})
	if err != nil {
		return "", err
	}
	defer store.Close() //nolint:errcheck // its folder is deleted
	latest, err := store.Latest()
	if err != nil {
		return "", fmt.Errorf("%s: %w", what, err)
	}
	if latest != filepath.Join(dir, fmt.Sprint("checkpoint-", older)) || len(told) != 1 {
		return "", fmt.Errorf("%s: Latest = %s, told of %v; want checkpoint-%d, told of the other", what, latest, told,
			older)
	}
	return k.name, nil
}

// twoFiles chooses a file of a checkpoint and another one with different contents.
func twoFiles(r *rand.Rand, dir string) (file, other string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return "", "", err
	}
	if len(entries) < 2 {
		return "", "", fmt.Errorf("%s has %d files", dir, len(entries))
	}
	i := r.IntN(len(entries))
	k := (i + 1 + r.IntN(len(entries)-1)) % len(entries)
	return filepath.Join(dir, entries[i].Name()), filepath.Join(dir, entries[k].Name()), nil
}
