package optim

import "cmp"

// GaLoreAdamW8bit is [GaLoreAdamW] with [AdamW8bit] instead of AdamW: moments of low rank, in one
// byte each. It is the class of that name in galore_torch. The original passes arguments to
// bitsandbytes by position, and since version 0.45 one of them means something else: a limit on
// the size of updates, so that small matrices do not move. Here they have their original meaning.
type GaLoreAdamW8bit struct {
	LR          float64  // learning rate; zero means 1e-3
	Beta1       *float64 // decay of the mean of gradients; nil means 0.9
	Beta2       *float64 // decay of the mean of squares; nil means 0.999
	Eps         *float64 // added to the divisor; nil means 1e-8
	WeightDecay *float64 // decoupled; nil means 1e-2

	LowRank  // for the groups with LowRank
	EightBit // MinSize counts the elements of the projected gradient
}

// LearningRate returns LR or its default.
func (o GaLoreAdamW8bit) LearningRate() float64 { return cmp.Or(o.LR, 1e-3) }

// Build makes the optimizer. It refuses parameters of low-rank groups that are not matrices.
func (o GaLoreAdamW8bit) Build(groups []Group) (Optimizer, error) {
	low, err := o.LowRank.withDefaults("GaLoreAdamW8bit")
	if err != nil {
		return nil, err
	}
	b := AdamW32bit{o.LR, o.Beta1, o.Beta2, o.Eps, o.WeightDecay}.bitsandbytes("GaLoreAdamW8bit", &o.EightBit)
	b.low = low
	return b.build(groups)
}
