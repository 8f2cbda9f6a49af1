package modeltest

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
)

// SameNumbers compares logged numbers with the recorded ones: their bits where this CPU gives them,
// otherwise within a share.
func SameNumbers(t *testing.T, want map[string]string, got map[string]float64, share float64) {
	t.Helper()
	for _, name := range slices.Sorted(maps.Keys(want)) {
		number, ok := got[name]
		if !assert.True(t, ok, "%s is not there", name) {
			continue
		}
		w, err := strconv.ParseFloat(want[name], 64)
		require.NoError(t, err)
		switch {
		case math.IsNaN(w):
			assert.True(t, math.IsNaN(number), "%s is %g, want NaN", name, number)
		case testenv.SameBits():
			assert.Equal(t, w, number, name)
		default:
			assert.InDelta(t, w, number, share*(1+max(w, -w)), name)
		}
	}
}
