package torchsave

import (
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/torch"
)

// DevicesOf returns the devices whose generators are used by a run on a device: the CPU and the
// device.
func DevicesOf(d torch.Device) []torch.Device { return slices.Compact([]torch.Device{torch.CPU, d}) }

// Generators are states of the default generators, by name of the device.
type Generators map[string][]byte

// GeneratorsOf returns the states of the devices' default generators.
func GeneratorsOf(devices []torch.Device) Generators {
	states := Generators{}
	for _, d := range devices {
		states[d.String()] = torch.DefaultGenerator(d).State()
	}
	return states
}

// GeneratorOf returns the state for a device from states by name of the device. That of a GPU may
// be stored under another index, which the GPU had before the process was resumed; this works if it
// is the only GPU's.
func GeneratorOf[V any](states map[string]V, d torch.Device) (state V, ok bool) {
	if state, ok = states[d.String()]; ok || !d.IsCUDA() {
		return state, ok
	}
	var gpus []string
	for name := range states {
		if strings.HasPrefix(name, "cuda:") {
			gpus = append(gpus, name)
		}
	}
	if len(gpus) != 1 {
		return state, false
	}
	return states[gpus[0]], true
}

// Restore restores the default generators of devices. Those without a state are unchanged; an
// invalid state panics with [*torch.Error].
func (states Generators) Restore(devices []torch.Device) {
	for _, d := range devices {
		if state, ok := GeneratorOf(states, d); ok {
			torch.DefaultGenerator(d).SetState(state)
		}
	}
}
