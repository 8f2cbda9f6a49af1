package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
)

func TestEachQuantityIsMeasuredAndDrawn(t *testing.T) {
	testenv.RequireTorch(t)
	dir := t.TempDir()
	require.NoError(t, run(dir, "", true, 1))
	page, err := os.ReadFile(filepath.Join(dir, "table.md"))
	require.NoError(t, err)
	for _, q := range quantities {
		info, err := os.Stat(filepath.Join(dir, q.name+".png"))
		require.NoError(t, err)
		assert.Positive(t, info.Size())
		assert.Contains(t, string(page), "## "+q.name+"\n")
	}
}

func TestAQuantityThatIsNotThereIsRefused(t *testing.T) {
	assert.ErrorContains(t, run(t.TempDir(), "batch,height", true, 1), `no quantity "height"; there are batch, width`)
}

func TestExponentIsTheSlopeOfTheLargerHalf(t *testing.T) {
	m := measured{}
	for _, n := range []int{1, 2, 4, 8, 16, 32} {
		wall := float64(n * n)
		if n < 8 {
			wall = 1 // the exponent ignores the smaller sizes
		}
		m.points = append(m.points, point{size: n, wall: wall})
	}
	assert.InDelta(t, 2, m.exponent(), 1e-9)
	m.points = m.points[:1]
	assert.Zero(t, m.exponent())
}
