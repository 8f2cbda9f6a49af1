package optim

import (
	"regexp"
	"strings"

	"github.com/gotrainer/gotrainer/torch"
)

// noDecayNames are the patterns of Trainer.get_decay_parameter_names in transformers 5.17, which
// are matched against names in lower case.
var noDecayNames = regexp.MustCompile(`bias|layernorm|rmsnorm|(?:^|\.)norm(?:$|\.)|_norm(?:$|\.)`)

// NoDecayName reports whether Hugging Face's Trainer excludes a parameter from weight decay
// because of its name: the name contains bias, layernorm or rmsnorm, in any case, or a part of it
// is norm or ends in _norm.
func NoDecayName(name string) bool { return noDecayNames.MatchString(strings.ToLower(name)) }

// NoDecay returns Hugging Face's two groups: "decay", with weight decay decay, and "no_decay",
// with none. The second holds the parameters that [NoDecayName] selects or that one of the
// patterns matches. Patterns are regular expressions, searched for in the lower-case name. Frozen
// parameters are left out, as in the Trainer. Both groups are always returned, in this order, even
// if empty.
//
// Hugging Face's Trainer also exempts LayerNorm modules by their type, which names do not tell. If
// such a module has another name, such as GPT-2's ln_1 and ln_f, add a pattern (`\.ln_`) or use
// [NoDecayFunc].
//
// It panics with [*torch.Error] if a pattern is not a regular expression.
func NoDecay(params []torch.Named, decay float64, patterns ...string) []Group {
	exempt := make([]*regexp.Regexp, len(patterns))
	for i, p := range patterns {
		var err error
		if exempt[i], err = regexp.Compile(p); err != nil {
			panic(&torch.Error{Op: "optim.NoDecay", Code: torch.ErrValue, Msg: err.Error()})
		}
	}
	return NoDecayFunc(params, decay, func(name string) bool {
		if NoDecayName(name) {
			return true
		}
		for _, e := range exempt {
			if e.MatchString(strings.ToLower(name)) {
				return true
			}
		}
		return false
	})
}

// NoDecayFunc is like [NoDecay] with a custom rule: parameters whose name exempt accepts are not
// decayed.
func NoDecayFunc(params []torch.Named, decay float64, exempt func(name string) bool) []Group {
	groups := []Group{{Name: "decay", WeightDecay: new(decay)}, {Name: "no_decay", WeightDecay: new(0.0)}}
	for _, p := range params {
		if p.Tensor.Defined() && !p.Tensor.NeedsGrad() {
			continue
		}
		g := &groups[0]
		if exempt(p.Name) {
			g = &groups[1]
		}
		g.Params = append(g.Params, p)
	}
	return groups
}
