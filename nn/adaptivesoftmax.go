package nn

import (
	"cmp"
	"math"
	"slices"

	"github.com/gotrainer/gotrainer/torch"
)

// AdaptiveLogSoftmaxOptions configures [NewAdaptiveLogSoftmaxWithLoss]. Nil and the zero value mean
// PyTorch's defaults.
type AdaptiveLogSoftmaxOptions struct {
	DivValue float64             // each cluster has this many times fewer features than the one before; zero means 4
	HeadBias bool                // the head has a bias
	Factory  torch.TensorOptions // dtype, device and generator of the parameters
}

// AdaptiveLogSoftmaxWithLoss is a softmax over very many classes:
// torch.nn.AdaptiveLogSoftmaxWithLoss, after Grave et al. (2017). It is fast because rare classes
// are grouped in clusters that are computed only when needed. Classes must be sorted by frequency,
// the most common first.
type AdaptiveLogSoftmaxWithLoss struct {
	Head *Linear      `module:"head"`
	Tail []Sequential `module:"tail"`

	cutoffs []int64 // where clusters end; the last entry is the number of classes
}

// NewAdaptiveLogSoftmaxWithLoss makes an AdaptiveLogSoftmaxWithLoss of in features. The classes
// below the first cutoff are in the head. Those from each cutoff to the next form a cluster.
func NewAdaptiveLogSoftmaxWithLoss(in, classes int64, cutoffs []int64,
	o *AdaptiveLogSoftmaxOptions) *AdaptiveLogSoftmaxWithLoss {
	const op = "NewAdaptiveLogSoftmaxWithLoss"
	opt := deref(o)
	mustBePositive(op, "in", in)
	if len(cutoffs) == 0 {
		panic(torch.Errorf("nn."+op, torch.ErrValue, "want at least one cutoff"))
	}
	for i, c := range cutoffs {
		if c < 1 || c >= classes || i > 0 && c <= cutoffs[i-1] {
			panic(torch.Errorf("nn."+op, torch.ErrValue, "cutoffs must increase and be between 1 and classes-1 (%d), "+
				"found %v",
				classes-1, cutoffs))
		}
	}
	div := cmp.Or(opt.DivValue, 4)
	a := &AdaptiveLogSoftmaxWithLoss{cutoffs: append(slices.Clone(cutoffs), classes)}
	a.Head = NewLinear(in, cutoffs[0]+int64(len(cutoffs)), &LinearOptions{NoBias: !opt.HeadBias, Factory: opt.Factory})
	for i := range cutoffs {
		features := int64(math.Floor(float64(in) / math.Pow(div, float64(i+1))))
		if features < 1 {
			panic(torch.Errorf("nn."+op, torch.ErrValue, "cluster %d would have no features: in is %d, DivValue %g", i,
				in, div))
		}
		plain := &LinearOptions{NoBias: true, Factory: opt.Factory}
		a.Tail = append(a.Tail, Sequential{NewLinear(in, features, plain),
			NewLinear(features, a.cutoffs[i+1]-a.cutoffs[i], plain)})
	}
	return a
}

// Forward returns the log-probability of every example's class, [N], and the mean loss. It takes
// x, [N, in], and class indices, [N].
func (a *AdaptiveLogSoftmaxWithLoss) Forward(x, target torch.Tensor) (output, loss torch.Tensor) {
	const op = "AdaptiveLogSoftmaxWithLoss"
	if s, y := x.Shape(), target.Shape(); len(s) != 2 || len(y) != 1 || s[0] != y[0] {
		panic(torch.Errorf("nn."+op, torch.ErrInvalid, "want [N, in] and class indices [N], found %v and %v", s, y))
	}
	output = torch.Return(func() torch.Tensor { return a.logProbOf(op, x, target) })
	return output, torch.Return(func() torch.Tensor { return output.Neg().Mean(torch.DefaultDType) })
}

// logProbOf returns the log-probability of each example's target class.
func (a *AdaptiveLogSoftmaxWithLoss) logProbOf(op string, x, target torch.Tensor) torch.Tensor {
	batch := target.Size(0)
	output := torch.TensorOptions{DType: x.DType(), Device: x.Device()}.Zeros(batch)
	inHead := target.Clone() // the class if it is in the head, otherwise the head's output for its cluster
	used := int64(0)
	low := int64(0)
	for i, high := range a.cutoffs {
		mask := target.GeScalar(low).LogicalAnd(target.LtScalar(high))
		rows := mask.NonZero().SqueezeDim(1)
		if n := rows.Numel(); n > 0 && i > 0 {
			local := target.IndexSelect(0, rows).SubScalar(low)
			logProb := a.Tail[i-1].Forward(x.IndexSelect(0, rows)).LogSoftmax(1, torch.DefaultDType)
			output = torch.Call("aten::index_copy", output, 0, rows,
				logProb.Gather(1, local.Unsqueeze(1)).SqueezeDim(1))[0]
			inHead = inHead.MaskedFill(mask, a.cutoffs[0]+int64(i)-1)
		}
		used += rows.Numel()
		low = high
	}
	if used != batch {
		panic(torch.Errorf("nn."+op, torch.ErrIndex, "classes are 0 to %d, but the target has others: %g to %g", low-1,
			target.Min().Item(), target.Max().Item()))
	}
	head := a.Head.Forward(x).LogSoftmax(1, torch.DefaultDType)
	return output.Add(head.Gather(1, inHead.Unsqueeze(1)).SqueezeDim(1))
}

// LogProb returns the log-probabilities of all classes, [N, classes], for x, [N, in].
func (a *AdaptiveLogSoftmaxWithLoss) LogProb(x torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		head := a.Head.Forward(x).LogSoftmax(1, torch.DefaultDType)
		parts := []torch.Tensor{head.Narrow(1, 0, a.cutoffs[0])}
		for i, cluster := range a.Tail {
			logProb := cluster.Forward(x).LogSoftmax(1, torch.DefaultDType)
			parts = append(parts, logProb.Add(head.Narrow(1, a.cutoffs[0]+int64(i), 1)))
		}
		return torch.Cat(parts, 1)
	})
}

// Predict returns the most probable class of every example, [N], for x, [N, in]. If the highest
// probability of the head is that of a common class, that class is returned without computing the
// clusters, as in PyTorch.
func (a *AdaptiveLogSoftmaxWithLoss) Predict(x torch.Tensor) torch.Tensor {
	return torch.Return(func() torch.Tensor {
		best := a.Head.Forward(x).ArgMax(1, false)
		rows := best.GeScalar(a.cutoffs[0]).NonZero().SqueezeDim(1)
		if rows.Numel() == 0 {
			return best
		}
		rare := a.LogProb(x.IndexSelect(0, rows)).ArgMax(1, false)
		return torch.Call("aten::index_copy", best, 0, rows, rare)[0]
	})
}
