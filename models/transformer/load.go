package transformer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/models/classify"
	"github.com/gotrainer/gotrainer/models/pretrained"
)

// LoadOptions configures the LoadClassifierWith of packages bert, roberta and distilbert.
type LoadOptions struct {
	Head        classify.Head // zero fields are taken from config.json
	Attention   Attention     // zero: SDPA
	InitMissing bool          // also draw missing tensors of the encoder
	// draw tensors of another shape, such as a classifier of other labels: ignore_mismatched_sizes
	InitMismatched bool
}

// LoadClassifier builds a classifier and loads the weights in dir. prefix is the prefix of the
// encoder's tensor names, such as "bert."; head reports the tensors that other models of the kind
// do not have. Missing tensors are drawn with standard deviation std.
func LoadClassifier[M any](dir string, o LoadOptions, build func(Builder) M, prefix string, std float64,
	head ...string) (M, *pretrained.Report, error) {
	m, report, err := pretrained.LoadFolder(dir, func() M { return build(Builder{Undrawn: true}) },
		func(m M) pretrained.LoadOptions {
			return pretrained.LoadOptions{
				Prefix: prefix, InitMissing: o.InitMissing, InitMismatched: o.InitMismatched,
				Fresh: func(name string) bool { return slices.Contains(head, name) },
				Init:  func(missing map[string]bool) { InitWeights(m, std, missing) },
			}
		})
	if err != nil {
		var none M
		return none, report, fmt.Errorf("%s: %w", strings.TrimSuffix(prefix, "."), err)
	}
	return m, report, nil
}
