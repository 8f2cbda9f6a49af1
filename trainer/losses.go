package trainer

import "github.com/gotrainer/gotrainer/trainer/semantics"

// losses computes the reported loss if it is not simply the mean since the last log: see
// semantics.LossReport.
type losses struct {
	report  semantics.LossReport
	running RunningLoss
	pending float64 // sum of the open window of RunningMean

	// for EpochMean: the losses of this epoch, weighted by samples, and the number of samples
	epochSum     float64
	epochSamples int

	window []float32 // losses of the current window, for WindowMean
	last   float64   // mean of the last complete window, for WindowMean
}

// RunningLoss is the loss that semantics.RunningMean reports, with the values it is computed from.
type RunningLoss struct {
	Mean, Sum float64 // of the losses of the windows that have closed
	Windows   int
	Window    float64 // mean loss of the last of them; 0 if this session has had none
}

// float32Mean adds in the order of torch.Tensor.mean, so that it rounds in the same way: four
// running sums for a few numbers, as in PyTorch's kernel, and eight lanes for longer lists.
func float32Mean(v []float32) float64 {
	eights := len(v) / 8
	if eights == 0 {
		return float64(fourSums(v) / float32(len(v)))
	}
	var sum float32
	for _, x := range v[eights*8:] { // first the rest after the groups of eight, then the groups lane by lane
		sum += x
	}
	for lane := range 8 {
		column := make([]float32, eights)
		for i := range column {
			column[i] = v[i*8+lane]
		}
		sum += fourSums(column)
	}
	return float64(sum / float32(len(v)))
}

func fourSums(v []float32) float32 {
	var s [4]float32
	i := 0
	for ; i+4 <= len(v); i += 4 {
		for k := range s {
			s[k] += v[i+k]
		}
	}
	for ; i < len(v); i++ {
		s[0] += v[i]
	}
	return ((s[0] + s[1]) + s[2]) + s[3]
}

// wanted reports whether the loss of every micro-batch is needed.
func (l *losses) wanted() bool { return l.report != semantics.SinceLog }

// batch adds the loss of a micro-batch with the given number of samples. closes says whether it
// closes a window of RunningMean, and divisor what the losses of that window are divided by.
func (l *losses) batch(b BatchLoss, samples int, closes bool, divisor float64) {
	switch l.report {
	case semantics.RunningMean: // the loss tracker of Hezar
		l.pending += b.Loss
		if r := &l.running; closes {
			r.Window, l.pending = l.pending/divisor, 0
			r.Sum += r.Window
			r.Windows++
			r.Mean = r.Sum / float64(r.Windows)
		}
	case semantics.EpochMean: // the LossTracker of pytorch-accelerated
		l.epochSum += float64(b.Divided * float64(samples)) // no fused multiply-add: Python has none
		l.epochSamples += samples
	case semantics.WindowMean:
		l.window = append(l.window, float32(b.Loss))
	}
}

// updated ends the window of WindowMean.
func (l *losses) updated() {
	if l.report == semantics.WindowMean && len(l.window) > 0 {
		l.last, l.window = float32Mean(l.window), l.window[:0]
	}
}

// beginEpoch clears what belongs to the previous epoch.
func (l *losses) beginEpoch() { l.epochSum, l.epochSamples, l.window = 0, 0, l.window[:0] }

// value returns the loss as it is reported now.
func (l *losses) value() float64 {
	switch {
	case l.report == semantics.RunningMean:
		return l.running.Mean
	case l.report == semantics.EpochMean && l.epochSamples > 0: // in float32, like the tensors of pytorch-accelerated
		return float64(float32(l.epochSum) / float32(l.epochSamples))
	case l.report == semantics.WindowMean:
		return l.last
	}
	return 0
}

// lossState is what a checkpoint stores of losses.
type lossState struct {
	Sum     jsonFloat   `json:"sum"` // running.Sum
	Mean    jsonFloat   `json:"mean"`
	Count   int         `json:"count"`
	Pending jsonFloat   `json:"pending"`
	Epoch   jsonFloat   `json:"epoch_sum"`
	Samples int         `json:"epoch_samples"`
	Window  []jsonFloat `json:"window"`
	Last    jsonFloat   `json:"last"`
}

func (l *losses) state() *lossState {
	if !l.wanted() {
		return nil
	}
	r := &l.running
	s := &lossState{Sum: jsonFloat(r.Sum), Mean: jsonFloat(r.Mean), Count: r.Windows, Pending: jsonFloat(l.pending),
		Epoch: jsonFloat(l.epochSum), Samples: l.epochSamples, Last: jsonFloat(l.last)}
	for _, v := range l.window {
		s.Window = append(s.Window, jsonFloat(v))
	}
	return s
}

// restore restores the state from a checkpoint that was made after the given number of steps.
func (l *losses) restore(s *lossState, rules semantics.Rules, steps int) {
	if s == nil || !l.wanted() {
		return
	}
	l.running = RunningLoss{Sum: float64(s.Sum), Mean: float64(s.Mean), Windows: s.Count}
	l.last = float64(s.Last)
	if !rules.ForgetLossAtResume {
		l.pending, l.epochSum, l.epochSamples = float64(s.Pending), float64(s.Epoch), s.Samples
		for _, v := range s.Window {
			l.window = append(l.window, float32(v))
		}
	}
	if rules.CountStepsAtResume {
		l.running.Windows = steps
	}
}
