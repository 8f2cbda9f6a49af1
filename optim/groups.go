package optim

import (
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/torch"
)

// Pattern gives separate settings to the parameters whose names match a regular expression: see
// [ByPattern].
type Pattern struct {
	Match       string   // regular expression, searched for in the name
	Name        string   // name of the group; empty means Match
	WeightDecay *float64 // as in Group
	LRScale     float64  // as in Group
	LowRank     bool     // as in Group
	Optimizer   Builder  // as in Group
}

// ByPattern makes one group for each pattern, with the parameters that match it and none of the
// patterns before it, and a last group named "rest" of the parameters that match no pattern:
//
//	optim.ByPattern(params,
//		optim.Pattern{Match: `^backbone\.`, LRScale: 0.1},
//		optim.Pattern{Match: `\.bias$`, WeightDecay: new(0.0)})
//
// A pattern that matches nothing is an error, as are settings that Build would refuse.
func ByPattern(params []torch.Named, patterns ...Pattern) ([]Group, error) {
	expressions := make([]*regexp.Regexp, len(patterns))
	groups := make([]Group, len(patterns)+1)
	for i, p := range patterns {
		var err error
		if expressions[i], err = regexp.Compile(p.Match); err != nil {
			return nil, errorf(ErrOption, "pattern %d: %v", i, err)
		}
		groups[i] = Group{Name: p.Name, WeightDecay: p.WeightDecay, LRScale: p.LRScale, LowRank: p.LowRank,
			Optimizer: p.Optimizer}
		if p.Name == "" {
			groups[i].Name = p.Match
		}
	}
	rest := &groups[len(patterns)]
	rest.Name = "rest"
next:
	for _, p := range params {
		for i, e := range expressions {
			if e.MatchString(p.Name) {
				groups[i].Params = append(groups[i].Params, p)
				continue next
			}
		}
		rest.Params = append(rest.Params, p)
	}
	for i := range patterns {
		if len(groups[i].Params) == 0 {
			return nil, errorf(ErrParam, "pattern %q matches no parameter that an earlier one has not taken",
				patterns[i].Match)
		}
	}
	return groups, nil
}

// LayerDecay divides groups further by layer and scales their rates, as BEiT and ELECTRA are
// fine-tuned: the head keeps its rate, and each layer below has decay times the rate of the one
// above it. layer returns the number of a parameter's layer, counting up from 0, the embeddings,
// or -1 for everything above the layers, such as the head. [TransformerLayer] works for most
// transformers.
//
//	groups = optim.LayerDecay(optim.NoDecay(params, 0.01), 0.8, optim.TransformerLayer)
//
// It panics with [*torch.Error] if decay is not between 0 and 1, and if a group has an Optimizer
// but no LRScale to multiply.
func LayerDecay(groups []Group, decay float64, layer func(name string) int) []Group {
	if !(decay > 0 && decay <= 1) {
		panic(&torch.Error{Op: "optim.LayerDecay", Code: torch.ErrValue, Msg: "decay is " + strconv.FormatFloat(decay,
			'g', -1, 64) + "; want 0 < decay <= 1"})
	}
	top := -1
	for _, g := range groups {
		if g.Optimizer != nil && g.LRScale == 0 {
			panic(&torch.Error{Op: "optim.LayerDecay", Code: torch.ErrValue, Msg: "group " + strconv.Quote(g.Name) +
				" has an Optimizer and no LRScale; want its rate as a multiple of that of the other groups"})
		}
		for _, p := range g.Params {
			top = max(top, layer(p.Name))
		}
	}
	var out []Group
	for _, g := range groups {
		at := map[int]int{} // index in out, by layer
		for _, p := range g.Params {
			n := layer(p.Name)
			if n < 0 {
				n = top + 1
			}
			i, ok := at[n]
			if !ok {
				i = len(out)
				at[n] = i
				part := g
				part.Params = nil
				if part.LRScale == 0 {
					part.LRScale = 1
				}
				part.LRScale *= math.Pow(decay, float64(top+1-n))
				part.Name = strings.TrimSpace(g.Name + " layer " + strconv.Itoa(n))
				out = append(out, part)
			}
			out[i].Params = append(out[i].Params, p)
		}
	}
	return out
}

var blockNumber = regexp.MustCompile(`(?:^|\.)(?:layers?|blocks?|h)\.(\d+)\.`)

// TransformerLayer returns the number of a transformer's layer for [LayerDecay]: 0 for a name that
// contains embed, n+1 for parameters in layer.n, layers.n, block.n, blocks.n or h.n, and -1 for
// all others, the head.
func TransformerLayer(name string) int {
	if m := blockNumber.FindStringSubmatch(name); m != nil {
		if n, err := strconv.Atoi(m[1]); err == nil && n < 1<<20 {
			return n + 1
		}
	}
	if strings.Contains(strings.ToLower(name), "embed") {
		return 0
	}
	return -1
}
