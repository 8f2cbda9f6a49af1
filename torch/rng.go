package torch

import "github.com/gotrainer/gotrainer/cgotorch"

// ForkRNG runs f and then puts the default generators back to where they were, so that what f draws
// does not change what is drawn after it: torch.random.fork_rng. It does so for the CPU and for the
// GPUs that are named, all of them if none is.
func ForkRNG(f func(), gpus ...Device) {
	load("ForkRNG")
	devices := append([]Device{CPU}, gpus...)
	if len(gpus) == 0 {
		for i := range cgotorch.CUDADevices() {
			devices = append(devices, CUDA(i))
		}
	}
	before := captureRNG(devices)
	defer before.restore()
	f()
}

// rngState is where the default generators of some devices were.
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
