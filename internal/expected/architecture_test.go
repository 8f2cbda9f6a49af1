package expected

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gotrainer/gotrainer/internal/conformance/spec"
)

func TestArchitecturesAreReadStrictly(t *testing.T) {
	const end = "; no padding, stride 1; eval mode"
	for _, text := range []string{"relu", "conv1(1,8) relu" + end, "conv1(1,8,3)x" + end, "fc1(0,2)" + end,
		"batchnorm1d norm1" + end, "tanh" + end, "relu; padding 1"} {
		assert.Error(t, spec.Try(func() { parseArchitecture(text) }), "%q is understood", text)
	}
}
