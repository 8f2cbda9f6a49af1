package grpo

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gotrainer/gotrainer/models/internal/logprob"
	"github.com/gotrainer/gotrainer/torch"
)

// LossType selects how the objective of the tokens becomes a loss: loss_type of GRPOConfig.
type LossType string

// The losses of TRL. The first five clip the ratio of probabilities and differ in the divisor of
// the sum over the tokens.
const (
	DAPO   LossType = "dapo"    // the tokens of all completions of an update
	GRPO   LossType = "grpo"    // the tokens of each completion, then the number of completions
	BNPO   LossType = "bnpo"    // the tokens of a micro-batch
	DrGRPO LossType = "dr_grpo" // TaskOptions.MaxCompletionLength times the number of completions
	LUSPO  LossType = "luspo"   // the number of completions; for SequenceLevel
	CISPO  LossType = "cispo"   // clips the weight of a token's log probability; as DAPO
	SAPO   LossType = "sapo"    // a soft gate instead of clipping; as GRPO
	VESPO  LossType = "vespo"   // gamma weights of whole completions; as DAPO
)

var (
	lossTypes = []LossType{DAPO, GRPO, BNPO, DrGRPO, LUSPO, CISPO, SAPO, VESPO}
	clipped   = []LossType{DAPO, GRPO, BNPO, DrGRPO, LUSPO, rloo}
	perItem   = []LossType{DAPO, CISPO, VESPO} // divided by the tokens of the whole window
)

// Level selects the unit of importance sampling: importance_sampling_level of GRPOConfig.
type Level string

// The levels of importance sampling.
const (
	TokenLevel    Level = "token"
	SequenceLevel Level = "sequence" // the mean over a completion, as in GSPO
)

// LossOptions configures the loss. The names are those of GRPOConfig.
type LossOptions struct {
	LossType LossType // empty: DAPO
	// The ratio of a token's probability to its probability at generation is clipped to
	// [1-Epsilon, 1+EpsilonHigh]. Zero means 0.2 for Epsilon, and Epsilon for EpsilonHigh. For
	// CISPO, EpsilonHigh is the largest weight itself; 5 is usual.
	Epsilon, EpsilonHigh float64
	Delta                float64 // the greatest ratio, even of tokens that become less probable; zero: no limit
	// Beta is the weight of the KL divergence from the reference; zero: none, and no reference. With
	// RLOO zero is 0.05; see RLOO.NoKL.
	Beta float64
	// NoBiasCorrectionKL leaves out the ratio in the KL divergence: use_bias_correction_kl=False.
	NoBiasCorrectionKL      bool
	ImportanceSamplingLevel Level // empty: TokenLevel
	// TopEntropyQuantile is the share of tokens, those with the highest entropy, that the loss
	// uses; zero: 1.
	TopEntropyQuantile float64
	// OffPolicyMaskThreshold excludes completions with a negative advantage whose tokens have
	// become less probable by more than this, on average. Zero excludes none.
	OffPolicyMaskThreshold float64

	SAPOTemperaturePos, SAPOTemperatureNeg float64 // of positive and negative advantages; zero: 1 and 1.05
	VESPOKPos, VESPOLambdaPos              float64 // of advantages of at least 0; zero: 2 and 3
	VESPOKNeg, VESPOLambdaNeg              float64 // of negative ones; zero: 3 and 2
}

// resolved fills in the defaults and checks the values.
func (o LossOptions) resolved() (LossOptions, error) {
	o.LossType, o.ImportanceSamplingLevel = cmp.Or(o.LossType, DAPO), cmp.Or(o.ImportanceSamplingLevel, TokenLevel)
	o.Epsilon = cmp.Or(o.Epsilon, 0.2)
	o.EpsilonHigh, o.TopEntropyQuantile = cmp.Or(o.EpsilonHigh, o.Epsilon), cmp.Or(o.TopEntropyQuantile, 1)
	o.SAPOTemperaturePos, o.SAPOTemperatureNeg = cmp.Or(o.SAPOTemperaturePos, 1), cmp.Or(o.SAPOTemperatureNeg, 1.05)
	o.VESPOKPos, o.VESPOLambdaPos = cmp.Or(o.VESPOKPos, 2), cmp.Or(o.VESPOLambdaPos, 3)
	o.VESPOKNeg, o.VESPOLambdaNeg = cmp.Or(o.VESPOKNeg, 3), cmp.Or(o.VESPOLambdaNeg, 2)
	if !slices.Contains(lossTypes, o.LossType) {
		return o, fmt.Errorf("grpo: TaskOptions.LossType is %q; want one of %q", o.LossType, lossTypes)
	}
	if !slices.Contains([]Level{TokenLevel, SequenceLevel}, o.ImportanceSamplingLevel) {
		return o, fmt.Errorf("grpo: TaskOptions.ImportanceSamplingLevel is %q; want %q or %q", o.ImportanceSamplingLevel,
			TokenLevel, SequenceLevel)
	}
	if q := o.TopEntropyQuantile; !(q > 0 && q <= 1) {
		return o, fmt.Errorf("grpo: TaskOptions.TopEntropyQuantile is %g; want a number above 0 and at most 1", q)
	}
	for name, v := range map[string]float64{"Epsilon": o.Epsilon, "EpsilonHigh": o.EpsilonHigh, "Delta": o.Delta,
		"Beta": o.Beta, "OffPolicyMaskThreshold": o.OffPolicyMaskThreshold, "SAPOTemperaturePos": o.SAPOTemperaturePos,
		"SAPOTemperatureNeg": o.SAPOTemperatureNeg, "VESPOKPos": o.VESPOKPos, "VESPOLambdaPos": o.VESPOLambdaPos,
		"VESPOKNeg": o.VESPOKNeg, "VESPOLambdaNeg": o.VESPOLambdaNeg} {
		if !(v >= 0) || math.IsInf(v, 0) {
			return o, fmt.Errorf("grpo: TaskOptions.%s is %g; want a finite number that is not negative", name, v)
		}
	}
	return o, nil
}

// learned is the input of the loss, for n completions of at most C tokens.
type learned struct {
	logps, entropy torch.Tensor                    // of tokens, [n, C]
	old, ref       torch.Tensor                    // log probabilities at generation and of the reference; undefined: none
	mask           torch.Tensor                    // 1 for tokens that count, [n, C] of float32
	advantages     torch.Tensor                    // [n, 1]
	gather         func(torch.Tensor) torch.Tensor // engine.ForwardPass.Gather
}

// objective holds the terms of the loss; some are only logged.
type objective struct {
	perToken torch.Tensor // [n, C], or [n, 1] for whole completions
	ratio    torch.Tensor // as it is clipped, [n, C] or [n, 1]
	kl       torch.Tensor // [n, C]; undefined: Beta is 0
	phi      torch.Tensor // of VESPO, [n, 1]
}

// objective is the part of _compute_loss of TRL that does not depend on the window.
func (o LossOptions) objective(x learned) (b objective) {
	if o.LossType == rloo {
		return o.wholeRatio(x)
	}
	old := x.old
	if !old.Defined() {
		old = x.logps.Detach()
	}
	logRatio := x.logps.Sub(old)
	weights := logRatio
	if o.ImportanceSamplingLevel == SequenceLevel {
		weights = logprob.SumLast(logRatio.Mul(x.mask)).Div(logprob.SumLast(x.mask).Clamp(1, nil)).Unsqueeze(-1)
	}
	b.ratio = weights.Exp()
	if o.Beta != 0 {
		d := x.ref.Sub(x.logps)
		b.kl = d.Exp().Sub(d).SubScalar(1)
		if !o.NoBiasCorrectionKL {
			b.kl = b.kl.Mul(b.ratio)
		}
	}
	switch o.LossType {
	case CISPO:
		b.perToken = b.ratio.Clamp(nil, o.EpsilonHigh).Detach().Neg().Mul(x.advantages).Mul(x.logps)
	case SAPO:
		temperatures := choose(x.advantages.GtScalar(0), o.SAPOTemperaturePos, o.SAPOTemperatureNeg)
		gate := temperatures.Mul(b.ratio.SubScalar(1)).Sigmoid().MulScalar(4).Div(temperatures)
		b.perToken = gate.Neg().Mul(x.advantages)
	case VESPO:
		b.phi = o.gamma(x.advantages, logRatio, x.mask)
		b.perToken = b.phi.Neg().Mul(x.advantages).Mul(x.logps)
	case DAPO, GRPO, BNPO, DrGRPO, LUSPO:
		near := b.ratio.Clamp(1-o.Epsilon, 1+o.EpsilonHigh)
		if o.Delta != 0 {
			b.ratio = b.ratio.Clamp(nil, o.Delta)
		}
		b.perToken = b.ratio.Mul(x.advantages).Minimum(near.Mul(x.advantages)).Neg()
	case rloo:
	}
	if o.OffPolicyMaskThreshold > 0 {
		b.perToken = b.perToken.Mul(o.onPolicy(x, old))
	}
	if o.TopEntropyQuantile < 1 {
		b.perToken = b.perToken.Mul(uncertain(x, 1-o.TopEntropyQuantile))
	}
	if o.Beta != 0 {
		b.perToken = b.perToken.Add(b.kl.MulScalar(o.Beta))
	}
	return b
}

// choose returns one number where a condition holds and another elsewhere.
func choose(where torch.Tensor, yes, no float64) torch.Tensor {
	o := torch.TensorOptions{Device: where.Device()}
	return torch.Where(where, o.Full(yes), o.Full(no))
}

// gamma returns weights of completions that depend on their current probability, [n, 1]:
// get_gamma_weights of TRL. They have no gradient.
func (o LossOptions) gamma(advantages, logRatio, mask torch.Tensor) (phi torch.Tensor) {
	torch.NoGrad(func() {
		w := logprob.SumLast(logRatio.Clamp(-20.0, 20.0).Mul(mask)).Unsqueeze(-1).Clamp(math.Log(1e-8), 20.0)
		better := advantages.GeScalar(0)
		k := choose(better, o.VESPOKPos, o.VESPOKNeg)
		lambda := choose(better, o.VESPOLambdaPos, o.VESPOLambdaNeg).Clamp(1e-4, nil)
		phi = lambda.Add(k.Mul(w)).Sub(lambda.Mul(w.Exp())).Exp().NanToNum(new(0.0), new(0.0), new(0.0))
	})
	return phi
}

// onPolicy marks the completions that OffPolicyMaskThreshold keeps, [n, 1]: get_off_policy_mask of
// TRL.
func (o LossOptions) onPolicy(x learned, old torch.Tensor) torch.Tensor {
	less := old.Sub(x.logps.Detach()).Mul(x.mask).SumDim([]int64{1}, true, torch.DefaultDType).
		Div(x.mask.SumDim([]int64{1}, true, torch.DefaultDType).Clamp(1, nil))
	return x.advantages.GeScalar(0).LogicalOr(less.LeScalar(o.OffPolicyMaskThreshold)).ToDType(torch.Float32)
}

// uncertain marks the tokens whose entropy is at least a quantile of the entropies of all processes,
// [n, C]: get_high_entropy_mask of TRL.
func uncertain(x learned, quantile float64) torch.Tensor {
	counts := x.mask.NeScalar(0)
	all := x.gather(x.entropy.MaskedSelect(counts))
	if all.Numel() == 0 {
		return x.mask.MulScalar(0)
	}
	least := all.Quantile(torch.TensorOptions{Device: all.Device()}.Full(quantile), nil, false, "linear")
	return x.entropy.Mul(x.mask).Ge(least).LogicalAnd(counts)
}

// reduced returns the loss of a micro-batch. items is the divisor of the losses in perItem, and
// length is TaskOptions.MaxCompletionLength.
func (o LossOptions) reduced(perToken, mask, items torch.Tensor, length int) torch.Tensor {
	if o.LossType == rloo { // of completions, also those whose tokens do not count
		return perToken.Mean(torch.DefaultDType)
	}
	masked := perToken.Mul(mask)
	switch o.LossType {
	case GRPO, SAPO:
		return logprob.SumLast(masked).Div(logprob.SumLast(mask).Clamp(1, nil)).Mean(torch.DefaultDType)
	case BNPO:
		return masked.Sum(torch.DefaultDType).Div(mask.Sum(torch.DefaultDType).Clamp(1, nil))
	case DrGRPO:
		return masked.Sum(torch.DefaultDType).DivScalar(float64(mask.Size(0) * int64(length)))
	case LUSPO:
		return logprob.SumLast(masked).Mean(torch.DefaultDType)
	case DAPO, CISPO, VESPO, rloo:
	}
	return masked.Sum(torch.DefaultDType).Div(items)
}
