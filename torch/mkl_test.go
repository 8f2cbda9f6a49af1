package torch

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/cgotorch"
)

func TestWhichKernelsMKLTakes(t *testing.T) {
	for _, c := range []struct {
		claim             string
		reproducible, amd bool
		env               map[string]string
		want              MKLKernels
		needed            bool // if the library is missing, loading libtorch fails
	}{
		{"an AMD's", false, true, nil, MKLKernels{true, "this CPU is AMD's"}, false},
		{"an Intel's", false, false, nil, MKLKernels{false, "this CPU is not AMD's"}, false},
		{"reproducible numbers, whoever made the CPU", true, false, nil, MKLKernels{true, "numbers are reproducible"},
			true},
		{"reproducible numbers set MKL_CBWR themselves", true, true, map[string]string{"MKL_CBWR": "AVX2"},
			MKLKernels{true, "numbers are reproducible"}, true},
		{"the environment has the last word", true, true, map[string]string{"GOTRAINER_MKL": "native"},
			MKLKernels{false, "GOTRAINER_MKL is native"}, false},
		{"asked for", false, false, map[string]string{"GOTRAINER_MKL": "intel", "MKL_CBWR": "AVX2"},
			MKLKernels{true, "GOTRAINER_MKL is intel"}, true},
		{"somebody compares bits", false, true, map[string]string{"MKL_CBWR": "COMPATIBLE"},
			MKLKernels{false, "MKL_CBWR is set"}, false},
		{"somebody chooses himself", false, true, map[string]string{"MKL_ENABLE_INSTRUCTIONS": "AVX2"},
			MKLKernels{false, "MKL_ENABLE_INSTRUCTIONS is set"}, false},
	} {
		t.Run(c.claim, func(t *testing.T) {
			choice, err := chooseMKL("amd64", c.reproducible, c.amd, func(name string) string { return c.env[name] })
			require.Nil(t, err)
			assert.Equal(t, c.want, choice.kernels(c.want.Intel))
			assert.Equal(t, c.needed, choice.how == cgotorch.IntelMKL)
		})
	}
	_, err := chooseMKL("amd64", false, true, func(string) string { return "amd" })
	assert.ErrorContains(t, err, `GOTRAINER_MKL is "amd": want intel, native`)
}

func TestOnARMThereIsNoMKL(t *testing.T) {
	choice, err := chooseMKL("arm64", false, false, func(string) string { return "" })
	require.Nil(t, err)
	assert.Equal(t, MKLKernels{false, "there is no MKL on arm64"}, choice.kernels(false))
	_, err = chooseMKL("arm64", false, false, func(string) string { return "intel" })
	assert.ErrorContains(t, err, "GOTRAINER_MKL is intel: there is no MKL on arm64; unset it")
}

func TestMKLsLibraryIsOptionalOnAMD(t *testing.T) {
	choice, err := chooseMKL("amd64", false, true, func(string) string { return "" })
	require.Nil(t, err)
	assert.Equal(t, MKLKernels{false, "libcgotorch_mkl is not installed"}, choice.kernels(false))
}

func TestAWrongProductIsFound(t *testing.T) {
	right := func(product, a, b []float32) {
		for i := range product {
			for k := range checkInner {
				product[i] += a[i/checkColumns*checkInner+k] * b[k*checkColumns+i%checkColumns]
			}
		}
	}
	require.Nil(t, checkMKL(right))
	for _, place := range []int{1, checkRows*checkColumns/2 + 3, checkRows*checkColumns - 1} {
		err := checkMKL(func(product, a, b []float32) {
			right(product, a, b)
			product[place]++
		})
		assert.ErrorContains(t, err, "set GOTRAINER_MKL=native", "element %d", place)
	}
}
