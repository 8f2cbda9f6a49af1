package llama

import (
	"cmp"
	"slices"

	"github.com/gotrainer/gotrainer/models/transformer"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/nn/initialize"
	"github.com/gotrainer/gotrainer/torch"
)

// SparseMoeBlock is MixtralSparseMoeBlock, Qwen2MoeSparseMoeBlock or Qwen3MoeSparseMoeBlock, a
// mixture of experts: a router sends each token to a few of many feed-forward parts.
type SparseMoeBlock struct {
	nn.Mode
	Gate             *TopKRouter `module:"-"`
	Experts          *ExpertMLPs `module:"-"`
	SharedExpert     *MLP        `module:"-"` // sees all tokens; nil, like its gate, except for Qwen2-MoE
	SharedExpertGate *nn.Linear  `module:"-"`

	gateLast bool
	jitter   float64 // router_jitter_noise
}

// OwnModules are the modules in the order of transformers' class, which differs in Qwen3-MoE.
func (p *SparseMoeBlock) OwnModules() []nn.Named {
	modules := []nn.Named{{Name: "gate", Module: p.Gate}, {Name: "experts", Module: p.Experts},
		{Name: "shared_expert", Module: p.SharedExpert}, {Name: "shared_expert_gate", Module: p.SharedExpertGate}}
	if p.gateLast {
		modules[0], modules[1] = modules[1], modules[0]
	}
	return modules
}

// newFeedForward makes the feed-forward part of a layer.
func newFeedForward(c Config, b transformer.Builder, activation transformer.Activation, layer int64) FeedForward {
	f, e := families[c.Type], c.Experts
	if f.moe == nil || slices.Contains(e.MLPOnlyLayers, layer) || (layer+1)%e.SparseStep != 0 {
		return newMLP(c, b, activation, c.IntermediateSize)
	}
	intermediate := cmp.Or(e.IntermediateSize, c.IntermediateSize)
	gate := &TopKRouter{Weight: b.Parameter(e.Number, c.HiddenSize), k: e.PerToken,
		normalizes: e.NormTopKProb || f.moe.normalized, wide: f.moe.normalized}
	p := &SparseMoeBlock{Gate: gate, gateLast: f.moe.gateLast, jitter: e.RouterJitterNoise, Experts: &ExpertMLPs{
		GateUpProj: b.Parameter(e.Number, 2*intermediate, c.HiddenSize),
		DownProj:   b.Parameter(e.Number, c.HiddenSize, intermediate), activation: activation}}
	if f.moe.shared {
		p.SharedExpert = newMLP(c, b, activation, e.SharedIntermediateSize)
		p.SharedExpertGate = b.LinearNoBias(c.HiddenSize, 1)
	}
	return p
}

// forward maps hidden states, [B, L, hidden], to the same shape.
func (p *SparseMoeBlock) forward(x torch.Tensor, mask transformer.Mask) torch.Tensor {
	shape := x.Shape()
	if p.Training() && p.jitter > 0 {
		x = x.Mul(x.Detach().EmptyLike().Uniform_(1-p.jitter, 1+p.jitter, nil))
	}
	x = x.Reshape(-1, shape[len(shape)-1])
	var shared torch.Tensor
	if p.SharedExpert != nil {
		shared = p.SharedExpert.Forward(x)
	}
	logits, weights, chosen := p.Gate.Forward(x)
	if mask.Router != nil {
		mask.Router(logits)
	}
	out := p.Experts.Forward(x, weights, chosen)
	if p.SharedExpert != nil {
		out = out.Add(p.SharedExpertGate.Forward(x).Sigmoid().Mul(shared))
	}
	return out.Reshape(shape...)
}

// TopKRouter is MixtralTopKRouter and those like it. It chooses the experts of each token.
type TopKRouter struct {
	Weight torch.Tensor `param:"weight"` // [experts, hidden]

	k          int64
	normalizes bool // the weights of a token add up to 1
	wide       bool // they stay in float32
}

// Forward maps hidden states, [T, hidden], to the logits of all experts, [T, experts], and to the
// chosen ones with their weights, [T, k].
func (r *TopKRouter) Forward(x torch.Tensor) (logits, weights, chosen torch.Tensor) {
	logits = x.Linear(r.Weight, torch.Tensor{})
	weights, chosen = logits.Softmax(-1, torch.Float32).TopK(r.k, -1, true, true)
	if r.normalizes {
		weights = weights.Div(weights.SumDim([]int64{-1}, true, torch.DefaultDType))
	}
	if !r.wide {
		weights = weights.ToDType(logits.DType())
	}
	return logits, weights, chosen
}

// DrawWeights draws the router as transformers does.
func (r *TopKRouter) DrawWeights(std float64, wanted func(name string, t torch.Tensor) bool) {
	if wanted("weight", r.Weight) {
		initialize.Normal(r.Weight, 0, std, nil)
	}
}

// ExpertMLPs is MixtralExperts and those like it: the weights of all experts, each a gated
// feed-forward part. In files, each expert's matrices are by themselves.
type ExpertMLPs struct {
	GateUpProj torch.Tensor `param:"gate_up_proj"` // [experts, 2·intermediate, hidden]
	DownProj   torch.Tensor `param:"down_proj"`    // [experts, hidden, intermediate]

	activation transformer.Activation
}

// Forward maps hidden states, [T, hidden], to the sums of what the chosen experts make of them, each
// times its weight, [T, hidden]. It is grouped_mm_experts_forward, the default of transformers 5.17.
// Each of its two products is one operator for all experts, which skips those without tokens.
func (e *ExpertMLPs) Forward(x, weights, chosen torch.Tensor) torch.Tensor {
	tokens, k := chosen.Size(0), chosen.Size(1)
	experts, order := chosen.Reshape(-1).Sort(0, false)
	all := torch.TensorOptions{DType: torch.Int64, Device: x.Device()}.Arange(0, e.DownProj.Size(0), 1)
	ends := experts.SearchSorted(all, true).ToDType(torch.Int32) // where the rows of each expert end

	token := torch.Call("aten::floor_divide.Scalar", order, k)[0]
	gateUp := groupedLinear(x.At(token), e.GateUpProj, ends).Chunk(2, -1)
	out := groupedLinear(e.activation(gateUp[0]).Mul(gateUp[1]), e.DownProj, ends)
	out = out.Mul(weights.Reshape(-1).At(order).Unsqueeze(-1))
	out = out.At(order.ArgSort(0, false)) // again by tokens
	return out.View(tokens, k, -1).SumDim([]int64{1}, false, torch.DefaultDType).ToDType(x.DType())
}

// groupedLinear multiplies rows of x, [S, in], by the transposed weights of their groups, [groups,
// out, in]. Group g ends before row ends[g]. Autocast does not reach it.
//
// The operator takes 16 or 32 bits, and rows of multiples of 16 bytes, which every published model
// has. Otherwise the groups are multiplied one by one, which waits for the device.
func groupedLinear(x, weight, ends torch.Tensor) torch.Tensor {
	x = x.ToDType(weight.DType())
	size := weight.DType().Size()
	if size <= 4 && weight.Size(1)*size%16 == 0 && weight.Size(2)*size%16 == 0 {
		return torch.Call("aten::_grouped_mm", x, weight.Transpose(-2, -1), ends)[0]
	}
	var products []torch.Tensor
	start := int64(0)
	for g, end := range torch.Values[int32](ends) {
		if n := int64(end) - start; n > 0 {
			products = append(products, x.Narrow(0, start, n).MatMul(weight.Select(0, int64(g)).T()))
			start += n
		}
	}
	return torch.Cat(products, 0)
}

// DrawWeights draws the experts as transformers does.
func (e *ExpertMLPs) DrawWeights(std float64, wanted func(name string, t torch.Tensor) bool) {
	if wanted("gate_up_proj", e.GateUpProj) {
		initialize.Normal(e.GateUpProj, 0, std, nil)
	}
	if wanted("down_proj", e.DownProj) {
		initialize.Normal(e.DownProj, 0, std, nil)
	}
}
