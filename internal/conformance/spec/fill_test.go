package spec

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

type filled struct {
	LRMin       *float64
	NumEpochs   int
	NotAtEnd    bool
	SaveDir     string
	Beta1       float64
	Beta2       *float64
	KeepAsItIs  int
	MetricSizes []int
	Impedance   complex128
}

func TestFillTakesFieldsByTheirNames(t *testing.T) {
	o, err := ParseObject([]byte(`{"lr_min": 0.5, "num_epochs": 3.0, "save_at_end": false, "save_dir": "a",
		"betas": [0.9, null], "keep_as_it_is": null, "metric_sizes": [1, 2]}`))
	require.NoError(t, err)
	v := filled{KeepAsItIs: 7}
	o.Fill(&v, "save_at_end:!NotAtEnd", "betas:Beta1,Beta2")
	require.NoError(t, o.Done())
	assert.Equal(t, filled{LRMin: new(0.5), NumEpochs: 3, NotAtEnd: true, SaveDir: "a", Beta1: 0.9, KeepAsItIs: 7,
		MetricSizes: []int{1, 2}}, v)
}

func TestFillRefuses(t *testing.T) {
	for text, want := range map[string]string{
		`{"speed": 1}`:                 "the field speed is not known",
		`{"num_epochs": 1.5}`:          "num_epochs is 1.5, want a whole number",
		`{"save_dir": 1}`:              "save_dir is 1, want a string",
		`{"betas": [1]}`:               "betas is a list of 1, want a list of two numbers",
		`{"betas": [1, "a"]}`:          `betas is "a", want a number`,
		`{"metric_sizes": ["a"]}`:      "metric_sizes is a list of 1, want a list of whole numbers",
		`{"metric_sizes": [1.0]}`:      "metric_sizes is a list of 1, want a list of whole numbers",
		`{"impedance": 1}`:             "impedance is 1, want nothing: a complex128 cannot be filled",
		`{"lr_min": {}, "betas": 0.5}`: "betas is 0.5, want a list of two numbers",
	} {
		o, err := ParseObject([]byte(text))
		require.NoError(t, err)
		o.Fill(&filled{}, "betas:Beta1,Beta2")
		assert.EqualError(t, o.Done(), want, text)
	}
}
