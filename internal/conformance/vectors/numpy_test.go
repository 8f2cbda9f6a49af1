package vectors

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/compat/hezar/preprocessors"
	"github.com/gotrainer/gotrainer/internal/conformance/recorded"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

func counted(shape ...int64) torch.Tensor {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return torch.Arange(n).ToDType(torch.Uint8).Reshape(shape...)
}

// The expected values below were computed by numpy for np.arange(n, dtype=np.uint8).reshape(shape).

// refused reports whether f fails like numpy.
func refused(f func()) bool { return errors.Is(recorded.Try(f), errPython) }

func TestTransposedIsNumpys(t *testing.T) {
	testenv.RequireTorch(t)
	a := transposed(counted(2, 3, 2), 2, 0, 1) // .transpose(2, 0, 1)
	assert.Equal(t, []int64{2, 2, 3}, a.Shape())
	assert.Equal(t, []uint8{0, 2, 4, 6, 8, 10, 1, 3, 5, 7, 9, 11}, torch.Values[uint8](a))
	assert.True(t, refused(func() { transposed(counted(2, 3), 2, 0, 1) }), "two dimensions")
}

func TestRescaledKeepsBytesByWholeNumbers(t *testing.T) {
	testenv.RequireTorch(t)
	a := torch.From([]uint8{1, 130, 255}, 1, 3)
	assert.Equal(t, []uint8{2, 4, 254}, torch.Values[uint8](rescaled(a, int64(2))), "a * 2 wraps")
	assert.Equal(t, []uint8{0, 0, 0}, torch.Values[uint8](rescaled(a, int64(0))))
	assert.Equal(t, []float64{0.5, 65, 127.5}, torch.Values[float64](rescaled(a, 0.5)))
	for _, scale := range []any{int64(-1), int64(256), "x"} {
		assert.True(t, refused(func() { rescaled(a, scale) }), "times %v", scale)
	}
}

func TestNormalizedGoesAlongTheLastAxis(t *testing.T) {
	testenv.RequireTorch(t)
	for _, c := range []struct {
		claim     string
		a         torch.Tensor
		mean, std []float64
		want      string
	}{
		{"one for each channel", torch.From([]float64{1, 2, 3, 4}, 2, 2), []float64{1, 2}, []float64{2, 4},
			"[2 2] [0 0 1 0.5]"},
		{"one for all", torch.From([]float64{1, 2, 3, 4}, 2, 2), []float64{1}, []float64{2}, "[2 2] [0 0.5 1 1.5]"},
		{"an axis of 1 is stretched", torch.From([]float64{1, 2}, 2, 1), []float64{0, 1}, []float64{1, 2},
			"[2 2] [1 0 2 0.5]"},
		{"bytes wrap below 0, and a mean is cut to one", torch.From([]uint8{0, 9}, 1, 2), []float64{1.9, 1.9},
			[]float64{2, 2}, "[1 2] [127.5 4]"},
	} {
		got := normalized(c.a, c.mean, c.std)
		assert.Equal(t, c.want, fmt.Sprint(got.Shape(), torch.Values[float64](got)), c.claim)
	}
	a := torch.From([]float64{1, 2, 3}, 1, 3)
	assert.True(t, refused(func() { normalized(a, []float64{1, 2}, []float64{1}) }), "two numbers for an axis of three")
}

func TestPicturesOfUpToThreeRowsAreTakenForChannels(t *testing.T) {
	testenv.RequireTorch(t)
	for _, c := range []struct {
		claim string
		shape []int64
		want  string // channels, width and height of the Pillow image
	}{
		{"rows, columns, colours", []int64{5, 4, 3}, "3 4 5"},
		{"three rows are channels", []int64{3, 4, 2}, "3 2 4"},
		{"one row is a grey picture", []int64{1, 4, 2}, "1 2 4"},
		{"without colours", []int64{5, 4}, "1 4 5"},
		{"with transparency", []int64{5, 2, 4}, "4 2 5"},
	} {
		p := pillow(counted(c.shape...))
		assert.Equal(t, c.want, fmt.Sprint(len(p), p[0].Width, p[0].Height), c.claim)
	}
	for _, shape := range [][]int64{{3, 4}, {5, 1}, {5, 4, 5}} {
		assert.True(t, refused(func() { pillow(counted(shape...)) }), "%v", shape)
	}
}

func TestLikeHezarMirrorsScalesAndPutsChannelsFirst(t *testing.T) {
	testenv.RequireTorch(t)
	got := likeHezar(counted(4, 2, 3), preprocessors.ImageProcessorConfig{Mirror: true},
		omegaconf.Map{{Key: "rescale", Value: 0.5}})
	assert.Equal(t, []int64{3, 4, 2}, got.Shape())
	assert.Equal(t, []float64{1.5, 0, 4.5, 3}, torch.Values[float64](got)[:4])
}
