package crossencoder

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/torch"
)

// padded is the logit where a sample of a list has no document.
const padded = -1e16

// activatedList applies an activation function to the logits of lists.
func activatedList(a Activation, logits, labels torch.Tensor) torch.Tensor {
	if a == "" || a == Identity {
		return logits
	}
	return a.of(logits, Identity).MaskedFill(labels.EqScalar(math.Inf(-1)), padded)
}

// ListNetLoss takes a list of documents with a relevance for each. The distribution of the logits
// should be that of the labels.
type ListNetLoss struct {
	ActivationFn  Activation // of the logits; zero: Identity
	MiniBatchSize int        // pairs that go through the model at a time; zero: as many as samples; negative: all
}

func (l ListNetLoss) check() error { return checkActivation(l.ActivationFn) }

// Wants a list of documents and their relevance.
func (l ListNetLoss) Wants() Wants {
	return Wants{Lists: true, MiniBatchSize: l.MiniBatchSize, Label: ScoreLabels, OneLabel: true, PerSample: true}
}

// Of is the cross-entropy between the two distributions.
func (l ListNetLoss) Of(logits []torch.Tensor, labels torch.Tensor) torch.Tensor {
	return crossEntropy(activatedList(l.ActivationFn, logits[0], labels), labels.Softmax(1, torch.DefaultDType))
}

// WeightingScheme is the weight of a pair of documents in [LambdaLoss].
type WeightingScheme string

// The weighting schemes.
const (
	NDCGLoss2PPScheme WeightingScheme = "NDCGLoss2PPScheme" // Mu times NDCGLoss2Scheme, plus LambdaRankScheme
	NDCGLoss2Scheme   WeightingScheme = "NDCGLoss2Scheme"
	NDCGLoss1Scheme   WeightingScheme = "NDCGLoss1Scheme"
	LambdaRankScheme  WeightingScheme = "LambdaRankScheme"
	NoWeightingScheme WeightingScheme = "NoWeightingScheme" // 1, as in RankNetLoss
)

var weightingSchemes = []WeightingScheme{NDCGLoss2PPScheme, NDCGLoss2Scheme, NDCGLoss1Scheme, LambdaRankScheme,
	NoWeightingScheme}

// LambdaLoss takes a list of documents with a relevance for each. Of each two documents, the more
// relevant one should have the higher logit; how much a pair counts depends on what swapping the
// two would change in the NDCG. The zero value has the defaults of sentence-transformers.
type LambdaLoss struct {
	Weighting WeightingScheme // zero: NDCGLoss2PPScheme
	Mu        float64         // of NDCGLoss2PPScheme; zero: 10
	// K limits the pairs to those with a document among the first K by logit, and the NDCG to its
	// first K. Zero: all.
	K             int
	Sigma         float64    // factor of differences; zero: 1
	Eps           float64    // the least DCG of an ideal ranking; zero: 1e-10
	NaturalLog    bool       // reduction_log="natural" instead of "binary"
	ActivationFn  Activation // of the logits; zero: Identity
	MiniBatchSize int        // pairs that go through the model at a time; zero: as many as samples; negative: all
}

func (l LambdaLoss) check() error {
	for name, v := range map[string]float64{"Mu": l.Mu, "Sigma": l.Sigma, "Eps": l.Eps, "K": float64(l.K)} {
		if !(v >= 0) || math.IsInf(v, 0) {
			return fmt.Errorf("%s is %g; want a number above 0, or 0 for the default", name, v)
		}
	}
	if l.Weighting != "" && !slices.Contains(weightingSchemes, l.Weighting) {
		return fmt.Errorf("there is no weighting scheme %q; there are %q", l.Weighting, weightingSchemes)
	}
	return checkActivation(l.ActivationFn)
}

// Wants a list of documents and their relevance.
func (l LambdaLoss) Wants() Wants {
	return Wants{Lists: true, MiniBatchSize: l.MiniBatchSize, Label: ScoreLabels, OneLabel: true}
}

// Of is the mean of -weight*log(sigmoid(sigma*(a-b))) over all pairs of documents of a list of
// which the first, with the logit a, is more relevant than the second, with the logit b.
// NDCGLoss1Scheme takes all pairs.
func (l LambdaLoss) Of(logits []torch.Tensor, labels torch.Tensor) torch.Tensor {
	x := activatedList(l.ActivationFn, logits[0], labels)
	documents := x.Size(1)
	k := int64(cmp.Or(l.K, int(documents)))
	x, order := x.Sort(-1, true)
	truth := labels.Gather(1, order)
	ideal, _ := labels.Sort(-1, true)

	difference := truth.Unsqueeze(2).Sub(truth.Unsqueeze(1))
	counts := difference.IsFinite()
	if l.Weighting != NDCGLoss1Scheme {
		counts = counts.LogicalAnd(difference.GtScalar(0))
	}
	first := torch.TensorOptions{DType: torch.Int64, Device: x.Device()}.Arange(0, documents, 1).LtScalar(k)
	counts = counts.LogicalAnd(first.Unsqueeze(1).LogicalOr(first))

	number := torch.TensorOptions{DType: torch.Float32, Device: x.Device()}
	discount := number.Arange(1, documents+1, 1).AddScalar(1).Log2().Unsqueeze(0)
	gainOf := func(labels torch.Tensor) torch.Tensor { return number.Full(2).Pow(labels.Clamp(0, nil)).SubScalar(1) }
	best := gainOf(ideal).Div(discount).Narrow(1, 0, min(k, documents)).SumDim([]int64{-1}, false, torch.DefaultDType)
	gain := gainOf(truth).Div(best.Clamp(cmp.Or(l.Eps, 1e-10), nil).Unsqueeze(1))

	better := x.Unsqueeze(2).Sub(x.Unsqueeze(1)).Clamp(-1e8, 1e8)
	losses := functional.LogSigmoid(better.MulScalar(cmp.Or(l.Sigma, 1)))
	if w := l.weights(gain, discount); w.Defined() {
		losses = w.Mul(losses)
	}
	if !l.NaturalLog {
		losses = losses.DivScalar(math.Ln2)
	}
	losses = losses.MaskedSelect(counts)
	return losses.Sum(torch.DefaultDType).Neg().DivScalar(float64(max(1, losses.Numel())))
}

// weights returns the weights of pairs, [B, N, N] or a shape that becomes this, from the gains of
// documents, [B, N], and the discounts of ranks, [1, N]. Undefined means 1.
func (l LambdaLoss) weights(gain, discount torch.Tensor) torch.Tensor {
	apart := func() torch.Tensor { return gain.Unsqueeze(2).Sub(gain.Unsqueeze(1)).Abs() }
	switch l.Weighting {
	case NoWeightingScheme:
		return torch.Tensor{}
	case NDCGLoss1Scheme:
		return gain.Div(discount).Unsqueeze(2)
	case NDCGLoss2Scheme:
		return byDistance(discount).Mul(apart())
	case LambdaRankScheme:
		return byRank(discount).Mul(apart())
	}
	return byDistance(discount).Mul(apart()).MulScalar(cmp.Or(l.Mu, 10)).Add(byRank(discount).Mul(apart()))
}

// byRank returns by how much the discounts of two ranks differ, [1, N, N].
func byRank(discount torch.Tensor) torch.Tensor {
	inverse := discount.PowScalar(-1)
	return inverse.Unsqueeze(2).Sub(inverse.Unsqueeze(1)).Abs()
}

// byDistance returns by how much the discounts of the distance of two ranks and of the next
// distance differ, [1, N, N]; 0 for the same rank.
func byDistance(discount torch.Tensor) torch.Tensor {
	n := discount.Size(1)
	index := torch.TensorOptions{DType: torch.Int64, Device: discount.Device()}.Arange(0, n, 1)
	distance := index.Unsqueeze(1).Sub(index).Abs().View(-1)
	inverse := discount.PowScalar(-1).View(-1)
	at := func(distance torch.Tensor) torch.Tensor { return inverse.IndexSelect(0, distance).View(1, n, n) }
	return at(distance.SubScalar(1).Clamp(0, nil)).Sub(at(distance)).Abs()
}

// RankNetLoss is [LambdaLoss] in which all pairs of documents count the same. The zero value has
// the defaults of sentence-transformers.
type RankNetLoss struct {
	K             int        // only pairs with a document among the first K by logit; zero: all
	Sigma         float64    // factor of differences; zero: 1
	NaturalLog    bool       // reduction_log="natural" instead of "binary"
	ActivationFn  Activation // of the logits; zero: Identity
	MiniBatchSize int        // pairs that go through the model at a time; zero: as many as samples; negative: all
}

func (l RankNetLoss) lambda() LambdaLoss {
	return LambdaLoss{Weighting: NoWeightingScheme, K: l.K, Sigma: l.Sigma, NaturalLog: l.NaturalLog,
		ActivationFn: l.ActivationFn, MiniBatchSize: l.MiniBatchSize}
}

func (l RankNetLoss) check() error { return l.lambda().check() }

// Wants a list of documents and their relevance.
func (l RankNetLoss) Wants() Wants { return l.lambda().Wants() }

// Of is [LambdaLoss.Of] without weights.
func (l RankNetLoss) Of(logits []torch.Tensor, labels torch.Tensor) torch.Tensor {
	return l.lambda().Of(logits, labels)
}
