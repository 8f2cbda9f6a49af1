package sentence

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/torch"
)

// Loss is what training minimizes: one of sentence-transformers' losses, or one of your own.
type Loss interface {
	// Wants says which samples the loss takes.
	Wants() Wants
	// Of computes the loss, one number, from the embeddings of a batch, [B, D] for each text of a
	// sample, and from labels: the scores, [B], or targets, [B, D]. Labels are undefined if the
	// loss wants none.
	Of(embeddings []torch.Tensor, labels torch.Tensor) torch.Tensor
}

// Wants says which samples a loss takes.
type Wants struct {
	Texts     int   // the least number of texts; all samples of a batch have as many
	MoreTexts bool  // a sample may have more than that
	Label     Label // what else it takes
	// PerSample says that the loss is a mean over samples, each independent of the others. Only
	// then can the trainer split a batch into parts (DivideOnOutOfMemory).
	PerSample bool
}

// Label is what a sample has besides texts.
type Label int

// The kinds of labels.
const (
	NoLabel     Label = iota
	ScoreLabel        // Sample.Score
	TargetLabel       // Sample.Target
)

// checker is implemented by losses whose settings may be invalid; [NewTask] calls it.
type checker interface{ check(dimension int) error }

// Direction is what [MultipleNegativesRankingLoss] compares. A query is the first text of a sample;
// the others are its documents.
type Direction string

// The directions.
const (
	QueryToDoc   Direction = "query_to_doc"   // a query with all documents
	QueryToQuery Direction = "query_to_query" // with all other queries
	DocToQuery   Direction = "doc_to_query"   // the positive document with all queries
	DocToDoc     Direction = "doc_to_doc"     // the same with the documents of other queries
)

// MultipleNegativesRankingLoss takes an anchor, a text that goes with it and, optionally,
// negatives. The anchor should be more similar to its own text than to all other texts of the
// batch. It is InfoNCE with in-batch negatives. If texts occur several times, use the order
// data.NoDuplicates. The zero value has the defaults of sentence-transformers.
type MultipleNegativesRankingLoss struct {
	Scale      float64            // factor of similarities; zero: 20
	Similarity SimilarityFunction // zero: Cosine
	Directions []Direction        // QueryToDoc must be among them; nil: QueryToDoc alone
	// PerDirection computes a softmax for each direction and averages them, instead of one softmax
	// over all: partition_mode="per_direction". With QueryToDoc and DocToQuery it is the symmetric
	// loss.
	PerDirection bool
}

func (l MultipleNegativesRankingLoss) directions() []Direction {
	if l.Directions == nil {
		return []Direction{QueryToDoc}
	}
	return l.Directions
}

func (l MultipleNegativesRankingLoss) check(int) error {
	if l.Scale < 0 || math.IsNaN(l.Scale) {
		return fmt.Errorf("want a Scale above 0, or 0 for 20; found %g", l.Scale)
	}
	known := []Direction{QueryToDoc, QueryToQuery, DocToQuery, DocToDoc}
	for _, d := range l.directions() {
		if !slices.Contains(known, d) {
			return fmt.Errorf("there is no direction %q; there are %q", d, known)
		}
		if l.PerDirection && (d == QueryToQuery || d == DocToDoc) {
			return fmt.Errorf("PerDirection is set, but %s has no positive pair to normalize with; leave one of the two out", d)
		}
	}
	if !slices.Contains(l.directions(), QueryToDoc) {
		return fmt.Errorf("want %q among Directions, which has the positive pairs; found %q", QueryToDoc, l.Directions)
	}
	_, err := l.Similarity.check()
	return err
}

// Wants two texts, or more: an anchor, its positive, and negatives.
func (MultipleNegativesRankingLoss) Wants() Wants { return Wants{Texts: 2, MoreTexts: true} }

// Of is the loss of anchors, their positives, and negatives.
func (l MultipleNegativesRankingLoss) Of(embeddings []torch.Tensor, _ torch.Tensor) torch.Tensor {
	return l.ofRows(embeddings, 0, embeddings[0].Size(0))
}

// ofRows is the mean loss of the samples from begin to end, whose negatives are those of all.
func (l MultipleNegativesRankingLoss) ofRows(embeddings []torch.Tensor, begin, end int64) torch.Tensor {
	docs := torch.Cat(embeddings[1:], 0)
	queries, own, positives := embeddings[0], rows(embeddings[0], begin, end), rows(embeddings[1], begin, end)
	similar := func(d Direction) torch.Tensor {
		switch d {
		case QueryToQuery: // except a query with itself
			return without(l.Similarity.Matrix(own, queries), 1, begin)
		case DocToQuery:
			return l.Similarity.Matrix(queries, positives).Transpose(0, 1)
		case DocToDoc: // except the documents of the same query
			return without(l.Similarity.Matrix(docs, positives).Transpose(0, 1), int64(len(embeddings)-1), begin)
		}
		return l.Similarity.Matrix(own, docs)
	}
	var scores []torch.Tensor
	for _, d := range []Direction{QueryToDoc, QueryToQuery, DocToQuery, DocToDoc} { // in the original's order
		if slices.Contains(l.directions(), d) {
			scores = append(scores, similar(d).MulScalar(cmp.Or(l.Scale, 20)))
		}
	}
	right := scores[0].Diagonal(begin, 0, 1)
	var all torch.Tensor
	if l.PerDirection {
		for _, s := range scores {
			if z := s.LogSumExp([]int64{1}, false); all.Defined() {
				all = all.Add(z)
			} else {
				all = z
			}
		}
		all = all.DivScalar(float64(len(scores)))
	} else {
		all = torch.Cat(scores, 1).LogSumExp([]int64{1}, false)
	}
	return right.Sub(all).Mean(torch.DefaultDType).Neg()
}

// rows returns the rows of x from begin to end, selected by index as the original selects them.
// This determines the order in which gradients are summed if x is used several times.
func rows(x torch.Tensor, begin, end int64) torch.Tensor {
	return x.IndexSelect(0, torch.TensorOptions{DType: torch.Int64, Device: x.Device()}.Arange(begin, end, 1))
}

// without excludes the diagonals of adjacent square blocks from a softmax. Of the blocks, scores
// has the rows from begin on.
func without(scores torch.Tensor, blocks, begin int64) torch.Tensor {
	same := torch.TensorOptions{Device: scores.Device(), DType: torch.Bool}.Eye(scores.Size(1) / blocks)
	return scores.MaskedFill(same.Narrow(0, begin, scores.Size(0)).Repeat(1, blocks), math.Inf(-1))
}

// CosineSimilarityLoss takes two texts and a score: the cosine of their embeddings should equal the
// score. It is the mean squared error.
type CosineSimilarityLoss struct{}

// Wants two texts and a score.
func (CosineSimilarityLoss) Wants() Wants { return Wants{Texts: 2, Label: ScoreLabel, PerSample: true} }

// Of is the mean squared error of the cosines.
func (CosineSimilarityLoss) Of(embeddings []torch.Tensor, scores torch.Tensor) torch.Tensor {
	return functional.CosineSimilarity(embeddings[0], embeddings[1], 1, 1e-8).MSELoss(scores, torch.ReductionMean)
}

// CoSENTLoss takes two texts and a score: in a batch, pairs with a higher score should be more
// similar than pairs with a lower one. It is the default of sentence-transformers.
type CoSENTLoss struct {
	Scale      float64            // factor of similarities; zero: 20
	Similarity SimilarityFunction // zero: Cosine
}

func (l CoSENTLoss) check(int) error {
	if l.Scale < 0 || math.IsNaN(l.Scale) {
		return fmt.Errorf("want a Scale above 0, or 0 for 20; found %g", l.Scale)
	}
	_, err := l.Similarity.check()
	return err
}

// Wants two texts and a score.
func (CoSENTLoss) Wants() Wants { return Wants{Texts: 2, Label: ScoreLabel} }

// Of is log(1 + sum(exp(scale * (s(k) - s(i))))) over all i and k where pair i has a higher score
// than pair k.
func (l CoSENTLoss) Of(embeddings []torch.Tensor, scores torch.Tensor) torch.Tensor {
	s := l.Similarity.Pairwise(embeddings[0], embeddings[1])
	if d := s.DType(); d == torch.Float16 || d == torch.BFloat16 {
		s = s.ToDType(torch.Float32)
	}
	s = s.MulScalar(cmp.Or(l.Scale, 20))
	sorted, order := scores.Sort(-1, false)
	s = s.IndexSelect(0, order)
	// For each pair, the sum over the pairs with a higher score, which start after the pairs with
	// the same score.
	higher := sorted.SearchSorted(sorted, true)
	sums := s.Flip(0).Neg().LogCumSumExp(0).Flip(0)
	edge := torch.TensorOptions{Device: s.Device(), DType: s.DType()}
	sums = torch.Cat([]torch.Tensor{sums, edge.Full(math.Inf(-1), 1)}, 0)
	s = s.Add(sums.IndexSelect(0, higher))
	return torch.Cat([]torch.Tensor{edge.Zeros(1), s}, 0).LogSumExp([]int64{0}, false)
}

// Distance is how far apart embeddings are, for [TripletLoss] and [ContrastiveLoss].
type Distance string

// The distance functions.
const (
	CosineDistance    Distance = "cosine" // 1 - the cosine
	EuclideanDistance Distance = "euclidean"
	ManhattanDistance Distance = "manhattan"
)

func (d Distance) check() error {
	if known := []Distance{"", CosineDistance, EuclideanDistance, ManhattanDistance}; !slices.Contains(known, d) {
		return fmt.Errorf("there is no distance %q; there are %q", d, known[1:])
	}
	return nil
}

// TripletLoss takes an anchor, a text that goes with it and one that does not: the first should be
// nearer by a margin. The zero value has the defaults of sentence-transformers.
type TripletLoss struct {
	Distance Distance // zero: EuclideanDistance
	Margin   *float64 // triplet_margin; nil: 5
}

func (l TripletLoss) check(int) error { return l.Distance.check() }

// Wants three texts: an anchor, its positive and a negative.
func (TripletLoss) Wants() Wants { return Wants{Texts: 3, PerSample: true} }

// Of is relu(d(anchor, positive) - d(anchor, negative) + margin), the mean over the samples.
func (l TripletLoss) Of(embeddings []torch.Tensor, _ torch.Tensor) torch.Tensor {
	distance := func(a, b torch.Tensor) torch.Tensor {
		switch l.Distance {
		case CosineDistance:
			return Cosine.Pairwise(a, b).RSubScalar(1)
		case ManhattanDistance:
			return Manhattan.Pairwise(a, b).Neg()
		}
		return Euclidean.Pairwise(a, b).Neg()
	}
	margin := 5.0
	if l.Margin != nil {
		margin = *l.Margin
	}
	nearer := distance(embeddings[0], embeddings[1]).Sub(distance(embeddings[0], embeddings[2]))
	return nearer.AddScalar(margin).ReLU().Mean(torch.DefaultDType)
}

// ContrastiveLoss takes two texts and a score: 1 pulls them together, 0 pushes them apart by a
// margin. The zero value has the defaults of sentence-transformers.
type ContrastiveLoss struct {
	Distance Distance // zero: CosineDistance
	Margin   *float64 // nil: 0.5
	Sum      bool     // add up the samples instead of averaging: size_average=False
}

func (l ContrastiveLoss) check(int) error { return l.Distance.check() }

// Wants two texts and a score.
func (l ContrastiveLoss) Wants() Wants { return Wants{Texts: 2, Label: ScoreLabel, PerSample: !l.Sum} }

// Of is half of score*d² + (1-score)*relu(margin-d)².
func (l ContrastiveLoss) Of(embeddings []torch.Tensor, scores torch.Tensor) torch.Tensor {
	a, b := embeddings[0], embeddings[1]
	var d torch.Tensor
	switch l.Distance {
	case EuclideanDistance:
		d = functional.PairwiseDistance(a, b, 2, 1e-6, false)
	case ManhattanDistance:
		d = functional.PairwiseDistance(a, b, 1, 1e-6, false)
	default:
		d = functional.CosineSimilarity(a, b, 1, 1e-8).RSubScalar(1)
	}
	margin := 0.5
	if l.Margin != nil {
		margin = *l.Margin
	}
	together := scores.Mul(d.PowScalar(2))
	apart := scores.RSubScalar(1).Mul(d.RSubScalar(margin).ReLU().PowScalar(2))
	losses := together.Add(apart).MulScalar(0.5)
	if l.Sum {
		return losses.Sum(torch.DefaultDType)
	}
	return losses.Mean(torch.DefaultDType)
}

// MSELoss takes texts and the embedding that each should have, such as a teacher's.
type MSELoss struct{}

// Wants a text, or more, and a target.
func (MSELoss) Wants() Wants {
	return Wants{Texts: 1, MoreTexts: true, Label: TargetLabel, PerSample: true}
}

// Of is the mean squared error, averaged over the texts of a sample.
func (MSELoss) Of(embeddings []torch.Tensor, targets torch.Tensor) torch.Tensor {
	losses := make([]torch.Tensor, len(embeddings))
	for i, e := range embeddings {
		losses[i] = e.MSELoss(targets.ToDType(e.DType()), torch.ReductionMean)
	}
	return torch.Stack(losses, 0).Mean(torch.DefaultDType)
}

// MatryoshkaLoss sums another loss over embeddings that are cut to several lengths and normalized.
// The first numbers of an embedding then say the most, so that fewer suffice
// (Transformer.TruncateDim).
type MatryoshkaLoss struct {
	Loss    Loss
	Dims    []int     // matryoshka_dims
	Weights []float64 // of the loss at each of Dims; nil: 1
}

func (l MatryoshkaLoss) check(dimension int) error {
	switch {
	case l.Loss == nil:
		return errors.New("Loss is nil; want the loss that is computed of several lengths")
	case isCached(l.Loss):
		return fmt.Errorf("a %T inside is not supported; want a MultipleNegativesRankingLoss", l.Loss)
	case len(l.Dims) == 0:
		return errors.New("there are no Dims; want the lengths of embeddings")
	case l.Weights != nil && len(l.Weights) != len(l.Dims):
		return fmt.Errorf("there are %d Weights for %d Dims; want one for each, or nil", len(l.Weights), len(l.Dims))
	}
	for _, d := range l.Dims {
		if d < 1 || d > dimension {
			return fmt.Errorf("want Dims of 1 to %d, which the embeddings of the model have; found %d", dimension, d)
		}
	}
	if c, ok := l.Loss.(checker); ok {
		return c.check(dimension)
	}
	return nil
}

// Wants is that of the inner loss.
func (l MatryoshkaLoss) Wants() Wants { return l.Loss.Wants() }

// Of is the sum over all lengths, the longest first.
func (l MatryoshkaLoss) Of(embeddings []torch.Tensor, labels torch.Tensor) (sum torch.Tensor) {
	order := make([]int, len(l.Dims))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(l.Dims[b], l.Dims[a]) })
	embeddings = slices.Clone(embeddings)
	for _, i := range order {
		for k, e := range embeddings { // truncated from the next longer one, as in the original
			embeddings[k] = normalized(e.Narrow(-1, 0, int64(l.Dims[i])))
		}
		cut := labels
		if l.Wants().Label == TargetLabel {
			cut = labels.Narrow(-1, 0, int64(l.Dims[i]))
		}
		loss := l.Loss.Of(embeddings, cut)
		if l.Weights != nil {
			loss = loss.MulScalar(l.Weights[i])
		}
		if sum.Defined() {
			loss = sum.Add(loss)
		}
		sum = loss
	}
	return sum
}
