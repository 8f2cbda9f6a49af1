package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/internal/conformance/recorded"
	"github.com/gotrainer/gotrainer/internal/conformance/replay"
	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/internal/conformance/trace"
	"github.com/gotrainer/gotrainer/internal/conformance/vectors"
	"github.com/gotrainer/gotrainer/internal/expected"
	"github.com/gotrainer/gotrainer/torch"
)

// caseOptions are the options for running cases.
type caseOptions struct {
	only   string // name of the only case to run, or peer/name; empty: all
	traces string // folder for the replayed traces; empty: they are not kept
	data   string // folder of the pictures that vectors refer to
	json   bool   // a JSON object per line instead of text
	device torch.Device
	here   bool // use the code paths of this process's environment, not those of each recording
}

// outcome is the result of a case. Its fields are those of an output line with -json.
type outcome struct {
	Case    string  `json:"case"`    // "hf/accum4_tail"
	Verdict string  `json:"verdict"` // bitwise, within tolerance, FAIL, unsupported
	Worst   float64 `json:"worst,omitempty"`
	Begins  string  `json:"begins,omitempty"` // the first number that is not bitwise
	Reason  string  `json:"reason,omitempty"` // the first difference, or why the case cannot be run
}

const (
	bitwise     = "bitwise"
	within      = "within tolerance"
	failed      = "FAIL"
	unsupported = "unsupported"
)

func (o outcome) String() string {
	switch o.Verdict {
	case within:
		return fmt.Sprintf("%s %s: %.2e at most, beginning at %s", o.Verdict, o.Case, o.Worst, o.Begins)
	case bitwise, passed:
		return o.Verdict + " " + o.Case
	}
	return fmt.Sprintf("%s %s: %s", o.Verdict, o.Case, strings.SplitN(o.Reason, "\n", 2)[0])
}

// runCases replays and compares every case below the folders, and returns the exit status. Cases
// recorded on the same code paths are replayed in one process: see replayByPins.
func runCases(ctx context.Context, dirs []string, o caseOptions, out, problems io.Writer) int {
	v := &verdicts{out: out, json: o.json, device: o.device, counts: map[string]int{}}
	err := spec.Try(func() {
		cases := spec.Must(findCases(dirs, o.only))
		if o.here {
			v.replay(ctx, cases, o)
		} else {
			v.replayByPins(ctx, cases, o, problems)
		}
	})
	if err != nil {
		fmt.Fprintln(problems, "conformance:", err)
		return 2
	}
	return v.sum()
}

// verdicts prints and counts outcomes.
type verdicts struct {
	out    io.Writer
	json   bool
	device torch.Device
	total  int
	counts map[string]int // by verdict
}

func (v *verdicts) add(result outcome) {
	v.total++
	v.counts[result.Verdict]++
	printLine(v.out, result, v.json)
}

// sum prints the summary line and returns the exit status.
func (v *verdicts) sum() int {
	if v.json {
		printLine(v.out, map[string]int{"cases": v.total, "bitwise": v.counts[bitwise],
			"within_tolerance": v.counts[within], "failed": v.counts[failed], "unsupported": v.counts[unsupported]},
			true)
	} else {
		where := ""
		if v.device != torch.CPU {
			where = fmt.Sprintf(" on %s, where not bits are compared but numbers, within %g in float32 without TF32 and %g in "+
				"bf16", v.device, spec.ToleranceFP32, spec.ToleranceBF16)
		}
		fmt.Fprintf(v.out, "%d cases%s: %d bitwise, %d within tolerance, %d failed, %d unsupported\n", v.total, where,
			v.counts[bitwise], v.counts[within], v.counts[failed], v.counts[unsupported])
	}
	if v.total == 0 {
		return 1
	}
	return v.status()
}

// status returns the exit status. On a GPU, cases that can only be replayed on the CPU do not count
// as failures.
func (v *verdicts) status() int {
	if v.device != torch.CPU {
		return min(1, v.counts[failed])
	}
	return min(1, v.counts[failed]+v.counts[unsupported])
}

// replay runs cases in this process.
func (v *verdicts) replay(ctx context.Context, cases []string, o caseOptions) {
	for _, dir := range cases {
		spec.Check(context.Cause(ctx))
		for _, result := range replayFolder(ctx, dir, o) {
			v.add(result)
		}
	}
}

func printLine(out io.Writer, v any, asJSON bool) {
	if !asJSON {
		fmt.Fprintln(out, v)
		return
	}
	_ = json.NewEncoder(out).Encode(v) // cannot fail: strings and finite numbers
}

// replayFolder replays a training run and compares it with the recording, or compares every vector
// in a folder of vectors.
func replayFolder(ctx context.Context, dir string, o caseOptions) (list []outcome) {
	if _, err := os.Stat(filepath.Join(dir, "spec.json")); err == nil {
		return []outcome{replayCase(ctx, dir, o.traces, o.device)}
	}
	if o.device != torch.CPU {
		return []outcome{{Case: spec.CaseName(dir), Verdict: unsupported, Reason: "vectors are compared on the CPU only"}}
	}
	for _, v := range vectors.Run(dir, o.data) {
		list = append(list, outcomeOf(v.Name, v.Worst, v.Begins, v.Worst > 0, v.Err))
	}
	return list
}

// outcomeOf converts the result of a comparison. err is the first difference, or says why the case
// cannot be run.
func outcomeOf(name string, worst float64, begins string, deviates bool, err error) outcome {
	o := outcome{Case: name, Worst: worst, Begins: begins, Verdict: bitwise}
	missing := new(spec.Unsupported)
	switch {
	case errors.As(err, &missing):
		o.Verdict, o.Reason = unsupported, missing.What
	case err != nil:
		o.Verdict, o.Reason = failed, err.Error()
	case deviates:
		o.Verdict = within
	}
	return o
}

// findCases returns the folders at or below dirs that contain a spec.json or vectors, sorted by
// path.
func findCases(dirs []string, only string) ([]string, error) {
	var cases []string
	for _, dir := range dirs {
		found := len(cases)
		err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			if !e.IsDir() && (e.Name() == "spec.json" || vectors.Known(e.Name())) {
				cases = append(cases, filepath.Dir(path))
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
		if len(cases) == found {
			return nil, fmt.Errorf("%s holds no case, that is no spec.json and no vectors", dir)
		}
	}
	if only != "" {
		cases = slices.DeleteFunc(cases, func(dir string) bool {
			return spec.CaseName(dir) != only && filepath.Base(dir) != only
		})
		if len(cases) == 0 {
			return nil, fmt.Errorf("there is no case %q", only)
		}
	}
	return cases, nil
}

// replayCase replays one case and compares it with the recording.
func replayCase(ctx context.Context, dir, traces string, device torch.Device) outcome {
	var report trace.Report
	err := recorded.Try(func() { report = compareCase(ctx, dir, traces, device) })
	sum := report.Sum()
	if err == nil && sum.Verdict == trace.Mismatch {
		err = errors.New(sum.Field + ": " + sum.Detail)
	}
	return outcomeOf(spec.CaseName(dir), sum.Worst, sum.Begins, sum.Verdict == trace.Within, err)
}

func compareCase(ctx context.Context, dir, traces string, device torch.Device) trace.Report {
	stored := spec.Must(trace.Read(dir))
	run, s := spec.Must2(replay.Case(ctx, dir, device))
	to := filepath.Join(traces, filepath.FromSlash(spec.CaseName(dir)))
	if traces == "" {
		to = spec.Must(os.MkdirTemp("", "trace-"))
		defer func() { _ = os.RemoveAll(to) }()
	}
	spec.Check(run.Write(to))
	rtol := s.Tolerance()
	if device != torch.CPU {
		rtol = max(rtol, s.DeviceTolerance())
	}
	report := trace.Compare(stored, spec.Must(trace.Read(to)), rtol) // read back, so that the written file is compared
	// Compare the final tensors, if the recording has any and the run was not refused at the start.
	if absent(filepath.Join(dir, replay.FinalName)) || len(report) == 1 && report[0].Field == "error" {
		return report
	}
	final := filepath.Join(to, replay.FinalName)
	if absent(final) {
		return append(report, trace.Row{Field: replay.FinalName, Verdict: trace.Mismatch,
			Detail: "there are no tensors"})
	}
	return append(report, replay.CompareFinal(s, dir, final, rtol))
}

func absent(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// passed is the verdict on an entry that holds.
const passed = "pass"

// runExpected runs the mode -expected. A file that cannot be read counts as a failed entry.
func runExpected(files []string, o expected.Options, out io.Writer) int {
	v := &verdicts{out: out, counts: map[string]int{}}
	add := func(name string, err error) {
		result := outcomeOf(name, 0, "", false, err)
		if err == nil {
			result.Verdict = passed
		}
		v.add(result)
	}
	for _, file := range files {
		entries, err := expected.Read(file, o)
		if err != nil {
			add(file, err)
		}
		for _, e := range entries {
			add(file+" "+e.Name, e.Run())
		}
	}
	fmt.Fprintf(out, "%d entries: %d passed, %d failed, %d unsupported\n", v.total, v.counts[passed],
		v.counts[failed], v.counts[unsupported])
	return v.status()
}
