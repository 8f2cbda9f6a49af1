package vectors

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
	"github.com/gotrainer/gotrainer/compat/hezar/preprocessors"
)

func counted(shape ...int) array {
	a := array{shape: shape}
	for i := range elements(shape) {
		a.bytes = append(a.bytes, uint8(i))
	}
	return a
}

// The values of the tests below are numpy's, for np.arange(n, dtype=np.uint8).reshape(shape).

func TestTransposedIsNumpys(t *testing.T) {
	a, err := counted(2, 3, 2).transposed(2, 0, 1) // .transpose(2, 0, 1)
	if err != nil || !slices.Equal(a.shape, []int{2, 2, 3}) || !slices.Equal(a.bytes, []uint8{0, 2, 4, 6, 8, 10, 1, 3,
		5, 7, 9, 11}) {
		t.Errorf("%v %v, %v", a.shape, a.bytes, err)
	}
	if _, err := counted(2, 3).transposed(2, 0, 1); !errors.Is(err, errPython) {
		t.Errorf("two dimensions: %v, want numpy's refusal", err)
	}
}

func TestRescaledKeepsBytesByWholeNumbers(t *testing.T) {
	a := array{shape: []int{1, 3}, bytes: []uint8{1, 130, 255}}
	for _, c := range []struct {
		scale any
		want  string // of bytes and floats
	}{
		{int64(2), "[2 4 254] []"}, // a * 2 wraps
		{int64(0), "[0 0 0] []"},
		{0.5, "[] [0.5 65 127.5]"},
	} {
		got, err := a.rescaled(c.scale)
		if text := fmt.Sprint(got.bytes, got.floats); err != nil || text != c.want {
			t.Errorf("times %v: %s, %v; want %s", c.scale, text, err, c.want)
		}
	}
	for _, scale := range []any{int64(-1), int64(256), "x"} {
		if _, err := a.rescaled(scale); !errors.Is(err, errPython) {
			t.Errorf("times %v: %v, want numpy's refusal", scale, err)
		}
	}
}

func TestNormalizedGoesAlongTheLastAxis(t *testing.T) {
	for _, c := range []struct {
		claim     string
		a         array
		mean, std []float64
		alone     bool // mean and std are no lists
		want      string
	}{
		{"one for each channel", array{shape: []int{2, 2}, floats: []float64{1, 2, 3, 4}}, []float64{1, 2},
			[]float64{2, 4}, false, "[2 2] [0 0 1 0.5]"},
		{"one for all", array{shape: []int{2, 2}, floats: []float64{1, 2, 3, 4}}, []float64{1}, []float64{2}, true,
			"[2 2] [0 0.5 1 1.5]"},
		{"an axis of 1 is stretched", array{shape: []int{2, 1}, floats: []float64{1, 2}}, []float64{0, 1},
			[]float64{1, 2}, false, "[2 2] [1 0 2 0.5]"},
		{"bytes wrap below 0, and a mean is cut to one", array{shape: []int{1, 2}, bytes: []uint8{0, 9}},
			[]float64{1.9, 1.9}, []float64{2, 2}, false, "[1 2] [127.5 4]"},
	} {
		got, err := c.a.normalized(c.mean, c.std, c.alone, c.alone)
		if text := fmt.Sprint(got.shape, got.floats); err != nil || text != c.want {
			t.Errorf("%s: %s, %v; want %s", c.claim, text, err, c.want)
		}
	}
	a := array{shape: []int{1, 3}, floats: []float64{1, 2, 3}}
	if _, err := a.normalized([]float64{1, 2}, []float64{1}, false, false); !errors.Is(err, errPython) {
		t.Errorf("two numbers for an axis of three: %v, want numpy's refusal", err)
	}
}

func TestPicturesOfUpToThreeRowsAreTakenForChannels(t *testing.T) {
	for _, c := range []struct {
		claim string
		shape []int
		want  string // channels, width and height of the Pillow image
	}{
		{"rows, columns, colours", []int{5, 4, 3}, "3 4 5"},
		{"three rows are channels", []int{3, 4, 2}, "3 2 4"},
		{"one row is a grey picture", []int{1, 4, 2}, "1 2 4"},
		{"without colours", []int{5, 4}, "1 4 5"},
		{"with transparency", []int{5, 2, 4}, "4 2 5"},
	} {
		p, err := counted(c.shape...).pillow()
		if err != nil {
			t.Errorf("%s: %v", c.claim, err)
			continue
		}
		if got := fmt.Sprint(len(p), p[0].Width, p[0].Height); got != c.want {
			t.Errorf("%s: %v becomes %s; want %s", c.claim, c.shape, got, c.want)
		}
	}
	for _, shape := range [][]int{{3, 4}, {5, 1}, {5, 4, 5}} {
		if _, err := counted(shape...).pillow(); !errors.Is(err, errPython) {
			t.Errorf("%v: %v, want a refusal", shape, err)
		}
	}
}

func TestLikeHezarMirrorsScalesAndPutsChannelsFirst(t *testing.T) {
	got, err := likeHezar(counted(4, 2, 3), preprocessors.ImageProcessorConfig{Mirror: true},
		omegaconf.Map{{Key: "rescale", Value: 0.5}})
	if err != nil || !slices.Equal(got.shape, []int{3, 4, 2}) || !slices.Equal(got.floats[:4], []float64{1.5, 0, 4.5,
		3}) {
		t.Errorf("%v %v, %v", got.shape, got.floats, err)
	}
}
