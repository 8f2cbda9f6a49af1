package torch

import "github.com/gotrainer/gotrainer/cgotorch"

// Sweep collects garbage and waits until the unreachable tensors are freed.
func Sweep() { collected.sweep() }

// GarbageBudget is how much memory may wait for the garbage collector.
const GarbageBudget = garbageBudget

// CollectedBytes returns how much memory the garbage collector owns.
func CollectedBytes() int64 { return collected.bytes.Load() }

// Relieve sets the threshold of the next collection according to what is alive now.
func Relieve() {
	collected.sweep()
	collected.limit.Store(2 * collected.bytes.Load())
}

// GoNodes returns the number of nodes in graphs whose backward is Go code.
func GoNodes() int64 {
	forgetDeadNodes()
	return deferred.count.Load()
}

// UseCount returns the number of references that Go and libtorch hold to t.
func UseCount(t Tensor) int64 { return cgotorch.UseCount(t.ptr("UseCount")) }

// LocalGPU exports localGPU.
var LocalGPU = localGPU

// Looks counts how often the wait policy was decided.
func Looks() int {
	waiting.Lock()
	defer waiting.Unlock()
	return waiting.looks
}

// LookSoon makes the end of the next scope decide the wait policy.
func LookSoon() { nextLook.Store(0) }

// FixWaiting stops the automatic changes of the wait policy.
func FixWaiting() {
	waiting.Lock()
	defer waiting.Unlock()
	waiting.policy.Fixed = true
	nextLook.Store(never)
}

// ShortSlice is the slice that passive threads request.
const ShortSlice = shortSlice

// RequestSlices exports requestSlices.
var RequestSlices = requestSlices

// AdaptBeside sets the number of threads as if other processes used the given number of CPUs, and
// turns automatic changes off.
func AdaptBeside(cpus int, others float64) {
	waiting.Lock()
	defer waiting.Unlock()
	nextLook.Store(never)
	adaptThreads(threadsBeside(cpuLoad{cpus: cpus, others: others}, waiting.wanted, others > 0))
}

// SlowBFloat16Of exports slowBFloat16, which takes the properties of a CPU.
var SlowBFloat16Of = slowBFloat16

// HasAVX2 reports whether numbers can be reproducible on this CPU.
var HasAVX2 = hasAVX2

// MissingInstructions exports missingInstructions.
var MissingInstructions = missingInstructions

// SlowBFloat16OnARMOf exports slowBFloat16OnARM.
var SlowBFloat16OnARMOf = slowBFloat16OnARM
