package sentence

import (
	"cmp"
	"fmt"

	"github.com/gotrainer/gotrainer/models/internal/gradcache"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// CachedMultipleNegativesRankingLoss is [MultipleNegativesRankingLoss] for batches that do not fit
// into memory: GradCache. Texts go through the model in mini-batches, first without a graph. The
// loss is then computed from the embeddings of the whole batch, as are its gradients with respect
// to the embeddings. The backward pass runs the model again, one mini-batch after the other, with
// the same random numbers. That takes about a third longer, but the memory of a mini-batch
// suffices. It is for one process.
type CachedMultipleNegativesRankingLoss struct {
	MultipleNegativesRankingLoss
	MiniBatchSize int // texts that go through the model at a time; zero: 32
}

// cachedLoss is a loss whose gradients with respect to embeddings are cached.
type cachedLoss interface {
	miniBatch() int
	// each calls f with the loss of each mini-batch of samples. Their sum is the loss of the batch.
	each(embeddings []torch.Tensor, f func(loss torch.Tensor))
}

func isCached(l Loss) bool {
	_, ok := l.(cachedLoss)
	return ok
}

func (l CachedMultipleNegativesRankingLoss) check(dimension int) error {
	if l.MiniBatchSize < 0 {
		return fmt.Errorf("want a MiniBatchSize above 0, or 0 for 32; found %d", l.MiniBatchSize)
	}
	return l.MultipleNegativesRankingLoss.check(dimension)
}

func (l CachedMultipleNegativesRankingLoss) miniBatch() int { return cmp.Or(l.MiniBatchSize, 32) }

// Of is the loss of anchors, their positives, and negatives.
func (l CachedMultipleNegativesRankingLoss) Of(embeddings []torch.Tensor, _ torch.Tensor) (sum torch.Tensor) {
	l.each(embeddings, func(loss torch.Tensor) { sum = plus(sum, loss) })
	return sum
}

func plus(sum, x torch.Tensor) torch.Tensor {
	if sum.Defined() {
		return sum.Add(x)
	}
	return x
}

func (l CachedMultipleNegativesRankingLoss) each(embeddings []torch.Tensor, f func(loss torch.Tensor)) {
	rows, size := embeddings[0].Size(0), int64(l.miniBatch())
	for begin := int64(0); begin < rows; begin += size {
		end := min(begin+size, rows)
		f(l.ofRows(embeddings, begin, end).MulScalar(float64(end - begin)).DivScalar(float64(rows)))
	}
}

// cachedLoss computes the loss of a batch, whose backward pass runs the model again.
func (t *Task) cachedLoss(p engine.ForwardPass, b Batch, l cachedLoss) torch.Tensor {
	p = engine.ForwardPass{Device: p.Device} // Inputs has not listed anything
	return gradcache.Loss(p.Device, t.model, len(b.Passes),
		func(i int) torch.Tensor { return t.model.Embed(p, b.Passes[i]) },
		func(embeddings []torch.Tensor) (sum torch.Tensor) {
			l.each(t.columns(embeddings, b.Rows), func(loss torch.Tensor) {
				loss.Backward()
				sum = plus(sum, loss.Detach())
			})
			return sum
		})
}
