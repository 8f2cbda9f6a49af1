package torch

// Sweep collects garbage and waits until the tensors among it are freed.
func Sweep() { collected.sweep() }

// GarbageBudget is how much memory may wait for the garbage collector.
const GarbageBudget = garbageBudget

// CollectedBytes is how much memory the garbage collector owns.
func CollectedBytes() int64 { return collected.bytes.Load() }
