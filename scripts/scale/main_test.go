package main

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

func TestThePageHasWhatIsPrinted(t *testing.T) {
	page, err := os.ReadFile("../../docs/scale.md")
	require.NoError(t, err)
	_, rest, begins := strings.Cut(string(page), "<!-- go run ./scripts/scale prints from here -->\n\n")
	tables, _, ends := strings.Cut(rest, "\n<!-- to here -->")
	require.True(t, begins && ends, "docs/scale.md has lost the marks around its tables")
	assert.Equal(t, report(h200, llama3), tables, "go run ./scripts/scale prints what belongs there")
}

// Figures that the text of docs/scale.md quotes.
func TestTheFiguresOfTheText(t *testing.T) {
	bert := workloads[0]
	assert.InDelta(t, 22.0, h200.compute(bert)*1e3, 0.05)
	for n, traffic := range map[int]float64{8: 3.4, 64: 5.2, 256: 7.2, 1024: 9.1} {
		s := h200.update(bert, n)
		assert.InDelta(t, traffic, s.traffic*1e3, 0.05, "%d GPUs", n)
		assert.Less(t, s.shows*1e3, 0.4, "%d GPUs", n)
	}
	assert.InDelta(t, 0.984, h200.update(bert, 1024).efficiency(), 5e-4)
	assert.InDelta(t, 0.013, h200.inGo(bert, 1024).efficiency(), 5e-4)

	seven := h200.update(workloads[3], 1024)
	assert.InDelta(t, 1028, seven.compute*1e3, 1)
	assert.InDelta(t, 185, seven.traffic*1e3, 0.5)
	assert.InDelta(t, 0.996, seven.efficiency(), 5e-4)

	assert.InDelta(t, 0.0033, llama3.checkpoints(1024), 1e-4)
	assert.InDelta(t, 0.0033, llama3.hangs(1024), 1e-4)
	assert.Equal(t, 600*time.Second, llama3.best(1024).Round(time.Second))
}

func TestMoreGPUsAndSlowerLinksNeverHelp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := rapid.SampledFrom(workloads).Draw(t, "workload")
		machines := rapid.IntRange(1, 1024).Draw(t, "machines")
		slow := h200
		slow.nic /= rapid.Float64Range(1, 100).Draw(t, "slower")
		fewer, more := h200.update(w, 8*machines), h200.update(w, 16*machines)
		assert.GreaterOrEqual(t, more.traffic, fewer.traffic)
		assert.LessOrEqual(t, more.efficiency(), fewer.efficiency())
		assert.LessOrEqual(t, slow.update(w, 8*machines).efficiency(), fewer.efficiency())
		assert.Equal(t, fewer.compute, more.compute, "each GPU has the same batch")
	})
}

func TestAnotherIntervalThanTheBestCostsMore(t *testing.T) {
	for _, n := range gpus {
		best := llama3
		best.interval = llama3.best(n)
		for _, times := range []time.Duration{2, 4} {
			longer, shorter := best, best
			longer.interval *= times
			shorter.interval /= times
			assert.Less(t, best.checkpoints(n), longer.checkpoints(n))
			assert.Less(t, best.checkpoints(n), shorter.checkpoints(n))
		}
	}
}
