package testenv

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSettingsOfTheTestRunReplaceThePins(t *testing.T) {
	pins := map[string]string{"MKL_CBWR": "AVX2", "OMP_NUM_THREADS": "1"}
	got, err := replaced(pins, " MKL_CBWR=SSE4_2  DNNL_VERBOSE=1 OMP_NUM_THREADS= REPRODUCIBLE_ANSWER=0")
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"MKL_CBWR": "SSE4_2", "DNNL_VERBOSE": "1", "OMP_NUM_THREADS": ""}, got)
	assert.Equal(t, "AVX2", pins["MKL_CBWR"], "the pins themselves were changed")

	for _, wrong := range []string{"MKL_CBWR", "=AVX2"} {
		_, err = replaced(pins, wrong)
		assert.ErrorContains(t, err, "want NAME=VALUE")
	}
}
