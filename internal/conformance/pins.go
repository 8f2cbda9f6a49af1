package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/gotrainer/gotrainer/internal/conformance/spec"
	"github.com/gotrainer/gotrainer/internal/conformance/trace"
	"github.com/gotrainer/gotrainer/torch"
)

// A case includes the code paths that it was recorded on: env.mkl_cbwr in its trace names the
// branch of MKL. libtorch, MKL and oneDNN choose their code paths once per process, so cases with
// different pins run in separate processes, started as this program with -here.

// compatible is the branch of recordings that do not name one.
const compatible = "COMPATIBLE"

// environments lists the environment variables that reproduce each branch; AVX2 is that of package
// torch's reproducible mode.
var environments = map[string][]string{
	"AVX2": {torch.ReproducibleVariable + "=1"},
	compatible: {torch.ReproducibleVariable + "=0", "ATEN_CPU_CAPABILITY=avx2", "ONEDNN_MAX_CPU_ISA=AVX2",
		"MKL_CBWR=COMPATIBLE", "OMP_NUM_THREADS=1", "MKL_NUM_THREADS=1"},
}

// branchOf returns the branch of MKL that a case was recorded on.
func branchOf(dir string) string {
	stored, _ := trace.Read(dir) // vectors have no trace; a trace that cannot be read is reported by the replay
	env, _ := stored["env"].(map[string]any)
	branch, ok := env["mkl_cbwr"]
	if !ok {
		return compatible
	}
	name, _ := branch.(string)
	if _, ok := environments[name]; !ok {
		spec.Failf("%s: env.mkl_cbwr of the trace is %v, want AVX2, %s or nothing, which is %s", dir, branch, compatible,
			compatible)
	}
	return name
}

// replayByPins runs cases in one process for each set of pins, in order of first occurrence.
func (v *verdicts) replayByPins(ctx context.Context, cases []string, o caseOptions, problems io.Writer) {
	var branches []string
	byBranch := map[string][]string{}
	for _, dir := range cases {
		branch := branchOf(dir)
		if !slices.Contains(branches, branch) {
			branches = append(branches, branch)
		}
		byBranch[branch] = append(byBranch[branch], dir)
	}
	for _, branch := range branches {
		v.replayApart(ctx, byBranch[branch], environments[branch], o, problems)
	}
}

// replayApart runs cases in a separate process of this program with the given environment, and
// reads its output.
func (v *verdicts) replayApart(ctx context.Context, cases, environment []string, o caseOptions, problems io.Writer) {
	cmd := exec.CommandContext(ctx, spec.Must(os.Executable()), append([]string{"-here", "-json", "-traces", o.traces,
		"-data", o.data, "-device", o.device.String()}, cases...)...)
	cmd.Env = append(os.Environ(), environment...)
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.Stderr = problems
	lines := spec.Must(cmd.StdoutPipe())
	if err := cmd.Start(); err != nil {
		spec.Failf("a process for the recordings under %s: %w", strings.Join(environment, " "), err)
	}
	reading := v.read(lines)
	err := cmd.Wait()
	spec.Check(context.Cause(ctx))
	if status := new(exec.ExitError); errors.As(err, &status) && status.ExitCode() == 1 {
		err = nil // a case failed, as its output line says
	}
	if err != nil {
		err = fmt.Errorf("the process for the recordings under %s: %w", strings.Join(environment, " "), err)
	}
	spec.Check(errors.Join(err, reading))
}

// read adds the outcomes that a process prints, up to its summary line.
func (v *verdicts) read(lines io.Reader) error {
	list := json.NewDecoder(lines)
	for {
		var line struct {
			outcome
			Cases *int // of the summary line
		}
		if err := list.Decode(&line); err != nil {
			_, _ = io.Copy(io.Discard, lines)
			return fmt.Errorf("the process ended before its last line: %w", err)
		}
		if line.Cases != nil {
			return nil
		}
		v.add(line.outcome)
	}
}
