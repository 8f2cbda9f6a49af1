package expected

import (
	"encoding/json"

	"github.com/gotrainer/gotrainer/internal/conformance/recorded"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/optim"
)

// optionsOf reads the keyword arguments of an optimizer; none stand for an empty object.
func optionsOf(raw json.RawMessage) *spec.Object {
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	return supported(spec.ParseObject(raw))
}

// builderOf finds the settings for an optimizer of torch.optim from its keyword arguments.
func builderOf(name string, options json.RawMessage) optim.Builder {
	return supported(recorded.Optimizer(name, optionsOf(options)))
}

// lbfgsOf makes LBFGS, which is no Builder, from its keyword arguments.
func lbfgsOf(options json.RawMessage) (b optim.LBFGS) {
	o := optionsOf(options)
	b.StrongWolfe = o.OneOf("line_search_fn", "", "strong_wolfe") != ""
	o.Fill(&b)
	return supported(b, o.Done())
}
