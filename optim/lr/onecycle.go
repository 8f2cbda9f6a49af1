package lr

import (
	"cmp"
	"math"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/internal/roundedmath"
)

// Anneal is the curve of [OneCycleLR] and [SWALR] between two rates.
type Anneal string

// The curves of PyTorch. The empty Anneal means AnnealCos.
const (
	AnnealCos    Anneal = "cos"
	AnnealLinear Anneal = "linear"
)

// OneCycleLR rises from a fraction of the highest rate to that rate, and then decays far below
// where it started: torch.optim.lr_scheduler.OneCycleLR. The momentum moves in the opposite
// direction.
//
// After TotalSteps updates, PyTorch fails with an error; here the rate stays at its final value.
// If PctStart*TotalSteps is 1, PyTorch divides by zero; here the first update has the highest
// rate.
type OneCycleLR struct {
	MaxLR          float64  // the highest rate (max_lr); 0 means the peak rate
	TotalSteps     int      // updates of the cycle (total_steps); 0 means the whole run
	PctStart       *float64 // share of the cycle in which the rate rises (pct_start); nil means 0.3
	AnnealStrategy Anneal   // empty means AnnealCos
	DivFactor      float64  // the first rate is MaxLR/DivFactor (div_factor); 0 means 25
	FinalDivFactor float64  // the last rate is the first one divided by this (final_div_factor); 0 means 10,000
	ThreePhase     bool     // decay to the first rate as fast as it rose, then to the last (three_phase)

	FixedMomentum bool     // do not change the momentum (cycle_momentum=False)
	BaseMomentum  *float64 // the momentum at the highest rate (base_momentum); nil means 0.85
	MaxMomentum   *float64 // the momentum at the first and the last rate (max_momentum); nil means 0.95
}

var _ MomentumSchedule = OneCycleLR{}

// Plan implements [Schedule].
func (o OneCycleLR) Plan(peak float64, updates int) Rate {
	corners, position := o.corners(peak), o.position(updates)
	return func(update int) float64 { return o.rate(corners, position, update) }
}

// PlanMomentum implements [MomentumSchedule].
func (o OneCycleLR) PlanMomentum(updates int) Rate {
	if o.FixedMomentum {
		return nil
	}
	corners, position := o.corners(0), o.position(updates)
	return func(update int) float64 { return o.momentum(corners, position, update) }
}

// corners are the rates and momenta between which a cycle moves.
type corners struct {
	first, high, last         float64
	baseMomentum, maxMomentum float64
}

func (o OneCycleLR) corners(peak float64) corners {
	high := cmp.Or(o.MaxLR, peak)
	first := high / cmp.Or(o.DivFactor, 25)
	return corners{first, high, first / cmp.Or(o.FinalDivFactor, 1e4), optional.Or(o.BaseMomentum, 0.85),
		optional.Or(o.MaxMomentum, 0.95)}
}

func (o OneCycleLR) rate(c corners, position func(int) (int, float64), update int) float64 {
	phase, done := position(update)
	if o.ThreePhase {
		return o.anneal([]float64{c.first, c.high, c.first, c.last}, phase, done)
	}
	return o.anneal([]float64{c.first, c.high, c.last}, phase, done)
}

func (o OneCycleLR) momentum(c corners, position func(int) (int, float64), update int) float64 {
	phase, done := position(update)
	return o.anneal([]float64{c.maxMomentum, c.baseMomentum, c.maxMomentum, c.maxMomentum}, phase, done)
}

// position returns a function that gives the phase of an update and the fraction of the phase that
// is done.
func (o OneCycleLR) position(updates int) func(update int) (phase int, done float64) {
	total, start := float64(cmp.Or(o.TotalSteps, updates)), optional.Or(o.PctStart, 0.3)
	ends := []float64{float64(start*total) - 1, total - 1}
	if o.ThreePhase {
		ends = []float64{float64(start*total) - 1, float64(2*start*total) - 2, total - 1}
	}
	return func(update int) (int, float64) {
		at, from := float64(update), 0.0
		for phase, end := range ends {
			if at <= end || phase == len(ends)-1 {
				if end == from || at > total {
					return phase, 1
				}
				return phase, (at - from) / (end - from)
			}
			from = end
		}
		panic("unreachable: the last phase has no end")
	}
}

// anneal interpolates between one corner of the cycle and the next.
func (o OneCycleLR) anneal(corners []float64, phase int, done float64) float64 {
	from, to := corners[phase], corners[phase+1]
	if o.AnnealStrategy == AnnealLinear {
		return float64((to-from)*done) + from
	}
	return to + float64((from-to)/2*(roundedmath.Cos(math.Pi*done)+1))
}

// attach does what PyTorch's constructor does: it replaces the group's initial_lr, from which other
// schedulers start, and the corners that every OneCycleLR of this group uses.
func (o OneCycleLR) attach(g *group, updates int) stepper {
	mine, position := o.corners(g.peak), o.position(updates)
	g.initialLR = new(mine.first)
	g.corners.first, g.corners.high, g.corners.last = mine.first, mine.high, mine.last
	if !o.FixedMomentum {
		g.corners.baseMomentum, g.corners.maxMomentum = mine.baseMomentum, mine.maxMomentum
	}
	return newScheduler(g, &scheduler{next: func(s *scheduler) float64 {
		if !o.FixedMomentum {
			g.momentum = o.momentum(g.corners, position, s.epoch)
		}
		return o.rate(g.corners, position, s.epoch)
	}})
}

// Validate implements [Validator].
func (o OneCycleLR) Validate() error {
	c := checks{schedule: "OneCycleLR"}
	c.notNegative("MaxLR", o.MaxLR)
	c.count("TotalSteps", o.TotalSteps)
	c.share("PctStart", optional.Or(o.PctStart, 0))
	c.anneal(o.AnnealStrategy)
	c.notNegative("DivFactor", o.DivFactor)
	c.notNegative("FinalDivFactor", o.FinalDivFactor)
	c.finite("BaseMomentum", optional.Or(o.BaseMomentum, 0))
	c.finite("MaxMomentum", optional.Or(o.MaxMomentum, 0))
	return c.err
}
