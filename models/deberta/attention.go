package deberta

import (
	"math"
	"slices"

	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/torch"
)

// SelfAttention is DisentangledSelfAttention. Its scores are products of queries and keys, to which
// it adds products of each with the embedding of the distance.
type SelfAttention struct {
	Query      *nn.Linear  `module:"query_proj"`
	Key        *nn.Linear  `module:"key_proj"`
	Value      *nn.Linear  `module:"value_proj"`
	PosDropout *nn.Dropout `module:"pos_dropout"` // of the embeddings of distances; nil without relative attention
	// multiplied with the queries; nil if Key does it, or if there is no such score
	PosKey *nn.Linear `module:"pos_key_proj"`
	// multiplied with the keys; nil if Query does it, or if there is no such score
	PosQuery *nn.Linear  `module:"pos_query_proj"`
	Dropout  *nn.Dropout `module:"dropout"`

	heads    int64
	c2p, p2c bool
}

// distances holds the embeddings of relative positions, [2·span, hidden], and indices into them for
// each pair of tokens, [1, L, L]: ahead from the query to the key, back from the key to the query.
type distances struct{ embeddings, ahead, back torch.Tensor }

func newSelfAttention(c Config, b transformer.Builder) *SelfAttention {
	hidden := c.HiddenSize
	s := &SelfAttention{Query: b.Linear(hidden, hidden), Key: b.Linear(hidden, hidden), Value: b.Linear(hidden, hidden),
		Dropout: nn.NewDropout(*c.AttentionDropout), heads: c.NumHeads, c2p: slices.Contains(c.PosAttType, "c2p"),
		p2c: slices.Contains(c.PosAttType, "p2c")}
	if c.RelativeAttention {
		s.PosDropout = nn.NewDropout(*c.HiddenDropout)
		if s.c2p && !c.ShareAttKey {
			s.PosKey = b.Linear(hidden, hidden)
		}
		if s.p2c && !c.ShareAttKey {
			s.PosQuery = b.Linear(hidden, hidden)
		}
	}
	return s
}

// Forward maps [B, L, hidden] to the same shape. masked, [B, 1, L, L], is true for scores that are
// left out.
func (s *SelfAttention) Forward(x, masked torch.Tensor, d distances) torch.Tensor {
	shape := x.Shape()
	batch, length := shape[0], shape[1]
	query, key, value := s.split(s.Query.Forward(x)), s.split(s.Key.Forward(x)), s.split(s.Value.Forward(x))
	scale := s.scale(query)
	scores := query.BMM(key.Transpose(-1, -2).Div(scale))
	if d.embeddings.Defined() {
		scores = scores.Add(s.bias(query, key, scale, d))
	}
	scores = scores.View(batch, s.heads, length, length)
	if masked.Defined() {
		scores = scores.MaskedFill(masked, transformer.Lowest(query.DType()))
	}
	weights := s.Dropout.Forward(scores.Softmax(-1, torch.DefaultDType)).View(-1, length, length)
	out := weights.BMM(value).View(batch, s.heads, length, -1).Permute(0, 2, 1, 3).Contiguous()
	return out.View(shape...)
}

// split reshapes [B, L, hidden] to [B·heads, L, E].
func (s *SelfAttention) split(x torch.Tensor) torch.Tensor {
	shape := x.Shape()
	return x.View(shape[0], shape[1], s.heads, -1).Permute(0, 2, 1, 3).Contiguous().
		View(shape[0]*s.heads, shape[1], shape[2]/s.heads)
}

// scale returns the divisor of each product, in the dtype of the query: the square root of the head
// size times the number of kinds of scores.
func (s *SelfAttention) scale(query torch.Tensor) torch.Tensor {
	kinds := int64(1)
	for _, on := range []bool{s.c2p, s.p2c} {
		if on {
			kinds++
		}
	}
	root := float32(math.Sqrt(float64(query.Size(-1) * kinds)))
	return torch.TensorOptions{DType: query.DType()}.Full(float64(root))
}

// bias returns the scores that relative positions add, [B·heads, L, L].
func (s *SelfAttention) bias(query, key, scale torch.Tensor, d distances) (sum torch.Tensor) {
	groups, length := query.Size(0), query.Size(1)
	x := s.PosDropout.Forward(d.embeddings).Unsqueeze(0)
	project := func(own, shared *nn.Linear) torch.Tensor { // [B·heads, 2·span, E]
		if own == nil {
			own = shared
		}
		return s.split(own.Forward(x)).Repeat(groups/s.heads, 1, 1)
	}
	pick := func(products, at torch.Tensor) torch.Tensor { // selects the products for each pair's distance
		return products.Gather(-1, at.Expand(groups, length, length))
	}
	var positions, queries torch.Tensor
	if s.PosKey == nil && s.PosQuery == nil { // both are computed, the query first, even if only one is used
		queries = project(nil, s.Query)
		positions = project(nil, s.Key)
	} else {
		if s.c2p {
			positions = project(s.PosKey, nil)
		}
		if s.p2c {
			queries = project(s.PosQuery, nil)
		}
	}
	if s.c2p {
		sum = pick(query.BMM(positions.Transpose(-1, -2)), d.ahead).Div(scale)
	}
	if s.p2c {
		p2c := pick(key.BMM(queries.Transpose(-1, -2)), d.back).Transpose(-1, -2).Div(scale)
		if sum.Defined() {
			return sum.Add(p2c)
		}
		sum = p2c
	}
	return sum
}

// distances returns the distances for hidden states x, [B, L, hidden], or the zero value without
// relative attention.
func (e *Encoder) distances(x torch.Tensor) (d distances) {
	if e.RelEmbeddings == nil {
		return d
	}
	span := e.config.span()
	d.embeddings = e.RelEmbeddings.Weight
	if e.LayerNorm != nil {
		d.embeddings = e.LayerNorm.Forward(d.embeddings)
	}
	at := torch.TensorOptions{DType: torch.Int64, Device: x.Device()}.Arange(0, x.Size(1), 1)
	apart := at.Unsqueeze(1).Sub(at.Unsqueeze(0))
	if e.config.PositionBuckets > 0 {
		apart = LogBuckets(apart, e.config.PositionBuckets, e.config.MaxRelativePositions)
	}
	inRange := func(x torch.Tensor) torch.Tensor { return x.AddScalar(span).Clamp(0, 2*span-1).Unsqueeze(0) }
	d.ahead, d.back = inRange(apart), inRange(apart.Neg())
	return d
}

// LogBuckets maps distances to classes: each distance up to half the number of classes has its own,
// and greater ones, up to the farthest, share the others logarithmically: make_log_bucket_position.
// The classes are integers from 1-number to number-1, in the shape of the distances.
func LogBuckets(apart torch.Tensor, number, farthest int64) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		half := number / 2
		near := apart.LtScalar(half).LogicalAnd(apart.GtScalar(-half))
		far := torch.Where(near, apart.FullLike(half-1), apart.Abs())
		whole := torch.TensorOptions{DType: torch.Float32}.Full(float64(farthest-1) / float64(half)).Log()
		class := far.DivScalar(half).Log().Div(whole).MulScalar(half - 1).Ceil().AddScalar(half)
		return torch.Where(far.LeScalar(half), apart.ToDType(torch.Float32), class.Mul(apart.Sign())).ToDType(torch.Int64)
	})
}
