package main

import (
	"fmt"
	"maps"
	"math"

	"github.com/gotrainer/gotrainer/trainer"
)

// soak trains for a long time, with evaluations and saves, and checks that nothing grows.
func soak(b *bench) error {
	updates := b.either(100_000, 3000)
	p := plan{Model: "mlp", Dir: b.folder(), Resume: trainer.Latest, Samples: 60, Batch: 2, Accumulate: 1,
		Updates: updates, Save: updates / 100, Eval: updates / 100, Log: updates / 300, Keep: 2,
		MemoryEvery: updates / 300}
	v, err := newProcess(p, b.dir)
	if err == nil {
		err = v.start()
	}
	if err != nil {
		return err
	}
	e := v.wait()
	if e.code != 0 {
		return fmt.Errorf("it ended with code %d: %s", e.code, e.complaint)
	}
	samples := v.memories[len(v.memories)/3:] // by then the caches have reached their size
	if len(samples) < 100 {
		return fmt.Errorf("only %d samples of memory", len(samples))
	}
	text := fmt.Sprintf("%d updates", updates)
	for _, c := range []struct {
		name string
		most float64 // allowed growth over the run
		of   func(memory) float64
	}{
		// The log is kept in memory, at some hundred bytes per row.
		{"KiB", math.Max(2048, 0.02*float64(updates)), func(m memory) float64 { return m.RSS }},
		{"goroutines", 1, func(m memory) float64 { return float64(m.Goroutines) }},
		{"open files", 1, func(m memory) float64 { return float64(m.Files) }},
		{"tensors", 1, func(m memory) float64 { return float64(m.Tensors) }},
	} {
		s := slope(samples, c.of)
		text += fmt.Sprintf(", %+.5f %s", s, c.name)
		if growth := s * float64(updates); growth > c.most {
			b.fail("%s grow by %.4f an update, %.0f over the run; want at most %.0f", c.name, s, growth, c.most)
		}
	}
	b.count("%s an update", text)
	return nil
}

// slope returns the least-squares growth of a quantity per update.
func slope(samples []memory, of func(memory) float64) float64 {
	var x, y, xx, xy float64
	n := float64(len(samples))
	for _, m := range samples {
		u, v := float64(m.Update), of(m)
		x, y, xx, xy = x+u, y+v, xx+u*u, xy+u*v
	}
	return (n*xy - x*y) / (n*xx - x*x)
}

// trainers compares 16 trainers in one process, each with its own seed, with the same trainers in
// separate processes.
func trainers(b *bench) error {
	const n = 16
	p := small("crnn", b.folder())
	p.Trainers = n
	want, _, err := b.whole(p)
	if err != nil {
		return err
	}
	alone := make([]map[string]string, n)
	b.each(n, func(i int) {
		one := p
		one.Dir, one.Lone = b.folder(), i+1
		left, _, err := b.whole(one)
		if err != nil {
			b.fail("%v", err)
		}
		alone[i] = left
	})
	got := map[string]string{}
	same := 0
	for i, left := range alone {
		maps.Copy(got, left)
		if name := fmt.Sprint("outcome of trainer ", i+1); left[name] == want[name] {
			same++
		}
	}
	if diff := difference(got, want); diff != "" {
		b.fail("at once they end otherwise than alone: %s", diff)
	}
	b.count("%d of %d", same, n)
	return nil
}
