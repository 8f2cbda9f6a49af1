package transformer

import (
	"slices"

	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/pretrained"
)

// LoadOptions configures the LoadClassifierWith of packages bert, roberta and distilbert.
type LoadOptions struct {
	Head           classify.Head // what it leaves open is what config.json says
	Attention      Attention     // zero: SDPA
	InitMissing    bool          // draw what is missing of the encoder, too
	InitMismatched bool          // draw what has another shape, such as a classifier of other labels: ignore_mismatched_sizes
}

// Pretrained are the options for loading a model's tensors. Fresh names the tensors of a head, which other models do not have.
func (o LoadOptions) Pretrained(m any, prefix string, std float64, fresh ...string) pretrained.LoadOptions {
	return pretrained.LoadOptions{
		Prefix: prefix, InitMissing: o.InitMissing, InitMismatched: o.InitMismatched,
		Fresh: func(name string) bool { return slices.Contains(fresh, name) },
		Init:  func(missing map[string]bool) { InitWeights(m, std, missing) },
	}
}
