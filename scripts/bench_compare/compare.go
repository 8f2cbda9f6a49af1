package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"
)

// ours is the name of our own program.
const ours = "gotrainer"

// line is the result that a program prints.
type line struct {
	Workload  string            `json:"workload"`
	Skip      string            `json:"skip"`
	Steps     int               `json:"steps"`
	Threads   int               `json:"threads"`
	Batch     int               `json:"batch"`
	Precision string            `json:"precision"`
	Dropout   float64           `json:"dropout"`
	Millis    float64           `json:"ms_per_step"`
	Memory    float64           `json:"peak_rss_mb"`
	GPUMemory float64           `json:"peak_gpu_mb"`
	LossFirst float64           `json:"loss_first"`
	LossLast  float64           `json:"loss_last"`
	Versions  map[string]string `json:"versions"`
}

// compared holds the runs of a row: for each program one run per round, in the same order.
type compared struct {
	row     row
	threads int
	load    float64 // load average before the first run
	runs    map[string][]line
	skipped map[string]string // programs without runs, with the reason
}

func (o options) compare(ctx context.Context, r row, threads int) (compared, error) {
	c := compared{row: r, threads: threads, load: load(), runs: map[string][]line{}, skipped: map[string]string{}}
	programs := append([]string{ours}, r.peers...)
	for round := range o.rounds {
		for k := range programs {
			who := programs[(k+round)%len(programs)]
			if c.skipped[who] != "" {
				continue
			}
			got, err := o.once(ctx, o.command(r, who, threads))
			switch {
			case ctx.Err() != nil:
				return c, fmt.Errorf("%s: interrupted", r.name)
			case err != nil && who == ours:
				return c, fmt.Errorf("%s: %w", r.name, err)
			case got.Skip != "" && who == ours:
				return c, fmt.Errorf("%s: our program does not run here: %s", r.name, got.Skip)
			case err != nil:
				c.skipped[who] = "failed"
				fmt.Fprintf(os.Stderr, "%s, %s: %v\n", r.name, who, err)
			case got.Skip != "":
				c.skipped[who] = got.Skip
			default:
				c.runs[who] = append(c.runs[who], got)
				fmt.Fprintf(os.Stderr, "%s, %d threads, round %d of %d, %s: %.4g ms a step\n", r.name, threads, round+1,
					o.rounds, who, got.Millis)
			}
		}
	}
	return c, nil
}

// once runs a program and returns its last result line.
func (o options) once(ctx context.Context, args []string) (line, error) {
	ctx, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &log, time.Second
	cmd.Env = append(os.Environ(), "BENCH_DATA="+o.data, "PYTHONDONTWRITEBYTECODE=1",
		fmt.Sprintf("BENCH_T0=%.6f", float64(time.Now().UnixMicro())/1e6))
	err := cmd.Run()
	var result line
	for text := range strings.Lines(out.String()) {
		var l line
		if json.Unmarshal([]byte(text), &l) == nil && l.Workload != "" {
			result = l
		}
	}
	if result.Skip != "" {
		return result, nil
	}
	if err == nil && result.Workload == "" {
		err = errors.New("it printed no line with a result")
	}
	if err != nil {
		return line{}, fmt.Errorf("%s: %w\n%s", strings.Join(args, " "), err, tail(log.String()))
	}
	return result, nil
}

func tail(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-6):], "\n")
}

// doubts returns reasons to suspect that two programs did not do the same work.
func doubts(a, b line) []string {
	var out []string
	for _, c := range []struct {
		what string
		a, b any
	}{
		{"steps", a.Steps, b.Steps}, {"threads", a.Threads, b.Threads},
	} {
		if c.a != c.b {
			out = append(out, fmt.Sprintf("%s %v and %v", c.what, c.a, c.b))
		}
	}
	first, last := 2e-4, 0.05
	if a.GPUMemory > 0 { // some of the peers use TF32
		first, last = 2e-3, 0.1
	}
	switch {
	case a.Workload == "tokenize":
		first, last = 0, 0
	case a.Workload == "images": // decoders differ by a few gray levels
		first, last = 0.01, 0.01
	case a.Dropout > 0 || b.Dropout > 0 || a.Precision == "bf16":
		first, last = 0.05, 0.25
	}
	near := func(x, y, tolerance, floor float64) bool {
		return math.Abs(x-y) <= tolerance*max(floor, math.Abs(x), math.Abs(y))
	}
	if !near(a.LossFirst, b.LossFirst, first, 0) {
		out = append(out, fmt.Sprintf("first loss %v and %v", a.LossFirst, b.LossFirst))
	}
	// near zero, after many updates, losses differ by rounding alone
	if !near(a.LossLast, b.LossLast, last, 0.2*math.Abs(a.LossFirst)) {
		out = append(out, fmt.Sprintf("last loss %v and %v", a.LossLast, b.LossLast))
	}
	return out
}

// spread is a median and its range.
type spread struct{ median, least, most float64 }

func spreadOf(values []float64) spread {
	v := slices.Sorted(slices.Values(values))
	middle := v[len(v)/2]
	if len(v)%2 == 0 {
		middle = (v[len(v)/2-1] + middle) / 2
	}
	return spread{middle, v[0], v[len(v)-1]}
}

func (s spread) String() string {
	return fmt.Sprintf("%s (%s to %s)", digits(s.median), digits(s.least), digits(s.most))
}

// digits formats a number with three significant digits, or with all digits before the point if
// there are more.
func digits(v float64) string {
	if v >= 1000 {
		return fmt.Sprintf("%.0f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// of applies f to each run.
func of(runs []line, f func(line) float64) []float64 {
	var out []float64
	for _, r := range runs {
		out = append(out, f(r))
	}
	return out
}

// ratios divides the peer's runs by ours, round by round.
func ratios(peer, our []line, f func(line) float64) []float64 {
	var out []float64
	for k := range min(len(peer), len(our)) {
		out = append(out, f(peer[k])/f(our[k]))
	}
	return out
}
