package torch_test

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

// TestReproducibleChild runs in a child process, since libtorch reads its settings only once. It
// requests reproducible numbers before and after libtorch is loaded, and prints the results.
func TestReproducibleChild(t *testing.T) {
	if os.Getenv(childVariable) != "reproducible" {
		t.Skip("it runs in processes that TestReproducible starts")
	}
	if os.Getenv("ASK") != "" {
		fmt.Printf("BEFORE: %v\n", torch.Reproducible(2))
	}
	build, err := torch.BuildInfo()
	fmt.Printf("LOAD: %v\nBUILD: %s, %d threads, reproducible with %d\n", err, build.CPUCapability, build.Threads,
		build.Reproducible)
	fmt.Printf("MKL: %v\n", build.MKL)
	fmt.Printf("PINS: %s %s %s\n", os.Getenv("ATEN_CPU_CAPABILITY"), os.Getenv("ONEDNN_MAX_CPU_ISA"),
		os.Getenv("MKL_CBWR"))
	fmt.Printf("AGAIN: %v\nOTHER: %v\nEND\n", torch.Reproducible(2), torch.Reproducible(3))
}

func TestCPUsThatLackInstructionsOfLibtorchAreRefused(t *testing.T) {
	assert.Contains(t, torch.MissingInstructions("linux", "arm64", false), "needs a CPU with the atomic instructions")
	assert.Empty(t, torch.MissingInstructions("linux", "arm64", true))
	assert.Empty(t, torch.MissingInstructions("linux", "amd64", false))
	assert.Empty(t, torch.MissingInstructions("darwin", "arm64", false), "every Apple silicon has them")
}

func TestReproducible(t *testing.T) {
	testenv.RequireTorch(t)
	if testing.Short() {
		t.Skip("starts a process for each case; not with -short")
	}
	if build, err := torch.BuildInfo(); err != nil || build.Reproducible == 0 {
		t.Skip("this CPU has no AVX2")
	}
	for _, c := range []struct {
		claim string
		env   []string
		want  []string
	}{
		{"asked for by the program", []string{"ASK=1"}, []string{"BEFORE: <nil>", "LOAD: <nil>",
			"BUILD: AVX2, 2 threads, reproducible with 2", "PINS: avx2 AVX2 AVX2", "AGAIN: <nil>",
			"with numbers that are reproducible with threads = 2"}},
		{"asked for by the environment", []string{"GOTRAINER_REPRODUCIBLE=2"}, []string{"LOAD: <nil>",
			"BUILD: AVX2, 2 threads, reproducible with 2", "PINS: avx2 AVX2 AVX2", "AGAIN: <nil>", "OTHER: torch:",
			"MKL: Intel's: numbers are reproducible"}},
		{"asked for, with MKL left to itself", []string{"GOTRAINER_REPRODUCIBLE=2", "GOTRAINER_MKL=native"},
			[]string{"reproducible with 2", "MKL: its own choice: GOTRAINER_MKL is native"}},
		{"MKL's kernels for Intel's CPUs alone", []string{"GOTRAINER_MKL=intel"},
			[]string{"LOAD: <nil>", "reproducible with 0", "MKL: Intel's: GOTRAINER_MKL is intel"}},
		{"MKL's kernels where bits are compared", []string{"MKL_CBWR=COMPATIBLE"},
			[]string{"LOAD: <nil>", "MKL: its own choice: MKL_CBWR is set"}},
		{"the program has the last word", []string{"ASK=1", "GOTRAINER_REPRODUCIBLE=1"},
			[]string{"2 threads, reproducible with 2"}},
		{"the pins replace what is set", []string{"GOTRAINER_REPRODUCIBLE=2", "MKL_CBWR=SSE4_2",
			"ATEN_CPU_CAPABILITY=default"}, []string{"BUILD: AVX2", "PINS: avx2 AVX2 AVX2"}},
		{"not asked for", nil, []string{"reproducible with 0", "PINS:   \n",
			"AGAIN: torch: Reproducible: libtorch is loaded already, without reproducible numbers",
			"call torch.Reproducible(2) before the first tensor, or set GOTRAINER_REPRODUCIBLE=2"}},
		{"switched off", []string{"GOTRAINER_REPRODUCIBLE=0"}, []string{"LOAD: <nil>", "reproducible with 0"}},
		{"no number", []string{"GOTRAINER_REPRODUCIBLE=yes"},
			[]string{`LOAD: torch: Load: GOTRAINER_REPRODUCIBLE is "yes": want the number of threads`}},
		{"no thread at all", []string{"GOTRAINER_REPRODUCIBLE=-1"},
			[]string{`LOAD: torch: Load: GOTRAINER_REPRODUCIBLE is "-1": want the number of threads`}},
	} {
		t.Run(c.claim, func(t *testing.T) {
			cmd := exec.Command(os.Args[0], "-test.run=^TestReproducibleChild$")
			for _, e := range os.Environ() {
				switch name, _, _ := strings.Cut(e, "="); name {
				case "ATEN_CPU_CAPABILITY", "ONEDNN_MAX_CPU_ISA", "MKL_CBWR", "OMP_NUM_THREADS", "MKL_NUM_THREADS",
					"GOTRAINER_MKL", torch.ReproducibleVariable:
				default:
					cmd.Env = append(cmd.Env, e)
				}
			}
			cmd.Env = append(append(cmd.Env, childVariable+"=reproducible"), c.env...)
			out, err := cmd.CombinedOutput()
			require.NoError(t, err, string(out))
			for _, want := range c.want {
				assert.Contains(t, string(out), want)
			}
		})
	}
}

func TestReproducibleWantsAThread(t *testing.T) {
	assert.ErrorIs(t, torch.Reproducible(0), torch.ErrValue)
}
