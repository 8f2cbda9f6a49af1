package ctc

import (
	"fmt"

	"github.com/gotrainer/gotrainer/torch"
)

// Reduction says how the losses of texts become that of a batch: ctc_loss_reduction.
type Reduction string

// The reductions there are.
const (
	Sum  Reduction = "sum"  // of all texts
	Mean Reduction = "mean" // each is divided by the number of its labels, and the mean over texts is taken
)

// Check returns an error for a reduction that does not exist.
func (r Reduction) Check() error {
	if r != Sum && r != Mean {
		return fmt.Errorf("there is no reduction %q of CTC losses; there are %q", r, []Reduction{Sum, Mean})
	}
	return nil
}

// kind is the number of torch.Reduction in C++, where sums come after means.
func (r Reduction) kind() int64 {
	if r == Mean {
		return 1
	}
	return 2
}

// Settings are those of a model's loss.
type Settings struct {
	Classes      int64 // logits of a frame
	Blank        int64 // the class that stands for no letter
	Reduction    Reduction
	ZeroInfinity bool // the loss of a text that does not fit into its frames is 0, not infinite
}

// Loss is the loss of logits, [B, frames, classes], of which each row has its own number of frames,
// for the labels of all rows, one after the other, and their numbers. It is computed in float32 by
// libtorch's own kernel, never by cuDNN's, as in transformers.
func (s Settings) Loss(logits torch.Tensor, frames []int64, labels torch.Tensor, lengths []int64) torch.Tensor {
	logProbs := logits.LogSoftmax(-1, torch.Float32).Transpose(0, 1)
	return torch.Call("aten::ctc_loss.IntList", logProbs, labels, frames, lengths, s.Blank, s.Reduction.kind(),
		s.ZeroInfinity)[0]
}
