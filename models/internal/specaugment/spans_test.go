package specaugment_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/models/internal/specaugment"
	"github.com/gotrainer/gotrainer/torch"
)

// TestMasksAreNumpys compares masks with those of transformers for the same seeds of numpy, drawn
// one after another with a generator that keeps its state.
func TestMasksAreNumpys(t *testing.T) {
	testenv.RequireTorch(t)
	text, err := os.ReadFile("../../wav2vec2/testdata/wav2vec2.json")
	require.NoError(t, err)
	var f struct {
		Masks []struct {
			Seed          uint64
			Shape         [2]int64
			Share         float64
			Length, Least int64
			Lengths       []int64
			Drawn         [][][]int64 // where each row is masked
		}
	}
	require.NoError(t, json.Unmarshal(text, &f))
	require.NotEmpty(t, f.Masks)
	for _, c := range f.Masks {
		g := torch.NewGenerator(c.Seed)
		spans := specaugment.Spans{Share: c.Share, Length: c.Length, Least: c.Least}
		for _, want := range c.Drawn {
			numbers := specaugment.NumpyOf(g)
			mask := spans.Draw(numbers, c.Shape[0], c.Shape[1], c.Lengths)
			numbers.Keep()
			got := make([][]int64, c.Shape[0])
			for row := range got {
				got[row] = []int64{}
				for i := range c.Shape[1] {
					if mask[int64(row)*c.Shape[1]+i] {
						got[row] = append(got[row], i)
					}
				}
			}
			assert.Equal(t, want, got, "seed %d", c.Seed)
		}
	}
}
