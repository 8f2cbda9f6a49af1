package grpo

import (
	"bytes"
	"encoding/gob"
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/models/dpo"
	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/internal/logprob"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// rollout is a completion with the values that are computed when it is generated.
type rollout struct {
	Prompt, Completion []int64
	Masked             bool // excluded from the loss, since it was cut off
	Advantage          float32
	Old, Ref           []float32 // log probabilities of its tokens at generation, and of the reference; nil: not needed
}

// generation holds the completions of a process that were generated together.
type generation struct {
	Prompts          [][]int64
	Rollouts         []rollout
	Longest          int        // tokens of the longest prompt
	LongestAnswer    int        // tokens of the longest completion
	Items            int64      // tokens that count in the loss, of all processes
	Stats            []float64  // logged values, of all processes: Task.generationLogs
	perFunc, rewards []float64  // rewards by function, [N, functions], and in total, [N]; not needed later
	divergence       divergence // of RLOO; not needed later
}

// outcome is what the processes tell each other about their completions.
type outcome struct {
	Lengths   []int
	Truncated []bool
	Items     int64     // tokens that count in the loss
	PerFunc   []float32 // rewards, [N, functions]
	KL        divergence
}

// gathered returns the completions of all processes, and how many of them precede those of this one.
func (o outcome) gathered(p engine.ForwardPass) (all outcome, before int) {
	for rank, of := range engine.GatherObject(p, o) {
		if rank < p.Rank() {
			before += len(of.Lengths)
		}
		all.Lengths, all.Truncated = append(all.Lengths, of.Lengths...), append(all.Truncated, of.Truncated...)
		all.Items, all.PerFunc = all.Items+of.Items, append(all.PerFunc, of.PerFunc...)
		all.KL.Of, all.KL.Total = append(all.KL.Of, of.KL.Of...), all.KL.Total+of.KL.Total
	}
	return all, before
}

// generate completes prompts, n times each, and computes the rewards and advantages. Log
// probabilities are computed in the given number of parts.
func (t *Task) generate(p engine.ForwardPass, samples []Sample, n, parts int) (g generation, c Completions) {
	for _, s := range samples {
		g.Prompts = append(g.Prompts, s.PromptIDs)
	}
	c.Evaluation = p.WindowLen == 0
	t.undisturbed(func() {
		var err error
		if c.IDs, err = t.options.Generate(p, g.Prompts, n); err == nil {
			err = t.checkCompletions(c.IDs, len(samples)*n)
		}
		if err != nil {
			panic(torch.Errorf("grpo.Task", torch.ErrValue, "completions: %v", err))
		}
	})
	var mine outcome
	for i, ids := range c.IDs {
		s := samples[i/n]
		c.Samples = append(c.Samples, s)
		if t.options.Decode != nil {
			c.Texts = append(c.Texts, t.options.Decode(ids))
		}
		truncated := t.truncated(ids)
		mine.Lengths, mine.Truncated = append(mine.Lengths, len(ids)), append(mine.Truncated, truncated)
		r := rollout{Prompt: s.PromptIDs, Completion: ids, Masked: t.options.MaskTruncatedCompletions && truncated}
		if !r.Masked {
			mine.Items += int64(len(ids))
		}
		g.Rollouts = append(g.Rollouts, r)
		g.Longest, g.LongestAnswer = max(g.Longest, len(s.PromptIDs)), max(g.LongestAnswer, len(ids))
	}
	t.scoreBefore(p, &g, parts)
	torch.NoGrad(func() {
		torch.Scope(func() {
			mine.PerFunc = t.score(c)
			if t.options.penalizes() {
				g.divergence = g.diverged()
				mine.KL = g.divergence
			}
			all, before := mine.gathered(p)
			g.Items = all.Items
			perFunc := torch.From(all.PerFunc, int64(len(all.Lengths)), int64(len(t.options.Rewards)))
			var kl torch.Tensor
			if t.options.penalizes() {
				kl = torch.From(all.KL.Of, int64(len(all.KL.Of)))
			}
			j := t.options.judge(perFunc, kl, n)
			j.kl = all.KL.perToken(all.Items)
			own := func(of torch.Tensor) torch.Tensor { return of.Narrow(0, int64(before), int64(len(c.IDs))) }
			for i, a := range torch.Values[float32](own(j.advantages)) {
				g.Rollouts[i].Advantage = a
			}
			g.Stats = t.generationStats(all.Lengths, all.Truncated, perFunc, j)
			g.perFunc = torch.Values[float64](own(perFunc).ToDType(torch.Float64).View(-1))
			g.rewards = torch.Values[float64](own(j.rewards).ToDType(torch.Float64))
		})
	})
	return g, c
}

// truncated reports whether a completion has no end token.
func (t *Task) truncated(ids []int64) bool { return !slices.Contains(t.ends, ids[len(ids)-1]) }

// checkCompletions refuses completions that the model cannot have generated.
func (t *Task) checkCompletions(completions [][]int64, want int) error {
	if len(completions) != want {
		return fmt.Errorf("TaskOptions.Generate returned %d; want %d, for each prompt NumGenerations of them",
			len(completions), want)
	}
	for i, ids := range completions {
		if len(ids) == 0 || len(ids) > t.options.MaxCompletionLength {
			return fmt.Errorf("TaskOptions.Generate returned %d tokens in completion %d; want 1 to %d", len(ids), i,
				t.options.MaxCompletionLength)
		}
		for _, id := range ids {
			if id < 0 || id >= t.limits.VocabSize {
				return fmt.Errorf("TaskOptions.Generate returned the token %d in completion %d; want an id of the vocabulary "+
					"of %d", id, i, t.limits.VocabSize)
			}
		}
	}
	return nil
}

// undisturbed runs f without gradients and with the model in evaluation mode, without dropout.
func (t *Task) undisturbed(f func()) {
	torch.NoGrad(func() { nn.Evaluating(t.model, func() { torch.Scope(f) }) })
}

// scoreBefore computes the log probabilities that the loss compares with: those of the current
// model, if it changes before it has been trained on all completions or, as in TRL, always for RLOO,
// and those of the reference.
func (t *Task) scoreBefore(p engine.ForwardPass, g *generation, parts int) {
	old := t.options.RLOO != nil || p.WindowLen > 0 && p.WindowLen%t.every() != 0
	if !old && t.options.Beta == 0 {
		return
	}
	n := len(g.Rollouts) / parts
	t.undisturbed(func() {
		for part := range slices.Chunk(g.Rollouts, n) {
			v := t.view(p, g, part)
			put := func(m dpo.Model, into func(r *rollout) *[]float32) {
				values := torch.Values[float32](t.scored(m, v).LogProbs.ToDType(torch.Float32))
				for i := range part {
					*into(&part[i]) = slices.Clone(values[i*g.LongestAnswer:][:len(part[i].Completion)])
				}
			}
			if old {
				put(t.model, func(r *rollout) *[]float32 { return &r.Old })
			}
			if t.options.Beta != 0 {
				t.options.Reference.Run(func(m dpo.Model) {
					if m != dpo.Model(t.model) {
						t.place.Move(m, p.Device)
					}
					put(m, func(r *rollout) *[]float32 { return &r.Ref })
				})
			}
		}
	})
}

// view holds rollouts on the device of a pass: n rows, each a prompt with its completion.
type view struct {
	ids, mask torch.Tensor // [n, L]; the mask is undefined if nothing is padded
	answers   torch.Tensor // [n, L-1]: whether the next token counts in the loss
	places    torch.Tensor // their indices in answers, if only they are scored
	at        torch.Tensor // [n, C]: indices in answers of the completion's tokens; undefined: the last C
	counts    torch.Tensor // [n, C] of float32: 1 for tokens that count in the loss
	width     int64        // C
}

// view lays out rollouts as TRL does, with prompts padded on the left and completions on the right.
// In a model with absolute positions this would give the tokens other positions than in generation,
// so there each completion follows its prompt directly, and the padding is on the right.
func (t *Task) view(p engine.ForwardPass, g *generation, list []rollout) (v view) {
	n, answer := len(list), g.LongestAnswer
	width := g.Longest + answer
	ids, mask := slices.Repeat([]int64{t.limits.PadTokenID}, n*width), make([]bool, n*width)
	answers, counts := make([]bool, 0, n*(width-1)), make([]bool, n*answer)
	var places, at []int64
	padded := false
	for i, r := range list {
		begin := g.Longest // of the completion
		if t.model.AbsolutePositions() {
			begin = len(r.Prompt)
		}
		row := mask[i*width:][:width]
		copy(ids[i*width+begin-len(r.Prompt):], r.Prompt)
		copy(ids[i*width+begin:], r.Completion)
		learned := make([]bool, width-1)
		for k := range row {
			row[k] = k >= begin-len(r.Prompt) && k < begin || k >= begin && k < begin+len(r.Completion) && !r.Masked
			padded = padded || !row[k]
			if row[k] && k >= begin {
				learned[k-1], counts[i*answer+k-begin] = true, true
				places = append(places, int64(i*(width-1)+k-1))
			}
		}
		answers = append(answers, learned...)
		for k := range answer {
			at = append(at, int64(begin-1+k))
		}
	}
	rows, columns := int64(n), int64(width)
	v.width = int64(answer)
	v.ids = engine.Input(p, ids, rows, columns)
	if padded {
		v.mask = engine.Input(p, mask, rows, columns)
	}
	v.answers = engine.Input(p, answers, rows, columns-1)
	v.counts = engine.Input(p, counts, rows, v.width).ToDType(torch.Float32)
	if logprob.Compacts(p) {
		v.places = engine.Input(p, places, int64(len(places)))
	}
	if t.model.AbsolutePositions() {
		v.at = engine.Input(p, at, rows, v.width)
	}
	return v
}

// scored returns the log probabilities and entropies of completions, [n, C].
func (t *Task) scored(m dpo.Model, v view) logprob.Scored {
	s := logprob.Score(m, m.Hidden(v.ids, v.mask), v.ids, v.answers, v.places,
		logprob.Options{Temperature: t.options.Temperature})
	for _, f := range []*torch.Tensor{&s.LogProbs, &s.Entropy} {
		if v.at.Defined() {
			*f = f.Gather(1, v.at)
		} else {
			*f = f.Narrow(1, f.Size(1)-v.width, v.width)
		}
	}
	return s
}

// shuffled draws an order from the CPU's generator: shuffle_sequence_dict of TRL.
func shuffled(list []rollout) []rollout {
	order := torch.TensorOptions{DType: torch.Int64}.RandPerm(int64(len(list)))
	moved := make([]rollout, 0, len(list))
	for _, i := range torch.Values[int64](order) {
		moved = append(moved, list[i])
	}
	return moved
}

// progress is the state in a checkpoint.
type progress struct {
	Step       int        // micro-batches so far
	Generation generation // the completions that are being trained on; empty: none
}

// State returns the completions that have not been trained on yet: engine.StateOwner.
func (t *Task) State() ([]byte, error) {
	state := t.progress
	if state.Step%t.every() == 0 {
		state.Generation = generation{}
	}
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(state); err != nil {
		return nil, fmt.Errorf("grpo: %w", err)
	}
	return b.Bytes(), nil
}

// LoadState restores a state that State returned: engine.StateOwner.
func (t *Task) LoadState(state []byte) (put func(), err error) {
	var loaded progress
	if state != nil {
		if err := gob.NewDecoder(bytes.NewReader(state)).Decode(&loaded); err != nil {
			return nil, fmt.Errorf("grpo: the state of the task: %w", err)
		}
		if err := t.checkState(loaded); err != nil {
			return nil, fmt.Errorf("grpo: the state of the task: %w", err)
		}
	}
	return func() { t.progress = loaded }, nil
}

// checkState refuses the state of another task.
func (t *Task) checkState(s progress) error {
	g := s.Generation
	n := len(g.Rollouts)
	if s.Step < 0 || (s.Step%t.every() != 0) != (n > 0) || n != len(g.Prompts)*t.options.NumGenerations ||
		n%t.options.StepsPerGeneration != 0 || n > 0 && len(g.Stats) != len(t.generationLogs()) {
		return fmt.Errorf("after %d micro-batches it has %d completions of %d prompts, which do not go with NumGenerations "+
			"%d, StepsPerGeneration %d, NumIterations %d and the reward functions; want the options that the checkpoint was "+
			"made with", s.Step, n, len(g.Prompts), t.options.NumGenerations, t.options.StepsPerGeneration,
			t.options.NumIterations)
	}
	for _, r := range g.Rollouts {
		if t.checkCompletions([][]int64{r.Completion}, 1) != nil ||
			t.limits.Fault(inputs.Text{InputIDs: r.Prompt}) != "" || len(r.Prompt) > g.Longest ||
			len(r.Completion) > g.LongestAnswer || g.Longest+g.LongestAnswer > int(t.limits.MaxLength) ||
			r.Old != nil && len(r.Old) != len(r.Completion) || t.options.RLOO != nil && r.Old == nil ||
			(t.options.Beta != 0 && !t.options.penalizes()) != (r.Ref != nil) ||
			r.Ref != nil && len(r.Ref) != len(r.Completion) {
			return fmt.Errorf("a completion of %d tokens after a prompt of %d does not fit: want the model and the options "+
				"that the checkpoint was made with", len(r.Completion), len(r.Prompt))
		}
	}
	return nil
}
