package modeltest

import (
	"maps"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/auto"
	"github.com/gotrainer/gotrainer/nn"
)

// SameAdapter compares the names of the parameters that a model with an adapter trains, and the
// names and sums of the tensors that it saves: sums only on machines that compute the same numbers.
func SameAdapter(t *testing.T, m *auto.Model, trained []string, saved map[string]string) {
	t.Helper()
	var names []string
	for _, p := range nn.Params(m) {
		if p.Tensor.NeedsGrad() {
			names = append(names, p.Name)
		}
	}
	assert.Equal(t, trained, names)
	_, tensors, _ := m.AdapterState()
	sums := map[string]string{}
	for _, s := range tensors {
		sums[s.Name] = Sum(s.Tensor.Bytes())
	}
	assert.Equal(t, slices.Sorted(maps.Keys(saved)), slices.Sorted(maps.Keys(sums)))
	if testenv.SameBits() {
		assert.Equal(t, saved, sums)
	}
}
