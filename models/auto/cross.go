package auto

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/models/pretrained"
)

// CrossEncoder loads the classifier of pairs of texts that package crossencoder works with. Files
// that are not those of a classifier get a new head with one label, or with those of
// Options.ID2Label. Files of a language model are refused.
func CrossEncoder(ctx context.Context, model string, o Options) (*SequenceClassifier, error) {
	t := sequenceClassification
	t.cross = true
	m, err := load(ctx, model, t, o)
	if err != nil {
		return nil, err
	}
	return &SequenceClassifier{m}, nil
}

// crossLabels returns how many labels a cross encoder has; zero: as many as config.json or the
// options say.
func crossLabels(d pretrained.Document, o Options) (int64, error) {
	architectures, err := architecturesOf(d)
	if err != nil {
		return 0, err
	}
	if len(architectures) > 0 && strings.HasSuffix(architectures[0], causalLM.class) {
		return 0, fmt.Errorf("architectures has %s, a language model, whose score comes from the logits of words: load it "+
			"with crossencoder.Load, or with auto.CausalLM for crossencoder.NewWithLogitScore; want an encoder, or a model "+
			"that classifies texts", architectures[0])
	}
	classifies := slices.ContainsFunc(architectures, func(name string) bool {
		return strings.HasSuffix(name, sequenceClassification.class)
	})
	if classifies || o.ID2Label != nil {
		return 0, nil
	}
	return 1, nil
}
