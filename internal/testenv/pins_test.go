package testenv

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSettingsOfATestRun(t *testing.T) {
	got, err := parsePins(" MKL_CBWR=SSE4_2  DNNL_VERBOSE=1 OMP_NUM_THREADS= REPRODUCIBLE_ANSWER=0")
	require.NoError(t, err)
	assert.Equal(t, map[string]string{"MKL_CBWR": "SSE4_2", "DNNL_VERBOSE": "1", "OMP_NUM_THREADS": "",
		"GOTRAINER_MKL": "native"}, got)
	for _, wrong := range []string{"MKL_CBWR", "=AVX2", "REPRODUCIBLE_ANSWER=1"} {
		_, err = parsePins(wrong)
		assert.ErrorContains(t, err, "want ")
	}
}
