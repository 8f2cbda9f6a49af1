package main

import (
	"errors"
	"math"
	"strings"
	"time"

	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/torch/cuda"
)

// recorder records times and losses of a run, without reading back anything between the first and
// the last updates.
type recorder struct {
	workload workload
	losses   bool             // read every loss
	measure  func() float64   // recorded instead of the loss, if not nil
	after    func(update int) // called after each update, if not nil
	device   torch.Device

	updates     int
	firstStep   float64
	begin, end  time.Time
	first       float64
	all, recent []float64
	resident    []float64 // memory in MiB, if the workload measures it
	failed      error     // of a query to the GPU
}

// wants reports whether the loss of the next update must be read, which also waits for the device:
// the first one, the last of the warm-up, the last ten, and the one before those, whose value is
// the sum of all that were not read.
func (r *recorder) wants() bool {
	n := r.updates + 1
	return r.losses || n == 1 || n == r.workload.warmup || n >= r.lastTen()-1
}

// lastTen returns the number of the first of the last ten updates.
func (r *recorder) lastTen() int {
	return max(r.workload.warmup+r.workload.steps-9, r.workload.warmup+1)
}

// updated is called after each update; loss is nan if it was not read.
func (r *recorder) updated(loss float64) {
	w := r.workload
	r.updates++
	if r.updates == 1 {
		r.firstStep = sinceStart()
		r.first = loss
	}
	if r.losses {
		r.all = append(r.all, loss)
	}
	if r.updates >= r.lastTen() {
		r.recent = append(r.recent, loss)
	}
	if past := r.updates - w.warmup; w.memory > 0 && past >= 0 && past%w.memory == 0 {
		r.resident = append(r.resident, round(memory("VmRSS"), 1))
	}
	if r.updates == w.warmup {
		if r.device.IsCUDA() && r.failed == nil {
			r.failed = cuda.ResetPeakMemoryStats(r.device)
		}
		r.begin = time.Now()
	}
	if r.updates == w.warmup+w.steps {
		r.end = time.Now()
	}
	if r.after != nil {
		r.after(r.updates)
	}
}

// line returns the line that the contract of the workloads requires.
func (r *recorder) line(o settings) (map[string]any, error) {
	w := r.workload
	seconds := r.end.Sub(r.begin).Seconds()
	if w.warmup == 0 {
		seconds = r.firstStep
	}
	last := 0.0
	for _, l := range r.recent {
		last += l / float64(len(r.recent))
	}
	more := map[string]any{"batch": w.batch, "precision": w.precision, "dropout": w.dropout,
		"device": o.device.String()}
	if strings.HasPrefix(w.name, "bert") {
		more["padding_free"], more["fuse_qkv"] = w.paddingFree, w.fuseQKV
	}
	for name, set := range map[string]bool{"graphs": o.graphs > 0, "prefetch": o.prefetch,
		"dataset_on_device": o.datasetOnDevice > 0} {
		if set {
			more[name] = true
		}
	}
	if r.device.IsCUDA() {
		s, err := cuda.MemoryStats(r.device)
		if err = errors.Join(r.failed, err); err != nil {
			return nil, err
		}
		more["peak_gpu_mb"] = round(float64(s.Allocated.Peak)/(1<<20), 1)
	}
	if n := len(r.resident); n > 0 {
		more["rss_start_mb"], more["rss_end_mb"] = r.resident[0], r.resident[n-1]
		more["rss_growth_mb"] = math.Round(10*(r.resident[n-1]-r.resident[0])) / 10
		more["rss_mb"] = r.resident
	}
	return result{workload: w.name, steps: w.steps, seconds: seconds, samples: w.steps * w.batch * w.accumulate,
		firstStep: r.firstStep, first: round(r.first, 6), last: round(last, 6), threads: torch.Threads()}.line(more), nil
}
