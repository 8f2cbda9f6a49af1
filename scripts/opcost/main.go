// Command opcost measures what a call of an operator costs in Go, in C++ and in Python, on this
// machine, one thread each, and prints the table of docs/performance.md:
//
//	make opcost PYTHON=venv/bin/python
//
// The three run the same calls of the same libtorch in turn, -runs times; a figure is the median
// over the runs of the minimum of seven rounds. The C++ program is skipped without -include, and
// Python without a Python that has torch.
package main

import (
	"bufio"
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

func main() {
	o := options{}
	flag.StringVar(&o.include, "include", "", "the include folder of libtorch, to build the C++ program")
	flag.StringVar(&o.lib, "lib", "", "the lib folder of libtorch, to link it")
	flag.StringVar(&o.python, "python", "python3", "the Python that has torch")
	flag.StringVar(&o.peers, "peers", "scripts/opcost/peers", "the folder of opcost.cc and opcost.py")
	flag.IntVar(&o.runs, "runs", 3, "how often each program runs")
	self := flag.Bool("self", false, "only print Go's times, one case a line")
	flag.Parse()
	var err error
	if *self {
		err = measureAll(os.Stdout)
	} else {
		err = o.compare(os.Stdout)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "opcost:", err)
		os.Exit(1)
	}
}

type options struct {
	include, lib, python, peers string
	runs                        int
}

// times holds the nanoseconds of each case, one per run.
type times map[string][]float64

// program is one of the compared programs.
type program struct {
	name    string
	command []string
	times   times
}

func (o options) compare(out io.Writer) error {
	if o.runs < 1 {
		return fmt.Errorf("-runs is %d; want at least 1", o.runs)
	}
	folder, err := os.MkdirTemp("", "opcost")
	if err != nil {
		return err
	}
	defer os.RemoveAll(folder)
	self, err := os.Executable()
	if err != nil {
		return err
	}
	programs := []program{{name: "Go", command: []string{self, "-self"}}}
	if o.include != "" {
		native := filepath.Join(folder, "opcost")
		compile := exec.Command("g++", "-std=c++20", "-O2", "-isystem", o.include, "-o", native, filepath.Join(o.peers,
			"opcost.cc"),
			"-L"+o.lib, "-Wl,-rpath,"+o.lib, "-Wl,--allow-shlib-undefined", "-ltorch_cpu", "-lc10")
		if text, err := compile.CombinedOutput(); err != nil {
			return fmt.Errorf("building the C++ program: %w\n%s", err, text)
		}
		programs = append(programs, program{name: "C++", command: []string{native}})
	}
	if err := exec.Command(o.python, "-c", "import torch").Run(); err == nil {
		programs = append(programs, program{name: "Python", command: []string{o.python, filepath.Join(o.peers,
			"opcost.py")}})
	} else {
		fmt.Fprintf(os.Stderr, "opcost: %s has no torch and is left out: %v\n", o.python, err)
	}
	for range o.runs {
		for i := range programs {
			if err := programs[i].run(); err != nil {
				return fmt.Errorf("%s: %w", programs[i].name, err)
			}
		}
	}
	return table(out, programs)
}

// run runs the program once, on one thread, and adds its times.
func (p *program) run() error {
	c := exec.Command(p.command[0], p.command[1:]...)
	c.Env = append(os.Environ(), "OMP_NUM_THREADS=1", "MKL_NUM_THREADS=1")
	var text, errs bytes.Buffer
	c.Stdout, c.Stderr = &text, &errs
	if err := c.Run(); err != nil {
		return fmt.Errorf("%w\n%s", err, errs.Bytes())
	}
	if p.times == nil {
		p.times = times{}
	}
	return p.times.read(&text)
}

// read adds the lines "name<TAB>nanoseconds" of a run.
func (t times) read(in io.Reader) error {
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), "\t")
		ns, err := strconv.ParseFloat(value, 64)
		if !ok || err != nil || !(ns > 0) {
			return fmt.Errorf("want name, tab, nanoseconds; found %q", lines.Text())
		}
		t[name] = append(t[name], ns)
	}
	return lines.Err()
}

// median returns the median over the runs of a case, or 0 if there were none.
func (t times) median(name string) float64 {
	s := slices.Sorted(slices.Values(t[name]))
	if len(s) == 0 {
		return 0
	}
	return s[len(s)/2]
}

// table prints the medians in Markdown, with Go's time divided by that of each other program.
func table(out io.Writer, programs []program) error {
	head, rule := "| family | call |", "| --- | --- |"
	for _, p := range programs {
		head, rule = head+" "+p.name+", ns |", rule+" ---: |"
	}
	for _, p := range programs[1:] {
		head, rule = head+" Go / "+p.name+" |", rule+" ---: |"
	}
	fmt.Fprintf(out, "%s\n%s\n", head, rule)
	var missing []error
	family := ""
	for _, c := range cases {
		shown := c.family
		if shown == family {
			shown = ""
		}
		family = c.family
		fmt.Fprintf(out, "| %s | `%s` |", shown, c.name)
		ratios := ""
		ours := programs[0].times.median(c.name)
		for i, p := range programs {
			theirs := p.times.median(c.name)
			if theirs == 0 {
				missing = append(missing, fmt.Errorf("%s did not measure %q", p.name, c.name))
			}
			fmt.Fprintf(out, " %.0f |", theirs)
			if i > 0 {
				ratios += fmt.Sprintf(" %.2f |", ours/theirs)
			}
		}
		fmt.Fprintf(out, "%s\n", ratios)
	}
	return errors.Join(missing...)
}
