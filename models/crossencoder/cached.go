package crossencoder

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/models/inputs"
	"github.com/gotrainer/gotrainer/models/internal/gradcache"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// CachedMultipleNegativesRankingLoss is [MultipleNegativesRankingLoss] for batches that do not fit
// into memory: GradCache. Pairs go through the model in mini-batches, first without a graph. The
// loss and its gradients with respect to the logits are then computed from all pairs. The backward
// pass runs the model again, one mini-batch after the other, with the same random numbers. That
// takes longer, but the memory of a mini-batch suffices. It is for one process.
type CachedMultipleNegativesRankingLoss struct {
	MultipleNegativesRankingLoss
	MiniBatchSize int // pairs that go through the model at a time; zero: 32
}

// cachedLoss is a loss whose gradients with respect to logits are cached.
type cachedLoss interface {
	borrower
	Loss
	miniBatch() int
}

func isCached(l Loss) bool {
	_, ok := l.(cachedLoss)
	return ok
}

func (l CachedMultipleNegativesRankingLoss) check() error {
	if l.MiniBatchSize < 0 {
		return fmt.Errorf("want a MiniBatchSize above 0, or 0 for 32; found %d", l.MiniBatchSize)
	}
	return l.MultipleNegativesRankingLoss.check()
}

func (l CachedMultipleNegativesRankingLoss) miniBatch() int { return cmp.Or(l.MiniBatchSize, 32) }

// miniBatches returns the passes of a cached loss: all pairs of a batch, a mini-batch at a time. It
// draws the documents of other samples, whose pairs come after those of the first documents.
func (t *Task) miniBatches(b Batch, l cachedLoss) (passes []inputs.Batch) {
	own := make([][][2]string, len(b.samples[0].Documents))
	for _, s := range b.samples {
		for k, d := range s.Documents {
			own[k] = append(own[k], [2]string{s.Query, d})
		}
	}
	pairs := slices.Concat(own[0], slices.Concat(t.borrowed(b, l)...), slices.Concat(own[1:]...))
	for part := range slices.Chunk(pairs, l.miniBatch()) {
		passes = append(passes, t.late(part))
	}
	return passes
}

// columns divides the logits of mini-batches into those of the queries with one document each.
func columns(logits []torch.Tensor, rows int) []torch.Tensor {
	return torch.Cat(logits, 0).Split(int64(rows), 0)
}

// cachedLoss computes the loss of a batch, whose backward pass runs the model again.
func (t *Task) cachedLoss(p engine.ForwardPass, b Batch, l cachedLoss) torch.Tensor {
	p = engine.ForwardPass{Device: p.Device} // Inputs has not listed anything
	passes := t.miniBatches(b, l)
	return gradcache.Loss(p.Device, t.model, len(passes), func(i int) torch.Tensor { return t.logits(p, passes[i]) },
		func(logits []torch.Tensor) torch.Tensor {
			loss := l.Of(columns(logits, b.Rows), torch.Tensor{})
			loss.Backward()
			return loss.Detach()
		})
}
