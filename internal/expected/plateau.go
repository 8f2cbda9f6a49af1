package expected

import (
	"encoding/json"
	"fmt"

	"github.com/gotrainer/gotrainer/internal/conformance/spec"
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

func readPlateau(d *document) []Entry {
	return entriesOf(d, "plateau", func(_ string, p plateau) { p.run() })
}

func (p plateau) run() {
	groups := len(p.LRAfterStep)
	rates := groupValues(p.InitialLR, groups)
	if groups == 0 || len(p.Metrics) == 0 {
		unsupported("the entry has %d metrics and %d lists of rates", len(p.Metrics), groups)
	}
	for g, peak := range rates {
		if n := len(p.LRAfterStep[g]); n == 0 || n > len(p.Metrics) {
			unsupported("there are %d rates for %d metrics", n, len(p.Metrics))
		}
		got := p.observe(g, peak)
		allNear(fmt.Sprintf("group %d: rate after metric", g), at(got), p.LRAfterStep[g], rateTolerance, rateTolerance)
		if g < len(p.Peer) && (p.Consistent == nil || *p.Consistent) {
			// the peer's lists are longer than its metrics, and its test stops at the shorter one
			want := p.Peer[g][:min(len(p.Peer[g]), len(got))]
			allNear(fmt.Sprintf("group %d: peer's rate after metric", g), at(got), want, 0, peerRateTolerance)
		}
	}
}

// observe tells one controller the metrics. Half-way it goes through its saved state, as a resumed
// run does.
func (p plateau) observe(g int, peak float64) (rates []float64) {
	kwargs := kwargsOfGroup(p.Kwargs, g)
	start := func() lr.Controller {
		return supported(supported(lr.AdaptiveByName("ReduceLROnPlateau", kwargs)).Start(peak))
	}
	c := start()
	for i, m := range p.Metrics {
		if i == len(p.Metrics)/2 {
			state := spec.Must(c.State())
			c = start()
			spec.Check(c.LoadState(state))
		}
		rates = append(rates, c.Observe(m))
	}
	return rates
}
