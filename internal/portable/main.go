// Command portable runs the golden tests once for each row of a table of code paths: those that
// libtorch, MKL and oneDNN would take on other CPUs, and that this one takes if told to. Rows for
// whole machines also run the other tests of the same packages.
//
//	go run ./internal/portable                                  # make test-portable
//	go run ./internal/portable -rows MKL                        # the rows whose names match, after the first
//	go run ./internal/portable -counted FILE -rows '^this CPU'  # after make test, which counts the cases
//	go run ./internal/portable -binaries FOLDER                 # with the test binaries that were kept there
//
// For each row it prints the number of cases, and how many of them are bitwise equal to PyTorch's
// numbers, within a tolerance, or failed. The exit status is 1 if any failed.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/gotrainer/gotrainer/internal/goldencount"
)

func main() {
	only := flag.String("rows", "", "run only the rows whose names match this regular expression, and the first "+
		"where one of them needs it")
	counted := flag.String("counted", "", "run only the tests that counted cases in this file, which "+
		goldencount.File+" named when all tests ran; the first row is then not needed to find them")
	kept := flag.String("binaries", "", "folder of test binaries that need not be built, which "+
		goldencount.Binaries+" named when all tests ran")
	jobs := flag.Int("jobs", runtime.NumCPU(), "how many rows run at the same time")
	logs := flag.String("logs", filepath.Join(".build", "portable"), "folder of the tests' output, which is emptied "+
		"first")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, *only, *counted, *kept, *logs, max(1, *jobs)); err != nil {
		fmt.Fprintln(os.Stderr, "portable:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, only, counted, kept, logs string, jobs int) error {
	match, err := regexp.Compile(only)
	if err != nil {
		return fmt.Errorf("-rows: %w", err)
	}
	logs, err = filepath.Abs(logs)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(logs); err != nil {
		return err
	}
	started := time.Now()
	suites, err := build(ctx, kept, filepath.Join(logs, "bin"))
	if err != nil {
		return err
	}
	fmt.Printf("%d packages with golden tests, ready in %.0f s\n", len(suites), time.Since(started).Seconds())

	if counted != "" {
		if err := narrow(suites, counted); err != nil {
			return err
		}
	}
	chosen := choose(match, counted == "")
	results := make([]result, len(rows))
	known := make(chan struct{}) // closed when the first row has determined which tests compare
	slots := make(chan struct{}, jobs)
	var all sync.WaitGroup
	for i, r := range rows {
		if !chosen[i] || r.lacking() != "" {
			continue
		}
		all.Go(func() {
			tested := suites
			if !r.machine && counted == "" {
				<-known
				tested = results[0].golden
			}
			slots <- struct{}{}
			defer func() { <-slots }()
			results[i] = r.run(ctx, tested, filepath.Join(logs, fmt.Sprintf("row%02d", i+1)))
			fmt.Printf("%s: %.0f s\n", r.name, results[i].took.Seconds())
			if i == 0 {
				close(known)
			}
		})
	}
	all.Wait()
	if ctx.Err() != nil {
		return ctx.Err()
	}

	failed := 0
	fmt.Printf("\n%-35s %6s %8s %17s %7s\n", "row", "cases", "bitwise", "within tolerance", "failed")
	for i, r := range rows {
		switch lacking := r.lacking(); {
		case !chosen[i]:
		case lacking != "":
			fmt.Printf("%-35s left out: this CPU has no %s\n", r.name, lacking)
		default:
			x := results[i]
			n := len(x.failed)
			fmt.Printf("%-35s %6d %8d %17d %7d\n", r.name, x.bitwise+x.within+n, x.bitwise, x.within, n)
			failed += n
		}
	}
	for i, r := range rows {
		for _, line := range results[i].summary() {
			fmt.Printf("FAILED under %s: %s\n", r.name, line)
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d tests failed; their output is in %s", failed, logs)
	}
	fmt.Printf("no test failed, in %.0f s\n", time.Since(started).Seconds())
	return nil
}

// narrow limits the suites to the tests that counted cases in a file. It does not say which package a
// test belongs to, so a test of the same name in another package runs too.
func narrow(suites []suite, counted string) error {
	records, err := read(counted)
	if err == nil && len(records) == 0 {
		err = errors.New("it counts no case; run make test first")
	}
	if err != nil {
		return fmt.Errorf("-counted %s: %w", counted, err)
	}
	for i := range suites {
		suites[i].tests = testsOf(records)
	}
	return nil
}

// choose reports for each row whether it runs: those whose names match, and the first row if it has to
// find the tests of one of them.
func choose(match *regexp.Regexp, find bool) []bool {
	chosen := make([]bool, len(rows))
	for i, r := range rows {
		chosen[i] = match.MatchString(r.name)
		chosen[0] = chosen[0] || find && chosen[i] && !r.machine
	}
	return chosen
}

// suite is the test binary of a package with the tests to run: all, or those named.
type suite struct {
	name, folder, binary string
	tests                []string
}

// build finds the packages whose tests compare with golden values, so that none is forgotten, and
// builds the tests that were not kept.
func build(ctx context.Context, kept, bin string) ([]suite, error) {
	list, err := output(ctx, "go", "list", "-test", "-f", "{{.ImportPath}}\t{{.Dir}}\t{{.Deps}}", "./...")
	if err != nil {
		return nil, err
	}
	suites := find(list)
	if len(suites) == 0 {
		return nil, fmt.Errorf("go list found no package whose tests import internal/golden or internal/goldencount; " +
			"run this in a checkout of gotrainer")
	}
	bin, err = filepath.Abs(bin)
	if err == nil && kept != "" {
		kept, err = filepath.Abs(kept)
	}
	if err != nil {
		return nil, err
	}
	var missing []string
	for i, s := range suites {
		suites[i].binary = filepath.Join(kept, goldencount.KeptAs(s.name))
		if _, err := os.Stat(suites[i].binary); kept == "" || err != nil {
			suites[i].binary = filepath.Join(bin, filepath.Base(s.name)+".test")
			missing = append(missing, s.name)
		}
	}
	if missing == nil {
		return suites, nil
	}
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return nil, err
	}
	_, err = output(ctx, "go", append([]string{"test", "-c", "-o", bin + string(filepath.Separator)}, missing...)...)
	return suites, err
}

var golden = regexp.MustCompile(`/internal/golden(count)?[] ]`)

// find parses the output of go list about test binaries. Tests of internal packages are left out:
// they test tools.
func find(list string) []suite {
	var suites []suite
	for line := range strings.Lines(list) {
		fields := strings.SplitN(line, "\t", 3)
		name, isTest := strings.CutSuffix(fields[0], ".test")
		if len(fields) == 3 && isTest && golden.MatchString(fields[2]) && !strings.Contains(name,
			"/gotrainer/internal/") {
			suites = append(suites, suite{name: name, folder: fields[1]})
		}
	}
	return suites
}

func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var out, problems bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &problems
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", strings.Join(cmd.Args[:2], " "), err, problems.String())
	}
	return out.String(), nil
}
