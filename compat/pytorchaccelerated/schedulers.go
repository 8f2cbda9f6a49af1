package pytorchaccelerated

import (
	"cmp"
	"fmt"

	"github.com/gotrainer/gotrainer/optim/lr"
)

// CosineLR is CosineLrScheduler: a warmup, a decay along a cosine, and a cooldown at the lowest
// rate. Pass its Create as CreateSchedulerFn. With Rules.ScheduleQuirks it has the two quirks of
// the original; otherwise the warmup starts with the first update and the cosine ends where the
// cooldown starts.
type CosineLR struct {
	TotalNumEpochs         int      // zero: those of the run
	NumUpdateStepsPerEpoch int      // zero: those of the run
	KDecay                 float64  // above 1 the rate stays high for longer; zero: 1
	LRMin                  *float64 // the lowest rate; nil: 1e-6
	MinLRRatio             *float64 // the lowest rate as a share of the peak; nil: use LRMin
	NumWarmupEpochs        int
	WarmupStartingLR       *float64 // nil: 1e-6
	WarmupStartingLRRatio  *float64 // the first rate as a share of the peak; nil: use WarmupStartingLR
	NumCooldownEpochs      int
}

// Create is a [SchedulerFn].
func (c CosineLR) Create(p Placeholders) (lr.Schedule, error) {
	epochs, updates := cmp.Or(c.TotalNumEpochs, p.NumEpochs), cmp.Or(c.NumUpdateStepsPerEpoch, p.NumUpdateStepsPerEpoch)
	if epochs < 1 || updates < 1 {
		return nil, fmt.Errorf("CosineLR: %d epochs of %d updates; want at least one of each", epochs, updates)
	}
	return lr.PytorchAcceleratedCosine{
		TotalSteps: epochs * updates, KDecay: c.KDecay, LRMin: c.LRMin, MinLRRatio: c.MinLRRatio,
		WarmupSteps:      c.NumWarmupEpochs * updates,
		WarmupStartingLR: c.WarmupStartingLR, WarmupStartingLRRatio: c.WarmupStartingLRRatio,
		CooldownSteps: c.NumCooldownEpochs * updates, Corrected: !p.rules.ScheduleQuirks,
	}, nil
}

// WSD is WSDLrScheduler: a warmup, a stable phase, and a decay before each checkpoint; see
// [WSDCheckpoint]. Pass its Create as CreateSchedulerFn.
type WSD struct {
	TotalNumEpochs         int      // zero: those of the run
	NumUpdateStepsPerEpoch int      // zero: those of the run
	NumWarmupEpochs        *int     // nil: a hundredth of the updates
	DecayPhaseRatio        *float64 // share of the way to a checkpoint that decays; nil: 0.1
	LRMin                  *float64 // the rate at a checkpoint as a share of the peak; nil: 1e-6
	WarmupStartingLR       *float64 // nil: 1e-6
	InverseProportion      bool     // the paper's 1/t, not along a square root: use_inverse_sqrt_decay=False
	NumCheckpoints         int      // zero: 1, at the end
	Continuation           bool     // is_continuation_from_checkpoint: no warmup
}

// Create is a [SchedulerFn].
func (w WSD) Create(p Placeholders) (lr.Schedule, error) {
	epochs, updates := cmp.Or(w.TotalNumEpochs, p.NumEpochs), cmp.Or(w.NumUpdateStepsPerEpoch,
		p.PerProcessNumUpdateStepsPerEpoch)
	if epochs < 1 || updates < 1 {
		return nil, fmt.Errorf("WSD: %d epochs of %d updates; want at least one of each", epochs, updates)
	}
	s := lr.PytorchAcceleratedWSD{
		TotalSteps: epochs * updates, WarmupSteps: int(0.01 * float64(epochs*updates)),
		DecayPhaseRatio: w.DecayPhaseRatio, LRMin: w.LRMin, WarmupStartingLR: w.WarmupStartingLR,
		InverseProportion: w.InverseProportion, Checkpoints: w.NumCheckpoints, Continuation: w.Continuation,
		Corrected: !p.rules.ScheduleQuirks,
	}
	if w.NumWarmupEpochs != nil {
		s.WarmupSteps = *w.NumWarmupEpochs * updates
	}
	return s, nil
}

// Phase is the period up to a checkpoint of a [WSD] schedule: get_phase_info.
type Phase struct {
	PeriodStart  int // updates before the period starts
	PeriodEnd    int // updates at the checkpoint
	DecaySteps   int
	PreDecayStep int // updates before the decay starts
}

// WSDPhases returns the periods up to all checkpoints: get_decay_info. ok is false for other
// schedules.
func WSDPhases(s lr.Schedule) (phases []Phase, ok bool) {
	w, ok := s.(lr.PytorchAcceleratedWSD)
	if !ok {
		return nil, false
	}
	ratio, start := wsdRatio(s), 0
	for _, end := range w.CheckpointSteps(w.TotalSteps) {
		decay := int(float64(end-start) * ratio)
		phases = append(phases, Phase{start, end, decay, end - decay})
		start = end
	}
	return phases, true
}

// wsdRatio returns the share of a period that decays.
func wsdRatio(s lr.Schedule) float64 {
	w, _ := s.(lr.PytorchAcceleratedWSD)
	return *cmp.Or(w.DecayPhaseRatio, new(0.1))
}

// phaseAt returns the period that contains a number of updates, or the last one after the end.
func phaseAt(phases []Phase, updates int) Phase {
	for _, p := range phases {
		if p.PeriodEnd >= updates {
			return p
		}
	}
	return phases[len(phases)-1]
}
