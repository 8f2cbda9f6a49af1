package semantics

import "fmt"

// Validate reports switches with values that do not exist, and switches that the loop does not use.
func (r Rules) Validate() error {
	for _, c := range []struct {
		name     string
		is, last int
	}{
		{"Loop", int(r.Loop), int(PyMarlinLoop)}, {"Divisor", int(r.Divisor), int(Accumulate)},
		{"LossReport", int(r.LossReport), int(WindowMean)}, {"EvalLoss", int(r.EvalLoss), int(RowsInFloat32)},
	} {
		if c.is < 0 || c.is > c.last {
			return fmt.Errorf("semantics: Rules.%s is %d; use one of the constants of its type", c.name, c.is)
		}
	}
	for _, c := range []struct {
		name string
		set  bool
		loop Loop
		of   string
	}{
		{"UnfinishedWindowLost", r.UnfinishedWindowLost, HezarLoop, "HezarLoop"},
		{"RepeatAtEpochEnd", r.RepeatAtEpochEnd, HezarLoop, "HezarLoop"},
		{"SaveInsideWindow", r.SaveInsideWindow, HezarLoop, "HezarLoop"},
		{"ClipEveryBatch", r.ClipEveryBatch, PytorchAcceleratedLoop, "PytorchAcceleratedLoop"},
		{"LimitByEpoch", r.LimitByEpoch, PytorchAcceleratedLoop, "PytorchAcceleratedLoop"},
		{"EpochsPerSession", r.EpochsPerSession, PytorchAcceleratedLoop, "PytorchAcceleratedLoop"},
		{"PlanIgnoresLimit", r.PlanIgnoresLimit, PytorchAcceleratedLoop, "PytorchAcceleratedLoop"},
	} {
		if c.set && r.Loop != c.loop {
			return fmt.Errorf("semantics: Rules.%s is set, which only %s reads; set Rules.Loop to it, or clear the "+
				"switch", c.name, c.of)
		}
	}
	return nil
}
