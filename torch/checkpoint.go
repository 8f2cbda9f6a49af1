package torch

import (
	"runtime"

	"github.com/gotrainer/gotrainer/cgotorch"
)

// Checkpoint computes f(inputs) without keeping the intermediate results that its backward pass
// needs; the backward pass computes f again. It trades time for memory: torch.utils.checkpoint.
//
//	y := torch.Checkpoint(func(in []torch.Tensor) []torch.Tensor { return []torch.Tensor{block.Forward(in[0])} }, x)[0]
//
// The second run draws the same random numbers, on the CPU and on the devices of the inputs, and
// runs under the same [Autocast]. If f is deterministic, the gradients are therefore the same, bit
// for bit, as without Checkpoint.
//
// f runs in its own [Scope], so its intermediates are freed when it returns. It may use any
// parameters, which get their gradients, but other tensors with a history must be passed as
// inputs. f must not call Backward and must do the same both times: statistics that it updates, as
// BatchNorm does, are updated twice. Checkpoints nest. An input may be undefined.
//
// This is PyTorch's use_reentrant=True, without its requirements on inputs. As in PyTorch, neither
// [Grad] nor CreateGraph can pass through a checkpoint; both fail with an error that says so. A
// stack of layers, each in its own checkpoint, gives the same bits as use_reentrant=False too. The
// two differ in the order of summation if a tensor is used both in a checkpoint and outside it.
func Checkpoint(f func(inputs []Tensor) []Tensor, inputs ...Tensor) []Tensor {
	const op = "Checkpoint"
	load(op)
	return inOwnScope(func() []cgotorch.Tensor {
		if !IsGradEnabled() {
			return retained(op, f(inputs))
		}
		before := captureRNG(devicesOf(inputs))
		casts := captureAutocast()
		var outputs []Tensor
		NoGrad(func() { outputs = f(inputs) })
		again := func(inputs, _, _ []Tensor, _ bool) []Tensor {
			leaves := make([]Tensor, len(inputs))
			for i, t := range inputs {
				if !t.Defined() {
					continue
				}
				leaves[i] = t.Detach()
				if t.NeedsGrad() {
					leaves[i].RequiresGrad()
				}
			}
			now := captureRNG(before.devices)
			before.restore()
			defer now.restore()
			var outputs []Tensor
			casts.run(func() { EnableGrad(func() { outputs = f(leaves) }) })
			return append(leaves, outputs...)
		}
		return newNode(op, cgotorch.CheckpointNode, again, inputs, outputs)
	})
}

// devicesOf returns the CPU and the GPUs that hold any of ts.
func devicesOf(ts []Tensor) []Device {
	devices := []Device{CPU}
	seen := map[Device]bool{CPU: true}
	for _, t := range ts {
		if !t.Defined() {
			continue
		}
		if d := t.Device(); !seen[d] {
			seen[d] = true
			devices = append(devices, d)
		}
	}
	return devices
}

// autocastState is the autocast state of a thread, one entry per kind of device.
type autocastState []castOf

type castOf struct {
	device Device
	saved  int64 // in the shim's packed form: enabled, cache, dtype
}

// captureAutocast reads the autocast state of the calling thread.
func captureAutocast() (state autocastState) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	devices := []Device{CPU}
	if cgotorch.CUDADevices() > 0 {
		devices = append(devices, CUDA(0))
	}
	for _, d := range devices {
		c := castOf{device: d}
		// Entering returns the previous state, and leaving immediately restores it.
		check("Checkpoint", cgotorch.EnterAutocast(int32(d.kind), false, BFloat16.code(), true, &c.saved))
		check("Checkpoint", cgotorch.LeaveAutocast(int32(d.kind), c.saved))
		state = append(state, c)
	}
	return state
}

// run runs f with autocast set to s.
func (s autocastState) run(f func()) {
	if len(s) == 0 {
		f()
		return
	}
	c := s[0]
	Autocast(c.device, dtypeOf(int32(c.saved>>8)), c.saved&1 != 0, c.saved&2 != 0, func() { s[1:].run(f) })
}
