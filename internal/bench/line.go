package main

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

const implementation = "gotrainer"

// result is what every workload reports.
type result struct {
	workload    string
	steps       int
	seconds     float64 // for all steps
	samples     int     // in all steps
	firstStep   float64 // seconds since the start of the process
	first, last any     // loss_first and loss_last, or what the workload reports instead
	threads     int
}

// line returns the line that the contract of the workloads requires, with additional fields.
func (r result) line(more map[string]any) map[string]any {
	m := map[string]any{
		"workload": r.workload, "impl": implementation, "steps": r.steps, "seconds": round(r.seconds, 6),
		"ms_per_step":   round(1e3*r.seconds/float64(r.steps), 6),
		"samples_per_s": round(float64(r.samples)/r.seconds, 3), "first_step_s": round(r.firstStep, 4),
		"peak_rss_mb": round(memory("VmHWM"), 1), "anon_rss_mb": round(memory("RssAnon"), 1),
		"loss_first": r.first, "loss_last": r.last, "threads": r.threads,
	}
	maps.Copy(m, more)
	return m
}

func printLine(w io.Writer, line map[string]any) error {
	text, err := json.Marshal(line)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(w, string(text))
	return err
}

func round(v float64, digits int) float64 {
	scale := math.Pow(10, float64(digits))
	return math.Round(v*scale) / scale
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}

// sinceStart returns the seconds since the start of the process.
func sinceStart() float64 { return time.Since(processStart()).Seconds() }

// processStart returns the time that the caller recorded just before it started this process, or
// else the kernel's start time of the process.
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

// memory returns a field of /proc/self/status in MiB.
func memory(field string) float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for text := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(text, field+":"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(rest), "kB")), 64)
			if err != nil {
				return 0
			}
			return kib / 1024
		}
	}
	return 0
}
