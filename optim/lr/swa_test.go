package lr_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/optim/lr"
)

// The expected rates were computed with PyTorch 2.11, starting from 0.1.
func TestSWALRIsThatOfPyTorch(t *testing.T) {
	for name, c := range map[string]struct {
		schedule lr.Schedule
		want     []float64
	}{
		"default": {lr.SWALR{SWALR: 0.05}, []float64{0.1, 0.09877641290737885, 0.0952254248593737, 0.08969463130731184,
			0.0827254248593737, 0.07500000000000001, 0.06727457514062632, 0.06030536869268818, 0.05477457514062632,
			0.05122358709262116, 0.05, 0.05}},
		"linear": {lr.SWALR{SWALR: 0.02, AnnealEpochs: new(4), AnnealStrategy: lr.AnnealLinear}, []float64{0.1,
			0.08000000000000002, 0.06000000000000001, 0.04000000000000001, 0.02, 0.02, 0.02, 0.02}},
		"at once": {lr.SWALR{SWALR: 0.05, AnnealEpochs: new(0)}, []float64{0.05, 0.05, 0.05, 0.05}},
		"sequence": {lr.SequentialLR{Schedules: []lr.Schedule{lr.ExponentialLR{Gamma: 0.9},
			lr.SWALR{SWALR: 0.3, AnnealEpochs: new(3)}}, Milestones: []int{4}}, []float64{0.1, 0.09000000000000001,
			0.08100000000000002, 0.07290000000000002, 0.07290000000000002, 0.12967499999999998, 0.24322499999999997, 0.3}},
		"chain": {lr.ChainedScheduler{Schedules: []lr.Schedule{
			lr.SWALR{SWALR: 0.2, AnnealEpochs: new(5), AnnealStrategy: lr.AnnealLinear}, lr.ExponentialLR{Gamma: 0.5}}},
			[]float64{0.1, 0.06000000000000001, 0.04750000000000001, 0.049166666666666664, 0.06229166666666669, 0.1, 0.1, 0.1}},
	} {
		require.NoError(t, lr.Validate(c.schedule, 0.1, 100), name)
		rate := c.schedule.Plan(0.1, 100)
		for update, want := range c.want {
			assert.Equal(t, want, rate(update), "%s, update %d", name, update)
		}
	}
}

func TestSWALRRefusesWhatItCannotDo(t *testing.T) {
	for _, s := range []lr.SWALR{{SWALR: -1}, {SWALR: math.NaN()}, {AnnealEpochs: new(-1)}, {AnnealStrategy: "exp"}} {
		assert.Error(t, lr.Validate(s, 0.1, 100), "%+v", s)
	}
}
