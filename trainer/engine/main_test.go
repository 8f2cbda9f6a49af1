package engine_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	gonet "net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/nn"
	"github.com/gotrainer/gotrainer/run"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/engine"
)

// mainRun is the environment variable that says which of the programs of [engine.Main] a process
// is. The process is this test binary, started again. Its folder is in [killDir].
const mainRun = "ENGINE_TEST_MAIN"

// runMain does not return.
func runMain(name string) {
	o, t := engine.Options{}, trainer.Options{OutputDir: os.Getenv(killDir), Epochs: 2, BatchSize: 4}
	valid := data.Dataset[data.Example](ring(10))
	switch name {
	case "without evaluation":
		valid = nil
	case "a wrong option of the trainer":
		t.KeepCheckpoints = -1
	case "a wrong option of the engine":
		o.MaxGradValue = -1
	case "a wrong sample":
		valid = data.Slice[data.Example]{{Features: []float32{1, 2}, Class: 7}}
	case "interrupted":
		t.Epochs, t.Callbacks = 1e6, []any{sayTrained{}}
	}
	engine.Main(engine.Classifier(func() nn.Layer { return newNet() }), ring(30), valid, o, t)
}

// sayTrained reports that a few updates have been made.
type sayTrained struct{}

func (sayTrained) StepEnd(r *trainer.Run) error {
	if r.GlobalStep == 3 {
		fmt.Println("trained")
	}
	return nil
}

// mainProgram starts one of the programs.
func mainProgram(t *testing.T, name, dir string) (program *exec.Cmd, stdout io.Reader, stderr *bytes.Buffer) {
	t.Helper()
	testenv.RequireTorch(t)
	name, device, _ := strings.Cut(name, " with ") // the rest is a command line
	program, stderr = exec.Command(os.Args[0], strings.Fields(device)...), new(bytes.Buffer)
	program.Env = append(os.Environ(), mainRun+"="+name, killDir+"="+dir)
	program.Stderr = stderr
	stdout, err := program.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, program.Start())
	return program, stdout, stderr
}

func mainRecord(t *testing.T, stderr string) (r run.Record) {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &r), "the last line of %q", stderr)
	return r
}

func TestMainEndsWithACodeAndARecord(t *testing.T) {
	for _, c := range []struct {
		program string
		code    run.Code
		text    string
	}{
		{"with evaluations", run.OK, "eval_accuracy"},
		{"without evaluation", run.OK, "train_loss"},
		{"a wrong option of the trainer", run.Configuration, "KeepCheckpoints is -1"},
		{"a wrong option of the engine", run.Configuration, "MaxGradValue"},
		{"on a device with -device auto", run.OK, "train_loss"},
		{"on a device with -device=cuda:99", run.Configuration, "-device: "},
		{"on a device with -devise cpu", run.Configuration, "-devise; -h lists the flags"},
		{"on a device with cpu", run.Configuration, `"cpu" is not a flag`},
		{"a wrong sample", run.Training, "class 7"},
	} {
		t.Run(c.program, func(t *testing.T) {
			dir := t.TempDir()
			program, _, stderr := mainProgram(t, c.program, dir)
			_ = program.Wait() // the exit code is checked below
			assert.Equal(t, int(c.code), program.ProcessState.ExitCode())
			assert.Contains(t, stderr.String(), c.text)
			assert.Equal(t, c.code, mainRecord(t, stderr.String()).ExitCode)
			if c.code == run.OK {
				assert.FileExists(t, filepath.Join(dir, "checkpoint-16", "model.safetensors"))
			}
		})
	}
}

func TestMainSavesAndLeavesAtASignal(t *testing.T) {
	dir := t.TempDir()
	program, stdout, stderr := mainProgram(t, "interrupted", dir)
	_, err := bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err, stderr)
	require.NoError(t, program.Process.Signal(syscall.SIGTERM))
	_ = program.Wait() // the exit code is checked below
	assert.Equal(t, 143, program.ProcessState.ExitCode())
	r := mainRecord(t, stderr.String())
	assert.Equal(t, "terminated", r.Kind)
	assert.DirExists(t, r.Checkpoint)
	assert.Equal(t, dir, filepath.Dir(r.Checkpoint))
}

// Under a launcher, the same program is one of several processes.
func TestMainTrainsWithTheOtherProcesses(t *testing.T) {
	testenv.RequireTorch(t)
	l, err := gonet.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := gonet.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, l.Close())
	t.Setenv("MASTER_ADDR", "127.0.0.1")
	t.Setenv("MASTER_PORT", port)
	t.Setenv("WORLD_SIZE", "2")
	dir := t.TempDir()
	var programs [2]*exec.Cmd
	var stderr [2]*bytes.Buffer
	for rank := range programs {
		t.Setenv("RANK", strconv.Itoa(rank))
		t.Setenv("LOCAL_RANK", strconv.Itoa(rank))
		programs[rank], _, stderr[rank] = mainProgram(t, "with evaluations", dir)
	}
	for rank, program := range programs {
		_ = program.Wait() // the exit code is checked below
		require.Zero(t, program.ProcessState.ExitCode(), stderr[rank])
	}
	assert.DirExists(t, filepath.Join(dir, "checkpoint-8"), "30 samples, 4 on each of 2 processes, twice")
}
