package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/gotrainer/gotrainer/dist/launch"
	"github.com/gotrainer/gotrainer/internal/terminal"
	"github.com/gotrainer/gotrainer/run"
)

// configCommand asks how programs are to be started and writes the answers to a file, as accelerate
// config does.
type configCommand struct {
	ConfigFile string `name:"config_file" aliases:"config-file" placeholder:"FILE" help:"File to write; by default where accelerate looks for it."`
	Default    bool   `name:"default" help:"Ask nothing: one process per GPU, or one on the CPU. An existing file is not changed."`
	Precision  string `name:"mixed_precision" aliases:"mixed-precision" enum:"no,bf16,fp16" default:"no" help:"no, bf16 or fp16: written with --default; otherwise the suggested answer."`
}

// Run is called by kong.
func (c *configCommand) Run() error {
	path := c.ConfigFile
	if path == "" {
		var err error
		if path, err = launch.DefaultConfigFile(); err != nil {
			return err
		}
	}
	var config launch.Config
	if c.Default {
		if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("config: %s already exists and was not changed; remove it, name another with --config_file, or "+
				"answer "+
				"the questions of gotrainer config", path)
		}
		config = basicConfig(gpus(), c.Precision)
	} else {
		if !terminal.Is(os.Stdin) {
			return run.Usage(errors.New("config: it asks questions, but standard input is not a terminal; gotrainer config " +
				"--default asks none"))
		}
		var err error
		if config, err = (&questions{in: bufio.NewScanner(os.Stdin), out: os.Stdout}).ask(gpus(), c.Precision); err != nil {
			return err
		}
	}
	if err := config.Write(path); err != nil {
		return err
	}
	fmt.Printf("the configuration is in %s; gotrainer launch PROGRAM uses it\n", path)
	return nil
}

// basicConfig is write_basic_config of accelerate.
func basicConfig(gpus int, precision string) launch.Config {
	c := launch.Config{DistributedType: "NO", MixedPrecision: precision, NumProcesses: max(1, gpus), NumMachines: 1,
		UseCPU: gpus == 0, GPUIDs: "all"}
	if gpus > 1 {
		c.DistributedType = "MULTI_GPU"
	}
	return c
}

// questions asks questions, each until it has a valid answer.
type questions struct {
	in  *bufio.Scanner
	out io.Writer
	err error // set when standard input has ended
}

func (q *questions) ask(gpus int, precision string) (launch.Config, error) {
	c := basicConfig(gpus, precision)
	usual := map[bool]string{true: "MULTI_GPU", false: "NO"}[gpus > 1]
	c.DistributedType = q.choice("How are programs started: one process (NO), several on CPUs (MULTI_CPU) or on GPUs "+
		"(MULTI_GPU)", usual, "NO", "MULTI_CPU", "MULTI_GPU")
	c.UseCPU = c.DistributedType == "MULTI_CPU" ||
		c.DistributedType == "NO" && q.choice("On the CPU only", map[bool]string{true: "yes", false: "no"}[gpus == 0],
			"yes", "no") == "yes"
	if c.NumProcesses = 1; c.DistributedType != "NO" {
		if c.NumMachines = q.number("On how many machines", 1, 1); c.NumMachines > 1 {
			c.MachineRank = q.number("Which of them is this, from 0", 0, 0)
			c.MainProcessIP = q.text("The address of machine 0", "")
			c.MainProcessPort = q.number("A free port there", 29500, 1)
		}
		each := q.number("How many processes on each machine", max(2, gpus), 1)
		c.NumProcesses = each * c.NumMachines
	}
	if !c.UseCPU {
		c.GPUIDs = q.text("Which GPUs, as 0,1,2, or all", "all")
	}
	c.MixedPrecision = q.choice("Mixed precision", precision, "no", "bf16", "fp16")
	return c, q.err
}

// text asks for a text. An empty answer means usual, if that is not empty.
func (q *questions) text(question, usual string) string {
	for q.err == nil {
		fmt.Fprint(q.out, question)
		if usual != "" {
			fmt.Fprintf(q.out, " [%s]", usual)
		}
		fmt.Fprint(q.out, ": ")
		if !q.in.Scan() {
			q.err = errors.Join(errors.New("config: standard input ended before all questions were answered; nothing was "+
				"written"),
				q.in.Err())
			break
		}
		if answer := strings.TrimSpace(q.in.Text()); answer != "" || usual != "" {
			if answer == "" {
				return usual
			}
			return answer
		}
	}
	return usual
}

func (q *questions) choice(question, usual string, answers ...string) string {
	for q.err == nil {
		answer := q.text(question, usual)
		if i := slices.IndexFunc(answers, func(a string) bool { return strings.EqualFold(a, answer) }); i >= 0 {
			return answers[i]
		}
		fmt.Fprintf(q.out, "%q is none of %s\n", answer, strings.Join(answers, ", "))
	}
	return usual
}

func (q *questions) number(question string, usual, least int) int {
	for q.err == nil {
		answer := q.text(question, strconv.Itoa(usual))
		if n, err := strconv.Atoi(answer); err == nil && n >= least {
			return n
		}
		fmt.Fprintf(q.out, "%q is not a whole number of at least %d\n", answer, least)
	}
	return usual
}
