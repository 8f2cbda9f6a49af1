package grpo

import (
	"encoding/json"
	"math"
	"slices"

	"github.com/gotrainer/gotrainer/models/internal/logprob"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// generationLogs returns the names of the values of generationStats, in their order.
func (t *Task) generationLogs() (names []string) {
	for _, name := range []string{"mean_length", "min_length", "max_length", "clipped_ratio", "mean_terminated_length",
		"min_terminated_length", "max_terminated_length"} {
		names = append(names, "completions/"+name)
	}
	if t.options.penalizes() {
		names = append(names, "kl")
	}
	for _, r := range t.options.Rewards {
		names = append(names, "rewards/"+r.Name+"/mean", "rewards/"+r.Name+"/std")
	}
	return append(names, "reward", "reward_std", "frac_reward_zero_std")
}

// generationStats returns the logged values of completions with these lengths.
func (t *Task) generationStats(all []int, truncated []bool, perFunc torch.Tensor, j judged) []float64 {
	var ended []int
	for i, cut := range truncated {
		if !cut {
			ended = append(ended, all[i])
		}
	}
	share := float32(len(all)-len(ended)) / float32(len(all))
	stats := append(append(lengths(all), float64(share)), lengths(ended)...)
	if t.options.penalizes() {
		stats = append(stats, j.kl)
	}
	spread := func(rewards torch.Tensor) {
		stats = append(stats, rewards.NanMean(nil, false, torch.DefaultDType).Item(), nanStd(rewards, nil).Item())
	}
	for i := range t.options.Rewards {
		spread(perFunc.Select(1, int64(i)))
	}
	spread(j.rewards)
	return append(stats, j.zeroStd)
}

// lengths returns the mean, the minimum and the maximum of lengths; 0 if there are none.
func lengths(all []int) []float64 {
	if len(all) == 0 {
		all = []int{0}
	}
	sum := 0
	for _, n := range all {
		sum += n
	}
	return []float64{float64(float32(sum) / float32(len(all))), float64(slices.Min(all)), float64(slices.Max(all))}
}

// TrainingLogs returns the names of the values that are logged besides the loss.
func (t *Task) TrainingLogs() []string {
	names := t.generationLogs()
	if t.options.Beta != 0 && !t.options.penalizes() {
		names = append(names, "kl")
	}
	names = append(names, "entropy")
	switch {
	case slices.Contains(clipped, t.options.LossType):
		for _, name := range []string{"low_mean", "high_mean", "region_mean", "low_min", "high_max"} {
			names = append(names, "clip_ratio/"+name)
		}
	case t.options.LossType == CISPO:
		names = append(names, "cispo_clip_ratio")
	case t.options.LossType == VESPO:
		names = append(names, "vespo/phi_seq_mean")
	}
	return names
}

// logged returns the logged values of the micro-batches of all processes, [len(TrainingLogs)].
func (t *Task) logged(p engine.ForwardPass, g *generation, x learned, o objective) torch.Tensor {
	var sums, counts, lowest []torch.Tensor // of this process
	tokens := x.mask.Sum(torch.DefaultDType)
	ofWhole := func(values torch.Tensor) bool {
		return values.Size(1) == 1 && (x.mask.Size(1) != 1 || t.options.LossType == rloo)
	}
	// a mean over tokens or, for values of whole completions, over completions
	add := func(values torch.Tensor, whole bool) {
		if whole {
			sums = append(sums, values.Sum(torch.DefaultDType))
			counts = append(counts, torch.TensorOptions{Device: values.Device()}.Full(float64(values.Size(0))))
			return
		}
		sums = append(sums, values.Mul(x.mask).Sum(torch.DefaultDType))
		counts = append(counts, tokens)
	}
	ofEach := func(values torch.Tensor) torch.Tensor {
		if ofWhole(values) {
			return values.SqueezeDim(1)
		}
		return logprob.SumLast(values.Mul(x.mask)).Div(logprob.SumLast(x.mask))
	}
	if o.kl.Defined() {
		add(o.kl, false)
	}
	add(x.entropy, false)
	float := func(b torch.Tensor) torch.Tensor { return b.ToDType(torch.Float32) }
	better, worse := x.advantages.GtScalar(0), x.advantages.LtScalar(0)
	switch {
	case slices.Contains(clipped, t.options.LossType):
		low := o.ratio.LtScalar(1 - t.options.Epsilon).LogicalAnd(worse)
		high := o.ratio.GtScalar(1 + t.options.EpsilonHigh).LogicalAnd(better)
		for _, region := range []torch.Tensor{low, high, low.LogicalOr(high)} {
			add(float(region), ofWhole(region))
		}
		lowest = []torch.Tensor{least(ofEach(float(low))), least(ofEach(float(high)).Neg())}
	case t.options.LossType == CISPO:
		add(float(o.ratio.GtScalar(t.options.EpsilonHigh).LogicalAnd(better)), ofWhole(o.ratio))
	case t.options.LossType == VESPO:
		add(o.phi, ofWhole(o.phi))
	}
	all := p.Gather(torch.Stack(slices.Concat(sums, counts, lowest), 0).Unsqueeze(0)) // [World, numbers]
	n := int64(len(sums))
	total := all.SumDim([]int64{0}, false, torch.DefaultDType)
	numbers := []torch.Tensor{torch.From(g.Stats).ToDevice(x.mask.Device()),
		total.Narrow(0, 0, n).Div(total.Narrow(0, n, n).Clamp(1, nil)).ToDType(torch.Float64)}
	if lowest != nil {
		numbers = append(numbers, least(all.Select(1, 2*n)).View(1), least(all.Select(1, 2*n+1)).Neg().View(1))
	}
	return torch.Cat(numbers, 0)
}

// least returns the smallest number that is not NaN; NaN if there is none.
func least(t torch.Tensor) torch.Tensor {
	l := t.MaskedFill(t.IsNaN(), math.Inf(1)).AMin([]int64{0}, false)
	return l.MaskedFill(l.IsInf(), math.NaN())
}

// logCompletions writes TaskOptions.LogCompletions.
func (t *Task) logCompletions(g generation, c Completions) {
	if t.options.LogCompletions == nil {
		return
	}
	type line struct {
		Prompt     string              `json:"prompt"`
		Completion string              `json:"completion"`
		IDs        []int64             `json:"completion_ids"`
		Rewards    map[string]*float64 `json:"rewards"` // null: the function does not apply
		Advantage  float32             `json:"advantage"`
	}
	out := json.NewEncoder(t.options.LogCompletions)
	out.SetEscapeHTML(false)
	for i, r := range g.Rollouts {
		l := line{Prompt: c.Samples[i].Prompt, IDs: r.Completion, Rewards: map[string]*float64{}, Advantage: r.Advantage}
		if c.Texts != nil {
			l.Completion = c.Texts[i]
		}
		for k, f := range t.options.Rewards {
			l.Rewards[f.Name] = nil
			if v := g.perFunc[i*len(t.options.Rewards)+k]; !math.IsNaN(v) && !math.IsInf(v, 0) {
				l.Rewards[f.Name] = &v
			}
		}
		if err := out.Encode(l); err != nil {
			panic(torch.Errorf("grpo.Task", torch.ErrValue, "TaskOptions.LogCompletions: %v", err))
		}
	}
}

// group holds the values of a prompt in an evaluation.
type group struct {
	Lengths     []int // of its completions
	Truncated   []bool
	PerFunc     []float64 // rewards, [NumGenerationsEval, functions]
	Rewards     []float64
	ZeroStd     float64 // the share of completions in groups of equal rewards
	Tokens      float64 // that count in the loss
	Entropy, KL float64 // their sums
}

// Evaluate generates completions for an evaluation batch.
func (t *Task) Evaluate(p engine.ForwardPass, b Batch) engine.Loss {
	n, functions := t.options.NumGenerationsEval, len(t.options.Rewards)
	g, c := t.generate(p, b.Samples, n, 1)
	value, x, o := t.pass(p, &g, g.Rollouts)
	perRow := func(values torch.Tensor) []float32 { return torch.Values[float32](logprob.SumLast(values.Mul(x.mask))) }
	tokens := torch.Values[float32](logprob.SumLast(x.mask))
	entropy, kl := perRow(x.entropy), make([]float32, len(g.Rollouts))
	switch {
	case t.options.penalizes():
		kl = g.divergence.Of
	case t.options.Beta != 0:
		kl = perRow(o.kl)
	}
	for i := range b.Samples {
		from, to := i*n, (i+1)*n
		note := group{ZeroStd: g.Stats[len(g.Stats)-1], Rewards: g.rewards[from:to],
			PerFunc: g.perFunc[from*functions : to*functions]}
		for k := from; k < to; k++ {
			note.Lengths = append(note.Lengths, len(c.IDs[k]))
			note.Truncated = append(note.Truncated, t.truncated(c.IDs[k]))
			note.Tokens += float64(tokens[k])
			note.Entropy += float64(entropy[k])
			note.KL += float64(kl[k])
		}
		t.Note(note)
	}
	return engine.Mean(value, len(b.Samples))
}

// Metrics returns the values named by TrainingLogs, except those of clipping, over all completions
// or tokens of the evaluation.
func (t *Task) Metrics() map[string]float64 {
	groups := t.Noted()
	if len(groups) == 0 {
		return nil
	}
	var all group
	for _, g := range groups {
		all.Lengths, all.Truncated = append(all.Lengths, g.Lengths...), append(all.Truncated, g.Truncated...)
		all.PerFunc, all.Rewards = append(all.PerFunc, g.PerFunc...), append(all.Rewards, g.Rewards...)
		all.ZeroStd += g.ZeroStd / float64(len(groups))
		all.Tokens += g.Tokens
		all.Entropy += g.Entropy
		all.KL += g.KL
	}
	m := map[string]float64{"entropy": all.Entropy / max(all.Tokens, 1)}
	if t.options.Beta != 0 {
		m["kl"] = all.KL / max(all.Tokens, 1)
	}
	torch.Scope(func() {
		perFunc := torch.From(all.PerFunc, int64(len(all.Rewards)), int64(len(t.options.Rewards)))
		j := judged{rewards: torch.From(all.Rewards), zeroStd: all.ZeroStd, kl: all.KL / max(all.Tokens, 1)}
		stats := t.generationStats(all.Lengths, all.Truncated, perFunc, j)
		for i, name := range t.generationLogs() {
			if !math.IsNaN(stats[i]) {
				m[name] = stats[i]
			}
		}
	})
	return m
}
