package optim

import (
	"regexp"
	"strings"

	"github.com/gotrainer/gotrainer/torch"
)

// noDecayNames are the patterns of Trainer.get_decay_parameter_names in transformers 5.17, searched
// in lower-case names.
var noDecayNames = regexp.MustCompile(`bias|layernorm|rmsnorm|(?:^|\.)norm(?:$|\.)|_norm(?:$|\.)`)

// NoDecayName tells whether Hugging Face's Trainer leaves a parameter without weight decay because
// of its name: it has bias, layernorm or rmsnorm in it, in any case, or a part that is norm or ends
// in _norm.
func NoDecayName(name string) bool { return noDecayNames.MatchString(strings.ToLower(name)) }

// NoDecay returns Hugging Face's two groups: "decay" with weight decay decay, and "no_decay" with
// none for the parameters that [NoDecayName] names or one of the patterns matches. Patterns are
// regular expressions, searched in the name in lower case. Frozen parameters are left out, as
// there. Both groups are always returned, in this order, even if empty.
//
// Hugging Face's Trainer exempts LayerNorm modules by their type also. Names do not tell the type:
// where such a module is called otherwise, as GPT-2's ln_1 and ln_f, say so with a pattern
// (`\.ln_`), or use [NoDecayFunc].
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

// NoDecayFunc is [NoDecay] with your own rule: parameters whose name exempt accepts are not
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
