package dpo

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/gotrainer/gotrainer/nn/functional"
	"github.com/gotrainer/gotrainer/torch"
)

// LossType says which loss the log probabilities of a pair give: loss_type of DPOConfig.
type LossType string

// The losses of TRL. Δ is how much more a model prefers the chosen answer than the reference does.
const (
	Sigmoid     LossType = "sigmoid"      // DPO: -log σ(βΔ)
	SigmoidNorm LossType = "sigmoid_norm" // the same with log probabilities per token
	Hinge       LossType = "hinge"        // SLiC: max(0, 1 - βΔ)
	IPO         LossType = "ipo"          // (Δ - 1/2β)² with log probabilities per token
	EXOPair     LossType = "exo_pair"     // EXO; needs LabelSmoothing
	NCAPair     LossType = "nca_pair"     // NCA
	Robust      LossType = "robust"       // for labels of which the share LabelSmoothing is flipped
	BCOPair     LossType = "bco_pair"     // BCO, without the mean of rewards
	SPPOHard    LossType = "sppo_hard"    // SPPO with a probability of 1
	AOT         LossType = "aot"          // AOT of pairs: over the sorted differences of a batch
	AOTUnpaired LossType = "aot_unpaired" // AOT of the answers of a batch, not as pairs
	APOZero     LossType = "apo_zero"     // chosen answers become more probable, rejected ones less
	APODown     LossType = "apo_down"     // both become less probable, rejected ones more so
	DiscoPOP    LossType = "discopop"     // DiscoPOP
	SFT         LossType = "sft"          // the cross-entropy of the chosen answer, combined with others
)

// divergent are the losses that depend only on the difference between the two answers. They can
// have a divergence other than [ReverseKL], because its unknown constant cancels out.
var divergent = []LossType{Sigmoid, SigmoidNorm, Hinge, IPO, EXOPair, Robust, DiscoPOP, SFT}

var lossTypes = append(slices.Clone(divergent), NCAPair, BCOPair, SPPOHard, AOT, AOTUnpaired, APOZero, APODown)

// FDivergence keeps the model near the reference: f_divergence_type of DPOConfig.
type FDivergence string

// The divergences of f-DPO.
const (
	ReverseKL       FDivergence = "reverse_kl"
	ForwardKL       FDivergence = "forward_kl"
	JSDivergence    FDivergence = "js_divergence"
	AlphaDivergence FDivergence = "alpha_divergence"
)

// LossOptions describes the loss, in the words of DPOConfig. The zero value is DPO with β = 0.1.
type LossOptions struct {
	LossTypes   []LossType // nil: Sigmoid
	LossWeights []float64  // the weight of each in the sum; nil: 1
	// Beta is how strongly the model is held to the reference; zero: 0.1. For IPO it is τ.
	Beta           float64
	LabelSmoothing float64 // of Robust, AOT and AOTUnpaired from 0 to below 0.5; of EXOPair ε
	// LDAlpha is the weight, from 0 to 1, of an answer's log probabilities beyond the length of the
	// shorter answer of its pair: LD-DPO. Nil: 1.
	LDAlpha              *float64
	FDivergence          FDivergence // empty: ReverseKL
	FAlphaDivergenceCoef float64     // α of AlphaDivergence; zero: 0.5
	UseWeighting         bool        // weighs pairs by how probable the model finds them: WPO
	DiscoPOPTau          float64     // τ of DiscoPOP; zero: 0.05
}

// resolved fills in the defaults and refuses what no loss can be.
func (o LossOptions) resolved() (LossOptions, error) {
	if len(o.LossTypes) == 0 {
		o.LossTypes = []LossType{Sigmoid}
	}
	if o.LossWeights == nil {
		o.LossWeights = slices.Repeat([]float64{1}, len(o.LossTypes))
	}
	o.Beta, o.DiscoPOPTau = cmp.Or(o.Beta, 0.1), cmp.Or(o.DiscoPOPTau, 0.05)
	o.FDivergence, o.FAlphaDivergenceCoef = cmp.Or(o.FDivergence, ReverseKL), cmp.Or(o.FAlphaDivergenceCoef, 0.5)
	has := func(list ...LossType) bool {
		return slices.ContainsFunc(o.LossTypes, func(t LossType) bool { return slices.Contains(list, t) })
	}
	ends := 0.5 // label_smoothing is below it
	if !has(Robust, AOT, AOTUnpaired) {
		ends = 1
	}
	fail := func(format string, args ...any) (LossOptions, error) {
		return o, fmt.Errorf("dpo: TaskOptions."+format, args...)
	}
	for _, t := range o.LossTypes {
		if !slices.Contains(lossTypes, t) {
			return fail("LossTypes has %q; want some of %q", t, lossTypes)
		}
		if o.FDivergence != ReverseKL && !slices.Contains(divergent, t) {
			return fail("FDivergence is %q and LossTypes has %q, which has no such form; want %q, or losses of %q",
				o.FDivergence, t, ReverseKL, divergent)
		}
	}
	for _, w := range o.LossWeights {
		if math.IsNaN(w) || math.IsInf(w, 0) {
			return fail("LossWeights has %g; want finite numbers", w)
		}
	}
	switch {
	case len(o.LossWeights) != len(o.LossTypes):
		return fail("LossWeights has %d numbers for %d LossTypes; want one for each", len(o.LossWeights), len(o.LossTypes))
	case !(o.Beta > 0) || math.IsInf(o.Beta, 0):
		return fail("Beta is %g; want a number above 0, or 0 for 0.1", o.Beta)
	case !(o.DiscoPOPTau > 0):
		return fail("DiscoPOPTau is %g; want a number above 0, or 0 for 0.05", o.DiscoPOPTau)
	case !(o.LabelSmoothing >= 0 && o.LabelSmoothing < ends):
		return fail("LabelSmoothing is %g; want a number from 0 to below %g", o.LabelSmoothing, ends)
	case o.LabelSmoothing > 0 && !has(Robust, AOT, AOTUnpaired, EXOPair):
		return fail("LabelSmoothing is %g, which %q do not have; want one of %q", o.LabelSmoothing, o.LossTypes,
			[]LossType{Robust, AOT, AOTUnpaired, EXOPair})
	case o.LabelSmoothing == 0 && has(EXOPair):
		return fail("LabelSmoothing is 0, of which the loss %q is infinite; want a small number, such as 1e-3", EXOPair)
	case o.LDAlpha != nil && !(*o.LDAlpha >= 0 && *o.LDAlpha <= 1):
		return fail("LDAlpha is %g; want a number from 0 to 1", *o.LDAlpha)
	case !slices.Contains([]FDivergence{ReverseKL, ForwardKL, JSDivergence, AlphaDivergence}, o.FDivergence):
		return fail("FDivergence is %q; want %q, %q, %q or %q", o.FDivergence, ReverseKL, ForwardKL, JSDivergence,
			AlphaDivergence)
	case math.IsNaN(o.FAlphaDivergenceCoef) || math.IsInf(o.FAlphaDivergenceCoef, 0):
		return fail("FAlphaDivergenceCoef is %g; want a finite number", o.FAlphaDivergenceCoef)
	case o.UseWeighting && has(AOT, AOTUnpaired):
		return fail("UseWeighting is set, and LossTypes has %q, which puts answers into another order than their weights; "+
			"want one of them", o.LossTypes)
	}
	return o, nil
}

// compared are the log probabilities of n pairs.
type compared struct {
	chosen, rejected                   torch.Tensor // of answers, [n]
	refChosen, refRejected             torch.Tensor // as the reference has them
	chosenLogratios, rejectedLogratios torch.Tensor // what they differ by
	chosenTokens, rejectedTokens       torch.Tensor // how many tokens answers have, [n] of float32
	chosenTokenLogps, chosenMask       torch.Tensor // of each token, [n, L-1], and whether it is of an answer
	weights                            torch.Tensor // of pairs; undefined: 1
}

// loss is the mean over the pairs, of all losses by their weights.
func (o LossOptions) loss(c compared) (loss torch.Tensor) {
	better, worse := o.scores(c.chosenLogratios), o.scores(c.rejectedLogratios)
	for i, t := range o.LossTypes {
		each := o.each(t, c, better, worse)
		if c.weights.Defined() {
			each = each.Mul(c.weights)
		}
		mean := each.Mean(torch.DefaultDType)
		if w := o.LossWeights[i]; w != 1 {
			mean = mean.MulScalar(w)
		}
		if loss.Defined() {
			mean = loss.Add(mean)
		}
		loss = mean
	}
	return loss
}

// scores are f' of the ratio of probabilities whose logarithm is r.
func (o LossOptions) scores(r torch.Tensor) torch.Tensor {
	switch o.FDivergence {
	case ForwardKL:
		return r.Neg().Exp().RSubScalar(1)
	case JSDivergence:
		return functional.LogSigmoid(r).AddScalar(math.Ln2)
	case AlphaDivergence:
		c := o.FAlphaDivergenceCoef - 1
		if math.Abs(c) < 1e-6 { // of α = 1 the limit is that of ReverseKL
			return r
		}
		return r.MulScalar(c).Clamp(nil, 80.0).Exp().SubScalar(1).MulScalar(1 / c)
	case ReverseKL:
	}
	return r
}

// each is the loss of each pair, [n].
func (o LossOptions) each(t LossType, c compared, better, worse torch.Tensor) torch.Tensor {
	logSigmoid := functional.LogSigmoid
	scaled := func(x torch.Tensor) torch.Tensor { return x.MulScalar(o.Beta) }
	negated := func(x torch.Tensor) torch.Tensor { return x.MulScalar(-o.Beta) }
	smooth := func(delta torch.Tensor) torch.Tensor {
		return logSigmoid(scaled(delta)).Neg().MulScalar(1 - o.LabelSmoothing).
			Sub(logSigmoid(negated(delta)).MulScalar(o.LabelSmoothing))
	}
	perToken := func() torch.Tensor { return better.Div(c.chosenTokens).Sub(worse.Div(c.rejectedTokens)) }
	delta := better.Sub(worse)
	switch t {
	case SigmoidNorm:
		return logSigmoid(scaled(perToken())).Neg()
	case Hinge:
		return scaled(delta).RSubScalar(1).ReLU()
	case IPO:
		return perToken().SubScalar(1 / (2 * o.Beta)).Square()
	case EXOPair:
		epsilon := torch.TensorOptions{Device: delta.Device()}.Full(o.LabelSmoothing)
		return scaled(delta).Sigmoid().Mul(logSigmoid(scaled(delta)).Sub(epsilon.Neg().Log1p())).
			Add(negated(delta).Sigmoid().Mul(logSigmoid(negated(delta)).Sub(epsilon.Log())))
	case NCAPair:
		chosen, rejected := scaled(c.chosenLogratios), scaled(c.rejectedLogratios)
		return logSigmoid(chosen).Neg().Sub(logSigmoid(chosen.Neg()).MulScalar(0.5)).
			Sub(logSigmoid(rejected.Neg()).MulScalar(0.5))
	case Robust:
		clean := logSigmoid(scaled(delta)).MulScalar(-(1 - o.LabelSmoothing))
		flipped := logSigmoid(negated(delta)).MulScalar(-o.LabelSmoothing)
		return clean.Sub(flipped).DivScalar(1 - 2*o.LabelSmoothing)
	case BCOPair:
		return logSigmoid(scaled(c.chosenLogratios)).Neg().Sub(logSigmoid(scaled(c.rejectedLogratios).Neg()))
	case SPPOHard:
		return c.chosenLogratios.SubScalar(0.5 / o.Beta).Square().Add(c.rejectedLogratios.AddScalar(0.5 / o.Beta).Square())
	case AOT:
		return smooth(sorted(c.chosen.Sub(c.rejected)).Sub(sorted(c.refChosen.Sub(c.refRejected))))
	case AOTUnpaired:
		return smooth(sorted(c.chosenLogratios).Sub(sorted(c.rejectedLogratios)))
	case APOZero:
		return scaled(c.chosenLogratios).Sigmoid().RSubScalar(1).Add(scaled(c.rejectedLogratios).Sigmoid())
	case APODown:
		return scaled(c.chosenLogratios).Sigmoid().
			Add(scaled(c.chosenLogratios.Sub(c.rejectedLogratios)).Sigmoid().RSubScalar(1))
	case DiscoPOP:
		logits := delta.MulScalar(o.Beta)
		blend := logits.DivScalar(o.DiscoPOPTau).Sigmoid()
		return logSigmoid(logits).Neg().Mul(blend.RSubScalar(1)).Add(logits.Neg().Exp().Mul(blend))
	case SFT:
		mean := c.chosenTokenLogps.MaskedSelect(c.chosenMask).Mean(torch.DefaultDType).Neg()
		return mean.Expand(c.chosen.Size(0))
	case Sigmoid:
	}
	return logSigmoid(scaled(delta)).Neg()
}

func sorted(t torch.Tensor) torch.Tensor {
	values, _ := t.Sort(0, false)
	return values
}
