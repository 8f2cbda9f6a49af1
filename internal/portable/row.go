package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/cpu"

	"github.com/gotrainer/gotrainer/internal/goldencount"
)

// row is a set of code paths: settings of GOTRAINER_TEST_PINS, which replace those of the golden
// files. What a row does not name is as it was recorded.
type row struct {
	name, settings, needs string
}

// rows cover each path once, alone, and then three machines. The whole product would be 240 rows.
var rows = []row{
	{"as recorded", "", ""},
	{"ATen default", "ATEN_CPU_CAPABILITY=default", ""},
	{"ATen AVX-512", "ATEN_CPU_CAPABILITY=avx512", "AVX-512"},
	{"MKL COMPATIBLE", "MKL_CBWR=COMPATIBLE", ""},
	{"MKL SSE4.2", "MKL_CBWR=SSE4_2", ""},
	{"MKL AVX2, no answer", "MKL_CBWR=AVX2 REPRODUCIBLE_ANSWER=0", "AVX2"},
	{"MKL AVX-512", "MKL_CBWR=AVX512", "AVX-512"},
	{"MKL unset", "MKL_CBWR= REPRODUCIBLE_ANSWER=0", ""},
	{"oneDNN SSE4.1", "ONEDNN_MAX_CPU_ISA=SSE41", ""},
	{"oneDNN AVX-512", "ONEDNN_MAX_CPU_ISA=AVX512_CORE", "AVX-512"},
	{"2 threads", "OMP_NUM_THREADS=2 MKL_NUM_THREADS=2", ""},
	{"a CPU without AVX2", "ATEN_CPU_CAPABILITY=default MKL_CBWR=SSE4_2 ONEDNN_MAX_CPU_ISA=SSE41 " +
		"REPRODUCIBLE_ANSWER=0", ""},
	{"this CPU, nothing pinned, 2 threads", "ATEN_CPU_CAPABILITY= MKL_CBWR= ONEDNN_MAX_CPU_ISA= OMP_NUM_THREADS=2 " +
		"MKL_NUM_THREADS=2 REPRODUCIBLE_ANSWER=0", ""},
}

// lacking is what the row needs and this CPU has not.
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

// result is what the tests of a row did.
type result struct {
	bitwise, within int // cases equal in every bit, and others that passed
	failed          []failure
	took            time.Duration
}

// failure is a test that failed, or what else went wrong with a suite.
type failure struct{ suite, test, subtest string }

// summary has a line for each test, with the number of its subtests that failed.
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

// run runs the suites one after the other; their output and the count of cases go into folder.
func (r row) run(ctx context.Context, suites []suite, folder string) (x result) {
	started := time.Now()
	defer func() { x.took = time.Since(started) }()
	fail := func(suite, test, subtest string) { x.failed = append(x.failed, failure{suite, test, subtest}) }
	if err := os.MkdirAll(folder, 0o755); err != nil {
		fail("", err.Error(), "")
		return x
	}
	count := filepath.Join(folder, "count")
	for _, s := range suites {
		cmd := exec.CommandContext(ctx, s.binary, "-test.timeout=20m")
		cmd.Dir = s.folder
		cmd.Env = append(os.Environ(), "GOTRAINER_TEST_PINS="+r.settings, goldencount.File+"="+count,
			"GOTRAINER_REQUIRE_TORCH=1")
		out, err := cmd.CombinedOutput()
		log := filepath.Join(folder, filepath.Base(s.binary)+".log")
		if writeErr := os.WriteFile(log, out, 0o644); writeErr != nil {
			fail(s.name, writeErr.Error(), "")
		}
		if err == nil {
			continue
		}
		names := failures(string(out))
		for _, name := range names {
			test, subtest, _ := strings.Cut(name, "/")
			fail(s.name, test, subtest)
		}
		if len(names) == 0 {
			fail(s.name, err.Error()+": "+log, "")
		}
	}
	f, err := os.Open(count)
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.New("no test counted a case")
	}
	if err != nil {
		fail("", err.Error(), "")
		return x
	}
	defer f.Close()
	records, err := goldencount.Read(f)
	if err != nil {
		fail("", count+": "+err.Error(), "")
	}
	for _, c := range records {
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

// failures are the names of the tests that failed, without tests that failed only because a subtest
// did.
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
