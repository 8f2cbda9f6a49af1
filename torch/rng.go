package torch

import (
	"runtime"
	"unsafe"

	"github.com/gotrainer/gotrainer/cgotorch"
)

// ForkRNG runs f with its own default generators, which start in the state of the current ones.
// What f draws does not change what is drawn after it, as with torch.random.fork_rng, nor what
// other goroutines draw meanwhile; nor do they change what f draws. Goroutines that each seed and
// make a model, or run a loop, therefore get the numbers that they would get alone:
//
//	torch.ForkRNG(func() {
//		torch.ManualSeed(1)
//		model = newModel()
//	})
//
// It does so for the CPU and for the given GPUs, or for all GPUs if none is given. The generators
// are used by operators without a generator argument, such as dropout and attention, by
// [DefaultGenerator] and by [ManualSeed], both in f and in backward passes that f starts. A
// goroutine that f starts uses the previous ones. Calls nest.
//
// Separate generators need Linux and libcgotorch_generators, which is installed beside libcgotorch
// (see [BuildInfo]). Without them, ForkRNG restores the state of the default generators when f
// ends, and goroutines affect each other.
func ForkRNG(f func(), gpus ...Device) {
	const op = "ForkRNG"
	load(op)
	devices := []Device{CPU}
	for _, d := range gpus {
		if d.IsCUDA() {
			devices = append(devices, d)
		}
	}
	if len(gpus) == 0 {
		for i := range cgotorch.CUDADevices() {
			devices = append(devices, CUDA(i))
		}
	}
	before := captureRNG(devices)
	if !cgotorch.HasOwnGenerators() {
		defer before.restore()
		f()
		return
	}
	own, pointers := before.generators()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var entered unsafe.Pointer
	check(op, cgotorch.EnterGenerators(pointers, &entered))
	runtime.KeepAlive(own)
	defer cgotorch.LeaveGenerators(entered)
	f()
}

// rngState holds the states of the default generators of some devices.
type rngState struct {
	devices []Device
	states  [][]byte
}

func captureRNG(devices []Device) rngState {
	s := rngState{devices: devices}
	for _, d := range devices {
		s.states = append(s.states, DefaultGenerator(d).State())
	}
	return s
}

func (s rngState) restore() {
	for i, d := range s.devices {
		DefaultGenerator(d).SetState(s.states[i])
	}
}

// generators returns new generators with the captured states.
func (s rngState) generators() (own []*Generator, pointers []cgotorch.Generator) {
	for i, d := range s.devices {
		g := NewGeneratorOn(d, 0)
		g.SetState(s.states[i])
		own, pointers = append(own, g), append(pointers, g.c)
	}
	return own, pointers
}
