package semantics

import "fmt"

// Validate finds switches in positions that they do not have.
func (r Rules) Validate() error {
	for _, c := range []struct {
		name     string
		is, last int
	}{
		{"Steps", int(r.Steps), int(MicroBatches)}, {"Plan", int(r.Plan), int(FloorPlusOne)},
		{"Divisor", int(r.Divisor), int(Accumulate)},
		{"LossReport", int(r.LossReport), int(WindowMean)}, {"Order", int(r.Order), int(SaveEvaluateLog)},
		{"EvalLoss", int(r.EvalLoss), int(RowsInFloat32)},
	} {
		if c.is < 0 || c.is > c.last {
			return fmt.Errorf("semantics: Rules.%s is %d; use one of the constants of its type", c.name, c.is)
		}
	}
	if r.Divisor == WindowLength && r.CarryWindows && r.FlushShortEpochs {
		return fmt.Errorf("semantics: Rules.Divisor must be Accumulate where CarryWindows and FlushShortEpochs are " +
			"set, since the length of a window is not known when it begins")
	}
	return nil
}
