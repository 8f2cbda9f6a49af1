package recorded

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/internal/testenv"
)

func TestModels(t *testing.T) {
	testenv.RequireTorch(t)
	small := omegaconf.Map{{Key: "vocab_size", Value: int64(9)}, {Key: "hidden_size", Value: int64(4)},
		{Key: "num_hidden_layers", Value: int64(1)}, {Key: "num_attention_heads", Value: int64(2)},
		{Key: "intermediate_size", Value: int64(4)}, {Key: "num_labels", Value: int64(3)}}
	assert.Equal(t, int64(3), BERT(small).Config().NumLabels, "classes without names")
	var missing *spec.Unsupported
	for claim, make := range map[string]func(){
		"a field of a CRNN that is not known": func() { CRNN(omegaconf.Map{{Key: "rank", Value: int64(1)}}, nil) },
		"a CRNN of no height": func() {
			CRNN(omegaconf.Map{{Key: "map2seq_in_dim", Value: int64(1)}}, nil)
		},
		"heads that do not fit": func() {
			BERT(omegaconf.Map{{Key: "hidden_size", Value: int64(3)}, {Key: "num_attention_heads", Value: int64(2)}})
		},
	} {
		assert.ErrorAs(t, spec.Try(make), &missing, claim)
	}
}
