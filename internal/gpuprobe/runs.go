package main

import (
	"bytes"
	"math"
	"os"
	"path/filepath"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
)

// Allowed relative differences between the device and the CPU: the aims of issue 17.
const (
	parityFP32 = 1e-4
	parityBF16 = 2e-2
)

// parity runs the same trainings on the CPU and on the device, and compares losses and norms.
func parity(m machine) (a answer) {
	defer withoutTF32(m)()
	found := map[string]any{}
	updates := m.less(6, 2)
	for _, t := range trainings(m, 0) {
		var want record
		err := t.train(recipe{updates: updates, engine: on(machine{device: torch.CPU}, amp.FP32), record: &want})
		if err != nil {
			a.expect(false, "%s on the CPU: %v", t.name, err)
			continue
		}
		for _, c := range []struct {
			precision amp.Precision
			limit     float64
		}{{amp.FP32, parityFP32}, {amp.BF16, parityBF16}} {
			name := t.name + " " + c.precision.String()
			var got record
			err := t.train(recipe{updates: updates, engine: on(m, c.precision), record: &got})
			if a.expect(err == nil, "%s: %v", name, err); err != nil {
				continue
			}
			worst := furthest(got.Losses, want.Losses)
			if c.precision == amp.FP32 { // in bf16 norms of single updates vary more: the losses decide
				norms := len(want.Norms)
				if t.name == "crnn" { // its sixth differs by 3e-4 between two code paths of one CPU
					norms = 1
				}
				worst = max(worst, furthest(got.Norms[:norms], want.Norms[:norms]))
			}
			a.expect(worst < c.limit, "%s is %.2g away from the CPU's; want %g", name, worst, c.limit)
			found[name] = map[string]any{"worst": worst, "worst norm": furthest(got.Norms, want.Norms), "cpu": want,
				"device": got}
		}
	}
	a.found = found
	return a
}

// furthest returns the largest relative difference of two lists of numbers.
func furthest(got, want []float64) (worst float64) {
	for i := range want {
		d := math.Abs(got[i]-want[i]) / math.Abs(want[i])
		if math.IsNaN(d) {
			return math.Inf(1)
		}
		worst = max(worst, d)
	}
	return worst
}

// resume compares whole runs with one that was interrupted halfway, bit for bit.
func resume(m machine) (a answer) {
	found := map[string]any{}
	updates := m.less(12, 4)
	for _, strict := range []bool{false, true} {
		for _, p := range []amp.Precision{amp.FP32, amp.BF16} {
			name := "bert " + p.String()
			if strict {
				name += ", FullDeterminism"
			}
			options := on(m, p)
			options.FullDeterminism = strict
			equal, err := interrupted(bertOf(m, 2, 128, 0.1), recipe{updates: updates, engine: options})
			if a.expect(err == nil, "%s: %v", name, err); err != nil {
				continue
			}
			found[name] = equal
			// Only deterministic operators are expected to be reproducible.
			a.expect(!strict || equal.Twice && equal.Resumed, "%s: %+v", name, equal)
		}
	}
	torch.UseDeterministicAlgorithms(false, false)
	a.found = found
	return a
}

// equality says whether two whole runs, and a whole and a resumed one, ended with the same weights.
type equality struct{ Twice, Resumed bool }

func interrupted(t training, r recipe) (e equality, err error) {
	base, err := os.MkdirTemp("", "gpuprobe-")
	if err != nil {
		return e, err
	}
	defer os.RemoveAll(base)
	weights := func(name, from string) ([]byte, error) {
		r := r
		r.save = filepath.Join(base, name+"-weights")
		r.trainer = func(o *trainer.Options) {
			o.OutputDir, o.ResumeFrom = filepath.Join(base, name), from
			o.Save = trainer.Every(r.updates/2, trainer.Update)
		}
		if err := os.Mkdir(r.save, 0o777); err != nil {
			return nil, err
		}
		if err := t.train(r); err != nil {
			return nil, err
		}
		return os.ReadFile(filepath.Join(r.save, "model.safetensors"))
	}
	whole, err := weights("whole", "")
	if err != nil {
		return e, err
	}
	again, err := weights("again", "")
	if err != nil {
		return e, err
	}
	half, err := filepath.Glob(filepath.Join(base, "whole", "checkpoint-*"))
	if err != nil || len(half) == 0 {
		return e, err
	}
	resumed, err := weights("resumed", half[0])
	return equality{bytes.Equal(whole, again), bytes.Equal(whole, resumed)}, err
}

// float16 trains with loss scaling; the initial scale, 65536, is too large for some first steps.
func float16(m machine) (a answer) {
	found := map[string]any{}
	for _, t := range trainings(m, 0.1) {
		var r record
		err := t.train(recipe{updates: m.less(60, 6), engine: on(m, amp.FP16), record: &r})
		if a.expect(err == nil, "%s: %v", t.name, err); err != nil {
			continue
		}
		first, last := r.Losses[0], r.Losses[len(r.Losses)-1]
		a.expect(last < first, "%s: the loss went from %g to %g", t.name, first, last)
		found[t.name] = map[string]any{"first": first, "last": last, "norms": r.Norms[:min(8, len(r.Norms))]}
	}
	a.found = found
	return a
}

// determinism trains with deterministic operators only.
func determinism(m machine) (a answer) {
	found := map[string]string{}
	defer torch.UseDeterministicAlgorithms(false, false)
	for _, t := range trainings(m, 0.1) {
		options := on(m, amp.FP32)
		options.FullDeterminism = true
		found[t.name] = "ok"
		// CTC and some others have no deterministic kernel; the answer lists them.
		if err := t.train(recipe{updates: m.less(3, 1), engine: options}); err != nil {
			found[t.name] = err.Error()
		}
	}
	a.found = found
	return a
}
