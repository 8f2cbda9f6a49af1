// Package replay runs conformance cases with gotrainer's public API; each recorded trainer has its
// own file. What a case asks for is mapped to the code that a user of gotrainer would write,
// independently of the case's name.
//
//	run, err := replay.Case(ctx, "cases/hf/accum4_tail") // err: an *spec.Unsupported, or a case that cannot be read
//	err = run.Write("traces/hf/accum4_tail")
//
// # Adding a trainer
//
// A trainer is a function from a session to a [Run], in a file of its own, and an entry in peers.
// It takes the arguments that it knows from the specification, so that unknown ones make the case
// unsupported, and records what happens with the session's recorder. If the recorded trainer would
// have refused the run, that is part of the trace and not an error. Failures are reported as in
// package spec, by spec.Must and the like.
package replay

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/internal/conformance/recorded"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/internal/conformance/trace"
	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/torch/cuda"
)

// peers maps the recorded trainers to their replays.
var peers = map[string]func(context.Context, *session) *Run{
	"course":              replayAccelerate,
	"accelerate":          replayAccelerate,
	"hf":                  replayHF,
	"pytorch_accelerated": replayPytorchAccelerated,
	"pymarlin":            replayPyMarlin,
	"hezar":               replayHezar,
}

// session is what the replays of all trainers share.
type session struct {
	recorder
	spec   *spec.Spec
	sets   map[string]*rows
	device torch.Device
	dir    string // an empty folder, which is the working directory: paths in recorded files are relative
}

// Run is what a replayed case did.
type Run struct {
	Trace trace.Object
	final []torch.Named
}

// Case reads the case in a folder and replays it. The error is an [*spec.Unsupported] if part of
// the case cannot be run, a mistake in the case, or a panic of the code under test, which is never
// passed on.
//
// On a GPU it runs without TF32. There, cases whose models draw random numbers are unsupported,
// because a GPU draws other numbers than the CPU of the recording.
func Case(ctx context.Context, dir string, device torch.Device) (run *Run, s *spec.Spec, err error) {
	runtime.LockOSThread() // libtorch keeps its modes per thread
	defer runtime.UnlockOSThread()
	err = recorded.TryAll(func() {
		s = spec.Must(spec.Read(dir))
		replay, ok := peers[s.Peer]
		if !ok {
			spec.Refusef("the trainer %q", s.Peer)
		}
		recorded.Load()
		if device != torch.CPU {
			elsewhere(s, device)
		}
		c := &session{spec: s, sets: readRows(s), device: device, dir: spec.Must(os.MkdirTemp("", "conformance-"))}
		defer func() { _ = os.RemoveAll(c.dir) }()
		s.Dir = spec.Must(filepath.Abs(s.Dir))
		before := spec.Must(os.Getwd())
		spec.Check(os.Chdir(c.dir))
		defer func() { _ = os.Chdir(before) }()
		torch.SetThreads(s.Threads)
		torch.ManualSeed(defaultSeed)
		run = replay(ctx, c)
	})
	return run, s, err
}

// elsewhere refuses cases that can only run on the CPU.
func elsewhere(s *spec.Spec, device torch.Device) {
	switch {
	case s.Peer != "hf" && s.Peer != "accelerate" && s.Peer != "course":
		spec.Refusef("the trainer %q on %s; only those of Hugging Face are replayed there", s.Peer, device)
	case s.DrawsRandom():
		spec.Refusef("dropout or noise on %s, which draws other random numbers than the CPU of the recording", device)
	}
	cuda.SetTF32(false)
}

// refusal is recorded.Try for errors that the recorded trainer may have returned as well. Mistakes
// in the case and unsupported features are not among these, and fail.
func refusal(run func()) error {
	err := recorded.Try(run)
	if u, t := new(spec.Unsupported), new(spec.TypeError); errors.As(err, &u) || errors.As(err, &t) {
		spec.Check(err)
	}
	return err
}

// defaultSeed is the initial seed of PyTorch's generators.
const defaultSeed = 67280421310721

// Write writes trace.json and final.safetensors into a folder, which is created if needed.
func (r *Run) Write(dir string) error {
	return recorded.Try(func() {
		spec.Check(os.MkdirAll(dir, 0o777))
		spec.Check(os.WriteFile(filepath.Join(dir, "trace.json"), spec.Must(trace.Marshal(r.Trace)), 0o666))
		path := filepath.Join(dir, FinalName)
		if len(r.final) > 0 {
			spec.Check(tensorio.Save(path, r.final, nil))
		} else if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) { // left by an earlier run
			spec.Check(err)
		}
	})
}

// split returns a data set that the case must have.
func (c *session) split(name string) *rows {
	set, ok := c.sets[name]
	if !ok {
		spec.Failf("there is no split %q", name)
	}
	return set
}

// noMore refuses what the hand-written loops do not support: fields of the specification that have
// not been taken, and fields of other trainers' phases.
func noMore(s *spec.Spec) {
	spec.Check(s.More.Done())
	switch {
	case s.LossFunc != "":
		spec.Refusef("loss_func with the trainer %s", s.Peer)
	case len(s.Callbacks) > 0:
		spec.Refusef("callbacks with the trainer %s", s.Peer)
	case s.Init.ByPeer:
		spec.Refusef("init model_init with the trainer %s", s.Peer)
	}
	spec.Check(s.Data.Options.Done())
}

// filesBelow lists the files below a folder, or none if it does not exist.
func filesBelow(root string) (names []string) {
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			names = append(names, name)
		}
		return err
	})
	if !errors.Is(err, fs.ErrNotExist) {
		spec.Check(err)
	}
	return names
}

// saved lists the checkpoints in the working directory that match patterns, ordered by the numbers
// at the ends of their names.
func (c *session) saved(patterns ...string) []string {
	names := []string{}
	for _, pattern := range patterns {
		names = append(names, spec.Must(filepath.Glob(pattern))...)
	}
	number := func(name string) int {
		n, _ := strconv.Atoi(name[strings.LastIndexAny(name, "-_")+1:])
		return n
	}
	slices.SortStableFunc(names, func(a, b string) int { return number(a) - number(b) })
	return names
}
