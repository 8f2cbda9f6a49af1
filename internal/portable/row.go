package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/cpu"

	"github.com/gotrainer/gotrainer/internal/goldencount"
)

// row is a set of code paths: settings for GOTRAINER_TEST_PINS, which replace those of the golden
// files. What a row does not set is as recorded. A row for a machine runs all tests of the
// packages, and one for a single path only those that compare with golden values.
type row struct {
	name, settings, needs string
	machine               bool
}

// rows cover each path once by itself, and three machines. All combinations would be 240 rows.
var rows = []row{
	recorded,
	{"a CPU without AVX2", "ATEN_CPU_CAPABILITY=default MKL_CBWR=SSE4_2 ONEDNN_MAX_CPU_ISA=SSE41 " +
		"REPRODUCIBLE_ANSWER=0", "", true},
	{"this CPU, nothing pinned, 2 threads", "ATEN_CPU_CAPABILITY= MKL_CBWR= ONEDNN_MAX_CPU_ISA= OMP_NUM_THREADS=2 " +
		"MKL_NUM_THREADS=2", "", true},
	{"ATen default", "ATEN_CPU_CAPABILITY=default", "", false},
	{"ATen AVX-512", "ATEN_CPU_CAPABILITY=avx512", "AVX-512", false},
	{"MKL COMPATIBLE", "MKL_CBWR=COMPATIBLE", "", false},
	{"MKL SSE4.2", "MKL_CBWR=SSE4_2", "", false},
	{"MKL AVX2, no answer", "MKL_CBWR=AVX2 REPRODUCIBLE_ANSWER=0", "AVX2", false},
	{"MKL AVX-512", "MKL_CBWR=AVX512", "AVX-512", false},
	{"MKL unset", "MKL_CBWR= REPRODUCIBLE_ANSWER=0", "", false},
	{"oneDNN SSE4.1", "ONEDNN_MAX_CPU_ISA=SSE41", "", false},
	{"oneDNN AVX-512", "ONEDNN_MAX_CPU_ISA=AVX512_CORE", "AVX-512", false},
	{"2 threads", "OMP_NUM_THREADS=2 MKL_NUM_THREADS=2", "", false},
}

// recorded is how the golden files were made. It determines which tests compare with them.
var recorded = row{name: "as recorded", machine: true}

// lacking returns what the row needs and this CPU does not have.
func (r row) lacking() string {
	x := cpu.X86
	has := map[string]bool{
		"":        true,
		"AVX2":    x.HasAVX2 && x.HasFMA,
		"AVX-512": x.HasAVX512F && x.HasAVX512BW && x.HasAVX512DQ && x.HasAVX512VL && x.HasFMA,
	}
	if has[r.needs] {
		return ""
	}
	return r.needs
}

// result is the result of a row's tests.
type result struct {
	bitwise, within int // cases that are bitwise equal, and others that passed
	failed          []failure
	took            time.Duration
	golden          []suite // the suites with the tests that counted cases
}

// failure is a failed test, or another failure of a suite.
type failure struct{ suite, test, subtest string }

// summary returns a line for each test, with the number of its subtests that failed.
func (x result) summary() []string {
	var lines []string
	for i := 0; i < len(x.failed); {
		f, first := x.failed[i], i
		for i < len(x.failed) && x.failed[i].suite == f.suite && x.failed[i].test == f.test {
			i++
		}
		line := strings.TrimSpace(f.suite + " " + f.test)
		if f.subtest != "" {
			line += fmt.Sprintf(" (%d subtests, the first is %s)", i-first, f.subtest)
		}
		lines = append(lines, line)
	}
	return lines
}

// run runs the suites one after the other; their output and counted cases are written to folder.
func (r row) run(ctx context.Context, suites []suite, folder string) (x result) {
	started := time.Now()
	defer func() { x.took = time.Since(started) }()
	fail := func(suite, test, subtest string) { x.failed = append(x.failed, failure{suite, test, subtest}) }
	if err := os.MkdirAll(folder, 0o755); err != nil {
		fail("", err.Error(), "")
		return x
	}
	var records []goldencount.Record
	for _, s := range suites {
		count := filepath.Join(folder, filepath.Base(s.binary)+".count")
		cmd := exec.CommandContext(ctx, s.binary, "-test.timeout=20m", "-test.run=^("+strings.Join(s.tests, "|")+")")
		cmd.Dir = s.folder
		cmd.Env = append(os.Environ(), "GOTRAINER_TEST_PINS="+r.settings, goldencount.File+"="+count,
			"GOTRAINER_REQUIRE_TORCH=1")
		out, err := cmd.CombinedOutput()
		log := filepath.Join(folder, filepath.Base(s.binary)+".log")
		if writeErr := os.WriteFile(log, out, 0o644); writeErr != nil {
			fail(s.name, writeErr.Error(), "")
		}
		if err != nil {
			names := failures(string(out))
			for _, name := range names {
				test, subtest, _ := strings.Cut(name, "/")
				fail(s.name, test, subtest)
			}
			if len(names) == 0 {
				fail(s.name, err.Error()+": "+log, "")
			}
		}
		counted, err := read(count)
		if err != nil {
			fail(s.name, count+": "+err.Error(), "")
		}
		if len(counted) > 0 {
			s.tests = testsOf(counted)
			x.golden = append(x.golden, s)
		}
		records = append(records, counted...)
	}
	if len(records) == 0 {
		fail("", "no test counted a case", "")
	}
	for _, c := range goldencount.Join(records) {
		switch {
		case c.Failed: // counted by its test
		case c.Equal == c.Compared:
			x.bitwise++
		case c.Reason == "":
			fail("", c.Family+" "+c.Name+" differs, and its test says no reason", "")
		default:
			x.within++
		}
	}
	return x
}

// read reads a file of cases; it does not exist if the suite counts none.
func read(path string) ([]goldencount.Record, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	return goldencount.Read(f)
}

// testsOf returns patterns for the tests that counted cases.
func testsOf(records []goldencount.Record) []string {
	var tests []string
	for _, r := range records {
		tests = append(tests, r.Test+"$")
	}
	slices.Sort(tests)
	return slices.Compact(tests)
}

// failures returns the names of the failed tests, except those that failed only because of a
// subtest.
func failures(out string) []string {
	var names []string
	for line := range strings.Lines(out) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), "--- FAIL: ")
		if !ok {
			continue
		}
		name, _, _ := strings.Cut(rest, " ")
		// The testing package prints a test before its subtests.
		if n := len(names); n > 0 && strings.HasPrefix(name, names[n-1]+"/") {
			names = names[:n-1]
		}
		names = append(names, name)
	}
	return names
}
