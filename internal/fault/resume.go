package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

var loops = []struct {
	name string
	loop semantics.Loop
}{
	{"Default", semantics.DefaultLoop}, {"HuggingFace", semantics.HuggingFaceLoop}, {"Hezar", semantics.HezarLoop},
	{"PyTorchAccelerated", semantics.PytorchAcceleratedLoop}, {"PyMarlin", semantics.PyMarlinLoop},
}

// small returns a run of two epochs of 10 micro-batches, with accumulation windows of 3, 3, 3 and
// 1. It keeps an average of its weights, which evaluations use.
func small(model, dir string) plan {
	return plan{Model: model, Dir: dir, Resume: trainer.Latest, Samples: 20, Batch: 2, Accumulate: 3, Epochs: 2,
		Save: 1, Eval: 2, Log: 1, Keep: 2, EMA: true}
}

// resume resumes from every checkpoint of a run that saved after each update, as if the process had
// been killed right after it. BERT's checkpoints are written asynchronously, also by the resumed
// runs.
func resume(b *bench) error {
	var points atomic.Int32
	for _, model := range []string{"crnn", "bert"} {
		for _, l := range loops {
			p := small(model, b.folder())
			p.Loop, p.Keep, p.Async, p.EvaluateEMA = l.loop, 0, model == "bert", true
			want, _, err := b.whole(p)
			if err != nil {
				return fmt.Errorf("%s, %s: %w", model, l.name, err)
			}
			steps, err := checkpoints(p.Dir)
			if err != nil {
				return err
			}
			if len(steps) < 6 {
				return fmt.Errorf("%s, %s: only the checkpoints %v in two epochs", model, l.name, steps)
			}
			b.each(len(steps), func(i int) {
				again := p
				again.Dir = b.folder()
				for _, step := range steps[:i+1] {
					name := fmt.Sprint("checkpoint-", step)
					if err := copyFolder(filepath.Join(again.Dir, name), filepath.Join(p.Dir, name)); err != nil {
						b.fail("%v", err)
						return
					}
				}
				what := fmt.Sprintf("%s, %s, resumed from update %d of %d", model, l.name, steps[i],
					steps[len(steps)-1])
				if b.same(again, want, what) {
					points.Add(1)
				}
				_ = os.RemoveAll(again.Dir) // the rest is removed with the entry's folder
			})
		}
	}
	b.count("%d points of 2 models under %d loops", points.Load(), len(loops))
	return b.test("./trainer/engine", "TestTheScalerSurvivesAResumeAtEveryUpdate", "float16 with a forced overflow")
}

// checkpoints returns the numbers of a run's checkpoints, in order.
func checkpoints(dir string) (steps []int, err error) {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if digits, ok := strings.CutPrefix(e.Name(), "checkpoint-"); ok {
			step, err := strconv.Atoi(digits)
			if err != nil {
				return nil, err
			}
			steps = append(steps, step)
		}
	}
	slices.Sort(steps)
	return steps, err
}

// copyFolder copies a folder recursively.
func copyFolder(to, from string) error { return os.CopyFS(to, os.DirFS(from)) }

// kills kills victims at random instants until they finish.
func kills(b *bench) error {
	p := small("crnn", b.folder())
	p.Epochs, p.Gate, p.EvaluateEMA = 6, true, true
	v, err := newProcess(p, b.dir)
	if err != nil {
		return err
	}
	if err := release(v); err != nil {
		return err
	}
	opened := time.Now()
	e := v.wait()
	if e.code != 0 {
		return fmt.Errorf("an undisturbed run ended with code %d: %s", e.code, e.complaint)
	}
	want, err := bits(e, p.Dir)
	if err != nil {
		return err
	}
	length := time.Since(opened)
	total, killed, runs := b.either(200, 20), 0, 0
	for killed < total && b.ctx.Err() == nil {
		p.Dir, p.Async = b.folder(), runs%2 == 1
		runs++
		for again := 0; ; again++ {
			if again == 5 || killed >= total { // let it finish
				free := p
				free.Gate = false
				b.same(free, want, fmt.Sprintf("killed %d times", again))
				break
			}
			v, err := newProcess(p, b.dir)
			if err != nil {
				return err
			}
			if err := release(v); err != nil {
				return err
			}
			after := time.Duration(b.random.Float64() * 0.6 * float64(length))
			timer := time.AfterFunc(after, func() { _ = v.cmd.Process.Kill() })
			e := v.wait()
			timer.Stop()
			if e.code == -1 {
				killed++
				continue
			}
			left, err := bits(e, p.Dir)
			if err != nil {
				return err
			}
			if diff := difference(want, left); e.code != 0 || diff != "" {
				b.fail("after %d kills it ended with code %d: %s\n%s", again, e.code, diff, e.complaint)
			}
			break
		}
		_ = os.RemoveAll(p.Dir)
	}
	b.count("%d kills in %d runs of %.1f s, every other one with AsyncSave", killed, runs, length.Seconds())
	return nil
}

// release starts a victim and lets it pass its gate.
func release(v *process) error {
	if err := v.start(); err != nil {
		return err
	}
	if err := v.waitFor(saidReady); err != nil {
		return err
	}
	return v.open()
}
