package expected

import (
	"encoding/json"

	"github.com/gotrainer/gotrainer/internal/conformance/recorded"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/optim"
)

// optionsOf reads the keyword arguments of an optimizer; none stand for an empty object.
func optionsOf(raw json.RawMessage) (*spec.Object, error) {
	if len(raw) == 0 {
		raw = json.RawMessage("{}")
	}
	o, err := spec.ParseObject(raw)
	if err != nil {
		return nil, unsupported("options: %v", err)
	}
	return o, nil
}

// builderOf finds the settings for an optimizer of torch.optim from its keyword arguments.
func builderOf(name string, options json.RawMessage) (optim.Builder, error) {
	o, err := optionsOf(options)
	if err != nil {
		return nil, err
	}
	b, err := recorded.Optimizer(name, o)
	if err != nil {
		return nil, unsupported("%s: %v", name, err)
	}
	return b, nil
}

// lbfgsOf makes LBFGS, which is no Builder, from its keyword arguments.
func lbfgsOf(options json.RawMessage) (b optim.LBFGS, err error) {
	o, err := optionsOf(options)
	if err != nil {
		return b, err
	}
	b.StrongWolfe = o.OneOf("line_search_fn", "", "strong_wolfe") != ""
	o.Fill(&b)
	if err := o.Done(); err != nil {
		return b, unsupported("LBFGS: %v", err)
	}
	return b, nil
}
