package sentence

import (
	"fmt"
	"math"
	"slices"

	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// PoolingMode is a way to make one vector from the hidden states of a text: pooling_mode.
type PoolingMode string

// The pooling modes.
const (
	CLS          PoolingMode = "cls"                  // the state of the first token
	Max          PoolingMode = "max"                  // the largest number at each place
	Mean         PoolingMode = "mean"                 // the mean over the tokens
	MeanSqrtLen  PoolingMode = "mean_sqrt_len_tokens" // the sum divided by the root of the number of tokens
	WeightedMean PoolingMode = "weightedmean"         // a mean in which the n-th token counts n times
	LastToken    PoolingMode = "lasttoken"            // the state of the last token
)

// poolingModes are all modes, in the order in which they are concatenated with the settings of
// older files.
var poolingModes = []PoolingMode{CLS, Max, Mean, MeanSqrtLen, WeightedMean, LastToken}

// Pooling makes one vector from the hidden states of a text. The zero value takes their mean.
type Pooling struct {
	Modes []PoolingMode // the vectors of several are concatenated; nil: Mean
	// ExcludePrompt leaves out the tokens of prompts, which the encoder still sees:
	// include_prompt=False.
	ExcludePrompt bool
}

func (p Pooling) modes() []PoolingMode {
	if p.Modes == nil {
		return []PoolingMode{Mean}
	}
	return p.Modes
}

func (p Pooling) check() error {
	if p.Modes != nil && len(p.Modes) == 0 {
		return fmt.Errorf("the modes of the pooling are empty; want one of %q, or nil for the mean", poolingModes)
	}
	for _, m := range p.modes() {
		if !slices.Contains(poolingModes, m) {
			return fmt.Errorf("there is no pooling mode %q; there are %q", m, poolingModes)
		}
	}
	return nil
}

// places describes which tokens of a batch count, and how. Its tensors are on the device; those
// that no mode needs are undefined.
type places struct {
	keep        torch.Tensor // 0 or 1, [B, L, 1]
	weights     torch.Tensor // the same, multiplied by the token's position in its text, counted from 1, [B, L, 1]
	first, last torch.Tensor // positions of the first and the last token that counts, [B, 1, 1]
}

// places copies what the modes need to the device.
func (p Pooling) places(pass engine.ForwardPass, t Texts) (at places) {
	rows, width := t.InputIDs.Rows, t.InputIDs.Width
	keep, weights := make([]float32, rows*width), make([]float32, rows*width)
	first, last := make([]int64, rows), make([]int64, rows)
	for row := range rows {
		prompt := 0
		if p.ExcludePrompt && t.PromptLengths != nil {
			prompt = t.PromptLengths[row]
		}
		mask, found := t.AttentionMask.Values, false
		for i := range width {
			k := row*width + i
			if i < prompt || mask != nil && mask[k] == 0 {
				continue
			}
			keep[k], weights[k] = 1, float32(i+1)
			if last[row] = int64(i); !found {
				first[row], found = int64(i), true
			}
		}
	}
	needs := func(modes ...PoolingMode) bool {
		return slices.ContainsFunc(p.modes(), func(m PoolingMode) bool { return slices.Contains(modes, m) })
	}
	if needs(Mean, MeanSqrtLen, Max, LastToken) {
		at.keep = engine.Input(pass, keep, int64(rows), int64(width), 1)
	}
	if needs(WeightedMean) {
		at.weights = engine.Input(pass, weights, int64(rows), int64(width), 1)
	}
	if needs(CLS) {
		at.first = engine.Input(pass, first, int64(rows), 1, 1)
	}
	if needs(LastToken) {
		at.last = engine.Input(pass, last, int64(rows), 1, 1)
	}
	return at
}

// pool maps hidden states, [B, L, hidden], to a vector for each text, [B, modes·hidden].
func (p Pooling) pool(hidden torch.Tensor, at places) torch.Tensor {
	sums := hidden.DType() // dtype of sums
	if sums == torch.Float16 || sums == torch.BFloat16 {
		sums = torch.Float32
	}
	var sum, count torch.Tensor // shared by the two means
	var vectors []torch.Tensor
	for _, mode := range p.modes() {
		var v torch.Tensor
		switch mode {
		case CLS:
			v = token(hidden, at.first)
		case LastToken:
			v = token(hidden.Mul(at.keep.ToDType(hidden.DType())), at.last)
		case Max:
			v, _ = hidden.MaskedFill(at.keep.EqScalar(0), math.Inf(-1)).MaxDim(1, false)
		case Mean, MeanSqrtLen:
			if !sum.Defined() {
				keep := at.keep.ToDType(hidden.DType())
				sum = hidden.Mul(keep).SumDim([]int64{1}, false, sums)
				count = keep.SumDim([]int64{1}, false, sums).Clamp(1e-9, nil)
			}
			by := count
			if mode == MeanSqrtLen {
				by = count.Sqrt()
			}
			v = sum.Div(by).ToDType(hidden.DType())
		case WeightedMean:
			weights := at.weights.ToDType(sums)
			v = hidden.Mul(weights).SumDim([]int64{1}, false, torch.DefaultDType).
				Div(weights.SumDim([]int64{1}, false, torch.DefaultDType).Clamp(1e-9, nil)).ToDType(hidden.DType())
		}
		vectors = append(vectors, v)
	}
	return torch.Cat(vectors, -1)
}

// token returns the hidden state of one token of each text; number, [B, 1, 1], is its position.
func token(hidden, number torch.Tensor) torch.Tensor {
	return hidden.Gather(1, number.Expand(-1, 1, hidden.Size(2))).SqueezeDim(1)
}
