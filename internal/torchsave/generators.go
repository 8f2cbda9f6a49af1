package torchsave

import (
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/torch"
)

// DevicesOf are the devices whose generators a run on a device draws from: the CPU and it.
func DevicesOf(d torch.Device) []torch.Device { return slices.Compact([]torch.Device{torch.CPU, d}) }

// Generators are states of the default generators of devices, by the names of the devices.
type Generators map[string][]byte

// GeneratorsOf are where the default generators of some devices stand.
func GeneratorsOf(devices []torch.Device) Generators {
	states := Generators{}
	for _, d := range devices {
		states[d.String()] = torch.DefaultGenerator(d).State()
	}
	return states
}

// GeneratorOf finds the state of the generator of a device among states by the names of devices.
// That of a GPU may be there under another number, which a process can have had before it was
// resumed: it is the only one of a GPU then.
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

// Restore puts the default generators of some devices where they stood. One without a state stays
// as it is; bytes that are no state panic with [*torch.Error].
func (states Generators) Restore(devices []torch.Device) {
	for _, d := range devices {
		if state, ok := GeneratorOf(states, d); ok {
			torch.DefaultGenerator(d).SetState(state)
		}
	}
}
