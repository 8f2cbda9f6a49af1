package configfile

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
)

type settings struct {
	name  string
	steps int
	rate  float64
	seed  *int
	means []float64
	keys  []string
	on    bool
	args  omegaconf.Map
}

func (s *settings) fields() []Field {
	return Fields("kind", Const("test"), "name", &s.name, "steps", &s.steps, "rate", &s.rate, "seed", &s.seed,
		"means", &s.means, "keys", &s.keys, "active", &s.on, "args", &s.args)
}

func TestFieldsGoThereAndBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "folder", "config.yaml")
	want := settings{name: "a", steps: 3, rate: 2, seed: new(0), means: []float64{1, 0.5}, keys: []string{"x"},
		on:   true,
		args: omegaconf.Map{{Key: "b", Value: int64(1)}}}
	require.NoError(t, Save(path, Encode(want.fields())))
	m, err := Load(path)
	require.NoError(t, err)
	var got settings
	require.NoError(t, DecodeAll(m, got.fields()))
	assert.Equal(t, want, got)
	assert.Equal(t, omegaconf.Map{{Key: "kind", Value: "test"}, {Key: "steps", Value: 0}, {Key: "rate", Value: 0.0},
		{Key: "active", Value: false}}, Encode((&settings{}).fields()), "what is empty is left out")
	_, err = Load(filepath.Dir(path))
	assert.ErrorContains(t, err, "folder")
	require.NoError(t, os.WriteFile(path, []byte("a: ["), 0o600))
	_, err = Load(path)
	assert.ErrorContains(t, err, path)
}

func TestValuesOfAnotherKindAreNamed(t *testing.T) {
	for text, want := range map[string]string{
		"kind: other":  "kind is other; want test",
		"name: 1":      "name is 1; want a text",
		"steps: 1.5":   "steps is 1.5; want an integer",
		"rate: fast":   "rate is fast; want a number",
		"seed: x":      "seed is x; want an integer",
		"means: [a]":   "want a number or a list of numbers",
		"means: a":     "want a number or a list of numbers",
		"keys: x":      "keys is x; want a list of names",
		"keys: [null]": "want a list of names",
		"active: 7":    "active is 7; want true or false",
		"args: [1]":    "args is [1]; want a mapping",
		"nobody: 1":    "the key nobody is unknown; known are kind, name",
	} {
		m, err := omegaconf.Unmarshal([]byte(text))
		require.NoError(t, err)
		var s settings
		assert.ErrorContains(t, DecodeAll(m, s.fields()), want, text)
	}
	var s settings
	require.NoError(t, Decode(omegaconf.Map{{Key: "nobody", Value: int64(1)}, {Key: "means", Value: 0.5}}, s.fields()))
	assert.Equal(t, []float64{0.5}, s.means, "a number is a list of one")
}
