// Package replay runs conformance cases with gotrainer's public API: a file for each trainer that
// was recorded. What a case asks for is mapped to the code that a user of gotrainer would write; no
// case is known by its name.
//
//	run, err := replay.Case(ctx, "cases/hf/accum4_tail") // err: an *spec.Unsupported, or a case that cannot be read
//	err = run.Write("traces/hf/accum4_tail")
//
// # Adding a trainer
//
// A trainer is a function from a session to a [Run] in a file of its own, and a line in peers. It
// takes the arguments it knows out of the specification, so that one it does not know makes the
// case unsupported, and records with the session's recorder what happens. A refusal, where the
// recorded trainer would have refused, is part of the trace and no error. What fails is told as in
// package spec: by spec.Must and its like.
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

// peers are the trainers whose recordings can be replayed.
var peers = map[string]func(context.Context, *session) *Run{
	"course":              replayAccelerate,
	"accelerate":          replayAccelerate,
	"hf":                  replayHF,
	"pytorch_accelerated": replayPytorchAccelerated,
	"pymarlin":            replayPyMarlin,
	"hezar":               replayHezar,
}

// session is what the replays of all trainers have.
type session struct {
	recorder
	spec   *spec.Spec
	sets   map[string]*rows
	device torch.Device
	dir    string // an empty folder, which is the working one: the paths in recorded files are relative
}

// Run is what a replayed case did.
type Run struct {
	Trace trace.Object
	final []torch.Named
}

// Case reads a case's folder and replays it. The error is an [*spec.Unsupported] if something of
// the case cannot be run; a mistake in the case; or a panic of the code that ran it, which never
// goes through.
//
// On a GPU it runs without TF32. Of a case whose model draws random numbers it says that it cannot
// be run there: a GPU draws others than the CPU of the recording.
func Case(ctx context.Context, dir string, device torch.Device) (run *Run, s *spec.Spec, err error) {
	runtime.LockOSThread() // libtorch keeps its modes by thread
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

// elsewhere refuses what cannot be run on another device than the CPU.
func elsewhere(s *spec.Spec, device torch.Device) {
	switch {
	case s.Peer != "hf" && s.Peer != "accelerate" && s.Peer != "course":
		spec.Refusef("the trainer %q on %s; only those of Hugging Face are replayed there", s.Peer, device)
	case s.DrawsRandom():
		spec.Refusef("dropout or noise on %s, which draws other random numbers than the CPU of the recording", device)
	}
	cuda.SetTF32(false)
}

// refusal is recorded.Try for what the recorded trainer may refuse. What is about the case, or
// about what can be replayed, is no refusal of the run, and fails on.
func refusal(run func()) error {
	err := recorded.Try(run)
	if u, t := new(spec.Unsupported), new(spec.TypeError); errors.As(err, &u) || errors.As(err, &t) {
		spec.Check(err)
	}
	return err
}

// defaultSeed is what PyTorch seeds its generators with when a process begins.
const defaultSeed = 67280421310721

// Write writes trace.json and final.safetensors into a folder, which is made if there is none.
func (r *Run) Write(dir string) error {
	return recorded.Try(func() {
		spec.Check(os.MkdirAll(dir, 0o777))
		spec.Check(os.WriteFile(filepath.Join(dir, "trace.json"), spec.Must(trace.Marshal(r.Trace)), 0o666))
		path := filepath.Join(dir, FinalName)
		if len(r.final) > 0 {
			spec.Check(tensorio.Save(path, r.final, nil))
		} else if err := os.Remove(path); !errors.Is(err, os.ErrNotExist) { // of an earlier run
			spec.Check(err)
		}
	})
}

// split is one that the case has to have.
func (c *session) split(name string) *rows {
	set, ok := c.sets[name]
	if !ok {
		spec.Failf("there is no split %q", name)
	}
	return set
}

// noMore refuses what the loops written by hand do not have: a field of the specification that
// nobody has taken, and fields of the others' phases.
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

// filesBelow lists the files below a folder; none if there is no such folder.
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

// saved lists the checkpoints that patterns find in the working folder, in the order of the numbers
// that their names end in.
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
