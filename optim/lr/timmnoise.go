package lr

import (
	"cmp"
	"math"

	"github.com/gotrainer/gotrainer/internal/mt19937"
	"github.com/gotrainer/gotrainer/internal/optional"
)

// TimmNoise adds noise to another schedule's rates as timm's noise_range_t does: rate +
// rate*noise. The noise is drawn from a normal distribution by a generator that is reseeded for
// each update, so the rate is still a function of the update, and the same as timm's.
type TimmNoise struct {
	Schedule Schedule // required
	From     int      // the first update with noise (noise_range_t)
	To       int      // the first update without noise after that; 0: none
	Pct      float64  // draws beyond this are redrawn (noise_pct); 0 means 0.67
	Std      float64  // standard deviation of the noise (noise_std); 0 means 1
	Seed     *uint32  // noise_seed; nil means 42
}

var (
	_ EpochSchedule    = TimmNoise{}
	_ MomentumSchedule = TimmNoise{}
)

// PlanMomentum implements [MomentumSchedule]. It is not nil if Schedule changes the momentum, to
// which no noise is added.
func (n TimmNoise) PlanMomentum(updates int) Rate { return PlanMomentum(n.Schedule, updates) }

// ForEpochs implements [EpochSchedule].
func (n TimmNoise) ForEpochs(updates int) Schedule {
	n.Schedule = ForEpochs(n.Schedule, updates)
	return n
}

// Plan implements [Schedule].
func (n TimmNoise) Plan(peak float64, updates int) Rate {
	if n.Schedule == nil {
		return Constant{}.Plan(peak, updates)
	}
	rate := n.Schedule.Plan(peak, updates)
	return func(update int) float64 {
		r := rate(update)
		// Update 0 has the rate that timm's constructor sets.
		if update < max(1, n.From) || n.To != 0 && update >= n.To {
			return r
		}
		return r + float64(r*n.noise(update))
	}
}

func (n TimmNoise) noise(update int) float64 {
	g := mt19937.New(optional.Or(n.Seed, 42) + uint32(update))
	pct, std := cmp.Or(n.Pct, 0.67), cmp.Or(n.Std, 1)
	for range 1 << 20 { // settings that pass Validate need at most about a thousand draws
		first, second := normalPair(g)
		for _, draw := range []float64{first, second} {
			// torch.randn returns a float32.
			if noise := float64(float32(draw)) * std; math.Abs(noise) < pct || !(pct > 0) {
				return noise
			}
		}
	}
	return 0
}

// Validate implements [Validator].
func (n TimmNoise) Validate() error {
	c := checks{schedule: "TimmNoise"}
	c.that(n.Schedule != nil, "Schedule", "nil", "a schedule")
	c.count("From", n.From)
	c.that(n.To == 0 || n.To > n.From, "To", n.To, "an update after From, or 0 for noise to the end")
	c.that(n.Pct >= 0 && (n.Pct == 0 || n.Pct >= 1e-3*cmp.Or(n.Std, 1)), "Pct", n.Pct,
		"at least a thousandth of Std, or hardly any draw is below it")
	c.notNegative("Std", n.Std)
	if v, ok := n.Schedule.(Validator); ok && c.err == nil {
		return v.Validate()
	}
	return c.err
}

// ValidatePlan implements [PlanValidator].
func (n TimmNoise) ValidatePlan(peak float64, updates int) error {
	if v, ok := n.Schedule.(PlanValidator); ok {
		return v.ValidatePlan(peak, updates)
	}
	return nil
}

// normalPair draws two normally distributed numbers with the Box-Muller transform, as
// at::normal_distribution<double> does.
func normalPair(g *mt19937.Source) (first, second float64) {
	u1, u2 := g.Float64(), g.Float64()
	r, theta := math.Sqrt(-2*math.Log1p(-u2)), 2*math.Pi*u1
	return r * math.Cos(theta), r * math.Sin(theta)
}
