package lr

import (
	"cmp"
	"math"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/internal/roundedmath"
)

// CycleMode says how the waves of [CyclicLR] change over time.
type CycleMode string

// The modes of PyTorch. The empty CycleMode means Triangular.
const (
	Triangular  CycleMode = "triangular"  // all waves have the same height
	Triangular2 CycleMode = "triangular2" // each wave is half as high as the previous one
	ExpRange    CycleMode = "exp_range"   // the height falls by Gamma with each update
)

// CyclicLR moves back and forth between two rates: torch.optim.lr_scheduler.CyclicLR. The momentum
// moves in the opposite direction.
type CyclicLR struct {
	BaseLR       float64   // the lowest rate (base_lr)
	MaxLR        float64   // the highest rate of the first wave (max_lr); 0 means the peak rate
	StepSizeUp   int       // updates of the way up (step_size_up); 0 means 2000
	StepSizeDown int       // updates of the way down (step_size_down); 0 means StepSizeUp
	Mode         CycleMode // empty means Triangular
	Gamma        float64   // for ExpRange; 0 means 1

	// ScaleFn, if not nil, returns the height of a wave and replaces Mode (scale_fn). Its argument
	// is the number of the wave, from 1, or the number of the update if ScaleByUpdate is set
	// (scale_mode="iterations").
	ScaleFn       func(x float64) float64
	ScaleByUpdate bool

	FixedMomentum bool     // do not change the momentum (cycle_momentum=False)
	BaseMomentum  *float64 // the momentum at the highest rate (base_momentum); nil means 0.8
	MaxMomentum   *float64 // the momentum at the lowest rate (max_momentum); nil means 0.9
}

var _ MomentumSchedule = CyclicLR{}

// Plan implements [Schedule].
func (c CyclicLR) Plan(peak float64, _ int) Rate {
	wave, maxLR := c.wave(), cmp.Or(c.MaxLR, peak)
	return func(update int) float64 {
		height, scale := wave(update)
		return c.BaseLR + float64(float64((maxLR-c.BaseLR)*height)*scale)
	}
}

// PlanMomentum implements [MomentumSchedule].
func (c CyclicLR) PlanMomentum(int) Rate {
	if c.FixedMomentum {
		return nil
	}
	wave, low, high := c.wave(), optional.Or(c.BaseMomentum, 0.8), optional.Or(c.MaxMomentum, 0.9)
	return func(update int) float64 {
		height, scale := wave(update)
		return high - float64(float64((high-low)*height)*scale)
	}
}

// wave returns a function that gives the height of an update within its wave, from 0 to 1, and the
// scale of that wave.
func (c CyclicLR) wave() func(update int) (height, scale float64) {
	up := float64(cmp.Or(c.StepSizeUp, 2000))
	total := up + cmp.Or(float64(c.StepSizeDown), up)
	ratio := up / total
	scaleOf, byUpdate := c.scale()
	return func(update int) (float64, float64) {
		cycle := math.Floor(1 + float64(update)/total)
		x := 1 + float64(update)/total - cycle
		height := (x - 1) / (ratio - 1)
		if x <= ratio {
			height = x / ratio
		}
		if byUpdate {
			return height, scaleOf(float64(update))
		}
		return height, scaleOf(cycle)
	}
}

// scale returns the scale function that Mode and ScaleFn select.
func (c CyclicLR) scale() (scale func(x float64) float64, byUpdate bool) {
	switch {
	case c.ScaleFn != nil:
		return c.ScaleFn, c.ScaleByUpdate
	case c.Mode == Triangular2:
		return func(cycle float64) float64 { return 1 / math.Pow(2, cycle-1) }, false
	case c.Mode == ExpRange:
		gamma := cmp.Or(c.Gamma, 1)
		return func(update float64) float64 { return roundedmath.Pow(gamma, update) }, true
	}
	return func(float64) float64 { return 1 }, false
}

// attach does what PyTorch's constructor does: it writes BaseLR and the highest momentum to the
// group, but the first step starts from the group's initial_lr.
func (c CyclicLR) attach(g *group, updates int) stepper {
	momentum := c.PlanMomentum(updates)
	g.lr = c.BaseLR
	if momentum != nil {
		g.corners.baseMomentum = optional.Or(c.BaseMomentum, 0.8)
		g.corners.maxMomentum = optional.Or(c.MaxMomentum, 0.9)
	}
	s := newScheduler(g, &scheduler{next: func(s *scheduler) float64 {
		if momentum != nil {
			g.momentum = momentum(s.epoch)
		}
		from := c
		from.BaseLR = s.base
		return from.Plan(g.peak, updates)(s.epoch)
	}})
	s.base = c.BaseLR
	return s
}

// Validate implements [Validator].
func (c CyclicLR) Validate() error {
	e := checks{schedule: "CyclicLR"}
	e.notNegative("BaseLR", c.BaseLR)
	e.notNegative("MaxLR", c.MaxLR)
	e.count("StepSizeUp", c.StepSizeUp)
	e.count("StepSizeDown", c.StepSizeDown)
	e.that(c.Mode == "" || c.Mode == Triangular || c.Mode == Triangular2 || c.Mode == ExpRange, "Mode", string(c.Mode),
		`"triangular", "triangular2", "exp_range", or "" for the first`)
	e.notNegative("Gamma", c.Gamma)
	e.that(!c.ScaleByUpdate || c.ScaleFn != nil, "ScaleByUpdate", c.ScaleByUpdate, "a ScaleFn beside it")
	e.finite("BaseMomentum", optional.Or(c.BaseMomentum, 0))
	e.finite("MaxMomentum", optional.Or(c.MaxMomentum, 0))
	return e.err
}
