package kto

import (
	"math"

	"github.com/gotrainer/gotrainer/models/internal/logprob"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// names of what is logged, in the order of statistics.log.
var names = []string{"kl", "entropy", "logits/chosen", "logits/rejected", "rewards/chosen", "rewards/rejected",
	"rewards/margins", "logps/chosen", "logps/rejected"}

// statistics is the information about a batch after a pass.
type statistics struct {
	view           logprob.View
	scored         logprob.Scored
	logps, rewards torch.Tensor // of completions, [n]
	kl             torch.Tensor // one number
	labels         []bool
	good, bad      torch.Tensor // rows
}

// log is what is logged of the training, of all processes, [len(names)].
func (s statistics) log(p engine.ForwardPass) torch.Tensor {
	total := func(t torch.Tensor) torch.Tensor { return t.Sum(torch.DefaultDType) }
	var tokens, rows [2]float32 // of good completions and of bad ones
	for i, good := range s.labels {
		k := 1
		if good {
			k = 0
		}
		tokens[k] += float32(s.view.Predicted[i])
		rows[k]++
	}
	sums := []torch.Tensor{total(s.scored.Entropy)}
	for _, of := range []torch.Tensor{s.good, s.bad} {
		picked := s.scored.MeanLogits.IndexSelect(0, of).MaskedSelect(s.view.Answers.IndexSelect(0, of))
		sums = append(sums, total(picked), total(s.rewards.IndexSelect(0, of)),
			total(s.logps.Detach().IndexSelect(0, of)))
	}
	counts := torch.From([]float32{tokens[0] + tokens[1], tokens[0], rows[0], rows[0], tokens[1], rows[1], rows[1]})
	own := torch.Cat([]torch.Tensor{torch.Stack(sums, 0), counts.ToDevice(p.Device)}, 0)
	n := int64(len(sums))
	all := p.Gather(own.Unsqueeze(0)).SumDim([]int64{0}, false, torch.DefaultDType).ToDType(torch.Float64)
	counts = all.Narrow(0, n, n)
	means := all.Narrow(0, 0, n).Div(counts).MaskedFill(counts.EqScalar(0), math.NaN())
	at := func(i int64) torch.Tensor { return means.Select(0, i) }
	entropy := at(0).ToDType(torch.Float32).ToDType(torch.Float64) // TRL divides tensors here and Python's floats below
	return torch.Stack([]torch.Tensor{s.kl.ToDType(torch.Float64).View(), entropy, at(1), at(4), at(2), at(5),
		at(2).Sub(at(5)), at(3), at(6)}, 0)
}

// TrainingLogs are the names of what is logged besides the loss.
func (t *Task) TrainingLogs() []string { return names }

// rated is what an evaluation notes of a sample.
type rated struct {
	Label           bool
	Reward, Logp    float64
	Entropy, Logits float64 // at each of its tokens, added up
	Tokens          float64
	KL              float64 // of its batch
}

// Evaluate runs the model on an evaluation batch.
func (t *Task) Evaluate(p engine.ForwardPass, b Batch) engine.Loss {
	loss, s := t.pass(p, b, false)
	n := len(b.Labels)
	values := torch.Values[float32](torch.Stack([]torch.Tensor{s.rewards, s.logps, logprob.SumLast(s.scored.Entropy),
		logprob.SumLast(s.scored.MeanLogits)}, 0))
	kl := s.kl.Item()
	for i, label := range b.Labels {
		at := func(field int) float64 { return float64(values[field*n+i]) }
		t.Note(rated{label, at(0), at(1), at(2), at(3), float64(s.view.Predicted[i]), kl})
	}
	return engine.Mean(loss, n)
}

// Metrics are the numbers named by TrainingLogs, over all samples or tokens of the evaluation. An
// evaluation without good or without bad completions has no numbers of those.
func (t *Task) Metrics() map[string]float64 {
	noted := t.Noted()
	if len(noted) == 0 {
		return nil
	}
	var all rated
	sums := map[bool]*rated{true: {}, false: {}}
	rows := map[bool]float64{}
	for _, r := range noted {
		s := sums[r.Label]
		rows[r.Label]++
		s.Reward, s.Logp, s.Logits, s.Tokens = s.Reward+r.Reward, s.Logp+r.Logp, s.Logits+r.Logits, s.Tokens+r.Tokens
		all.Entropy, all.Tokens, all.KL = all.Entropy+r.Entropy, all.Tokens+r.Tokens, all.KL+r.KL
	}
	m := map[string]float64{"kl": all.KL / float64(len(noted)), "entropy": all.Entropy / max(all.Tokens, 1)}
	for label, name := range map[bool]string{true: "chosen", false: "rejected"} {
		if n, s := rows[label], sums[label]; n > 0 {
			m["rewards/"+name], m["logps/"+name], m["logits/"+name] = s.Reward/n, s.Logp/n, s.Logits/max(s.Tokens, 1)
		}
	}
	if rows[true] > 0 && rows[false] > 0 {
		m["rewards/margins"] = m["rewards/chosen"] - m["rewards/rejected"]
	}
	return m
}
