package recorded

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/internal/testenv"
)

func TestModels(t *testing.T) {
	testenv.RequireTorch(t)
	small := map[string]any{"vocab_size": 9, "hidden_size": 4, "num_hidden_layers": 1, "num_attention_heads": 2,
		"intermediate_size": 4, "num_labels": 3}
	assert.Equal(t, int64(3), Hezar(BERT, small, nil).Text.Head().NumLabels, "classes without names")
	var missing *spec.Unsupported
	for claim, make := range map[string]func(){
		"a field of a CRNN that is not known": func() { Hezar(CRNN, map[string]any{"rank": 1}, nil) },
		"a CRNN of no height":                 func() { Hezar(CRNN, map[string]any{"map2seq_in_dim": 1}, nil) },
		"heads that do not fit": func() {
			Hezar(BERT, map[string]any{"hidden_size": 3, "num_attention_heads": 2}, nil)
		},
	} {
		assert.ErrorAs(t, spec.Try(make), &missing, claim)
	}
}
