package grpo

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gotrainer/gotrainer/torch"
)

// Reward is a function that scores completions. With several functions, the reward of a completion
// is the weighted sum of their scores.
type Reward struct {
	Name   string   // in the log: rewards/NAME/mean
	Weight *float64 // nil: 1; 0: the reward is only logged
	// Func returns a finite number for each completion, or NaN if it does not apply to a completion,
	// as a function that checks calculations does not apply to a translation. NaN adds nothing to
	// the sum. A completion to which no function applies is not trained on. An error ends the run.
	// The training goroutine calls Func and waits for it.
	Func func(c Completions) ([]float64, error)
}

// Completions is the input of a reward function. The completions of a prompt are adjacent.
type Completions struct {
	Samples []Sample  // the sample of each completion
	Texts   []string  // the completions without special tokens; nil: the model has no tokenizer
	IDs     [][]int64 // their tokens; the last is an end token unless the completion was cut off
	// Evaluation reports whether the completions are from an evaluation.
	Evaluation bool
}

// ScaleRewards selects the divisor of the advantages: scale_rewards of GRPOConfig.
type ScaleRewards string

// The divisors of advantages.
const (
	ScaleGroup ScaleRewards = "group" // the standard deviation of the rewards of a prompt
	ScaleBatch ScaleRewards = "batch" // that of all rewards of completions generated together, by all processes
	ScaleNone  ScaleRewards = "none"  // nothing
)

// Aggregation selects how several rewards are combined: multi_objective_aggregation of GRPOConfig.
type Aggregation string

// The ways to combine several rewards.
const (
	SumThenNormalize Aggregation = "sum_then_normalize" // their sum is compared within a prompt
	// NormalizeThenSum normalizes each reward within its prompt, then the sum over all completions
	// that were generated together: GDPO. ScaleRewards has no effect then.
	NormalizeThenSum Aggregation = "normalize_then_sum"
)

// checkRewards fills in the weights and refuses names that cannot be logged.
func checkRewards(rewards []Reward) ([]Reward, error) {
	if len(rewards) == 0 {
		return nil, errors.New("grpo: TaskOptions.Rewards is empty; want at least one reward function")
	}
	rewards = slices.Clone(rewards)
	for i, r := range rewards {
		same := func(o Reward) bool { return o.Name == r.Name }
		switch {
		case r.Name == "" || r.Func == nil || slices.ContainsFunc(rewards[:i], same):
			return nil, fmt.Errorf("grpo: TaskOptions.Rewards[%d] has the name %q; want a Func and a name that no other has",
				i, r.Name)
		case r.Weight != nil && (math.IsNaN(*r.Weight) || math.IsInf(*r.Weight, 0)):
			return nil, fmt.Errorf("grpo: TaskOptions.Rewards[%d].Weight is %g; want a finite number", i, *r.Weight)
		}
		rewards[i].Weight = cmp.Or(r.Weight, new(1.0))
	}
	return rewards, nil
}

// score calls all reward functions and returns the rewards, [N, functions].
func (t *Task) score(c Completions) []float32 {
	n, functions := len(c.IDs), len(t.options.Rewards)
	values := make([]float32, n*functions)
	for i, r := range t.options.Rewards {
		got, err := r.Func(c)
		if err == nil && len(got) != n {
			err = fmt.Errorf("it returned %d rewards for %d completions; want one for each", len(got), n)
		}
		if k := slices.IndexFunc(got, func(v float64) bool { return math.IsInf(float64(float32(v)), 0) }); k >= 0 {
			err = fmt.Errorf("it returned %g for completion %d; want a finite number, or NaN where it does not apply", got[k], k)
		}
		if err != nil {
			panic(torch.Errorf("grpo.Task", torch.ErrValue, "the reward function %q: %v", r.Name, err))
		}
		for k, v := range got {
			values[k*functions+i] = float32(v)
		}
	}
	return values
}

// judged holds the rewards and advantages of completions.
type judged struct {
	rewards    torch.Tensor // [N]; NaN where no function applies
	advantages torch.Tensor // [N]
	zeroStd    float64      // the share of completions in groups of equal rewards: frac_reward_zero_std
	kl         float64      // the mean divergence of a token, for RLOO
}

// judge computes advantages from the rewards of completions, [N, functions], with g completions of
// each prompt. kl is their divergence, [N], for RLOO; undefined: none.
func (o TaskOptions) judge(perFunc, kl torch.Tensor, g int) (j judged) {
	n, functions := perFunc.Size(0), perFunc.Size(1)
	weights := make([]float32, functions)
	for i, r := range o.Rewards {
		weights[i] = float32(*r.Weight)
	}
	unscorable := perFunc.IsNaN().AllDim(1, false)
	weighted := func(t torch.Tensor) torch.Tensor {
		total := t.Mul(torch.From(weights, 1, functions)).NanSum([]int64{1}, false, torch.DefaultDType)
		return total.MaskedFill(unscorable, math.NaN())
	}
	mean := func(t torch.Tensor, dim []int64) torch.Tensor { return t.NanMean(dim, true, torch.DefaultDType) }
	j.rewards = weighted(perFunc)
	one := []int64{1}
	var std torch.Tensor
	switch {
	case o.RLOO != nil:
		j.advantages, std = o.RLOO.leaveOneOut(j.rewards, kl, o.Beta, g)
	case o.MultiObjectiveAggregation == NormalizeThenSum:
		groups := perFunc.View(-1, int64(g), functions)
		each := groups.Sub(mean(groups, one)).Div(nanStd(groups, one).AddScalar(1e-4)).View(-1, functions)
		total := weighted(each)
		std = nanStd(total, nil).Expand(n)
		j.advantages = total.Sub(mean(total, nil)).Div(std.AddScalar(1e-4))
	default:
		groups := j.rewards.View(-1, int64(g))
		repeated := func(t torch.Tensor) torch.Tensor { return t.View(-1).RepeatInterleave(int64(g), new(int64(0))) }
		if std = nanStd(j.rewards, nil).Expand(n); o.ScaleRewards != ScaleBatch {
			std = repeated(nanStd(groups, one))
		}
		j.advantages = j.rewards.Sub(repeated(mean(groups, one)))
		if o.ScaleRewards != ScaleNone {
			j.advantages = j.advantages.Div(std.AddScalar(1e-4))
		}
	}
	j.zeroStd = std.IsClose(std.ZerosLike(), 1e-5, 1e-8, false).ToDType(torch.Float32).Mean(torch.DefaultDType).Item()
	j.advantages = j.advantages.NanToNum(new(0.0), nil, nil)
	return j
}

// nanStd returns the standard deviation over dimensions, nil for all, without the NaN: nanstd of
// TRL. The dimensions stay. The deviation of a single number is 0.
func nanStd(t torch.Tensor, dim []int64) torch.Tensor {
	numbers := t.Numel()
	if dim != nil {
		numbers = t.Size(dim[0])
	}
	mean := t.NanMean(dim, true, torch.DefaultDType)
	if numbers == 1 {
		return mean.ZerosLike()
	}
	variance := t.Sub(mean).Square().NanMean(dim, true, torch.DefaultDType)
	there := t.IsNaN().LogicalNot().ToDType(torch.Int64)
	count := there.Sum(torch.DefaultDType)
	if dim != nil {
		count = there.SumDim(dim, true, torch.DefaultDType)
	}
	correction := count.Div(count.SubScalar(1)).MaskedFill(count.LeScalar(1), math.NaN())
	return variance.Mul(correction).Sqrt()
}
