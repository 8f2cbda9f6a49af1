package lr

import "math"

// TimmNoise shakes another schedule's rates as timm's noise_range_t does: rate + rate*noise, where noise is drawn
// from a normal distribution by a generator that is seeded anew for each update. So it is a function of the update
// after all, and the same as timm's.
type TimmNoise struct {
	Schedule Schedule // required
	From     int      // the first update with noise (noise_range_t)
	To       int      // the first update without noise again; 0: none
	Pct      float64  // draws from here on are drawn again (noise_pct); 0 means 0.67
	Std      float64  // of the normal distribution (noise_std); 0 means 1
	Seed     *uint32  // noise_seed; nil means 42
}

// Plan implements [Schedule].
func (n TimmNoise) Plan(peak float64, updates int) Rate {
	if n.Schedule == nil {
		return Constant{}.Plan(peak, updates)
	}
	rate := n.Schedule.Plan(peak, updates)
	return func(update int) float64 {
		r := rate(update)
		if update < max(1, n.From) || n.To != 0 && update >= n.To { // update 0 has what timm's constructor sets
			return r
		}
		return r + float64(r*n.noise(update))
	}
}

func (n TimmNoise) noise(update int) float64 {
	g := newMT19937(or(n.Seed, 42) + uint32(update))
	pct, std := orZero(n.Pct, 0.67), orZero(n.Std, 1)
	for range 1 << 20 { // with settings that Validate allows about a thousand draws at most
		first, second := g.normalPair()
		for _, draw := range []float64{first, second} {
			// torch.randn makes a float32.
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
	c.that(n.Pct >= 0 && (n.Pct == 0 || n.Pct >= 1e-3*orZero(n.Std, 1)), "Pct", n.Pct, "at least a thousandth of Std, or hardly any draw is below it")
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

// mt19937 is the Mersenne Twister of Matsumoto and Nishimura, PyTorch's generator on the CPU.
type mt19937 struct {
	state [624]uint32
	next  int
}

func newMT19937(seed uint32) *mt19937 {
	g := &mt19937{next: 624}
	g.state[0] = seed
	for i := 1; i < len(g.state); i++ {
		g.state[i] = 1812433253*(g.state[i-1]^g.state[i-1]>>30) + uint32(i)
	}
	return g
}

func (g *mt19937) uint32() uint32 {
	if g.next == len(g.state) {
		for i := range g.state {
			y := g.state[i]&0x80000000 | g.state[(i+1)%624]&0x7fffffff
			g.state[i] = g.state[(i+397)%624] ^ y>>1 ^ y&1*0x9908b0df
		}
		g.next = 0
	}
	y := g.state[g.next]
	g.next++
	y ^= y >> 11
	y ^= y << 7 & 0x9d2c5680
	y ^= y << 15 & 0xefc60000
	return y ^ y>>18
}

// uniform draws from [0, 1) with 53 bits, as at::uniform_real_distribution<double>.
func (g *mt19937) uniform() float64 {
	high := uint64(g.uint32())
	bits := high<<32 | uint64(g.uint32())
	return float64(bits&(1<<53-1)) * 0x1p-53
}

// normalPair draws two numbers by the method of Box and Muller, as at::normal_distribution<double>.
func (g *mt19937) normalPair() (first, second float64) {
	u1, u2 := g.uniform(), g.uniform()
	r, theta := math.Sqrt(-2*math.Log1p(-u2)), 2*math.Pi*u1
	return r * math.Cos(theta), r * math.Sin(theta)
}
