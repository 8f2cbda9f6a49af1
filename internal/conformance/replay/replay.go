// Package replay runs conformance cases with gotrainer's public API: a file for each trainer that
// was recorded. What a case asks for is mapped to the code that a user of gotrainer would write; no
// case is known by its name.
//
//	run, err := replay.Case(ctx, "cases/hf/accum4_tail") // err: an *spec.Unsupported, or a case that cannot be read
//	err = run.Write("traces/hf/accum4_tail")
//
// # Adding a trainer
//
// A trainer is a function from a specification to a [Run] in a file of its own, and a line in
// peers. It takes the arguments it knows out of the specification, so that one it does not know
// makes the case unsupported, and records with a recorder what happens. A refusal, where the
// recorded trainer would have refused, is part of the trace and no error.
package replay

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"

	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/internal/conformance/trace"
	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/torch"
)

// peers are the trainers whose recordings can be replayed.
var peers = map[string]func(context.Context, *spec.Spec) (*Run, error){
	"course":              replayCourse,
	"accelerate":          replayAccelerate,
	"hf":                  replayHF,
	"pytorch_accelerated": replayPytorchAccelerated,
	"pymarlin":            replayPyMarlin,
	"hezar":               replayHezar,
}

// Run is what a replayed case did.
type Run struct {
	Trace trace.Object
	final []tensorBytes
}

// Case reads a case's folder and replays it. The error is an [*spec.Unsupported] if something of
// the case cannot be run; a mistake in the case; or a panic of the code that ran it, which never
// goes through.
func Case(ctx context.Context, dir string) (run *Run, s *spec.Spec, err error) {
	if s, err = spec.Read(dir); err != nil {
		return nil, nil, err
	}
	replay, ok := peers[s.Peer]
	if !ok {
		return nil, s, spec.Unsupportedf("the trainer %q", s.Peer)
	}
	if err := torch.Load(); err != nil {
		return nil, s, spec.Unsupportedf("libtorch cannot be loaded: %v", err)
	}
	runtime.LockOSThread() // libtorch keeps its modes by thread
	defer runtime.UnlockOSThread()
	defer func() {
		if p := recover(); p != nil {
			run, err = nil, fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	failed := torch.Try(func() {
		torch.SetThreads(s.Threads)
		torch.ManualSeed(defaultSeed)
		run, err = replay(ctx, s)
	})
	return run, s, errors.Join(failed, err)
}

// defaultSeed is what PyTorch seeds its generators with when a process begins.
const defaultSeed = 67280421310721

// Write writes trace.json and final.safetensors into a folder, which is made if there is none.
func (r *Run) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	text, err := trace.Marshal(r.Trace)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "trace.json"), text, 0o666); err != nil {
		return err
	}
	path := filepath.Join(dir, trace.FinalName)
	if len(r.final) == 0 {
		err := os.Remove(path) // of an earlier run
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		return nil
	}
	var entries []safetensors.Entry
	for _, t := range r.final {
		dtype, ok := tensorio.FileDType(t.dtype)
		if !ok {
			return fmt.Errorf("tensor %q has dtype %s, which files cannot hold", t.name, t.dtype)
		}
		entries = append(entries, safetensors.Entry{Name: t.name, DType: dtype, Shape: t.shape,
			Data: safetensors.Bytes(t.raw)})
	}
	return safetensors.WriteFile(path, entries, nil)
}

// noMore refuses what the loops written by hand do not have: a field of the specification that
// nobody has taken, and fields of the others' phases.
func noMore(s *spec.Spec) error {
	if err := s.More.Done(); err != nil {
		return err
	}
	if s.LossFunc != "" {
		return spec.Unsupportedf("loss_func with the trainer %s", s.Peer)
	}
	if len(s.Callbacks) > 0 {
		return spec.Unsupportedf("callbacks with the trainer %s", s.Peer)
	}
	if s.Init.ByPeer {
		return spec.Unsupportedf("init model_init with the trainer %s", s.Peer)
	}
	return s.Data.Options.Done()
}

// aboutCase tells whether an error is about the case, or about what can be replayed, and no refusal
// of the run.
func aboutCase(err error) bool {
	var u *spec.Unsupported
	var t *spec.TypeError
	return errors.As(err, &u) || errors.As(err, &t)
}
