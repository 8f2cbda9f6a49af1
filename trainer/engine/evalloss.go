package engine

import (
	"github.com/gotrainer/gotrainer/internal/pyfloat"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/semantics"
)

// evalLosses collects the losses of an evaluation on the device, so that no batch waits for it.
type evalLosses struct {
	pending []torch.Tensor // losses of the last batches, one number each
	stacked []torch.Tensor // losses of earlier batches, many in each tensor
	rows    []int
}

// stackLosses is the number of losses that are combined into one tensor during an evaluation.
const stackLosses = 256

func (l *evalLosses) add(loss Loss) {
	l.pending = append(l.pending, mean(loss.Value).Keep())
	l.rows = append(l.rows, loss.Rows)
	if len(l.pending) == stackLosses {
		l.stack()
	}
}

// mean reduces a loss to a single number.
func mean(loss torch.Tensor) torch.Tensor {
	if loss = loss.Detach(); loss.Dim() > 0 {
		loss = loss.Mean(torch.DefaultDType)
	}
	return loss
}

func (l *evalLosses) stack() {
	if len(l.pending) == 0 {
		return
	}
	l.stacked = append(l.stacked, torch.Stack(l.pending, 0).Keep())
	freeAll(l.pending)
	l.pending = l.pending[:0]
}

// last waits for the device and returns the loss of the last batch.
func (l *evalLosses) last() (float64, error) {
	switch {
	case len(l.pending) > 0:
		return l.pending[len(l.pending)-1].Item(), nil
	case len(l.stacked) > 0:
		losses := torch.Values[float64](l.stacked[len(l.stacked)-1].ToDType(torch.Float64).CPU())
		return losses[len(losses)-1], nil
	}
	return 0, errNoLoss
}

// take waits for the device, returns the losses in the dtype that numpy would have them in, and
// starts over.
func (l *evalLosses) take() (losses []float64, rows []int, dtype torch.DType) {
	l.stack()
	dtype = torch.Float32
	for i, part := range l.stacked {
		if d := part.DType(); i == 0 && d != torch.BFloat16 { // numpy has no bfloat16; transformers uses float32
			dtype = d
		}
		losses = append(losses, torch.Values[float64](part.ToDType(torch.Float64).CPU())...)
	}
	rows = l.rows
	l.drop()
	return losses, rows, dtype
}

func (l *evalLosses) drop() {
	freeAll(l.pending)
	freeAll(l.stacked)
	*l = evalLosses{}
}

func freeAll(ts []torch.Tensor) {
	for _, t := range ts {
		t.Free()
	}
}

func evalLoss(e trainer.Evaluation, losses []float64, rows []int, dtype torch.DType) float64 {
	switch e.Loss {
	case semantics.RepeatedFloat32:
		return repeatedMean(losses, e.BatchSize, e.Rows, dtype)
	case semantics.MeanOfBatches:
		sum := 0.0
		for _, loss := range losses {
			sum += loss
		}
		return sum / float64(len(losses))
	}
	sum, all := 0.0, 0 // MeanOfRows and RowsInFloat32
	for i, loss := range losses {
		sum += loss * float64(rows[i])
		all += rows[i]
	}
	if e.Loss == semantics.RowsInFloat32 {
		return float64(float32(sum) / float32(all))
	}
	return sum / float64(all)
}

// repeatedMean is the mean as Hugging Face's Trainer computes it: each batch's loss is repeated
// batchSize times, except that the list is cut to the number of rows if the set has a length, and
// numpy takes the mean.
func repeatedMean(losses []float64, batchSize, rows int, dtype torch.DType) float64 {
	n := len(losses) * batchSize
	if rows > 0 {
		n = min(n, rows)
	}
	switch dtype {
	case torch.Float64:
		return numpyMean(repeat[float64](losses, batchSize, n))
	case torch.Float16: // numpy sums in float32, in pieces of its buffer, and rounds the mean
		all, sum := repeat[float32](losses, batchSize, n), float32(0)
		for len(all) > 0 {
			k := min(len(all), numpyBuffer)
			sum += pyfloat.PairwiseSum(all[:k])
			all = all[k:]
		}
		return torch.TensorOptions{DType: torch.Float16}.Full(float64(sum / float32(n))).Item()
	}
	return float64(numpyMean(repeat[float32](losses, batchSize, n)))
}

// numpyBuffer is the number of elements that numpy converts at a time.
const numpyBuffer = 8192

func repeat[T float32 | float64](losses []float64, times, n int) []T {
	all := make([]T, n)
	for i := range all {
		all[i] = T(losses[i/times])
	}
	return all
}

// numpyMean is numpy.ndarray.mean of a contiguous array; NaN if it is empty.
func numpyMean[T float32 | float64](a []T) T {
	return T(float64(pyfloat.PairwiseSum(a)) / float64(len(a)))
}
