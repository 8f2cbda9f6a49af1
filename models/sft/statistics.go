package sft

import (
	"github.com/gotrainer/gotrainer/models/internal/logprob"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// TrainingLogs are the names of what is logged besides the loss.
func (t *Task) TrainingLogs() []string { return []string{"entropy", "mean_token_accuracy"} }

// logged is what is logged of a batch, in the order of TrainingLogs.
func logged(v logprob.View, s logprob.Scored) torch.Tensor {
	mean := func(t torch.Tensor) torch.Tensor {
		return t.Sum(torch.DefaultDType).DivScalar(float64(max(predicted(v), 1))).ToDType(torch.Float64)
	}
	return torch.Stack([]torch.Tensor{mean(s.Entropy), mean(s.Top1)}, 0)
}

// counts is what an evaluation notes of a sample.
type counts struct {
	Entropy float64 // of the predictions, added up
	Correct float64 // tokens that are the most probable ones
	Tokens  float64 // that are learned
}

// Evaluate runs the model on an evaluation batch.
func (t *Task) Evaluate(p engine.ForwardPass, b Batch) engine.Loss { return t.evaluate(t.model, p, b) }

// evaluate is Evaluate with the given model.
func (t *Task) evaluate(m logprob.Model, p engine.ForwardPass, b Batch) engine.Loss {
	loss, v, s := t.pass(m, p, b)
	sums := torch.Stack([]torch.Tensor{logprob.SumLast(s.Entropy), logprob.SumLast(s.Top1)}, 0)
	values, n := torch.Values[float32](sums), b.InputIDs.Rows
	for i := range n {
		t.Note(counts{float64(values[i]), float64(values[n+i]), float64(v.Predicted[i])})
	}
	return loss
}

// Metrics are the numbers named by TrainingLogs, over all tokens of the evaluation.
func (t *Task) Metrics() map[string]float64 {
	var sum counts
	for _, c := range t.Noted() {
		sum.Entropy, sum.Correct, sum.Tokens = sum.Entropy+c.Entropy, sum.Correct+c.Correct, sum.Tokens+c.Tokens
	}
	if sum.Tokens == 0 {
		return nil
	}
	return map[string]float64{"entropy": sum.Entropy / sum.Tokens, "mean_token_accuracy": sum.Correct / sum.Tokens}
}
