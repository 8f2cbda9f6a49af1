// Command gpuprobe tests, on a machine with a GPU and through the public API, what cannot be tested
// without one, and prints a line of JSON for each probe:
//
//	gpuprobe -device cuda ops parity resume fp16 waits oom growth broken
//
// A line has the name of the probe, the seconds that it took, what it found, and under "failed"
// what is not as expected. The exit status is 1 if something failed, and 2 if the command line is
// invalid. With -device cpu, probes that do not concern CUDA itself compare the CPU with itself;
// the others say "needs a GPU". With -tiny all of them do little, to see that they run.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gotrainer/gotrainer/torch"
)

// probe is one test.
type probe struct {
	name, about string
	gpu         bool // needs a GPU
	ask         func(m machine) answer
}

// answer is the result of a probe: anything that JSON can represent, and what is not as expected.
type answer struct {
	found  any
	failed []string
}

func (a *answer) expect(ok bool, format string, args ...any) {
	if !ok {
		a.failed = append(a.failed, fmt.Sprintf(format, args...))
	}
}

// machine describes where the probes run.
type machine struct {
	device torch.Device
	tiny   bool
}

// less returns small with -tiny, and usual otherwise.
func (m machine) less(usual, small int) int {
	if m.tiny {
		return small
	}
	return usual
}

// In the order to run on a new machine: what everything else depends on comes first.
var probes = []probe{
	{"ops", "single operators and their gradients against the CPU", false, operators},
	{"parity", "losses and norms of trainings against the CPU, TF32 off, and bf16 against fp32", false, parity},
	{"resume", "an interrupted run against a whole one, bit for bit", false, resume},
	{"fp16", "trainings with loss scaling", true, float16},
	{"determinism", "trainings with reproducible operators only", false, determinism},
	{"waits", "what a step calls of the CUDA runtime, from a profile", false, waits},
	{"threads", "goroutines that compute at the same time", false, threads},
	{"upload", "how fast slices of Go come to the device", false, upload},
	{"attention", "first and later calls of attention for changing lengths", false, attention},
	{"oom", "memory that runs out, and the recovery", true, outOfMemory},
	{"growth", "memory after one run and after three", false, growth},
	{"broken", "the errors after an illegal access, in a process of its own", true, broken},
}

// illegalAccess is the probe that "broken" starts as a separate process; it is not in the list.
const illegalAccess = "illegal-access"

func main() { os.Exit(command(os.Args[1:], os.Stdout, os.Stderr)) }

func command(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("gpuprobe", flag.ContinueOnError)
	flags.SetOutput(stderr)
	name := flags.String("device", "auto", "auto (the GPU if there is one), cpu, cuda or cuda:N")
	var m machine
	flags.BoolVar(&m.tiny, "tiny", false, "do little, to see that all of it runs")
	flags.Usage = func() {
		fmt.Fprintln(stderr, "usage: gpuprobe [-device D] [-tiny] [PROBE...]\n\nProbes, all without a name:")
		for _, p := range probes {
			fmt.Fprintf(stderr, "  %-12s %s\n", p.name, p.about)
		}
		flags.PrintDefaults()
	}
	if err := flags.Parse(args); err != nil {
		return 2
	}
	chosen, err := choose(flags.Args())
	if err != nil {
		fmt.Fprintln(stderr, "gpuprobe:", err)
		return 2
	}
	if m.device, err = torch.ParseDevice(*name); err != nil {
		fmt.Fprintln(stderr, "gpuprobe:", err)
		return 1
	}
	code := 0
	for _, p := range chosen {
		if len(ask(p, m, stdout)) > 0 {
			code = 1
		}
	}
	return code
}

func choose(names []string) ([]probe, error) {
	if len(names) == 0 {
		return probes, nil
	}
	var chosen []probe
	for _, name := range names {
		if name == illegalAccess {
			return []probe{{name, "", true, brokenChild}}, nil
		}
		i := slices.IndexFunc(probes, func(p probe) bool { return p.name == name })
		if i < 0 {
			var all []string
			for _, p := range probes {
				all = append(all, p.name)
			}
			return nil, fmt.Errorf("there is no probe %q; want some of %s", name, strings.Join(all, ", "))
		}
		chosen = append(chosen, probes[i])
	}
	return chosen, nil
}

// ask runs one probe. An error of an operator is a failure of the probe.
func ask(p probe, m machine, stdout io.Writer) (failed []string) {
	begin := time.Now()
	var a answer
	if p.gpu && !m.device.IsCUDA() {
		a.found = "needs a GPU"
	} else if err := torch.Try(func() { a = p.ask(m) }); err != nil {
		a.failed = append(a.failed, err.Error())
	}
	line := map[string]any{"probe": p.name, "device": m.device.String(), "found": a.found,
		"seconds": time.Since(begin).Seconds()}
	if len(a.failed) > 0 {
		line["failed"] = a.failed
	}
	encoder := json.NewEncoder(stdout)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(line); err != nil { // contains a nan, which JSON cannot represent
		line["found"] = fmt.Sprintf("%+v", a.found)
		_ = encoder.Encode(line) // to standard output
	}
	return a.failed
}
