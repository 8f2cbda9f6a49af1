package auto

import (
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// DeviceOfPredictions is where Predict sends its inputs.
func DeviceOfPredictions(m *Model) (d torch.Device) {
	if err := m.evaluate(func(p engine.ForwardPass) { d = p.Device }); err != nil {
		panic(err)
	}
	return d
}
