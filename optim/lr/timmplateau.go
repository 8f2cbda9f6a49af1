package lr

import (
	"cmp"
	"encoding/json"

	"github.com/gotrainer/gotrainer/internal/pyfloat"
)

// TimmPlateau is timm's PlateauLRScheduler: [ReduceLROnPlateau] after a warmup that counts
// measured values instead of updates. As in timm, the default Mode is Max.
type TimmPlateau struct {
	TimmWarmup
	DecayRate float64  // below 1 (decay_rate); 0 means 0.1
	PatienceT *int     // values without improvement that are tolerated (patience_t); nil means 10
	Threshold *float64 // share of the best value that an improvement has to exceed; nil means 1e-4
	CooldownT int      // values ignored after a reduction (cooldown_t)
	LRMin     float64  // the lowest rate (lr_min)
	Mode      Mode     // empty means Max
}

// Start implements [Adaptive].
func (t TimmPlateau) Start(peak float64) (Controller, error) {
	c := checks{schedule: "TimmPlateau"}
	c.timmWarmup(t.TimmWarmup)
	if c.err != nil {
		return nil, c.err
	}
	inner, err := ReduceLROnPlateau{
		Mode: cmp.Or(t.Mode, Max), Factor: t.DecayRate, Patience: t.PatienceT, Threshold: t.Threshold,
		Cooldown: t.CooldownT, MinLR: t.LRMin,
	}.Start(peak)
	if err != nil {
		return nil, err
	}
	w := &warmedPlateau{plateau: inner.(*plateau), warmup: t.TimmWarmup, peak: peak}
	if t.WarmupT > 0 {
		w.plateau.state.LastLR = pyfloat.JSON(t.WarmupLRInit)
	}
	return w, nil
}

// warmedPlateau is the running state of a [TimmPlateau].
type warmedPlateau struct {
	*plateau
	warmup TimmWarmup
	peak   float64
	epoch  int // number of values observed, including those during the warmup
}

func (w *warmedPlateau) Observe(metric float64) float64 {
	w.epoch++
	if w.epoch > w.warmup.WarmupT {
		return w.plateau.Observe(metric)
	}
	step := (w.peak - w.warmup.WarmupLRInit) / float64(w.warmup.WarmupT)
	w.state.LastLR = pyfloat.JSON(w.warmup.WarmupLRInit + float64(float64(w.epoch)*step))
	return w.Rate()
}

// warmedState is the state of the plateau and the count that the warmup needs.
type warmedState struct {
	plateauState
	Epoch int `json:"epoch"`
}

func (w *warmedPlateau) State() ([]byte, error) { return json.Marshal(warmedState{w.state, w.epoch}) }

func (w *warmedPlateau) LoadState(raw []byte) error {
	var s warmedState
	if err := decodeState("TimmPlateau", raw, &s); err != nil {
		return err
	}
	reason := s.invalid()
	if reason == "" && s.Epoch < s.LastEpoch {
		reason = "epoch is less than last_epoch"
	}
	if reason != "" {
		return &StateError{"TimmPlateau", reason}
	}
	w.state, w.epoch = s.plateauState, s.Epoch
	return nil
}
