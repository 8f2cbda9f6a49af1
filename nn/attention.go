package nn

import (
	"cmp"
	"math"
	"slices"

	"github.com/gotrainer/gotrainer/nn/initialize"
	"github.com/gotrainer/gotrainer/torch"
)

// AttentionMask says which keys are hidden from a query. The zero value hides none.
type AttentionMask struct {
	Mask torch.Tensor // [L, S] or [N*heads, L, S]; bool: true hides; floats are added to the scores
	// [N, S], or [S] without a batch; bool: true hides a key of an example; floats are added to its
	// scores
	KeyPadding torch.Tensor
	Causal     bool // query i sees the keys up to i; not with Mask
}

// CausalMask returns a mask, [size, size], with minus infinity where a query would see a later
// position, and 0 elsewhere: torch.nn.Transformer.generate_square_subsequent_mask.
// [AttentionMask.Causal] does the same, and is faster if nothing else is hidden.
func CausalMask(size int64, o torch.TensorOptions) torch.Tensor {
	full := o.Full(math.Inf(-1), size, size)
	defer full.Free()
	return full.Triu(1)
}

// MultiheadAttentionOptions configures [NewMultiheadAttention]. Nil and the zero value mean
// PyTorch's defaults.
type MultiheadAttentionOptions struct {
	Dropout     float64             // dropout of the attention weights, while training
	NoBias      bool                // omit the biases of the projections
	AddBiasKV   bool                // append a trainable key and value to the others
	AddZeroAttn bool                // append a key and value of zeros to the others
	KDim        int64               // features of keys; zero means those of queries
	VDim        int64               // features of values; zero means those of queries
	BatchFirst  bool                // inputs are [N, L, E] instead of [L, N, E]
	Factory     torch.TensorOptions // dtype, device and generator of the parameters
}

// MultiheadAttention lets queries attend to keys in several heads: torch.nn.MultiheadAttention,
// after Vaswani et al. (2017). It computes the same way in training and in evaluation. PyTorch has
// a separate path for evaluation without gradients, whose last bits differ.
type MultiheadAttention struct {
	Mode

	InProjWeight torch.Tensor `param:"in_proj_weight"` // [3*E, E]; undefined with KDim or VDim
	QProjWeight  torch.Tensor `param:"q_proj_weight"`  // [E, E]; with KDim or VDim
	KProjWeight  torch.Tensor `param:"k_proj_weight"`  // [E, KDim]
	VProjWeight  torch.Tensor `param:"v_proj_weight"`  // [E, VDim]
	InProjBias   torch.Tensor `param:"in_proj_bias"`   // [3*E]
	BiasK        torch.Tensor `param:"bias_k"`         // [1, 1, E]
	BiasV        torch.Tensor `param:"bias_v"`         // [1, 1, E]
	OutProj      *Linear      `module:"out_proj"`

	Heads       int64
	Dropout     float64
	AddZeroAttn bool
	BatchFirst  bool

	traced
}

// NewMultiheadAttention makes a MultiheadAttention with the given numbers of features and heads,
// initialised as in PyTorch.
func NewMultiheadAttention(embed, heads int64, o *MultiheadAttentionOptions) *MultiheadAttention {
	const op = "NewMultiheadAttention"
	mustBePositive(op, "embed", embed)
	mustBePositive(op, "heads", heads)
	if embed%heads != 0 {
		panic(torch.Errorf("nn."+op, torch.ErrValue, "embed (%d) must be divisible by heads (%d)", embed, heads))
	}
	opt := deref(o)
	checkProbability(op, "Dropout", opt.Dropout)
	f, g := opt.Factory, opt.Factory.Generator
	m := &MultiheadAttention{Heads: heads, Dropout: opt.Dropout, AddZeroAttn: opt.AddZeroAttn,
		BatchFirst: opt.BatchFirst}
	k, v := cmp.Or(opt.KDim, embed), cmp.Or(opt.VDim, embed)
	mustBePositive(op, "KDim", k)
	mustBePositive(op, "VDim", v)
	m.OutProj = NewLinear(embed, embed, &LinearOptions{NoBias: opt.NoBias, Factory: f})
	draw := func(rows, columns int64) torch.Tensor {
		return Parameter(initialize.XavierUniform(f.Empty(rows, columns), 1, g))
	}
	if k == embed && v == embed {
		m.InProjWeight = draw(3*embed, embed)
	} else {
		m.QProjWeight, m.KProjWeight, m.VProjWeight = draw(embed, embed), draw(embed, k), draw(embed, v)
	}
	if !opt.NoBias {
		m.InProjBias = Parameter(f.Zeros(3 * embed))
		initialize.Zeros(m.OutProj.Bias)
	}
	if opt.AddBiasKV {
		m.BiasK = Parameter(initialize.XavierNormal(f.Empty(1, 1, embed), 1, g))
		m.BiasV = Parameter(initialize.XavierNormal(f.Empty(1, 1, embed), 1, g))
	}
	return m
}

// Forward maps queries [L, N, E], keys [S, N, KDim] and values [S, N, VDim] to [L, N, E]. With
// BatchFirst, N comes first; without a batch, there is no N. For self-attention, pass the same
// tensor three times; with a batch, that takes fewer matrix products.
func (m *MultiheadAttention) Forward(query, key, value torch.Tensor, mask AttentionMask) torch.Tensor {
	return m.trace(query, torch.Return(func() torch.Tensor {
		y, _ := m.attend(query, key, value, mask, false)
		return y
	}))
}

// ForwardWeights is like Forward but also returns the attention weights of every head, [N, heads,
// L, S]: need_weights=True and average_attn_weights=False. It is slower and needs more memory.
func (m *MultiheadAttention) ForwardWeights(query, key, value torch.Tensor, mask AttentionMask) (y,
	weights torch.Tensor) {
	y = torch.Return(func() (y torch.Tensor) {
		y, weights = m.attend(query, key, value, mask, true)
		weights.Keep()
		return y
	})
	return m.trace(query, y), weights
}

// attend is torch.nn.functional.multi_head_attention_forward, operator by operator.
func (m *MultiheadAttention) attend(query, key, value torch.Tensor, mask AttentionMask, needWeights bool) (y,
	weights torch.Tensor) {
	m.check(query, key, value, mask)
	batched := query.Dim() == 3
	switch {
	// For an unbatched input, PyTorch makes three tensors even if the arguments are one and the
	// same, and so does not combine the projections.
	case !batched:
		query, key, value = query.Unsqueeze(1), key.Unsqueeze(1), value.Unsqueeze(1)
	case m.BatchFirst:
		query, key, value = together(query, key, value, func(t torch.Tensor) torch.Tensor { return t.Transpose(1, 0) })
	}
	L, N, E := query.Size(0), query.Size(1), query.Size(2)
	S, D := key.Size(0), E/m.Heads
	hidden := m.masks(query, S, mask, batched, needWeights)

	q, k, v := m.project(query, key, value)
	if m.BiasK.Defined() {
		k, v = torch.Cat([]torch.Tensor{k, m.BiasK.Repeat(1, N, 1)}, 0),
			torch.Cat([]torch.Tensor{v, m.BiasV.Repeat(1, N, 1)}, 0)
		S++
		hidden.extend()
	}
	q = q.View(L, N*m.Heads, D).Transpose(0, 1)
	k = k.View(S, N*m.Heads, D).Transpose(0, 1)
	v = v.View(S, N*m.Heads, D).Transpose(0, 1)
	if m.AddZeroAttn {
		zeros := torch.TensorOptions{DType: k.DType(), Device: k.Device()}.Zeros(N*m.Heads, 1, D)
		k, v = torch.Cat([]torch.Tensor{k, zeros}, 1), torch.Cat([]torch.Tensor{v, zeros}, 1)
		S++
		hidden.extend()
	}
	scores := hidden.merged(N, m.Heads, S)
	dropout := 0.0
	if m.Training() {
		dropout = m.Dropout
	}
	if needWeights {
		y, weights = weighted(q, k, v, scores, dropout)
		y = y.Transpose(0, 1).Contiguous().View(L*N, E)
		weights = weights.View(N, m.Heads, L, S)
	} else {
		if scores.Defined() && scores.Size(0) == 1 {
			scores = scores.Unsqueeze(0)
		} else if scores.Defined() {
			scores = scores.View(N, m.Heads, -1, S)
		}
		y = q.View(N, m.Heads, L, D).ScaledDotProductAttention(k.View(N, m.Heads, S, D), v.View(N, m.Heads, S, D),
			scores, dropout, hidden.causal, 0)
		y = y.Permute(2, 0, 1, 3).Contiguous().View(N*L, E)
	}
	y = m.OutProj.Forward(y).View(L, N, E)
	switch {
	case !batched:
		y = y.SqueezeDim(1)
		if needWeights {
			weights = weights.SqueezeDim(0)
		}
	case m.BatchFirst:
		y = y.Transpose(1, 0)
	}
	return y, weights
}

// hiddenKeys are the masks of an [AttentionMask] as floats that are added to the scores.
type hiddenKeys struct {
	scores  torch.Tensor // [1 or N*heads, L, S]
	padding torch.Tensor // [N, S]
	causal  bool         // there is no other mask, so that the kernel can apply it
}

// masks converts mask for a query [L, N, E] and S keys.
func (m *MultiheadAttention) masks(query torch.Tensor, S int64, mask AttentionMask, batched,
	needWeights bool) hiddenKeys {
	h := hiddenKeys{causal: mask.Causal, padding: additive(mask.KeyPadding, query.DType())}
	if h.padding.Defined() && !batched {
		h.padding = h.padding.Unsqueeze(0)
	}
	h.scores = additive(mask.Mask, query.DType())
	if h.causal && (h.padding.Defined() || needWeights || m.BiasK.Defined() || m.AddZeroAttn) {
		h.causal = false
		h.scores = torch.TensorOptions{DType: query.DType(), Device: query.Device()}.Full(math.Inf(-1), query.Size(0),
			S).Triu(1)
	}
	if h.scores.Defined() && h.scores.Dim() == 2 {
		h.scores = h.scores.Unsqueeze(0)
	}
	return h
}

// extend adds one more key, visible to all queries.
func (h *hiddenKeys) extend() {
	if h.scores.Defined() {
		h.scores = h.scores.Pad(0, 0, 1)
	}
	if h.padding.Defined() {
		h.padding = h.padding.Pad(0, 0, 1)
	}
}

// merged returns the sum of both masks for N examples and S keys, or the undefined tensor if there
// are none.
func (h *hiddenKeys) merged(N, heads, S int64) torch.Tensor {
	if !h.padding.Defined() {
		return h.scores
	}
	padding := h.padding.View(N, 1, 1, S).Expand(-1, heads, -1, -1).Reshape(N*heads, 1, S)
	if !h.scores.Defined() {
		return padding
	}
	return h.scores.Add(padding)
}

// weighted computes the attention weights for q [N*heads, L, D], and the values weighted by them.
func weighted(q, k, v, scores torch.Tensor, dropout float64) (y, weights torch.Tensor) {
	q = q.MulScalar(math.Sqrt(1 / float64(q.Size(-1))))
	if scores.Defined() {
		weights = torch.Call("aten::baddbmm", scores, q, k.Transpose(-2, -1))[0]
	} else {
		weights = q.BMM(k.Transpose(-2, -1))
	}
	weights = weights.Softmax(-1, torch.DefaultDType)
	if dropout > 0 {
		weights = weights.Dropout(dropout, true)
	}
	return weights.BMM(v), weights
}

// check panics with a clear error if the shapes do not fit.
func (m *MultiheadAttention) check(query, key, value torch.Tensor, mask AttentionMask) {
	refuse := func(format string, args ...any) {
		panic(torch.Errorf("nn.MultiheadAttention", torch.ErrInvalid, format, args...))
	}
	q, k, v := query.Shape(), key.Shape(), value.Shape()
	embed := m.OutProj.Weight.Size(0)
	kdim, vdim := embed, embed
	if m.KProjWeight.Defined() {
		kdim, vdim = m.KProjWeight.Size(1), m.VProjWeight.Size(1)
	}
	if d := len(q); d != 2 && d != 3 || len(k) != d || len(v) != d {
		refuse("want a query, key and value of 3 dimensions, or 2 without a batch, found %v, %v and %v", q, k, v)
	}
	last := len(q) - 1
	if q[last] != embed || k[last] != kdim || v[last] != vdim {
		refuse("want %d, %d and %d features of query, key and value in the last dimension, found %v, %v and %v", embed,
			kdim, vdim, q, k, v)
	}
	if !slices.Equal(k[:last], v[:last]) {
		refuse("want a key and value of the same length and batch, found %v and %v", k, v)
	}
	batchDim, timeDim := 1, 0
	if len(q) == 3 && m.BatchFirst {
		batchDim, timeDim = 0, 1
	}
	batch := int64(1)
	padding := []int64{k[timeDim]}
	if len(q) == 3 {
		if batch = q[batchDim]; k[batchDim] != batch {
			refuse("want a query and key of the same batch, found %v and %v", q, k)
		}
		padding = []int64{batch, k[timeDim]}
	}
	if mask.KeyPadding.Defined() && !slices.Equal(mask.KeyPadding.Shape(), padding) {
		refuse("want a KeyPadding of shape %v, found %v", padding, mask.KeyPadding.Shape())
	}
	if mask.Mask.Defined() {
		if mask.Causal {
			panic(torch.Errorf("nn.MultiheadAttention", torch.ErrValue, "Mask and Causal are both set; want one"))
		}
		flat, full := []int64{q[timeDim], k[timeDim]}, []int64{batch * m.Heads, q[timeDim], k[timeDim]}
		if s := mask.Mask.Shape(); !slices.Equal(s, flat) && !slices.Equal(s, full) {
			refuse("want a Mask of shape %v or %v, found %v", flat, full, s)
		}
	}
}

// project computes the projected queries, keys and values with as few matrix products as PyTorch
// does.
func (m *MultiheadAttention) project(query, key, value torch.Tensor) (q, k, v torch.Tensor) {
	E := query.Size(-1)
	parts := func(sizes ...int64) (weights, biases []torch.Tensor) {
		weights, biases = make([]torch.Tensor, len(sizes)), make([]torch.Tensor, len(sizes))
		for i, at := 0, int64(0); i < len(sizes); i++ {
			if m.InProjWeight.Defined() {
				weights[i] = m.InProjWeight.Narrow(0, at, sizes[i])
			}
			if m.InProjBias.Defined() {
				biases[i] = m.InProjBias.Narrow(0, at, sizes[i])
			}
			at += sizes[i]
		}
		return weights, biases
	}
	// stacked splits a tensor with n*E features into n contiguous tensors, stacked along a new
	// first dimension.
	stacked := func(t torch.Tensor, n int64) torch.Tensor {
		shape := append(t.Shape()[:t.Dim()-1], n, E)
		return t.View(shape...).Unsqueeze(0).Transpose(0, -2).SqueezeDim(-2).Contiguous()
	}
	switch {
	case !m.InProjWeight.Defined():
		_, b := parts(E, E, E)
		return query.Linear(m.QProjWeight, b[0]), key.Linear(m.KProjWeight, b[1]), value.Linear(m.VProjWeight, b[2])
	case key.Is(value) && query.Is(key):
		all := stacked(query.Linear(m.InProjWeight, m.InProjBias), 3)
		return all.Select(0, 0), all.Select(0, 1), all.Select(0, 2)
	case key.Is(value):
		w, b := parts(E, 2*E)
		both := stacked(key.Linear(w[1], b[1]), 2)
		return query.Linear(w[0], b[0]), both.Select(0, 0), both.Select(0, 1)
	}
	w, b := parts(E, E, E)
	return query.Linear(w[0], b[0]), key.Linear(w[1], b[1]), value.Linear(w[2], b[2])
}

// together applies f to three tensors. Arguments that are the same tensor stay the same tensor.
func together(query, key, value torch.Tensor, f func(torch.Tensor) torch.Tensor) (q, k, v torch.Tensor) {
	q = f(query)
	if k = q; !key.Is(query) {
		k = f(key)
	}
	if v = k; !value.Is(key) {
		v = f(value)
	}
	return q, k, v
}

// additive converts a bool mask into a mask to be added: minus infinity where it hides, and 0
// elsewhere.
func additive(mask torch.Tensor, dtype torch.DType) torch.Tensor {
	if !mask.Defined() || mask.DType().IsFloatingPoint() {
		return mask
	}
	if mask.DType() != torch.Bool {
		panic(torch.Errorf("nn.MultiheadAttention", torch.ErrType, "a mask is bool or of a floating-point type, "+
			"found %s",
			mask.DType()))
	}
	return mask.ZerosLike().ToDType(dtype).MaskedFill_(mask, math.Inf(-1))
}
