package pytorchaccelerated

import (
	"fmt"
	"slices"
)

// RunHistory keeps the values of metrics over a run. The Trainer records "train_loss_epoch",
// "eval_loss_epoch", "evaluation_loss" and, for an evaluation inside an epoch,
// "intermediate_eval_loss". Methods and callbacks may record others.
type RunHistory interface {
	// MetricNames returns the names of all metrics that have been recorded.
	MetricNames() []string
	// MetricValues returns the values of a metric in the order in which they were recorded, none
	// for an unknown metric.
	MetricValues(name string) []float64
	// LatestMetric returns the last value; the error is [ErrNoMetric] if there is none.
	LatestMetric(name string) (float64, error)
	// UpdateMetric records a value under the name, with the prefix added.
	UpdateMetric(name string, value float64)
	// DeleteMetric deletes a metric.
	DeleteMetric(name string)
	// SetMetricNamePrefix sets the prefix of the names of metrics recorded from now on.
	SetMetricNamePrefix(prefix string)
	MetricNamePrefix() string
	// CurrentEpoch counts from 1.
	CurrentEpoch() int
	// IncrementEpoch and SetEpoch are for the Trainer.
	IncrementEpoch()
	SetEpoch(epoch int)
	// Reset deletes all metrics and starts with epoch 1. The prefix stays.
	Reset()
}

// InMemoryRunHistory is the default [RunHistory] of a Trainer. The zero value is ready to use.
type InMemoryRunHistory struct {
	names  []string // in the order of their first values
	values map[string][]float64
	prefix string
	epoch  int // completed epochs

	lookupsStay bool // see Rules.KeepLookups
}

var _ RunHistory = (*InMemoryRunHistory)(nil)

// MetricNames returns the names in the order of their first values.
func (h *InMemoryRunHistory) MetricNames() []string { return slices.Clone(h.names) }

func (h *InMemoryRunHistory) MetricValues(name string) []float64 { return slices.Clone(h.lookUp(name)) }

// keepLookups is called by [New] with Rules.KeepLookups.
func (h *InMemoryRunHistory) keepLookups() { h.lookupsStay = true }

func (h *InMemoryRunHistory) lookUp(name string) []float64 {
	if h.lookupsStay {
		h.add(name)
	}
	return h.values[name]
}

// add adds a name without values, if it is not there yet.
func (h *InMemoryRunHistory) add(name string) {
	if _, known := h.values[name]; known {
		return
	}
	if h.values == nil {
		h.values = map[string][]float64{}
	}
	h.names, h.values[name] = append(h.names, name), nil
}

func (h *InMemoryRunHistory) LatestMetric(name string) (float64, error) {
	values := h.lookUp(name)
	if len(values) == 0 {
		return 0, fmt.Errorf("%w %q; recorded are %q", ErrNoMetric, name, h.names)
	}
	return values[len(values)-1], nil
}

func (h *InMemoryRunHistory) UpdateMetric(name string, value float64) {
	name = h.prefix + name
	h.add(name)
	h.values[name] = append(h.values[name], value)
}

func (h *InMemoryRunHistory) DeleteMetric(name string) {
	delete(h.values, name)
	h.names = slices.DeleteFunc(h.names, func(n string) bool { return n == name })
}

func (h *InMemoryRunHistory) SetMetricNamePrefix(prefix string) { h.prefix = prefix }

func (h *InMemoryRunHistory) MetricNamePrefix() string { return h.prefix }

func (h *InMemoryRunHistory) CurrentEpoch() int { return h.epoch + 1 }

func (h *InMemoryRunHistory) IncrementEpoch() { h.epoch++ }

func (h *InMemoryRunHistory) SetEpoch(epoch int) { h.epoch = epoch - 1 }

func (h *InMemoryRunHistory) Reset() {
	h.names, h.values, h.epoch = nil, nil, 0
}

// LossTracker averages the losses of batches over an epoch, weighted by their sizes.
type LossTracker struct {
	LossValue    float64 // of the last batch
	TotalLoss    float64
	RunningCount int // samples
}

// Update adds the loss of a batch.
func (l *LossTracker) Update(loss float64, batchSize int) {
	l.LossValue = loss
	l.TotalLoss += float64(loss * float64(batchSize)) // no fused multiply-add, for the same result as in Python
	l.RunningCount += batchSize
}

// Average returns the mean so far, or nan if there is nothing to average.
func (l *LossTracker) Average() float64 { return l.TotalLoss / float64(l.RunningCount) }
