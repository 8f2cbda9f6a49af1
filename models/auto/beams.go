package auto

import (
	"context"
	"math"
	"slices"

	"github.com/gotrainer/gotrainer/torch"
)

// never is the score added to exclude a candidate, as in transformers.
const never = float32(-1e9)

// beam is a candidate text, running or finished.
type beam struct {
	ids    []int64 // including the tokens that the decoder starts with
	score  float32 // sum of log probabilities; for an ended beam, divided by its length penalty
	ended  bool
	parent int // row in the batch of the previous step
}

// search is the beam search for one text.
type search struct {
	running, finished []beam // NumBeams of each, best first
	improvable        bool   // a running beam may still become better than the finished ones
	stuck             bool   // all continuations end their text
}

// searchBeams runs a beam search with NumBeams beams for each prompt and returns all tokens of each
// prompt's best NumReturnSequences texts. next returns the logits that follow the last tokens of
// each beam, [texts·NumBeams, vocabulary], with the beams of a text next to each other. rows are
// the beams of the previous step that they continue, nil in the first step. It is _beam_search of
// transformers 5.17.
func (g Generation) searchBeams(ctx context.Context, prompts [][]int64,
	next func(tokens [][]int64, rows []int64) torch.Tensor) ([][]int64, error) {
	n := g.NumBeams
	keep := g.spare() * n // so that n are left even if all others end
	all := make([]search, len(prompts))
	for i, prompt := range prompts {
		s := search{improvable: true, running: make([]beam, n), finished: make([]beam, n)}
		for j := range n {
			s.running[j] = beam{ids: prompt, score: never}
			s.finished[j] = beam{ids: prompt, score: never}
		}
		s.running[0].score = 0 // otherwise all beams would start with the same continuation
		all[i] = s
	}
	var err error
	var rows []int64
	for step := 1; step <= g.MaxNewTokens; step++ {
		if err = context.Cause(ctx); err != nil {
			break
		}
		torch.Scope(func() {
			scores, tokens := g.continuations(all, len(prompts[0]), keep, rows, next)
			rows = rows[:0]
			for i := range all {
				all[i].step(g, i*n, scores[i*keep:(i+1)*keep], tokens[i*keep:(i+1)*keep], step)
				for _, b := range all[i].running {
					rows = append(rows, int64(b.parent))
				}
			}
		})
		if done(all, g) {
			break
		}
	}
	var best [][]int64
	for _, s := range all {
		for i := range g.NumReturnSequences {
			b := s.finished[i]
			if !b.ended { // the context was cancelled first
				b = s.running[i]
			}
			best = append(best, b.ids)
		}
	}
	return best, err
}

// continuations returns the best keep continuations of the running beams of each text: their
// scores, and token + vocabulary·beam. begun is the number of tokens that each text had before
// generation.
func (g Generation) continuations(all []search, begun, keep int, rows []int64,
	next func(tokens [][]int64, rows []int64) torch.Tensor) (scores []float32, tokens []int64) {
	var seen [][]int64
	var before []float32
	for _, s := range all {
		for _, b := range s.running {
			seen, before = append(seen, b.ids), append(before, b.score)
		}
	}
	logits := next(seen, rows).ToDType(torch.Float32)
	logs := g.processed(logits.LogSoftmax(-1, torch.DefaultDType), seen, begun)
	logs = logs.Add(torch.From(before, int64(len(before)), 1).ToDevice(logs.Device()))
	logs = logs.View(int64(len(all)), -1)
	var top, at torch.Tensor
	if g.Sample {
		at = logs.Softmax(-1, torch.DefaultDType).Multinomial(int64(keep), false, g.Generator)
		top = logs.Gather(1, at)
	} else {
		top, at = logs.TopK(int64(keep), 1, true, true)
	}
	return torch.Values[float32](top), torch.Values[int64](at)
}

// step applies the continuations of a text's beams. first is the row of the text's first beam in
// the batch. In the last step all beams end.
func (s *search) step(g Generation, first int, scores []float32, tokens []int64, step int) {
	n := len(s.running)
	continued := make([]beam, len(scores))
	for i, score := range scores {
		parent, token := int(tokens[i]/g.vocabulary), tokens[i]%g.vocabulary
		ids := append(slices.Clip(s.running[parent].ids), token)
		continued[i] = beam{ids: ids, score: score, parent: first + parent, ended: step == g.MaxNewTokens || g.ends(ids)}
	}
	s.stuck = !slices.ContainsFunc(continued, func(b beam) bool { return !b.ended })
	full, length := g.EarlyStopping == EarlyStoppingTrue && s.full(), float32(math.Pow(float64(step), *g.LengthPenalty))
	merged := slices.Clone(s.finished)
	for i, b := range continued {
		b.score /= length
		b.ended = b.ended && i < n
		for _, out := range []bool{full, !s.improvable, !b.ended} {
			if out {
				b.score += never
			}
		}
		merged = append(merged, b)
	}
	for i, b := range continued {
		if b.ended {
			continued[i].score += never
		}
	}
	s.running, s.finished = bestOf(continued, n), bestOf(merged, n)
	if g.EarlyStopping == EarlyStoppingNever && *g.LengthPenalty > 0 {
		length = float32(math.Pow(float64(g.MaxNewTokens), *g.LengthPenalty))
	}
	possible := s.running[0].score / length
	better := func(b beam) bool { return possible > never && !b.ended || possible > s.finished[n-1].score && b.ended }
	s.improvable = s.improvable && slices.ContainsFunc(s.finished, better)
}

// full reports whether as many texts have ended as there are beams.
func (s *search) full() bool {
	return !slices.ContainsFunc(s.finished, func(b beam) bool { return !b.ended })
}

// done reports whether the searches end: because no beam can become better, because all have ended
// (with EarlyStoppingTrue), or because none can continue.
func done(all []search, g Generation) bool {
	improvable, full, stuck := false, g.EarlyStopping == EarlyStoppingTrue, true
	for _, s := range all {
		improvable = improvable || s.improvable
		full = full && s.full()
		stuck = stuck && s.stuck
	}
	return !improvable || full || stuck
}

// bestOf returns the n best beams, best first. Ties are resolved as in torch.topk, which
// transformers uses.
func bestOf(beams []beam, n int) []beam {
	scores := make([]float32, len(beams))
	for i, b := range beams {
		scores[i] = b.score
	}
	_, at := torch.From(scores, int64(len(scores))).TopK(int64(n), 0, true, true)
	best := make([]beam, n)
	for i, k := range torch.Values[int64](at) {
		best[i] = beams[k]
	}
	return best
}
