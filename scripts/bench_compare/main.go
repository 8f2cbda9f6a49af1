// Command bench_compare runs the workloads of internal/bench and Python programs that do the same
// work, and writes the tables of docs/performance.md:
//
//	make bench-compare ROUNDS=7 ROWS=mlp,crnn
//	bench_compare -device cuda -threads 16 -rounds 3 -impls raw_tuned,hf_tuned
//
// Within a row the programs take turns, and each round starts with another one, so that drift of
// the machine affects all alike. A ratio is the peer's time or memory divided by ours, the median
// over the rounds. Losses are compared, and a row whose programs did not do the same work says so.
// If a row fails or is interrupted (Ctrl-C), the rows before it are still written.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"time"
)

type options struct {
	bench, python, peers, data, rows, write string
	device, impls, threads                  string
	rounds                                  int
	tiny                                    bool
	timeout                                 time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.bench, "bench", ".build/bench", "the program that internal/bench builds")
	flag.StringVar(&o.python, "python", "python3", "the Python that has the packages of requirements.txt")
	flag.StringVar(&o.peers, "peers", "scripts/bench_compare/peers", "the folder of the programs in Python")
	flag.StringVar(&o.data, "data", "../shared/data", "the folder of the data sets")
	flag.StringVar(&o.rows, "rows", "", "the rows to run, with commas between them; default: all")
	flag.StringVar(&o.impls, "impls", "", "of the peers only these, with commas between them; default: all")
	flag.StringVar(&o.device, "device", "cpu", "cpu, cuda or cuda:N; a GPU has rows and sizes of its own")
	flag.StringVar(&o.threads, "threads", "1,2", "the threads within one operator, with commas between them")
	flag.IntVar(&o.rounds, "rounds", 7, "how often each program runs")
	flag.BoolVar(&o.tiny, "tiny", false, "a few steps, to see that all of it runs")
	flag.StringVar(&o.write, "write", "", "the document whose tables are replaced; default: print them")
	flag.DurationVar(&o.timeout, "timeout", 30*time.Minute, "for one run of a program")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := o.run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench_compare:", err)
		os.Exit(1)
	}
}

func (o options) run(ctx context.Context) error {
	rows, err := o.chosen()
	if err != nil {
		return err
	}
	var threads []int
	for text := range strings.SplitSeq(o.threads, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return fmt.Errorf("-threads is %q; want numbers from 1 on with commas between them", o.threads)
		}
		threads = append(threads, n)
	}
	results, failed := o.compareAll(ctx, rows, threads)
	if len(results) == 0 {
		return failed
	}
	return errors.Join(failed, o.publish(report(machine(), time.Now(), o, results)))
}

// compareAll stops at the first row that fails, and returns the results before it with the error.
func (o options) compareAll(ctx context.Context, rows []row, threads []int) (results []compared, err error) {
	for _, n := range threads {
		for _, r := range rows {
			c, err := o.compare(ctx, r, n)
			if err != nil {
				return results, err
			}
			results = append(results, c)
		}
	}
	return results, nil
}

// publish writes the tables into the document, or prints them.
func (o options) publish(text string) error {
	if o.write == "" {
		fmt.Print(text)
		return nil
	}
	document, err := os.ReadFile(o.write)
	if err != nil {
		return err
	}
	replaced, err := replace(string(document), text)
	if err != nil {
		return fmt.Errorf("%s: %w", o.write, err)
	}
	return os.WriteFile(o.write, []byte(replaced), 0o644)
}

// machine describes the machine. Cloud machines call any CPU "AMD EPYC" or "Intel(R) Xeon(R)
// Processor", so the description includes family and model number.
func machine() string {
	cpu := runtime.GOARCH
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		fields := map[string]string{}
		for line := range strings.Lines(string(info)) {
			name, value, _ := strings.Cut(line, ":")
			fields[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
		if fields["model name"] != "" {
			cpu = fmt.Sprintf("%s (family %s, model %s)", fields["model name"], fields["cpu family"], fields["model"])
		}
	}
	return fmt.Sprintf("%d CPUs, %s, %s", runtime.NumCPU(), cpu, runtime.Version())
}

// load returns the load average.
func load() float64 {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return -1
	}
	first, _, _ := strings.Cut(string(text), " ")
	average, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return -1
	}
	return average
}
