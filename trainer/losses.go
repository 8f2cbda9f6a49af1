package trainer

import "github.com/gotrainer/gotrainer/trainer/semantics"

// losses works out the reported loss where it is not simply the sum since the last log: see
// semantics.LossReport.
type losses struct {
	report  semantics.LossReport
	running runningMean
	epoch   weightedMean
	window  float32Mean
	last    float64 // of the last whole window
}

// RunningLoss is the loss that semantics.RunningMean reports, and what it is made of.
type RunningLoss struct {
	Mean, Sum float64 // of the losses of the windows that have closed
	Windows   int
	Window    float64 // loss of the last of them; 0 if this session has had none
}

// runningMean is the loss tracker of Hezar.
type runningMean struct {
	RunningLoss
	pending float64 // of the window that has not closed
}

// add counts a loss; closes ends a window, whose losses are divided by divisor.
func (m *runningMean) add(loss float64, closes bool, divisor float64) {
	m.pending += loss
	if !closes {
		return
	}
	m.Window = m.pending / divisor
	m.Sum += m.Window
	m.Windows++
	m.Mean = m.Sum / float64(m.Windows)
	m.pending = 0
}

// weightedMean is the LossTracker of pytorch-accelerated.
type weightedMean struct {
	Sum   float64
	Count int
}

func (m *weightedMean) add(loss float64, rows int) {
	m.Sum += float64(loss * float64(rows)) // no fused multiply-add: Python has none
	m.Count += rows
}

// mean divides in float32, as that trainer's tensors do.
func (m *weightedMean) mean() float64 { return float64(float32(m.Sum) / float32(m.Count)) }

// float32Mean is torch.Tensor.mean of a few float32 numbers: four running sums, as its kernel has,
// and eight at a time of what is longer.
type float32Mean struct{ values []float32 }

func (m *float32Mean) mean() float64 {
	v := m.values
	n := len(v)
	var sum float32
	if eights := n / 8; eights > 0 { // the vector part: lane by lane over the eights, then the rest, then the lanes
		var lanes [8]float32
		for lane := range lanes {
			column := make([]float32, eights)
			for i := range column {
				column[i] = v[i*8+lane]
			}
			lanes[lane] = fourSums(column)
		}
		for _, x := range v[eights*8:] {
			sum += x
		}
		for _, x := range lanes {
			sum += x
		}
	} else {
		sum = fourSums(v)
	}
	return float64(sum / float32(n))
}

// fourSums adds numbers in four running sums.
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

// wanted reports whether the loss of every micro-batch must be known.
func (l *losses) wanted() bool { return l.report != semantics.SinceLog }

// batch counts a micro-batch of so many samples; closes says whether a window of RunningMean closes
// with it, and divisor what its losses are divided by.
func (l *losses) batch(b BatchLoss, samples int, closes bool, divisor float64) {
	switch l.report {
	case semantics.RunningMean:
		l.running.add(b.Loss, closes, divisor)
	case semantics.EpochMean:
		l.epoch.add(b.Divided, samples)
	case semantics.WindowMean:
		l.window.values = append(l.window.values, float32(b.Loss))
	}
}

// updated ends a window.
func (l *losses) updated() {
	if l.report == semantics.WindowMean && len(l.window.values) > 0 {
		l.last = l.window.mean()
		l.window.values = l.window.values[:0]
	}
}

// beginEpoch forgets what belongs to the epoch before.
func (l *losses) beginEpoch() { l.epoch, l.window.values = weightedMean{}, l.window.values[:0] }

// value is the loss as it is reported now.
func (l *losses) value() float64 {
	switch l.report {
	case semantics.RunningMean:
		return l.running.Mean
	case semantics.EpochMean:
		if l.epoch.Count == 0 {
			return 0
		}
		return l.epoch.mean()
	case semantics.WindowMean:
		return l.last
	}
	return 0
}

// lossState is what a checkpoint keeps of them.
type lossState struct {
	Sum     jsonFloat   `json:"sum"` // of RunningMean
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
	s := &lossState{Sum: jsonFloat(r.Sum), Mean: jsonFloat(r.Mean), Count: r.Windows, Pending: jsonFloat(r.pending),
		Epoch: jsonFloat(l.epoch.Sum), Samples: l.epoch.Count, Last: jsonFloat(l.last)}
	for _, v := range l.window.values {
		s.Window = append(s.Window, jsonFloat(v))
	}
	return s
}

// restore takes up the state of a checkpoint that was made after so many steps.
func (l *losses) restore(s *lossState, rules semantics.Rules, steps int) {
	if s == nil || !l.wanted() {
		return
	}
	l.running.RunningLoss = RunningLoss{Sum: float64(s.Sum), Mean: float64(s.Mean), Windows: s.Count}
	l.last = float64(s.Last)
	if !rules.ForgetLossAtResume {
		l.running.pending = float64(s.Pending)
		l.epoch = weightedMean{float64(s.Epoch), s.Samples}
		for _, v := range s.Window {
			l.window.values = append(l.window.values, float32(v))
		}
	}
	if rules.CountStepsAtResume {
		l.running.Windows = steps
	}
}
