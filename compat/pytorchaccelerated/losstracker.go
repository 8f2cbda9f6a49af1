package pytorchaccelerated

// LossTracker averages the losses of batches, weighed by their sizes, over an epoch.
type LossTracker struct {
	LossValue    float64 // of the last batch
	TotalLoss    float64
	RunningCount int // samples
}

// Update adds the loss of a batch.
func (l *LossTracker) Update(loss float64, batchSize int) {
	l.LossValue = loss
	l.TotalLoss += float64(loss * float64(batchSize)) // no fused multiply-add: Python has none
	l.RunningCount += batchSize
}

// Average is the mean so far; nan if there is nothing to average.
func (l *LossTracker) Average() float64 { return l.TotalLoss / float64(l.RunningCount) }

// average32 is the mean as PyTorch computes it from tensors of the total and of the count.
func (l *LossTracker) average32() float64 {
	return float64(float32(l.TotalLoss) / float32(l.RunningCount))
}
