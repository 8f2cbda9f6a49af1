package expected

import (
	"encoding/json"
	"fmt"

	"github.com/gotrainer/gotrainer/optim/lr"
)

// plateau is an entry of "plateau": a ReduceLROnPlateau and what it makes of measured values.
type plateau struct {
	Kwargs      map[string]any
	InitialLR   json.RawMessage `json:"initial_lr"`
	Metrics     []float64
	LRAfterStep [][]float64 `json:"lr_after_step"` // by group and measurement
	Peer        [][]float64 `json:"peer_targets"`  // the literal lists of the peer's test
	Consistent  *bool       `json:"consistent_with_peer"`
}

// peerRateTolerance is that of PyTorch's own test, which compares with atol 1e-5.
const peerRateTolerance = 1e-5

func readPlateau(d *document) ([]Entry, error) {
	return entriesOf(d, "plateau", func(_ string, p plateau) error { return p.run() })
}

func (p plateau) run() error {
	groups := len(p.LRAfterStep)
	rates, err := groupValues(p.InitialLR, groups)
	if err != nil {
		return err
	}
	if groups == 0 || len(p.Metrics) == 0 {
		return unsupported("the entry has %d metrics and %d lists of rates", len(p.Metrics), groups)
	}
	for g, peak := range rates {
		if n := len(p.LRAfterStep[g]); n == 0 || n > len(p.Metrics) {
			return unsupported("there are %d rates for %d metrics", len(p.LRAfterStep[g]), len(p.Metrics))
		}
		got, err := p.observe(g, peak)
		if err != nil {
			return err
		}
		rate := func(i int) float64 { return got[i] }
		if err := allNear(fmt.Sprintf("group %d: rate after metric", g), rate, p.LRAfterStep[g], rateTolerance,
			rateTolerance); err != nil {
			return err
		}
		if g < len(p.Peer) && (p.Consistent == nil || *p.Consistent) {
			// the peer's lists are longer than its metrics, and its test stops at the shorter one
			want := p.Peer[g][:min(len(p.Peer[g]), len(got))]
			if err := allNear(fmt.Sprintf("group %d: peer's rate after metric", g), rate, want, 0,
				peerRateTolerance); err != nil {
				return err
			}
		}
	}
	return nil
}

// observe tells one controller the metrics. Half-way it goes through its saved state, as a resumed
// run does.
func (p plateau) observe(g int, peak float64) ([]float64, error) {
	kwargs, err := kwargsOfGroup(p.Kwargs, g)
	if err != nil {
		return nil, err
	}
	start := func() (lr.Controller, error) {
		a, err := lr.AdaptiveByName("ReduceLROnPlateau", kwargs)
		if err != nil {
			return nil, unsupported("%v", err)
		}
		c, err := a.Start(peak)
		if err != nil {
			return nil, unsupported("%v", err)
		}
		return c, nil
	}
	c, err := start()
	if err != nil {
		return nil, err
	}
	var rates []float64
	for i, m := range p.Metrics {
		if i == len(p.Metrics)/2 {
			state, err := c.State()
			if err != nil {
				return nil, err
			}
			if c, err = start(); err != nil {
				return nil, err
			}
			if err := c.LoadState(state); err != nil {
				return nil, err
			}
		}
		rates = append(rates, c.Observe(m))
	}
	return rates, nil
}
