package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"slices"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/models/bert"
	"github.com/gotrainer/gotrainer/run"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/torch/cuda"
	"github.com/gotrainer/gotrainer/trainer"
)

// outOfMemory allocates all memory, and checks the error and what works afterwards.
func outOfMemory(m machine) (a answer) {
	found := map[string]any{}
	const chunk = 8 << 30
	var held []torch.Tensor
	err := torch.Try(func() {
		for range 64 {
			held = append(held, torch.TensorOptions{Device: m.device, DType: torch.Uint8}.Empty(chunk).Keep())
		}
	})
	found["chunks of 8 GiB"] = len(held)
	found["error"] = fmt.Sprint(err)
	a.expect(errors.Is(err, torch.ErrOutOfMemory), "64 chunks of 8 GiB: %v; want torch.ErrOutOfMemory", err)
	a.expect(run.CodeOf(err) == run.OutOfMemory, "its exit code is %d", run.CodeOf(err))
	for _, t := range held {
		t.Free()
	}
	torch.EmptyCache()
	err = torch.Try(func() {
		torch.Scope(func() {
			sum := torch.TensorOptions{Device: m.device}.Ones(1000).Sum(torch.Float32).Item()
			a.expect(sum == 1000, "the sum of 1000 ones is %g afterwards", sum)
		})
	})
	a.expect(err == nil, "afterwards: %v", err)

	err = torch.Try(func() { // only Go's garbage collector can free these
		for range 80 {
			torch.TensorOptions{Device: m.device, DType: torch.Uint8}.Empty(4 << 30)
		}
	})
	a.expect(err == nil, "80 tensors of 4 GiB that nobody keeps: %v", err)

	samples := make(data.Slice[bert.Sample], 8000)
	for i := range samples {
		samples[i] = bert.Sample{InputIDs: slices.Repeat([]int64{1 + int64(i%999)}, 512), Label: int64(i % 2)}
	}
	task, err := newBERT(4, 512, 0)
	if err == nil {
		err = fit(task, samples, 6000, recipe{updates: 2, engine: on(m, amp.FP32), trainer: func(o *trainer.Options) {
			o.DivideOnOutOfMemory = true
		}})
	}
	a.expect(err == nil, "a run whose batches do not fit, with DivideOnOutOfMemory: %v", err)
	a.found = found
	return a
}

// growth looks for memory leaks.
func growth(m machine) (a answer) {
	t := bertOf(m, 4, 256, 0.1)
	var allocated []int64
	var live []int64
	for range 3 {
		if err := t.train(recipe{updates: m.less(200, 4), engine: on(m, amp.BF16)}); err != nil {
			a.expect(false, "%v", err)
			return a
		}
		for range 2 { // what belongs to the collector is freed after the second time
			runtime.GC()
			torch.EmptyCache()
		}
		live = append(live, torch.Live())
		if m.device.IsCUDA() {
			s, err := cuda.MemoryStats(m.device)
			a.expect(err == nil, "%v", err)
			allocated = append(allocated, s.Allocated.Current)
		}
	}
	a.found = map[string]any{"tensors after each run": live, "bytes after each run": allocated}
	if n := len(allocated); n > 0 {
		a.expect(allocated[n-1] <= allocated[0]+1<<20, "memory grew: %d bytes after the runs", allocated)
	}
	return a
}

// broken starts a process that breaks its CUDA context, and reports how it ends.
func broken(m machine) (a answer) {
	text, err := exec.Command(os.Args[0], "-device", m.device.String(), illegalAccess).CombinedOutput()
	a.found = map[string]any{"exit": fmt.Sprint(err), "output": string(text[max(0, len(text)-3000):])}
	a.expect(err == nil, "the process: %v", err)
	return a
}

// brokenChild reads out of bounds of a table.
func brokenChild(m machine) (a answer) {
	found := map[string]string{}
	try := func(name string, f func()) error {
		err := torch.Try(f)
		found[name] = fmt.Sprint(err)
		return err
	}
	table := torch.TensorOptions{Device: m.device}.Zeros(10, 4)
	ids := torch.From([]int64{1, 99_999}).ToDevice(m.device)
	err := errors.Join(
		try("the mistake", func() { ids.Embedding(table, -1) }),
		try("the next reading", func() { table.Sum(torch.Float32).Item() }))
	a.expect(errors.Is(err, torch.ErrDevice), "%v; want torch.ErrDevice", err)
	a.expect(run.CodeOf(err) == run.Device, "its exit code is %d", run.CodeOf(err))
	a.expect(torch.DeviceFailed(), "torch.DeviceFailed() is false")
	err = try("a new tensor", func() { torch.TensorOptions{Device: m.device}.Zeros(4).Item() })
	a.expect(errors.Is(err, torch.ErrDevice), "a new tensor: %v; want torch.ErrDevice", err)
	a.expect(try("EmptyCache", torch.EmptyCache) == nil, "EmptyCache fails")
	a.expect(try("the CPU", func() { torch.Ones(3).Sum(torch.Float32).Item() }) == nil, "the CPU fails too")
	a.found = found
	return a
}
