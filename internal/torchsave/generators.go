package torchsave

import (
	"slices"

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

// Restore puts the default generators of some devices where they stood. One without a state stays
// as it is; bytes that are no state panic with [*torch.Error].
func (states Generators) Restore(devices []torch.Device) {
	for _, d := range devices {
		if state, ok := states[d.String()]; ok {
			torch.DefaultGenerator(d).SetState(state)
		}
	}
}
