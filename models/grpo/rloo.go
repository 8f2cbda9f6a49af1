package grpo

import (
	"fmt"

	"github.com/gotrainer/gotrainer/models/internal/logprob"
	"github.com/gotrainer/gotrainer/torch"
)

// RLOO makes the task REINFORCE leave-one-out: RLOOTrainer of TRL 1.16. It differs from GRPO in this:
//
//   - The advantage of a completion is its reward less the mean reward of the other completions of
//     its prompt. It is not divided by a deviation.
//   - The divergence from the reference is measured once, when completions are generated: the sum over
//     the tokens of a completion of log(p/q), where p is the probability that the model gives a token,
//     and q that of the reference. Beta times the sum is subtracted from the reward.
//   - The ratio of probabilities is that of a whole completion, and the loss is the mean over the
//     completions of a micro-batch.
//
// With RLOO, NumGenerations is 2 and Beta is 0.05 by default. The other fields of TaskOptions that change
// rewards or the loss, except Rewards, MaskTruncatedCompletions, Epsilon and EpsilonHigh, do not
// apply and must be empty.
type RLOO struct {
	// NoKL leaves out the divergence, and with it the reference: beta=0.
	NoKL bool
	// NormalizeAdvantages subtracts their mean from the advantages and divides by their standard
	// deviation, over all completions that were generated together, by all processes.
	NormalizeAdvantages bool
	// RewardClipRange holds the least and the greatest reward, the sum over the functions, before the
	// divergence is subtracted. Nil: no limits. The log has rewards as they were.
	RewardClipRange *[2]float64
}

// rloo is the loss of tasks with TaskOptions.RLOO. It is no loss_type of GRPOConfig.
const rloo LossType = "rloo"

// NeedsReference reports whether the task compares the model with a Reference.
func (o TaskOptions) NeedsReference() bool { return o.Beta != 0 || o.RLOO != nil && !o.RLOO.NoKL }

// penalizes reports whether the divergence is subtracted from rewards, rather than added to the loss.
func (o TaskOptions) penalizes() bool { return o.RLOO != nil && o.Beta != 0 }

// withRLOO fills in the defaults of RLOOConfig and refuses what does not apply to it.
func (o TaskOptions) withRLOO() (TaskOptions, error) {
	if o.RLOO == nil {
		return o, nil
	}
	for _, f := range []struct {
		set  bool
		name string
	}{
		{o.LossType != "", "LossType"},
		{o.Delta != 0, "Delta"},
		{o.NoBiasCorrectionKL, "NoBiasCorrectionKL"},
		{o.ImportanceSamplingLevel != "", "ImportanceSamplingLevel"},
		{o.TopEntropyQuantile != 0, "TopEntropyQuantile"},
		{o.OffPolicyMaskThreshold != 0, "OffPolicyMaskThreshold"},
		{o.SAPOTemperaturePos != 0, "SAPOTemperaturePos"},
		{o.SAPOTemperatureNeg != 0, "SAPOTemperatureNeg"},
		{o.VESPOKPos != 0, "VESPOKPos"},
		{o.VESPOLambdaPos != 0, "VESPOLambdaPos"},
		{o.VESPOKNeg != 0, "VESPOKNeg"},
		{o.VESPOLambdaNeg != 0, "VESPOLambdaNeg"},
		{o.ScaleRewards != "", "ScaleRewards"},
		{o.MultiObjectiveAggregation != "", "MultiObjectiveAggregation"},
	} {
		if f.set {
			return o, fmt.Errorf("grpo: TaskOptions.%s is set, which does not apply to RLOO; leave it or RLOO out", f.name)
		}
	}
	if r := o.RLOO.RewardClipRange; r != nil && !(r[0] <= r[1]) {
		return o, fmt.Errorf("grpo: RLOO.RewardClipRange is %g to %g; want the least reward, then the greatest", r[0], r[1])
	}
	if o.RLOO.NoKL && o.Beta != 0 {
		return o, fmt.Errorf("grpo: TaskOptions.Beta is %g and RLOO.NoKL is set; want one of them", o.Beta)
	}
	if o.NumGenerations == 0 {
		o.NumGenerations = 2
	}
	if o.Beta == 0 && !o.RLOO.NoKL {
		o.Beta = 0.05
	}
	return o, nil
}

// wholeRatio is the loss of RLOO of each completion, [n, 1], and its ratio: _compute_loss of
// RLOOTrainer.
func (o LossOptions) wholeRatio(x learned) (b objective) {
	logp := func(t torch.Tensor) torch.Tensor { return logprob.SumLast(t.Mul(x.mask)).Unsqueeze(-1) }
	b.ratio = logp(x.logps).Sub(logp(x.old)).Exp()
	near := b.ratio.Clamp(1-o.Epsilon, 1+o.EpsilonHigh)
	b.perToken = b.ratio.Mul(x.advantages).Minimum(near.Mul(x.advantages)).Neg()
	return b
}

// divergence holds what RLOO measures of completions when they are generated.
type divergence struct {
	Of    []float32 // the sum over the tokens of each completion; nil: NoKL
	Total float32   // the sum of these sums, as one sum over all tokens
}

// diverged returns the divergence of completions from the reference, and forgets the log
// probabilities of the reference, which the loss does not need.
func (g *generation) diverged() (d divergence) {
	width := g.LongestAnswer
	values := make([]float32, len(g.Rollouts)*width)
	for i := range g.Rollouts {
		r := &g.Rollouts[i]
		for k := range r.Ref {
			if !r.Masked {
				values[i*width+k] = r.Old[k] - r.Ref[k]
			}
		}
		r.Ref = nil
	}
	tokens := torch.From(values, int64(len(g.Rollouts)), int64(width))
	d.Of = torch.Values[float32](logprob.SumLast(tokens))
	d.Total = torch.Values[float32](tokens.Sum(torch.DefaultDType))[0]
	return d
}

// perToken returns the mean divergence of a number of tokens: kl in the log.
func (d divergence) perToken(tokens int64) float64 {
	return float64(d.Total / float32(max(tokens, 1)))
}

// leaveOneOut returns the advantages of completions with the given rewards, g of each prompt, and the
// standard deviation of the rewards of each prompt; NaN where no completion or too few have a reward.
// kl is undefined with NoKL.
func (o RLOO) leaveOneOut(rewards, kl torch.Tensor, beta float64, g int) (advantages, std torch.Tensor) {
	if r := o.RewardClipRange; r != nil {
		rewards = rewards.Clamp(r[0], r[1])
	}
	if kl.Defined() {
		rewards = rewards.Sub(kl.MulScalar(beta))
	}
	groups, one := rewards.View(-1, int64(g)), []int64{1}
	std = nanStd(groups, one)
	advantages = rewards.ZerosLike()
	if g > 1 { // an evaluation may have one
		others := groups.IsNaN().LogicalNot().SumDim(one, true, torch.DefaultDType).SubScalar(1)
		sum := groups.NanSum(one, true, torch.DefaultDType)
		advantages = rewards.Sub(sum.Sub(groups).Div(others).View(-1))
	}
	if o.NormalizeAdvantages {
		mean := advantages.NanMean(nil, true, torch.DefaultDType)
		advantages = advantages.Sub(mean).Div(nanStd(advantages, nil).AddScalar(1e-4))
	}
	return advantages, std
}
