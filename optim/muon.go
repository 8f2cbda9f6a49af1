package optim

import (
	"cmp"
	"math"

	"github.com/gotrainer/gotrainer/internal/optional"
	"github.com/gotrainer/gotrainer/torch"
)

// Muon moves the weight matrices of hidden layers in an orthogonal direction: torch.optim.Muon.
// Other parameters (biases, norms, embeddings, the last layer) need another optimizer, which
// [Group.Optimizer] gives them:
//
//	groups, err := optim.ByPattern(params, optim.Pattern{
//		Match:     `embed|norm|lm_head|bias$`,
//		Optimizer: optim.AdamW{LR: 3e-4},
//	})
//	opt, err := optim.Muon{LR: 0.02}.Build(groups)
//
// With g the gradient:
//
//	b  = b + (1-Momentum) * (g - b)
//	u  = g + Momentum * (b - g), or b without Nesterov
//	u  = orthogonal(u)                       Newton and Schulz's iteration in bfloat16
//	p -= lr * WeightDecay * p
//	p -= lr * Adjust(p) * u
//
// Without Nesterov, if the parameter is bfloat16, PyTorch divides b itself by its norm, and so
// loses the length of the momentum from update to update. Here b is not changed.
//
// Sources: Jordan, https://kellerjordan.github.io/posts/muon/; Muon is Scalable for LLM Training,
// https://arxiv.org/abs/2502.16982.
type Muon struct {
	LR             float64     // learning rate; zero means 1e-3
	WeightDecay    *float64    // decoupled; nil means 0.1
	Momentum       *float64    // decay of the mean of gradients; nil means 0.95
	PlainMomentum  bool        // nesterov=False
	NSCoefficients *[3]float64 // coefficients of the iteration a*x + b*x³ + c*x⁵; nil means 3.4445, -4.775, 2.0315
	NSSteps        *int        // number of iterations, below 100; nil means 5
	Eps            *float64    // lower limit of the norm to divide by; nil means 1e-7
	Adjust         MuonAdjust  // how the rate depends on the matrix's shape
}

// MuonAdjust is the factor of Muon's rate for a matrix with A rows and B columns: adjust_lr_fn.
type MuonAdjust string

const (
	MuonOriginal      MuonAdjust = ""                // sqrt(max(1, A/B))
	MuonMatchRMSAdamW MuonAdjust = "match_rms_adamw" // 0.2 * sqrt(max(A, B)): suits rates and decays chosen for AdamW
)

// NewMuon makes an optimizer with one group, for your own loop. It panics with [*torch.Error]
// where [Muon.Build] would fail.
func NewMuon(params []torch.Named, o Muon) Optimizer {
	opt, err := o.Build([]Group{{Params: params}})
	return must("optim.NewMuon", opt, err)
}

// LearningRate returns LR or its default.
func (o Muon) LearningRate() float64 { return cmp.Or(o.LR, 1e-3) }

// Build makes the optimizer. It refuses parameters that are not matrices.
func (o Muon) Build(groups []Group) (Optimizer, error) {
	decay, momentum, eps := optional.Or(o.WeightDecay, 0.1), optional.Or(o.Momentum, 0.95), optional.Or(o.Eps, 1e-7)
	err := checkSettings("Muon", setting{name: "LR", value: o.LearningRate()}, setting{name: "WeightDecay",
		value: decay},
		setting{name: "Momentum", value: momentum}, setting{name: "Eps", value: eps})
	if err != nil {
		return nil, err
	}
	steps, c := 5, [3]float64{3.4445, -4.775, 2.0315}
	if o.NSSteps != nil {
		steps = *o.NSSteps
	}
	if o.NSCoefficients != nil {
		c = *o.NSCoefficients
	}
	if steps < 0 || steps >= 100 {
		return nil, errorf(ErrOption, "Muon.NSSteps is %d; want 0 to 99", steps)
	}
	for i, x := range c {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return nil, errorf(ErrOption, "Muon.NSCoefficients[%d] is %g; want a finite number", i, x)
		}
	}
	if o.Adjust != MuonOriginal && o.Adjust != MuonMatchRMSAdamW {
		return nil, errorf(ErrOption, "Muon.Adjust is %q; want %q or nothing, the original", o.Adjust,
			MuonMatchRMSAdamW)
	}
	step := func(b *batch) {
		for i, p := range b.params.ts {
			g, buffer := b.grads.ts[i], b.states[0].ts[i]
			torch.Call("aten::lerp_.Scalar", buffer, g, 1-b.momentum)
			update := buffer
			if !o.PlainMomentum {
				update = g.Lerp(buffer, b.momentum)
			}
			update = orthogonal(update, c, steps, eps)
			p.MulScalar_(1 - b.lr*b.weightDecay)
			p.AddScaled_(update, -b.lr*o.Adjust.factor(p.Shape()))
		}
	}
	adjust := any(nil)
	if o.Adjust != MuonOriginal {
		adjust = string(o.Adjust)
	}
	return build(rule{
		name: "Muon", lr: o.LearningRate(), weightDecay: decay, momentum: momentumOf(momentum), step: step,
		states: []state{zeros("momentum_buffer")},
		check:  func(_ Group, p torch.Named) error { return isMatrix("Muon", p) },
		options: map[string]any{"momentum": momentum, "nesterov": !o.PlainMomentum, "ns_coefficients": c[:], "eps": eps,
			"ns_steps": steps, "adjust_lr_fn": adjust},
	}, DefaultImplementation, groups)
}

func (a MuonAdjust) factor(shape []int64) float64 {
	rows, columns := float64(shape[0]), float64(shape[1])
	if a == MuonMatchRMSAdamW {
		return 0.2 * math.Sqrt(math.Max(rows, columns))
	}
	return math.Sqrt(math.Max(1, rows/columns))
}

// orthogonal is _zeropower_via_newtonschulz of torch/optim/_muon.py: it moves the singular values
// of a matrix close to 1.
func orthogonal(update torch.Tensor, c [3]float64, steps int, eps float64) torch.Tensor {
	tall := update.Size(0) > update.Size(1)
	x := update.ToDType(torch.BFloat16)
	if tall {
		x = x.T()
	}
	// PyTorch divides in place. Here that could change the momentum buffer: if it is bfloat16, x is
	// the buffer itself.
	x = x.Div(norm2(x).Clamp(eps, nil))
	for range steps {
		gram := x.MatMul(x.T())
		gram = torch.Call("aten::addmm", gram, gram, gram, c[1], c[2])[0]
		x = torch.Call("aten::addmm", x, gram, x, c[0])[0]
	}
	if tall {
		x = x.T()
	}
	return x
}

func norm2(t torch.Tensor) torch.Tensor { return torch.Call("aten::linalg_vector_norm", t, 2)[0] }
