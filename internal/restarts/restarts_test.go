package restarts_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/launch"
	"github.com/gotrainer/gotrainer/internal/tensorio"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/run"
	"github.com/gotrainer/gotrainer/safetensors"
	"github.com/gotrainer/gotrainer/torch"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

var kills = flag.Int("kills", 3, "how many processes are killed under each launcher; the long form: 20")

// Environment variables of a member process: its folder, and which rank dies before which update of
// which start, as "rank:update,rank:update".
const (
	folderVariable = "RESTARTS_TEST_FOLDER"
	deathsVariable = "RESTARTS_TEST_DEATHS"
	slowVariable   = "RESTARTS_TEST_SLOW" // a tenth of a second for each update
)

const (
	world    = 2
	updates  = 24
	restarts = 3
)

// TestMain is also the main function of the processes that the launchers start.
func TestMain(m *testing.M) {
	testenv.PinBits()
	if dir := os.Getenv(folderVariable); dir != "" {
		time.AfterFunc(2*time.Minute, func() { os.Exit(99) }) // even if its launcher does nothing
		run.Main(func(ctx context.Context) error { return member(ctx, dir) })
	}
	os.Exit(testenv.Run(m))
}

// newModel returns a model with what makes resuming difficult: dropout and running statistics.
func newModel() nn.Layer {
	return nn.Sequential{nn.NewLinear(2, 16, nil), nn.NewBatchNorm1d(16, nil), nn.ReLU{}, nn.NewDropout(0.3),
		nn.NewLinear(16, 2, nil)}
}

// member is the program, as anybody would write it for torchrun.
func member(ctx context.Context, dir string) error {
	dies := death(dir)
	if dies == 0 {
		kill() // before it has joined
	}
	g, err := dist.Init(ctx, dist.Options{JoinTimeout: 30 * time.Second})
	if err != nil {
		return err
	}
	defer func() { _ = g.Close() }()
	torch.SetThreads(1)
	torch.ManualSeed(1)
	model := newModel()
	step, err := engine.New(engine.Classify(model), engine.Options{})
	if err != nil {
		return err
	}
	t, err := trainer.New(step, trainer.Options{Group: g, OutputDir: filepath.Join(dir, "run"), Epochs: 3, BatchSize: 4,
		LearningRate: 0.01, Save: trainer.Every(3, trainer.Update), ResumeFrom: trainer.Latest,
		Progress: io.Discard, Callbacks: []any{diesAt(dies)}})
	if err != nil {
		return err
	}
	if _, err := t.Fit(ctx, points(64), nil); err != nil {
		return err
	}
	entries, err := tensorio.Entries(nn.StateDict(model))
	if err != nil {
		return err
	}
	if err := safetensors.WriteFile(filepath.Join(dir, fmt.Sprint("weights", g.Rank())), entries, nil); err != nil {
		return err
	}
	return g.Barrier(ctx)
}

func points(n int) data.Slice[data.Example] {
	list := make(data.Slice[data.Example], n)
	r := rand.New(rand.NewPCG(1, 2))
	for i := range list {
		x, y := r.Float32()-0.5, r.Float32()-0.5
		list[i] = data.Example{Features: []float32{x, y}}
		if x*y > 0 {
			list[i].Class = 1
		}
	}
	return list
}

// death returns the update before which this process dies in this start; -1: none.
func death(dir string) int {
	rank, start := os.Getenv("RANK"), os.Getenv("TORCHELASTIC_RESTART_COUNT")
	_ = os.WriteFile(filepath.Join(dir, "started-"+rank+"-"+start), nil, 0o666)
	list := strings.Split(os.Getenv(deathsVariable), ",")
	i, err := strconv.Atoi(start)
	if err != nil || i >= len(list) {
		return -1
	}
	who, when, _ := strings.Cut(list[i], ":")
	if n, err := strconv.Atoi(when); err == nil && who == rank {
		return n
	}
	return -1
}

// diesAt kills the process at the end of an update.
type diesAt int

func (d diesAt) StepEnd(r *trainer.Run) error {
	if r.GlobalStep == int(d) {
		kill()
	}
	if os.Getenv(slowVariable) != "" {
		time.Sleep(100 * time.Millisecond)
	}
	return nil
}

func kill() {
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// deaths returns random deaths for one run, at increasing updates: a start from a checkpoint would
// not reach an earlier one.
func deaths(r *rand.Rand, n int) string {
	var list []string
	for i := range n {
		list = append(list, fmt.Sprintf("%d:%d", r.IntN(world), i*updates/n+r.IntN(updates/n)))
	}
	return strings.Join(list, ",")
}

// launched runs the program under gotrainer launch, on one machine, or as if each process were on
// its own machine.
func launched(t *testing.T, dir, deaths string, machines int) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	o := launch.Options{Processes: world / machines, Nodes: machines, Command: []string{os.Args[0]},
		MaxRestarts: restarts, Env: []string{folderVariable + "=" + dir, deathsVariable + "=" + deaths,
			"OMP_NUM_THREADS=1"}, Patience: 100 * time.Millisecond}
	if machines > 1 {
		o.Master = "127.0.0.1:" + freePort(t)
	}
	errs, outputs := make([]error, machines), make([]bytes.Buffer, machines)
	var work sync.WaitGroup
	for node := range machines {
		o := o
		o.NodeRank, o.Stdout, o.Stderr = node, &outputs[node], &outputs[node]
		work.Go(func() { errs[node] = launch.Run(ctx, o) })
	}
	work.Wait()
	for node, err := range errs {
		if err != nil {
			t.Logf("machine %d: %v\n%s", node, err, outputs[node].String())
		}
	}
	return errors.Join(errs...)
}

// weights returns the files that the processes have written.
func weights(t *testing.T, dir string) (list [world][]byte) {
	t.Helper()
	for rank := range list {
		text, err := os.ReadFile(filepath.Join(dir, fmt.Sprint("weights", rank)))
		require.NoError(t, err)
		list[rank] = text
	}
	return list
}

var whole [world][]byte

// undisturbed returns the weights of an undisturbed run.
func undisturbed(t *testing.T) [world][]byte {
	t.Helper()
	testenv.RequireTorch(t)
	if whole[0] == nil {
		dir := t.TempDir()
		require.NoError(t, launched(t, dir, "", 1))
		whole = weights(t, dir)
	}
	return whole
}

// See pytorch#108158 and #135712: if a process dies before it has joined, the launcher on its
// machine restarts it, and the launcher on the other machine does not notice.
func TestMachinesThatCountTheirRestartsDifferentlyMeet(t *testing.T) {
	want := undisturbed(t)
	for _, deaths := range []string{"1:0,1:9", "0:0,1:5,0:11"} {
		dir := t.TempDir()
		require.NoError(t, launched(t, dir, deaths, 2))
		got := weights(t, dir)
		for rank := range want {
			assert.True(t, bytes.Equal(want[rank], got[rank]), "the weights of rank %d after %s", rank, deaths)
		}
	}
}

// repeat kills as many processes as the flag says, in runs with at most as many deaths as restarts.
func repeat(t *testing.T, start func(t *testing.T, dir, deaths string)) {
	t.Helper()
	want := undisturbed(t)
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for left := *kills; left > 0; left -= restarts {
		dir, plan := t.TempDir(), deaths(r, min(left, restarts))
		start(t, dir, plan)
		got := weights(t, dir)
		for rank := range want {
			assert.True(t, bytes.Equal(want[rank], got[rank]), "the weights of rank %d after the deaths %s (seed %d)",
				rank, plan, seed)
		}
		for rank := range world {
			assert.FileExists(t, filepath.Join(dir, fmt.Sprintf("started-%d-%d", rank, min(left, restarts))),
				"each death starts all again: %s", plan)
		}
	}
}

func TestGotrainerLaunchContinuesAfterDeaths(t *testing.T) {
	repeat(t, func(t *testing.T, dir, deaths string) {
		t.Helper()
		require.NoError(t, launched(t, dir, deaths, 1))
	})
}

// torchrun returns a command for the real torchrun: the one next to the interpreter in PYTHON, or
// in PATH. It is ended if it takes too long.
func torchrun(t *testing.T, dir, deaths string, flags ...string) *exec.Cmd {
	t.Helper()
	testenv.RequireTorch(t)
	name := "torchrun"
	if python := os.Getenv("PYTHON"); python != "" {
		name = filepath.Join(filepath.Dir(python), name)
	}
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skip("there is no torchrun in PATH, nor beside the interpreter that PYTHON names")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	t.Cleanup(cancel)
	c := exec.CommandContext(ctx, path, append(flags, "--no-python", "--nproc-per-node", strconv.Itoa(world),
		os.Args[0])...)
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = 40 * time.Second // torchrun kills its processes 30 seconds after the signal
	c.Env = append(os.Environ(), folderVariable+"="+dir, deathsVariable+"="+deaths, "OMP_NUM_THREADS=1")
	return c
}

// This test needs an mpirun in PATH, of Open MPI or with Hydra.
func TestMpirunStartsAGroup(t *testing.T) {
	path, err := exec.LookPath("mpirun")
	if err != nil {
		t.Skip("there is no mpirun in PATH")
	}
	want, dir := undisturbed(t), t.TempDir()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	c := exec.CommandContext(ctx, path, "-n", strconv.Itoa(world), os.Args[0])
	c.WaitDelay = 10 * time.Second
	c.Env = append(os.Environ(), folderVariable+"="+dir, "MASTER_PORT="+freePort(t), "OMP_NUM_THREADS=1",
		"OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
	output, err := c.CombinedOutput()
	require.NoError(t, err, string(output))
	assert.Equal(t, want, weights(t, dir))
}

func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	return strconv.Itoa(l.Addr().(*net.TCPAddr).Port)
}

func TestTorchrunContinuesAfterDeaths(t *testing.T) {
	for name, flags := range map[string][]string{
		"standalone": {"--standalone"},
		"static":     {"--nnodes", "1", "--node-rank", "0", "--master-addr", "127.0.0.1"},
	} {
		t.Run(name, func(t *testing.T) {
			torchrun(t, t.TempDir(), "") // skips the test if there is no torchrun
			repeat(t, func(t *testing.T, dir, deaths string) {
				t.Helper()
				flags := slices.Clone(flags)
				if name == "static" {
					flags = append(flags, "--master-port", freePort(t))
				}
				flags = append(flags, "--max-restarts", strconv.Itoa(restarts))
				output, err := torchrun(t, dir, deaths, flags...).CombinedOutput()
				require.NoError(t, err, string(output))
			})
		})
	}
}

func TestTorchrunPrintsWhyAProgramHasFailed(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "run"), nil, 0o666)) // a file where a folder should be created
	output, err := torchrun(t, dir, "", "--standalone").CombinedOutput()
	require.Error(t, err)
	_, summary, _ := strings.Cut(string(output), "Root Cause")
	assert.Contains(t, summary, filepath.Join(dir, "run"), string(output))
	assert.Contains(t, summary, "exitcode  : ", string(output))
}

// An interruption from outside: torchrun passes SIGTERM on, and kills 30 seconds later.
func TestASignalToTorchrunSaves(t *testing.T) {
	dir := t.TempDir()
	first := torchrun(t, dir, "", "--standalone") // skips the test if there is no torchrun
	want := undisturbed(t)
	first.Env = append(first.Env, slowVariable+"=1")
	var output bytes.Buffer
	first.Stdout, first.Stderr = &output, &output
	require.NoError(t, first.Start())
	ended := make(chan error, 1)
	go func() { ended <- first.Wait() }()
	for begun := false; !begun; {
		select {
		case err := <-ended:
			t.Fatalf("it ended before the signal: %v\n%s", err, output.String())
		case <-time.After(20 * time.Millisecond):
			_, err := os.Stat(filepath.Join(dir, "run", "checkpoint-3"))
			begun = err == nil
		}
	}
	require.NoError(t, first.Process.Signal(syscall.SIGTERM))
	require.Error(t, <-ended, "torchrun says that it was ended")
	assert.Equal(t, world, strings.Count(output.String(), `"kind":"terminated"`), output.String())
	again, err := torchrun(t, dir, "", "--standalone").CombinedOutput()
	require.NoError(t, err, string(again))
	got := weights(t, dir)
	for rank := range want {
		assert.True(t, bytes.Equal(want[rank], got[rank]), "the weights of rank %d", rank)
	}
}
