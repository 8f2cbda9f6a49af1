package engine

import (
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/optim"
	"github.com/gotrainer/gotrainer/torch"
)

// noDecayGroups makes the two groups of Hugging Face's Trainer (get_decay_parameter_names): what
// belongs to a LayerNorm, and what has a name like a bias or a norm, is not decayed; the rest has
// the optimizer's own weight decay. Both are there even if one is empty.
func noDecayGroups(model any, params []torch.Named) []optim.Group {
	exempt := map[string]bool{}
	for _, m := range nn.Modules(model) {
		if _, ok := m.Module.(*nn.LayerNorm); ok {
			for _, p := range nn.Params(m.Module) {
				exempt[join(m.Name, p.Name)] = true
			}
		}
	}
	groups := optim.NoDecayFunc(params, 0, func(name string) bool { return exempt[name] || optim.NoDecayName(name) })
	groups[0].WeightDecay = nil
	return groups
}
