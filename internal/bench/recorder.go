package main

import (
	"math"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/gotrainer/gotrainer/torch"
)

// recorder takes the times and losses of a run, without reading anything back between the first and
// the last updates.
type recorder struct {
	workload workload
	losses   bool // read every loss

	updates     int
	firstStep   float64
	begin, end  time.Time
	first       float64
	all, recent []float64
}

// wants tells whether the loss of the next update has to be read: the first, the last ten, and the
// one before those, whose value is the sum of all that were not read.
func (r *recorder) wants() bool {
	n := r.updates + 1
	return r.losses || n == 1 || n >= r.lastTen()-1
}

// lastTen is the number of the first of the last ten updates.
func (r *recorder) lastTen() int {
	return max(r.workload.warmup+r.workload.steps-9, r.workload.warmup+1)
}

// updated is called after each update; loss is nan where it was not read.
func (r *recorder) updated(loss float64) {
	r.updates++
	if r.updates == 1 {
		r.firstStep = time.Since(processStart()).Seconds()
		r.first = loss
	}
	if r.losses {
		r.all = append(r.all, loss)
	}
	if r.updates >= r.lastTen() {
		r.recent = append(r.recent, loss)
	}
	if r.updates == r.workload.warmup {
		r.begin = time.Now()
	}
	if r.updates == r.workload.warmup+r.workload.steps {
		r.end = time.Now()
	}
}

// result is the line that the contract of the workloads asks for.
func (r *recorder) result(o settings) map[string]any {
	w := r.workload
	seconds := r.end.Sub(r.begin).Seconds()
	if w.warmup == 0 {
		seconds = r.firstStep
	}
	dropout := w.dropout
	if o.dropout >= 0 {
		dropout = o.dropout
	}
	last := 0.0
	for _, l := range r.recent {
		last += l / float64(len(r.recent))
	}
	return map[string]any{
		"workload": w.name, "impl": "gotrainer", "steps": w.steps, "seconds": round(seconds, 6),
		"ms_per_step":   round(1e3*seconds/float64(w.steps), 6),
		"samples_per_s": round(float64(w.steps*w.batch)/seconds, 3), "peak_rss_mb": round(memory("VmHWM"), 1),
		"anon_rss_mb":  round(memory("RssAnon"), 1),
		"first_step_s": round(r.firstStep, 4), "loss_first": round(r.first, 6), "loss_last": round(last, 6),
		"threads": torch.Threads(),
		"batch":   w.batch, "precision": o.precision, "dropout": dropout, "device": "cpu",
	}
}

func round(v float64, digits int) float64 {
	scale := math.Pow(10, float64(digits))
	return math.Round(v*scale) / scale
}

// processStart is the time that the caller set just before it started this process, else the
// kernel's.
func processStart() time.Time {
	if t0, err := strconv.ParseFloat(os.Getenv("BENCH_T0"), 64); err == nil {
		return time.Unix(0, int64(t0*1e9))
	}
	stat, err := os.ReadFile("/proc/self/stat")
	uptime, err2 := os.ReadFile("/proc/uptime")
	if err != nil || err2 != nil {
		return time.Now()
	}
	fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
	ticks, _ := strconv.ParseFloat(fields[19], 64)
	up, _ := strconv.ParseFloat(strings.Fields(string(uptime))[0], 64)
	return time.Now().Add(-time.Duration((up - ticks/100) * float64(time.Second)))
}

// memory reads a field of /proc/self/status in MiB.
func memory(field string) float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for _, line := range strings.Split(string(status), "\n") {
		if rest, ok := strings.CutPrefix(line, field+":"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(rest, "kB")), 64)
			if err != nil {
				return 0
			}
			return kib / 1024
		}
	}
	return 0
}
