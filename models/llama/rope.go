package llama

import (
	"fmt"
	"math"

	"github.com/gotrainer/gotrainer/models/pretrained"
	"github.com/gotrainer/gotrainer/torch"
)

// Rope says how far a position turns queries and keys: rope_parameters of config.json, and
// rope_theta and rope_scaling of older files.
type Rope struct {
	Type  string  `json:"rope_type"`  // default, linear or llama3; empty: default
	Theta float64 `json:"rope_theta"` // the base of the wave lengths; zero: 10000

	Factor float64 `json:"factor,omitempty"` // of linear and llama3: how many times longer texts may be

	// Of llama3: wave lengths between OriginalMaxPositions/LowFreqFactor and
	// OriginalMaxPositions/HighFreqFactor are scaled in part, longer ones wholly.
	LowFreqFactor        float64 `json:"low_freq_factor,omitempty"`
	HighFreqFactor       float64 `json:"high_freq_factor,omitempty"`
	OriginalMaxPositions float64 `json:"original_max_position_embeddings,omitempty"` // zero: MaxPositions
}

// decodeRope takes the settings of positions out of a config.json, in the words of transformers 5 or
// of 4.
func decodeRope(d pretrained.Document) (r Rope, err error) {
	var scaling struct {
		Rope
		Older         string   `json:"type"`
		PartialRotary *float64 `json:"partial_rotary_factor"`
	}
	theta := 0.0
	if err := d.Decode([]pretrained.Field{{Key: "rope_theta", Value: &theta}, {Key: "rope_scaling", Value: &scaling},
		{Key: "rope_parameters", Value: &scaling}}); err != nil {
		return r, err
	}
	if r = scaling.Rope; r.Type == "" {
		r.Type = scaling.Older
	}
	if r.Theta == 0 {
		r.Theta = theta
	}
	if p := scaling.PartialRotary; p != nil && *p != 1 {
		return r, fmt.Errorf("partial_rotary_factor is %g; only 1 is supported", *p)
	}
	return r, d.Demand("partial_rotary_factor", "1", "1.0")
}

// resolved fills in the defaults and refuses what is impossible.
func (r Rope) resolved(positions int64) (Rope, error) {
	if r.Type == "" {
		r.Type = "default"
	}
	if r.Theta == 0 {
		r.Theta = 10000
	}
	above := map[string]float64{"rope_theta": r.Theta}
	switch r.Type {
	case "default":
	case "linear":
		above["factor"] = r.Factor
	case "llama3":
		if r.OriginalMaxPositions == 0 {
			r.OriginalMaxPositions = float64(positions)
		}
		above["factor"], above["low_freq_factor"], above["original_max_position_embeddings"] = r.Factor, r.LowFreqFactor,
			r.OriginalMaxPositions
		if !(r.HighFreqFactor > r.LowFreqFactor) {
			return r, fmt.Errorf("high_freq_factor is %g; want more than low_freq_factor, %g", r.HighFreqFactor,
				r.LowFreqFactor)
		}
	default:
		return r, fmt.Errorf(`rope_type is %q; only "default", "linear" and "llama3" are supported`, r.Type)
	}
	for name, value := range above {
		if !(value > 0) || math.IsInf(value, 0) {
			return r, fmt.Errorf("%s is %g; want a positive number", name, value)
		}
	}
	return r, nil
}

// frequencies are how far a position turns each of size/2 pairs: ROPE_INIT_FUNCTIONS of
// transformers.
func (r Rope) frequencies(size int64) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		o := torch.TensorOptions{DType: torch.Float32}
		f := o.Full(r.Theta).Pow(o.Arange(0, size, 2).DivScalar(size)).Reciprocal()
		switch r.Type {
		case "linear":
			return f.DivScalar(r.Factor)
		case "llama3":
			return r.llama3(f)
		}
		return f
	})
}

// llama3 leaves short waves as they are, and scales long ones, and those between in part.
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
