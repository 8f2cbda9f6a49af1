package detect

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// TestAssignmentsAreSciPys compares pairings, of which some are not the only best ones.
func TestAssignmentsAreSciPys(t *testing.T) {
	text, err := os.ReadFile("testdata/assignment.json")
	require.NoError(t, err)
	var file struct {
		Cases []struct {
			Rows, Columns int
			Costs         []float64
			Pairs         [][2]int
		}
	}
	require.NoError(t, json.Unmarshal(text, &file))
	require.Greater(t, len(file.Cases), 100)
	for i, c := range file.Cases {
		for k, cost := range c.Costs {
			if cost == 1e300 {
				c.Costs[k] = math.Inf(1)
			}
		}
		pairs, err := linearSumAssignment(c.Costs, c.Rows, c.Columns)
		require.NoError(t, err)
		require.Len(t, pairs, len(c.Pairs), "case %d", i)
		for k, pair := range c.Pairs {
			assert.Equal(t, pair, pairs[k], "case %d", i)
		}
	}
}

// TestNoPairingIsBetter tries all of them.
func TestNoPairingIsBetter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rows, columns := rapid.IntRange(0, 5).Draw(t, "rows"), rapid.IntRange(0, 5).Draw(t, "columns")
		costs := rapid.SliceOfN(rapid.Float64Range(-9, 9), rows*columns, rows*columns).Draw(t, "costs")
		pairs, err := linearSumAssignment(costs, rows, columns)
		require.NoError(t, err)
		require.Len(t, pairs, min(rows, columns))
		sum, taken := 0.0, map[int]bool{}
		for i, p := range pairs {
			require.False(t, taken[p[1]])
			require.True(t, i == 0 || pairs[i-1][0] < p[0])
			taken[p[1]] = true
			sum += costs[p[0]*columns+p[1]]
		}
		require.InDelta(t, cheapest(costs, rows, columns, 0, len(pairs), map[int]bool{}), sum, 1e-9)
	})
}

// cheapest is the least cost of pairs of the rows from row on, tried one by one.
func cheapest(costs []float64, rows, columns, row, left int, taken map[int]bool) float64 {
	if left == 0 {
		return 0
	}
	if rows-row < left {
		return math.Inf(1)
	}
	best := cheapest(costs, rows, columns, row+1, left, taken) // leave the row out
	for j := range columns {
		if !taken[j] {
			taken[j] = true
			best = min(best, costs[row*columns+j]+cheapest(costs, rows, columns, row+1, left-1, taken))
			taken[j] = false
		}
	}
	return best
}

func TestImpossibleCostsAreRefused(t *testing.T) {
	for want, costs := range map[string][]float64{
		"contain NaN or -Inf": {1, math.NaN(), 2, 3},
		"NaN or -Inf":         {1, math.Inf(-1), 2, 3},
		"are infinite":        {math.Inf(1), math.Inf(1), 1, 1},
	} {
		_, err := linearSumAssignment(costs, 2, 2)
		assert.ErrorContains(t, err, want)
	}
}
