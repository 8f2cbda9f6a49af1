package repository

import (
	"math"
	"testing"

	"github.com/gotrainer/gotrainer/compat/hezar/omegaconf"
)

// FuzzGeneration reads damaged settings of generation.
func FuzzGeneration(f *testing.F) {
	f.Add("max_new_tokens: 50\nno_repeat_ngram_size: 0\nnum_beams: 4\neos_token_id: 2\nlength_penalty: 2.0\n")
	f.Add("do_sample: true\ntop_k: 0\ntop_p: 0.5\ntemperature: 1e-3\neos_token_id: [1, 2]\nmax_length: 9")
	f.Add("length_penalty: 0\nnum_beams: 2\neos_token_id: []")
	f.Fuzz(func(t *testing.T, text string) {
		settings, err := omegaconf.Unmarshal([]byte(text))
		if err != nil {
			return
		}
		config := omegaconf.Map{{Key: "generation", Value: settings}}
		m := &Model{kind: "gpt2_text_generation", module: new(int), config: config}
		g, err := m.generation(Settings{"num_beams": 2})
		if err != nil {
			return
		}
		if g.NumBeams != 2 || g.longest < 0 || g.shortest < 0 || g.longest > 0 && g.MaxNewTokens > 0 ||
			math.IsNaN(g.Temperature) && !g.Sample {
			t.Fatalf("%q gives %+v", text, g)
		}
	})
}
