package llama

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/torch"
)

// Rope says how far a position rotates queries and keys: rope_parameters of config.json, and
// rope_theta and rope_scaling of older files.
type Rope struct {
	Type  string  `json:"rope_type"`  // default, linear or llama3; of phi3 default or longrope; empty: default
	Theta float64 `json:"rope_theta"` // the base of the wavelengths; zero: 10000

	Factor float64 `json:"factor,omitempty"` // for linear and llama3: how many times longer texts may be

	// For llama3: wavelengths between OriginalMaxPositions/LowFreqFactor and
	// OriginalMaxPositions/HighFreqFactor are partly scaled, longer ones fully.
	LowFreqFactor        float64 `json:"low_freq_factor,omitempty"`
	HighFreqFactor       float64 `json:"high_freq_factor,omitempty"`
	OriginalMaxPositions float64 `json:"original_max_position_embeddings,omitempty"` // zero: MaxPositions

	// For longrope: the factors of the wavelengths; LongFactor is used in a batch with a text of
	// more than OriginalMaxPositions tokens (zero: 4096). Queries and keys are multiplied by
	// AttentionFactor; zero: computed from Factor (zero: MaxPositions/OriginalMaxPositions).
	ShortFactor     []float64 `json:"short_factor,omitempty"`
	LongFactor      []float64 `json:"long_factor,omitempty"`
	AttentionFactor float64   `json:"attention_factor,omitempty"`

	PartialRotaryFactor float64 `json:"partial_rotary_factor,omitempty"` // of phi3: the fraction of a head that is rotated; zero: 1
}

// decodeRope takes the rotary embedding's settings out of a config.json, in the format of
// transformers 5 or of transformers 4.
func decodeRope(d pretrained.Document, f family) (r Rope, err error) {
	var scaling struct {
		Rope
		Older string `json:"type"`
	}
	theta, part := 0.0, 0.0
	if err := d.Decode([]pretrained.Field{{Key: "rope_theta", Value: &theta}, {Key: "rope_scaling", Value: &scaling},
		{Key: "partial_rotary_factor", Value: &part}, {Key: "rope_parameters", Value: &scaling}}); err != nil {
		return r, err
	}
	if r = scaling.Rope; r.Type == "" {
		r.Type = scaling.Older
	}
	if f.partialRope && (r.Type == "su" || r.Type == "yarn") {
		r.Type = longRope // their names for it in older files
	}
	if r.Theta == 0 {
		r.Theta = theta
	}
	if r.PartialRotaryFactor == 0 {
		r.PartialRotaryFactor = part
	}
	if r.PartialRotaryFactor == 1 {
		r.PartialRotaryFactor = 0 // equivalent, and not all types have the setting
	}
	return r, nil
}

// decodeRopes takes the rotary embeddings' settings out of a config.json: either one for all
// layers, or a separate one for the layers with a sliding window.
func (c *Config) decodeRopes(d pretrained.Document, f family) (err error) {
	if !f.twoRopes {
		c.Rope, err = decodeRope(d, f)
		return err
	}
	each := pretrained.Document{}
	given := len(d["rope_parameters"]) > 0 && string(d["rope_parameters"]) != "null"
	if err := d.Decode([]pretrained.Field{{Key: "rope_parameters", Value: &each}}); err != nil {
		return err
	}
	if given && each[FullAttention] == nil && each[SlidingAttention] == nil {
		return fmt.Errorf("rope_parameters are not those of %s and of %s", FullAttention, SlidingAttention)
	}
	global := pretrained.Document{"rope_parameters": each[FullAttention]}
	local := pretrained.Document{"rope_parameters": each[SlidingAttention]}
	global["rope_theta"], global["rope_scaling"] = d["rope_theta"], d["rope_scaling"] // in files of transformers 4
	local["rope_theta"] = d["rope_local_base_freq"]
	for _, key := range []string{"rope_theta", "rope_scaling", "rope_local_base_freq"} {
		delete(d, key)
	}
	for _, part := range []struct {
		d pretrained.Document
		r *Rope
	}{{global, &c.Rope}, {local, &c.LocalRope}} {
		maps.DeleteFunc(part.d, func(_ string, value json.RawMessage) bool { return value == nil })
		if *part.r, err = decodeRope(part.d, f); err != nil {
			return err
		}
	}
	return nil
}

const longRope = "longrope"

// resolved fills in the defaults and checks the settings. The default of Theta is theta or, if that
// is 0, 10000.
func (r Rope) resolved(c Config, f family, theta float64) (Rope, error) {
	r.Type = cmp.Or(r.Type, "default")
	r.Theta = cmp.Or(r.Theta, theta, 10000)
	above := map[string]float64{"rope_theta": r.Theta}
	known := []string{"default", "linear", "llama3"}
	part := int64(1)
	if f.partialRope {
		known = []string{"default", longRope}
		r.PartialRotaryFactor = cmp.Or(r.PartialRotaryFactor, 1)
		part = r.rotaryDims(c.HeadDim)
	}
	switch {
	case !slices.Contains(known, r.Type):
		return r, fmt.Errorf("rope_type is %q; only %q are supported of %s", r.Type, known, c.Type)
	case !f.partialRope && r.PartialRotaryFactor != 0 && r.PartialRotaryFactor != 1:
		return r, fmt.Errorf("partial_rotary_factor is %g; %s supports only 1", r.PartialRotaryFactor, c.Type)
	case f.partialRope && (part < 2 || part > c.HeadDim || part%2 != 0):
		return r, fmt.Errorf("partial_rotary_factor is %g; want one that gives an even number of the %d of a head",
			r.PartialRotaryFactor, c.HeadDim)
	case r.Type == "linear":
		above["factor"] = r.Factor
	case r.Type == "llama3":
		r.OriginalMaxPositions = cmp.Or(r.OriginalMaxPositions, float64(c.MaxPositions))
		above["factor"], above["low_freq_factor"], above["original_max_position_embeddings"] = r.Factor, r.LowFreqFactor,
			r.OriginalMaxPositions
		if !(r.HighFreqFactor > r.LowFreqFactor) {
			return r, fmt.Errorf("high_freq_factor is %g; want more than low_freq_factor, %g", r.HighFreqFactor,
				r.LowFreqFactor)
		}
	case r.Type == longRope:
		r.OriginalMaxPositions = cmp.Or(r.OriginalMaxPositions, 4096)
		above["original_max_position_embeddings"] = r.OriginalMaxPositions
		above["factor"] = cmp.Or(r.Factor, 1)
		above["attention_factor"] = cmp.Or(r.AttentionFactor, 1)
		if err := r.checkFactors(part / 2); err != nil {
			return r, err
		}
	}
	for name, value := range above {
		if !(value > 0) || math.IsInf(value, 0) {
			return r, fmt.Errorf("%s is %g; want a positive number", name, value)
		}
	}
	return r, nil
}

// checkFactors returns an error unless the factors of longrope are n positive numbers, one for each
// pair of features.
func (r Rope) checkFactors(n int64) error {
	for name, factors := range map[string][]float64{"short_factor": r.ShortFactor, "long_factor": r.LongFactor} {
		if int64(len(factors)) != n || slices.ContainsFunc(factors, func(x float64) bool { return !(x > 0) }) {
			return fmt.Errorf("%s is %v; want %d positive numbers", name, factors, n)
		}
	}
	return nil
}

// rotaryDims returns how many features of a head of the given size are rotated.
func (r Rope) rotaryDims(size int64) int64 {
	return int64(float64(size) * cmp.Or(r.PartialRotaryFactor, 1))
}

// scale returns the factor by which longrope multiplies queries and keys.
func (r Rope) scale(positions int64) float64 {
	if r.Type != longRope || r.AttentionFactor > 0 {
		return cmp.Or(r.AttentionFactor, 1)
	}
	factor := cmp.Or(r.Factor, float64(positions)/r.OriginalMaxPositions)
	if factor <= 1 {
		return 1
	}
	return math.Sqrt(1 + math.Log(factor)/math.Log(r.OriginalMaxPositions))
}

// frequencies returns the rotation angle per position of each of size/2 pairs: ROPE_INIT_FUNCTIONS
// of transformers. factors are those of longrope.
func (r Rope) frequencies(size int64, factors []float64) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		f := transformer.RotaryFrequencies(r.Theta, size, factors)
		switch r.Type {
		case "linear":
			return f.DivScalar(r.Factor)
		case "llama3":
			return r.llama3(f)
		}
		return f
	})
}

// llama3 leaves short wavelengths unchanged, divides the frequencies of long ones by Factor, and
// interpolates in between.
func (r Rope) llama3(f torch.Tensor) torch.Tensor {
	low, high := r.OriginalMaxPositions/r.LowFreqFactor, r.OriginalMaxPositions/r.HighFreqFactor
	waves := f.Reciprocal().MulScalar(2 * math.Pi)
	long := waves.GtScalar(low)
	scaled := torch.Where(long, f.DivScalar(r.Factor), f)
	share := waves.Reciprocal().MulScalar(r.OriginalMaxPositions).SubScalar(r.LowFreqFactor).
		DivScalar(r.HighFreqFactor - r.LowFreqFactor)
	between := waves.LtScalar(high).LogicalNot().LogicalAnd(long.LogicalNot())
	rest := share.Neg().AddScalar(1).Mul(scaled).DivScalar(r.Factor)
	return torch.Where(between, rest.Add(share.Mul(scaled)), scaled)
}
