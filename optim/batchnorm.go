package optim

import (
	"fmt"

	"github.com/gotrainer/gotrainer/torch"
)

// RunningStatistics are the running statistics of a batch normalisation layer: the fields of a
// BatchNorm in package nn.
type RunningStatistics struct {
	Mean, Var  torch.Tensor
	Count      torch.Tensor // num_batches_tracked
	Cumulative *bool        // the layer averages over all batches instead of following the most recent ones
}

// UpdateBatchNorm recomputes the statistics of batch normalisation after weights have been
// averaged: torch.optim.swa_utils.update_bn. It discards the old ones and calls pass, which must
// run the training data through the model once, in training mode. During pass the layers average
// over all batches, and no gradients are kept. It panics with [*torch.Error] if a layer lacks one
// of its statistics.
//
//	average.Swap(func() { optim.UpdateBatchNorm(layers, func() { ... }) })
func UpdateBatchNorm(layers []RunningStatistics, pass func()) {
	if len(layers) == 0 {
		return
	}
	for i, l := range layers {
		if l.Cumulative == nil || !l.Mean.Defined() || !l.Var.Defined() || !l.Count.Defined() {
			panic(&torch.Error{Op: "optim.UpdateBatchNorm", Code: torch.ErrInvalid,
				Msg: fmt.Sprintf("the statistics of layer %d lack a mean, a variance, a count or Cumulative; want "+
					"those of a layer that keeps running statistics", i)})
		}
	}
	former := make([]bool, len(layers))
	torch.NoGrad(func() {
		for i, l := range layers {
			l.Mean.Zero_()
			l.Var.Fill_(1)
			l.Count.Zero_()
			former[i], *l.Cumulative = *l.Cumulative, true
		}
	})
	defer func() {
		for i, l := range layers {
			*l.Cumulative = former[i]
		}
	}()
	torch.NoGrad(pass)
}
