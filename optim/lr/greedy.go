package lr

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/internal/pyfloat"
)

// Greedy raises the rate while a measured value keeps improving and lowers it when it does not:
// GreedyLR, "greedy" in transformers.
type Greedy struct {
	Mode          Mode          // empty means Min
	Factor        float64       // below 1; the rate is divided or multiplied by it; 0 means 0.95
	Patience      *int          // consecutive values, good or bad, without a change of the rate; nil means 10
	Threshold     *float64      // the least improvement that counts; nil means 1e-6
	ThresholdMode ThresholdMode // empty means Absolute
	Cooldown      int           // values ignored after a reduction
	Warmup        int           // values ignored after an increase
	MinLR         *float64      // the lowest rate (min_lr); nil means 1e-3
	MaxLR         *float64      // the highest rate (max_lr); nil means 1
	Eps           *float64      // a change no larger than this is ignored; nil means 1e-8
	Smooth        bool          // judge the mean of the last WindowSize values instead of the last one
	WindowSize    int           // 0 means 50
	ResetStart    *int          // reductions at the lowest rate before everything is reset; nil means 500
}

// Start implements [Adaptive].
func (g Greedy) Start(peak float64) (Controller, error) {
	r := &greedy{
		comparator: comparator{cmp.Or(g.Mode, Min), optional.Or(g.Threshold, 1e-6), cmp.Or(g.ThresholdMode, Absolute)},
		factor:     cmp.Or(g.Factor, 0.95), patience: optional.Or(g.Patience, 10), cooldown: g.Cooldown, warmup: g.Warmup,
		minLR: optional.Or(g.MinLR, 1e-3), maxLR: optional.Or(g.MaxLR, 1), eps: optional.Or(g.Eps, 1e-8),
		peak: peak, window: cmp.Or(g.WindowSize, 50), resetStart: optional.Or(g.ResetStart, 500),
	}
	c := checks{schedule: "Greedy"}
	c.comparator(r.comparator)
	c.that(r.factor > 0 && r.factor < 1, "Factor", g.Factor, "a number above 0 and below 1, or 0 for 0.95")
	c.count("Patience", r.patience)
	c.count("Cooldown", r.cooldown)
	c.count("Warmup", r.warmup)
	c.notNegative("MinLR", r.minLR)
	c.that(r.maxLR >= r.minLR, "MaxLR", r.maxLR, fmt.Sprintf("no less than MinLR, which is %v", r.minLR))
	c.notNegative("Eps", r.eps)
	c.that(r.window > 0, "WindowSize", g.WindowSize, "a positive number of values, or 0 for 50")
	c.that(g.Smooth || g.WindowSize == 0, "WindowSize", g.WindowSize, "0 without Smooth")
	c.count("ResetStart", r.resetStart)
	if err := c.start(peak); err != nil {
		return nil, err
	}
	if !g.Smooth {
		r.window = 0
	}
	r.state = greedyState{LastLR: pyfloat.JSON(peak)}
	r.reset()
	return r, nil
}

// greedy is the running state of a [Greedy].
type greedy struct {
	comparator                       comparator
	factor, minLR, maxLR, eps, peak  float64
	patience, cooldown, warmup       int
	window /* 0: none */, resetStart int
	state                            greedyState
}

// greedyState has the keys of GreedyLR's state_dict.
type greedyState struct {
	Best            pyfloat.JSON   `json:"best"`
	NumBadEpochs    int            `json:"num_bad_epochs"`
	NumGoodEpochs   int            `json:"num_good_epochs"`
	CooldownCounter int            `json:"cooldown_counter"`
	WarmupCounter   int            `json:"warmup_counter"`
	ResetStart      int            `json:"reset_start"` // remaining decreases at the lowest rate
	LastEpoch       int            `json:"last_epoch"`  // number of values observed
	LastLR          pyfloat.JSON   `json:"last_lr"`
	Values          []pyfloat.JSON `json:"values"` // the window of Smooth
	Sum             pyfloat.JSON   `json:"sum"`    // of Values, as a running sum
}

func (g *greedy) Rate() float64 { return float64(g.state.LastLR) }

func (g *greedy) Observe(metric float64) float64 {
	s := &g.state
	if g.window > 0 {
		metric = g.smooth(metric)
	}
	s.LastEpoch++
	switch {
	case s.CooldownCounter > 0:
		s.CooldownCounter--
		s.NumBadEpochs, s.NumGoodEpochs = 0, 0
	case s.WarmupCounter > 0:
		s.WarmupCounter--
		s.NumBadEpochs, s.NumGoodEpochs = 0, 0
	case g.comparator.better(metric, float64(s.Best)):
		s.Best, s.NumBadEpochs = pyfloat.JSON(metric), 0
		if s.NumGoodEpochs++; s.NumGoodEpochs > g.patience {
			g.rise()
			s.WarmupCounter, s.NumGoodEpochs = g.warmup, 0
		}
	default:
		s.NumGoodEpochs = 0
		if s.NumBadEpochs++; s.NumBadEpochs > g.patience {
			g.fall()
			s.CooldownCounter, s.NumBadEpochs = g.cooldown, 0
		}
	}
	return g.Rate()
}

// smooth is transformers' StreamingAverage: a running sum, including its rounding errors.
func (g *greedy) smooth(value float64) float64 {
	s := &g.state
	s.Values = append(s.Values, pyfloat.JSON(value))
	s.Sum += pyfloat.JSON(value)
	if len(s.Values) > g.window {
		s.Sum -= s.Values[0]
		s.Values = slices.Delete(s.Values, 0, 1)
	}
	return float64(s.Sum) / float64(len(s.Values))
}

func (g *greedy) rise() {
	if higher := min(g.Rate()/g.factor, g.maxLR); higher-g.Rate() > g.eps {
		g.state.LastLR = pyfloat.JSON(higher)
	}
	g.state.ResetStart = g.resetStart
}

func (g *greedy) fall() {
	if lower := max(g.Rate()*g.factor, g.minLR); g.Rate()-lower > g.eps {
		g.state.LastLR = pyfloat.JSON(lower)
	}
	if g.Rate() > g.minLR {
		return
	}
	if g.state.ResetStart--; g.state.ResetStart <= 0 {
		g.state.LastLR = pyfloat.JSON(g.peak)
		g.reset()
	}
}

// reset resets everything except the rate and the count of values.
func (g *greedy) reset() {
	g.state = greedyState{Best: pyfloat.JSON(g.comparator.worst()), ResetStart: g.resetStart, LastEpoch: g.state.LastEpoch,
		LastLR: g.state.LastLR, Values: []pyfloat.JSON{}}
}

func (g *greedy) State() ([]byte, error) { return json.Marshal(g.state) }

func (g *greedy) LoadState(raw []byte) error {
	var s greedyState
	if err := decodeState("Greedy", raw, &s); err != nil {
		return err
	}
	if reason := g.invalid(s); reason != "" {
		return &StateError{"Greedy", reason}
	}
	g.state = s
	return nil
}

// invalid returns the reason why a state does not fit these settings, or the empty string if it
// does.
func (g *greedy) invalid(s greedyState) string {
	switch {
	case !usable(s.LastLR):
		return fmt.Sprintf("last_lr is %v, which is no rate", float64(s.LastLR))
	case min(s.NumBadEpochs, s.NumGoodEpochs, s.CooldownCounter, s.WarmupCounter, s.LastEpoch, s.ResetStart) < 0:
		return "a counter is negative"
	case s.Values == nil || len(s.Values) > g.window:
		return fmt.Sprintf("values holds %d numbers; the window is %d", len(s.Values), g.window)
	}
	return ""
}
