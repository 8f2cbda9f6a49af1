package torch

import "github.com/gotrainer/gotrainer/cgotorch"

// Sweep collects garbage and waits until the tensors among it are freed.
func Sweep() { collected.sweep() }

// GarbageBudget is how much memory may wait for the garbage collector.
const GarbageBudget = garbageBudget

// CollectedBytes is how much memory the garbage collector owns.
func CollectedBytes() int64 { return collected.bytes.Load() }

// Relieve sets the threshold of the next collection by what is alive now.
func Relieve() {
	collected.sweep()
	collected.limit.Store(2 * collected.bytes.Load())
}

// GoNodes is the number of nodes whose backward is Go code and that a graph still holds.
func GoNodes() int64 {
	forgetDeadNodes()
	return deferred.count.Load()
}

// UseCount is the number of references that Go and libtorch hold to t.
func UseCount(t Tensor) int64 { return cgotorch.UseCount(t.ptr("UseCount")) }

// LocalGPU is which GPU is a process's.
var LocalGPU = localGPU

// Looks counts how often the wait policy was decided.
func Looks() int {
	waiting.Lock()
	defer waiting.Unlock()
	return waiting.looks
}

// LookSoon makes the end of the next scope decide the wait policy.
func LookSoon() { nextLook.Store(0) }

// FixWaiting leaves the wait policy to the test.
func FixWaiting() {
	waiting.Lock()
	defer waiting.Unlock()
	waiting.policy.Fixed = true
	nextLook.Store(never)
}

// ShortSlice is what passive threads ask the kernel for.
const ShortSlice = shortSlice

// AskForSlices does so for this length; zero for the kernel's own.
var AskForSlices = askForSlices

// AdaptBeside chooses the number of threads as if others used so many of the CPUs, and looks no more.
func AdaptBeside(cpus int, others float64) {
	waiting.Lock()
	defer waiting.Unlock()
	nextLook.Store(never)
	adaptThreads(threadsBeside(cpuLoad{cpus: cpus, others: others}, waiting.wanted, others > 0))
}

// SlowBFloat16Of is what SlowBFloat16 says of another CPU.
var SlowBFloat16Of = slowBFloat16

// HasAVX2 tells whether numbers can be reproducible here.
var HasAVX2 = hasAVX2

// MissingInstructions is why libtorch would crash on a CPU.
var MissingInstructions = missingInstructions

// SlowBFloat16OnARMOf is what it says of one of ARM's.
var SlowBFloat16OnARMOf = slowBFloat16OnARM
