package grpo

import (
	"slices"

	"github.com/gotrainer/gotrainer/amp"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// Recorded are completions with what a recording knows of them.
type Recorded struct {
	Prompts, Completions [][]int64
	Advantages           []float32
	Old, Ref             torch.Tensor // added to the log probabilities as they are, [n, C]; undefined: none
	Items                int64
}

// LossOf is the loss of completions as one micro-batch.
func LossOf(t *Task, p engine.ForwardPass, r Recorded, precision amp.Precision) (loss engine.Loss) {
	g := &generation{Items: r.Items, Stats: make([]float64, len(t.generationLogs()))}
	for i, ids := range r.Completions {
		g.Rollouts = append(g.Rollouts, rollout{Prompt: r.Prompts[i], Completion: ids, Advantage: r.Advantages[i],
			Masked: t.options.MaskTruncatedCompletions && t.truncated(ids)})
		g.Longest, g.LongestAnswer = max(g.Longest, len(r.Prompts[i])), max(g.LongestAnswer, len(ids))
	}
	torch.NoGrad(func() {
		logps := t.scored(t.model, t.view(p, g, g.Rollouts)).LogProbs
		around := func(noise torch.Tensor, into func(r *rollout) *[]float32) {
			if !noise.Defined() {
				return
			}
			values := torch.Values[float32](logps.Add(noise))
			for i := range g.Rollouts {
				*into(&g.Rollouts[i]) = values[i*g.LongestAnswer:][:len(g.Rollouts[i].Completion)]
			}
		}
		around(r.Old, func(r *rollout) *[]float32 { return &r.Old })
		around(r.Ref, func(r *rollout) *[]float32 { return &r.Ref })
	})
	amp.Autocast(torch.CPU, precision, func() { loss = t.loss(p, g, g.Rollouts) })
	if !slices.Contains(perItem, t.options.LossType) { // as engine does with a mean
		loss.Value = loss.Value.DivScalar(p.WindowLen)
	}
	loss.Value.Backward()
	return loss
}

// Judge generates completions of samples and returns their advantages, the tokens that are learned,
// and what is logged of them.
func Judge(t *Task, samples []Sample) (advantages []float32, items int64, logged map[string]float64) {
	g, _ := t.generate(engine.ForwardPass{WindowLen: 1}, samples, t.options.NumGenerations, 1)
	for _, r := range g.Rollouts {
		advantages = append(advantages, r.Advantage)
	}
	logged = map[string]float64{}
	for i, name := range t.generationLogs() {
		logged[name] = g.Stats[i]
	}
	return advantages, g.Items, logged
}

// Watch has f see all completions that a task generates from now on, and replace them.
func Watch(t *Task, f func(completions [][]int64) [][]int64) {
	generate := t.options.Generate
	t.options.Generate = func(p engine.ForwardPass, prompts [][]int64, n int) ([][]int64, error) {
		completions, err := generate(p, prompts, n)
		return f(completions), err
	}
}

// LogProbs are the log probabilities of all tokens of completions of samples that are learned
// together.
func LogProbs(t *Task, samples []Sample) (all []float32) {
	torch.Scope(func() {
		p := engine.ForwardPass{WindowLen: 1}
		g, _ := t.generate(p, samples, t.options.NumGenerations, 1)
		torch.NoGrad(func() {
			x := t.learned(p, &g, g.Rollouts)
			all = torch.Values[float32](x.logps.MaskedSelect(x.mask.NeScalar(0)))
		})
	})
	return all
}
