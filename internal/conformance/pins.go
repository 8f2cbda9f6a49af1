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

// The code paths that a case was recorded on belong to it: env.mkl_cbwr of its trace names the
// branch of MKL. libtorch, MKL and oneDNN choose theirs once in a process, so each set of pins has
// a process of its own, this program again with -here.

// compatible is the branch of recordings that name none.
const compatible = "COMPATIBLE"

// environments are the settings of each branch. AVX2 is that of reproducible numbers; under
// COMPATIBLE MKL itself was left as it is.
var environments = map[string][]string{
	"AVX2": {torch.ReproducibleVariable + "=1"},
	compatible: {torch.ReproducibleVariable + "=0", "ATEN_CPU_CAPABILITY=avx2", "ONEDNN_MAX_CPU_ISA=AVX2",
		"MKL_CBWR=COMPATIBLE", "OMP_NUM_THREADS=1", "MKL_NUM_THREADS=1"},
}

// branchOf reads the branch of MKL that a case was recorded on.
func branchOf(dir string) string {
	stored, _ := trace.Read(dir) // a folder of vectors has none, and of one that cannot be read the replay tells
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

// replayByPins runs cases in a process for each set of pins, in the order in which they first
// occur.
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

// replayApart runs cases in a process of this program with the environment, and reads its lines.
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
		err = nil // a case failed, as its line says
	}
	if err != nil {
		err = fmt.Errorf("the process for the recordings under %s: %w", strings.Join(environment, " "), err)
	}
	spec.Check(errors.Join(err, reading))
}

// read adds the outcomes that a process prints, up to its sum.
func (v *verdicts) read(lines io.Reader) error {
	list := json.NewDecoder(lines)
	for {
		var line struct {
			outcome
			Cases *int // of the sum
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
