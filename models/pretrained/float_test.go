package pretrained_test

import (
	"encoding/json"
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/models/pretrained"
)

func TestFloatHasAPoint(t *testing.T) {
	for value, want := range map[pretrained.Float]string{2: "2.0", -3: "-3.0", 0.02: "0.02", 1e-12: "1e-12", 0: "0.0"} {
		text, err := json.Marshal(value)
		require.NoError(t, err)
		assert.Equal(t, want, string(text))
		var again pretrained.Float
		require.NoError(t, json.Unmarshal(text, &again))
		assert.Equal(t, value, again)
	}
	_, err := json.Marshal(pretrained.Float(math.Inf(1)))
	require.Error(t, err)
}
