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
