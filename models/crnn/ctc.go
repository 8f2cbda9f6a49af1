package crnn

import (
	"fmt"
	"slices"

	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// batchLoss returns the CTC loss of log-probabilities, [frames, rows, classes], for the labels of a
// batch, averaged as in Hezar. The lengths are passed to libtorch as numbers, so that nothing has
// to be read back from the device.
func batchLoss(p engine.ForwardPass, logProbs torch.Tensor, b Batch) torch.Tensor {
	frames, classes := logProbs.Size(0), logProbs.Size(2)
	checkTargets(b, classes)
	in := lossInputs(p, b, frames)
	if len(in) > 1 {
		losses := torch.Call("aten::_cudnn_ctc_loss.Tensor", logProbs, in[0], in[2], in[1], blank, true, true)[0]
		return meanOfLosses(losses, in[1])
	}
	const mean = 1 // at::Reduction::Mean
	return torch.Call("aten::ctc_loss.IntList", logProbs, in[0], slices.Repeat([]int64{frames}, len(b.Lengths)),
		b.Lengths, blank, mean, true)[0]
}

// lossInputs returns the targets and, if all inputs of the CTC loss can be on the device, the
// lengths of the labels and of the images.
func lossInputs(p engine.ForwardPass, b Batch, frames int64) []torch.Tensor {
	if p.Device.IsCUDA() && cuDNNTakes(b.Lengths, frames) {
		counts := slices.Repeat([]int32{int32(frames)}, len(b.Lengths))
		return []torch.Tensor{engine.Input(p, int32s(b.Targets)), engine.Input(p, int32s(b.Lengths)),
			engine.Input(p, counts)}
	}
	p.NoGraph("CTC loss of libtorch's own, to which the lengths of labels are numbers of the host")
	return []torch.Tensor{engine.Input(p, b.Targets)}
}

// cuDNNTakes reports whether cuDNN's kernel supports labels of these lengths. It is deterministic
// and reads all inputs from the device, whereas libtorch's own kernel copies the lengths there and
// waits.
func cuDNNTakes(lengths []int64, frames int64) bool {
	return !slices.ContainsFunc(lengths, func(n int64) bool { return n < 1 || n > 255 || n > frames })
}

// meanOfLosses reduces the losses of images, [rows], like libtorch's ctc_loss: infinite ones become
// 0, each is divided by the length of its label, and the results are averaged.
func meanOfLosses(losses, lengths torch.Tensor) torch.Tensor {
	losses = torch.Where(losses.IsInf(), losses.ZerosLike(), losses)
	return losses.Div(lengths.ToDType(losses.DType())).Mean(torch.DefaultDType)
}

// checkTargets panics for targets with which the kernels would read invalid memory.
func checkTargets(b Batch, classes int64) {
	total, shortest := int64(0), int64(0)
	for _, n := range b.Lengths {
		total, shortest = total+n, min(shortest, n)
	}
	if total != int64(len(b.Targets)) || shortest < 0 {
		panic(&torch.Error{Op: "crnn", Code: torch.ErrValue, Msg: fmt.Sprintf("the lengths of the labels of a batch "+
			"are %v, but there are %d targets", b.Lengths, len(b.Targets))})
	}
	for _, id := range b.Targets {
		if id < 0 || id >= classes {
			panic(&torch.Error{Op: "crnn", Code: torch.ErrIndex, Msg: fmt.Sprintf("a target of the batch is %d, but "+
				"there are %d classes: 0 to %d", id, classes, classes-1)})
		}
	}
}

func int32s(values []int64) []int32 {
	small := make([]int32, len(values))
	for i, v := range values {
		small[i] = int32(v)
	}
	return small
}
