package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
)

// watcher is the callback of a victim: it announces phases, samples memory and fills the disk.
type watcher struct{ plan plan }

func (w *watcher) BatchBegin(*trainer.Run) error         { return w.in("forward") }
func (w *watcher) BeforeUpdate(*trainer.Run) error       { return w.in("update") }
func (w *watcher) EvalStepBegin(*trainer.Run) error      { return w.in("evaluation") }
func (w *watcher) BeforeSeal(*trainer.Run, string) error { return w.in("save") }
func (w *watcher) PushBegin(*trainer.Run) error          { return w.in("push") }

func (w *watcher) in(phase string) error {
	w.plan.pause(phase)
	return nil
}

// betweenPasses is a separate callback because having its method changes how the step is called.
type betweenPasses struct{ plan plan }

func (b betweenPasses) AfterForward(*trainer.Run) error {
	b.plan.pause("backward")
	return nil
}

// pause announces a phase and prolongs it.
func (p plan) pause(phase string) {
	if p.Phase == phase {
		say(saidPhase, phase)
		time.Sleep(p.Pause)
	}
}

// StepEnd is called after each update.
func (w *watcher) StepEnd(r *trainer.Run) error {
	if n := w.plan.MemoryEvery; n > 0 && r.GlobalStep%n == 0 {
		text, err := json.Marshal(sampleMemory(r.GlobalStep))
		if err != nil {
			return err
		}
		say(saidMemory, string(text))
	}
	if w.plan.FullAt == 0 {
		return nil
	}
	ballast := filepath.Join(w.plan.Dir, "ballast")
	switch r.GlobalStep {
	case w.plan.FullAt:
		return fill(ballast)
	case w.plan.EmptyAt:
		return os.Remove(ballast)
	}
	return nil
}

// fill writes a file until the disk is full.
func fill(path string) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	block := make([]byte, 4096)
	for {
		if _, err := f.Write(block); err != nil {
			if errors.Is(err, syscall.ENOSPC) {
				return nil
			}
			return err
		}
	}
}

// memory is what a process holds after a number of updates.
type memory struct {
	Update, Goroutines, Files int
	RSS                       float64 // KiB
	Tensors                   int64
}

func sampleMemory(update int) memory {
	runtime.GC()
	m := memory{Update: update, Goroutines: runtime.NumGoroutine(), Tensors: torch.Live()}
	status, _ := os.ReadFile("/proc/self/status") // without this file, the soak does not check memory
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			_, _ = fmt.Sscan(rest, &m.RSS)
		}
	}
	files, _ := os.ReadDir("/proc/self/fd")
	m.Files = len(files)
	return m
}
