package dpo

import (
	"github.com/gotrainer/gotrainer/models/internal/logprob"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// names of what is logged, in the order of statistics.log.
var names = []string{"entropy", "mean_token_accuracy", "logits/chosen", "logits/rejected", "rewards/chosen",
	"rewards/rejected", "rewards/accuracies", "rewards/margins", "logps/chosen", "logps/rejected"}

// statistics is the information about a batch after a pass.
type statistics struct {
	view
	logprob.Scored
	compared
	beta float64
}

// rewards returns β times the model's preference for the answers over the reference, [n] each.
func (s statistics) rewards() (chosen, rejected torch.Tensor) {
	return s.chosenLogratios.Detach().MulScalar(s.beta), s.rejectedLogratios.Detach().MulScalar(s.beta)
}

// log is what is logged of the training, [len(names)].
func (s statistics) log() torch.Tensor {
	float := torch.Float64
	chosen, rejected := s.rewards()
	total := func(t torch.Tensor) torch.Tensor { return t.Sum(torch.DefaultDType) }
	over := func(t torch.Tensor, n int64) torch.Tensor { return t.DivScalar(float64(max(n, 1))) }
	logits := func(i int) torch.Tensor {
		return over(total(picked(s.MeanLogits, s.Answers, i)).ToDType(float), s.counts[i])
	}
	numbers := []torch.Tensor{over(total(s.Entropy), s.counts[0]+s.counts[1]), over(total(half(s.Top1, 0)), s.counts[0]),
		logits(0), logits(1)}
	for _, t := range []torch.Tensor{chosen, rejected, chosen.Gt(rejected).ToDType(torch.Float32), chosen.Sub(rejected),
		s.chosen.Detach(), s.rejected.Detach()} {
		numbers = append(numbers, t.Mean(torch.DefaultDType))
	}
	for i, n := range numbers {
		numbers[i] = n.ToDType(float)
	}
	return torch.Stack(numbers, 0)
}

// picked returns the numbers of the tokens of the chosen answers (i is 0) or of the rejected ones,
// concatenated.
func picked(t, answers torch.Tensor, i int) torch.Tensor {
	return half(t, i).MaskedSelect(half(answers, i))
}

// TrainingLogs are the names of what is logged besides the loss.
func (t *Task) TrainingLogs() []string { return names }

// pair is what an evaluation notes of a sample.
type pair struct {
	ChosenReward, RejectedReward float64 // β times the model's preference for the answer over the reference
	ChosenLogp, RejectedLogp     float64 // the logarithm of its probability
	Entropy                      float64 // of each of its tokens, added up
	ChosenLogits, RejectedLogits float64 // the mean logit at each of its tokens, added up
	ChosenTokens, RejectedTokens float64
	ChosenCorrect                float64 // tokens that are the most probable ones
}

// Evaluate runs the model on an evaluation batch.
func (t *Task) Evaluate(p engine.ForwardPass, b Batch) engine.Loss {
	loss, s := t.pass(p, b, false)
	var fields []torch.Tensor
	add := func(pairs ...torch.Tensor) { fields = append(fields, pairs...) }
	add(s.rewards())
	add(s.chosen, s.rejected)
	for _, per := range []torch.Tensor{s.Entropy, s.MeanLogits, s.Answers.ToDType(torch.Float32), s.Top1} {
		add(halves(logprob.SumLast(per)))
	}
	n := b.Pairs()
	values := torch.Values[float32](torch.Stack(fields, 0))
	for i := range n {
		at := func(field int) float64 { return float64(values[field*n+i]) }
		t.Note(pair{at(0), at(1), at(2), at(3), at(4) + at(5), at(6), at(7), at(8), at(9), at(10)})
	}
	return engine.Mean(loss, n)
}

// Metrics are the numbers named by TrainingLogs, over all samples or tokens of the evaluation.
func (t *Task) Metrics() map[string]float64 {
	pairs := t.Noted()
	if len(pairs) == 0 {
		return nil
	}
	var s pair
	right := 0.0
	for _, p := range pairs {
		if p.ChosenReward > p.RejectedReward {
			right++
		}
		s.ChosenReward, s.RejectedReward = s.ChosenReward+p.ChosenReward, s.RejectedReward+p.RejectedReward
		s.ChosenLogp, s.RejectedLogp = s.ChosenLogp+p.ChosenLogp, s.RejectedLogp+p.RejectedLogp
		s.ChosenLogits, s.RejectedLogits = s.ChosenLogits+p.ChosenLogits, s.RejectedLogits+p.RejectedLogits
		s.ChosenTokens, s.RejectedTokens = s.ChosenTokens+p.ChosenTokens, s.RejectedTokens+p.RejectedTokens
		s.ChosenCorrect, s.Entropy = s.ChosenCorrect+p.ChosenCorrect, s.Entropy+p.Entropy
	}
	n, chosen, rejected := float64(len(pairs)), max(s.ChosenTokens, 1), max(s.RejectedTokens, 1)
	return map[string]float64{"entropy": s.Entropy / max(s.ChosenTokens+s.RejectedTokens, 1),
		"mean_token_accuracy": s.ChosenCorrect / chosen, "logits/chosen": s.ChosenLogits / chosen,
		"logits/rejected": s.RejectedLogits / rejected, "rewards/chosen": s.ChosenReward / n,
		"rewards/rejected": s.RejectedReward / n, "rewards/accuracies": right / n,
		"rewards/margins": (s.ChosenReward - s.RejectedReward) / n, "logps/chosen": s.ChosenLogp / n,
		"logps/rejected": s.RejectedLogp / n}
}
