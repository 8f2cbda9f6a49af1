package auto

import (
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// DeviceOfPredictions returns the device that Predict sends its inputs to.
func DeviceOfPredictions(m *Model) (d torch.Device) {
	if err := m.Evaluate(func(p engine.ForwardPass) { d = p.Device }); err != nil {
		panic(err)
	}
	return d
}
