package lr

import (
	"cmp"
	"encoding/json"
	"fmt"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/internal/pyfloat"
)

// ReduceLROnPlateau multiplies the rate by Factor when a measured value has stopped improving:
// torch.optim.lr_scheduler.ReduceLROnPlateau, and "reduce_lr_on_plateau" in transformers. NaN is
// not an improvement.
type ReduceLROnPlateau struct {
	Mode          Mode          // empty means Min
	Factor        float64       // below 1; 0 means 0.1
	Patience      *int          // values without improvement that are tolerated; nil means 10
	Threshold     *float64      // the least improvement that counts; nil means 1e-4
	ThresholdMode ThresholdMode // empty means Relative
	Cooldown      int           // values ignored after a reduction
	MinLR         float64       // the lowest rate (min_lr)
	Eps           *float64      // a fall no larger than this is ignored; nil means 1e-8
}

// Start implements [Adaptive].
func (r ReduceLROnPlateau) Start(peak float64) (Controller, error) {
	p := &plateau{
		comparator: comparator{cmp.Or(r.Mode, Min), optional.Or(r.Threshold, 1e-4), cmp.Or(r.ThresholdMode, Relative)},
		factor:     cmp.Or(r.Factor, 0.1), patience: optional.Or(r.Patience, 10), cooldown: r.Cooldown, minLR: r.MinLR,
		eps: optional.Or(r.Eps, 1e-8),
	}
	c := checks{schedule: "ReduceLROnPlateau"}
	c.comparator(p.comparator)
	c.that(p.factor > 0 && p.factor < 1, "Factor", r.Factor, "a number above 0 and below 1, or 0 for 0.1")
	c.count("Patience", p.patience)
	c.count("Cooldown", p.cooldown)
	c.notNegative("MinLR", p.minLR)
	c.notNegative("Eps", p.eps)
	if err := c.start(peak); err != nil {
		return nil, err
	}
	p.state = plateauState{Best: pyfloat.JSON(p.comparator.worst()), LastLR: pyfloat.JSON(peak)}
	return p, nil
}

// plateau is the running state of a [ReduceLROnPlateau].
type plateau struct {
	comparator         comparator
	factor, minLR, eps float64
	patience, cooldown int
	state              plateauState
}

// plateauState has the keys of PyTorch's state_dict.
type plateauState struct {
	Best            pyfloat.JSON `json:"best"`
	NumBadEpochs    int          `json:"num_bad_epochs"`
	CooldownCounter int          `json:"cooldown_counter"`
	LastEpoch       int          `json:"last_epoch"` // number of values observed
	LastLR          pyfloat.JSON `json:"last_lr"`
}

func (p *plateau) Rate() float64 { return float64(p.state.LastLR) }

func (p *plateau) Observe(metric float64) float64 {
	s := &p.state
	s.LastEpoch++
	if p.comparator.better(metric, float64(s.Best)) {
		s.Best, s.NumBadEpochs = pyfloat.JSON(metric), 0
	} else {
		s.NumBadEpochs++
	}
	if s.CooldownCounter > 0 {
		s.CooldownCounter--
		s.NumBadEpochs = 0
	}
	if s.NumBadEpochs > p.patience {
		if lower := max(p.Rate()*p.factor, p.minLR); p.Rate()-lower > p.eps {
			s.LastLR = pyfloat.JSON(lower)
		}
		s.CooldownCounter, s.NumBadEpochs = p.cooldown, 0
	}
	return p.Rate()
}

func (p *plateau) State() ([]byte, error) { return json.Marshal(p.state) }

func (p *plateau) LoadState(raw []byte) error {
	var s plateauState
	if err := decodeState("ReduceLROnPlateau", raw, &s); err != nil {
		return err
	}
	if reason := s.invalid(); reason != "" {
		return &StateError{"ReduceLROnPlateau", reason}
	}
	p.state = s
	return nil
}

// invalid returns the reason why a state is not valid, or the empty string if it is.
func (s plateauState) invalid() string {
	switch {
	case !usable(s.LastLR):
		return fmt.Sprintf("last_lr is %v, which is no rate", float64(s.LastLR))
	case min(s.NumBadEpochs, s.CooldownCounter, s.LastEpoch) < 0:
		return "a counter is negative"
	}
	return ""
}
