package run_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/checkpoint"
	"github.com/gotrainer/gotrainer/data"
	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/internal/leaks"
	"github.com/gotrainer/gotrainer/run"
	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// The environment variables of a child process: which program it is, and its folder.
const (
	programVariable = "GOTRAINER_TEST_PROGRAM"
	folderVariable  = "GOTRAINER_TEST_FOLDER"
)

// TestMain is the main function of the programs that the tests start.
func TestMain(m *testing.M) {
	if f, ok := programs[os.Getenv(programVariable)]; ok {
		run.Program{Name: "program", Grace: 500 * time.Millisecond}.Main(f)
	}
	// Under nohup or in a shell's background the tests ignore SIGHUP or SIGINT, and so would the
	// programs that they start. A signal that is caught here has its default action there.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	if signal.Ignored(os.Interrupt) {
		signal.Notify(make(chan os.Signal, 1), os.Interrupt)
	}
	os.Exit(leaks.Run(m))
}

// torchFailure stands for the error of package torch, which this test may not import.
type torchFailure struct{ outOfMemory, deviceFailed bool }

func (e torchFailure) Error() string      { return "torch: MatMul: no" }
func (e torchFailure) TorchError()        {}
func (e torchFailure) OutOfMemory() bool  { return e.outOfMemory }
func (e torchFailure) DeviceFailed() bool { return e.deviceFailed }

// fit makes a run without tensors in the folder of the child process.
func fit(ctx context.Context, o trainer.Options) error {
	o.OutputDir, o.Epochs, o.BatchSize, o.Progress = os.Getenv(folderVariable), 1, 1, io.Discard
	t, err := trainer.New[int, []int](new(trainertest.Step), o)
	if err != nil {
		return err
	}
	_, err = t.Fit(ctx, trainertest.Samples(4), nil)
	return err
}

// forever makes a run that only a signal ends.
func forever(ctx context.Context) error {
	t, err := trainer.New[int, []int](new(trainertest.Step), trainer.Options{OutputDir: os.Getenv(folderVariable),
		Epochs: 1000, BatchSize: 1, Progress: io.Discard})
	if err != nil {
		return err
	}
	var loaded atomic.Int32
	_, err = t.Fit(ctx, data.Func(1000, func(i int) (int, error) {
		if loaded.Add(1) == 50 { // some updates have been made by then
			fmt.Println("begun")
		}
		time.Sleep(time.Millisecond)
		return i, nil
	}), nil)
	return err
}

// programs are the functions that the child processes run.
var programs = map[string]func(ctx context.Context) error{
	"finishes":        func(context.Context) error { return nil },
	"fails":           func(context.Context) error { return errors.New("no\nluck") },
	"asks for help":   func(context.Context) error { return run.Usage(flag.ErrHelp) },
	"misspells":       func(context.Context) error { return run.Usage(errors.New("no flag -x")) },
	"a bug":           func(context.Context) error { panic("index out of range") },
	"a wrong shape":   func(context.Context) error { panic(torchFailure{}) },
	"out of memory":   func(context.Context) error { panic(torchFailure{outOfMemory: true}) },
	"a GPU failed":    func(context.Context) error { panic(torchFailure{deviceFailed: true}) },
	"no memory":       func(context.Context) error { return fmt.Errorf("mmap: %w", syscall.ENOMEM) },
	"of its own code": func(context.Context) error { return &run.Error{Code: 42, Err: errors.New("mine")} },
	"bad numbers":     func(context.Context) error { return &run.Error{Code: run.BadNumbers, Err: errors.New("nan")} },
	"another program": func(context.Context) error { return exec.Command("sh", "-c", "exit 7").Run() },
	"a wrong option":  func(ctx context.Context) error { return fit(ctx, trainer.Options{KeepCheckpoints: -1}) },
	"a lost peer": func(context.Context) error {
		return fmt.Errorf("x: %w", &dist.Error{Call: "AllReduce", Peer: 1, Err: dist.ErrPeerLost})
	},
	"a folder that cannot be made": func(ctx context.Context) error {
		if err := os.WriteFile(filepath.Join(os.Getenv(folderVariable), "run"), nil, 0o666); err != nil {
			return err
		}
		if err := os.Setenv(folderVariable, filepath.Join(os.Getenv(folderVariable), "run", "a")); err != nil {
			return err
		}
		return fit(ctx, trainer.Options{})
	},
	"a log that may not be written": func(ctx context.Context) error {
		if err := os.Mkdir(filepath.Join(os.Getenv(folderVariable), ".metrics.csv.new"), 0o777); err != nil {
			return err
		}
		return fit(ctx, trainer.Options{})
	},
	"a locked folder": func(ctx context.Context) error {
		s, err := checkpoint.Open(os.Getenv(folderVariable), checkpoint.Options{})
		if err != nil {
			return err
		}
		defer s.Close() //nolint:errcheck // the process ends
		return fit(ctx, trainer.Options{})
	},
	"an old run": func(ctx context.Context) error {
		return errors.Join(fit(ctx, trainer.Options{}), fit(ctx, trainer.Options{}))
	},
	"damaged checkpoints": func(ctx context.Context) error {
		if err := fit(ctx, trainer.Options{}); err != nil {
			return err
		}
		files, err := filepath.Glob(filepath.Join(os.Getenv(folderVariable), "checkpoint-*", checkpoint.ManifestName))
		if err != nil {
			return err
		}
		if len(files) == 0 {
			return errors.New("there are no checkpoints")
		}
		for _, f := range files {
			if err := os.Truncate(f, 10); err != nil {
				return err
			}
		}
		return fit(ctx, trainer.Options{ResumeFrom: trainer.Latest})
	},
	"another run's checkpoint": func(context.Context) error { return fmt.Errorf("x: %w", trainer.ErrOtherRun) },
	"a full disk": func(context.Context) error {
		return &checkpoint.SpaceError{Path: "checkpoint-5", Err: syscall.ENOSPC}
	},
	"a save that may not write": func(context.Context) error {
		return &trainer.StepError{Op: "save", GlobalStep: 3, Err: &os.PathError{Op: "open", Path: "x",
			Err: syscall.EACCES}}
	},
	"a sample that fails": func(context.Context) error {
		return &trainer.StepError{Op: "load a batch", GlobalStep: 3, Err: &os.PathError{Op: "open", Path: "x",
			Err: syscall.ENOENT}}
	},
	"runs": forever,
	"holds": func(context.Context) error {
		fmt.Println("begun")
		go neverEnds()
		neverReturns()
		return nil
	},
	"leaves slowly": func(ctx context.Context) error {
		err := forever(ctx)
		time.Sleep(200 * time.Millisecond) // meanwhile other signals arrive
		return err
	},
	"finishes though": func(ctx context.Context) error {
		fmt.Println("begun")
		<-ctx.Done()
		return nil
	},
	"fails to save": func(ctx context.Context) error {
		fmt.Println("begun")
		<-ctx.Done()
		return fmt.Errorf("save: %w, %w", syscall.EDQUOT, ctx.Err())
	},
}

// neverReturns is the function that the message about a process that does not exit must name.
func neverReturns() { select {} }

func neverEnds() {
	for {
		time.Sleep(time.Hour)
	}
}

// start starts a child process.
func start(t *testing.T, name string) (*exec.Cmd, *bytes.Buffer, *bufio.Reader) {
	t.Helper()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), programVariable+"="+name, folderVariable+"="+t.TempDir())
	var stderr bytes.Buffer
	child.Stderr = &stderr
	stdout, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	return child, &stderr, bufio.NewReader(stdout)
}

// record parses the last line that a child process wrote to standard error.
func record(t *testing.T, stderr string) run.Record {
	t.Helper()
	lines := strings.Split(strings.TrimSuffix(stderr, "\n"), "\n")
	var r run.Record
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &r), "the last line of %q", stderr)
	assert.WithinDuration(t, time.Now(), r.Time, time.Hour)
	return r
}

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		program string
		code    run.Code
		kind    string
		text    string
	}{
		{"finishes", 0, "ok", ""},
		{"fails", 1, "training", "no\nluck"},
		{"a bug", 1, "panic", "index out of range"},
		{"a wrong shape", 1, "training", "torch: MatMul"},
		{"a sample that fails", 1, "training", "load a batch"},
		{"misspells", 2, "configuration", "no flag -x"},
		{"a wrong option", 2, "configuration", "KeepCheckpoints is -1"},
		{"an old run", 2, "configuration", "earlier run"},
		{"damaged checkpoints", 3, "no_checkpoint", "no whole checkpoint"},
		{"a full disk", 4, "storage", "no room for checkpoint-5"},
		{"a save that may not write", 4, "storage", "permission denied"},
		{"a folder that cannot be made", 4, "storage", "not a directory"},
		{"a log that may not be written", 4, "storage", "metrics.csv: is a directory"},
		{"a locked folder", 5, "locked", "is in use by process"},
		{"another run's checkpoint", 6, "resume_refused", "other sizes"},
		{"bad numbers", 7, "bad_numbers", "nan"},
		{"out of memory", 8, "out_of_memory", "torch: MatMul"},
		{"a GPU failed", 10, "device", "torch: MatMul"},
		{"no memory", 8, "out_of_memory", "mmap"},
		{"a lost peer", 9, "distributed", "rank 1"},
		{"of its own code", 42, "code 42", "mine"},
		{"another program", 7, "program", "exit status 7"},
	} {
		t.Run(c.program, func(t *testing.T) {
			t.Parallel()
			child, stderr, _ := start(t, c.program)
			_ = child.Wait() // the code is looked at
			assert.Equal(t, int(c.code), child.ProcessState.ExitCode(), stderr)
			r := record(t, stderr.String())
			assert.Equal(t, c.code, r.ExitCode)
			assert.Equal(t, c.kind, r.Kind)
			assert.Contains(t, r.Error, c.text)
			if c.text != "" {
				assert.Contains(t, stderr.String(), "program: "+r.Error+"\n", "people read it without JSON")
			}
		})
	}
	child, stderr, _ := start(t, "asks for help")
	require.NoError(t, child.Wait())
	assert.Empty(t, stderr.String())
}

// TestTorchrunIsToldWhy checks that what is written can be read by ProcessFailure of
// torch.distributed.elastic.
func TestTorchrunIsToldWhy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "error.json")
	t.Setenv("TORCHELASTIC_ERROR_FILE", file)
	for _, c := range []struct{ program, message, stack string }{
		{"fails", "training: no\nluck", "no\nluck"},
		{"a bug", "panic: panic: index out of range", "run_test.init"},
	} {
		child, _, _ := start(t, c.program)
		require.Error(t, child.Wait())
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		var got struct {
			Message struct {
				Message   string
				ErrorCode int
				ExtraInfo struct {
					CallStack string `json:"py_callstack"`
					Timestamp string
				}
			}
		}
		require.NoError(t, json.Unmarshal(text, &got))
		assert.Equal(t, c.message, got.Message.Message)
		assert.Equal(t, 1, got.Message.ErrorCode)
		assert.Contains(t, got.Message.ExtraInfo.CallStack, c.stack)
		seconds, err := strconv.ParseInt(got.Message.ExtraInfo.Timestamp, 10, 64)
		require.NoError(t, err)
		assert.WithinDuration(t, time.Now(), time.Unix(seconds, 0), time.Hour)
		require.NoError(t, os.Remove(file))
	}
	child, _, _ := start(t, "finishes")
	require.NoError(t, child.Wait())
	_, err := os.Stat(file)
	assert.ErrorIs(t, err, os.ErrNotExist, "after success")
}

func TestUpdatesOfFailedRunsAreRecorded(t *testing.T) {
	child, stderr, _ := start(t, "a save that may not write")
	require.Error(t, child.Wait())
	r := record(t, stderr.String())
	require.NotNil(t, r.Update)
	assert.Equal(t, 3, *r.Update)
}

// signalled starts a child process, sends it signals once it has begun, and waits for its end.
func signalled(t *testing.T, program string, signals ...syscall.Signal) (code int, stderr string, r run.Record) {
	t.Helper()
	child, buffer, stdout := start(t, program)
	_, err := stdout.ReadString('\n')
	require.NoError(t, err, buffer)
	for i, s := range signals {
		if i > 0 {
			time.Sleep(50 * time.Millisecond)
		}
		require.NoError(t, child.Process.Signal(s))
	}
	_ = child.Wait() // the code is looked at
	return child.ProcessState.ExitCode(), buffer.String(), record(t, buffer.String())
}

func TestASignalSavesAndLeaves(t *testing.T) {
	for s, want := range map[syscall.Signal]struct {
		code int
		kind string
	}{
		syscall.SIGHUP: {129, "hangup"}, syscall.SIGINT: {130, "interrupted"}, syscall.SIGUSR1: {138, "preempted"},
		syscall.SIGTERM: {143, "terminated"},
	} {
		t.Run(s.String(), func(t *testing.T) {
			t.Parallel()
			code, stderr, r := signalled(t, "runs", s)
			assert.Equal(t, want.code, code, stderr)
			assert.Equal(t, want.kind, r.Kind)
			require.NotNil(t, r.Update)
			assert.Equal(t, fmt.Sprint("checkpoint-", *r.Update), filepath.Base(r.Checkpoint))
		})
	}
}

// Of "program 2>&1 | tee log", Ctrl-C ends tee too.
func TestASignalSavesThoughNobodyReadsTheOutput(t *testing.T) {
	dir := t.TempDir()
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), programVariable+"=runs", folderVariable+"="+dir)
	stdout, err := child.StdoutPipe()
	require.NoError(t, err)
	stderr, err := child.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	_, err = bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	require.NoError(t, stderr.Close())
	require.NoError(t, stdout.Close())
	require.NoError(t, child.Process.Signal(syscall.SIGINT))
	_ = child.Wait() // the code is looked at
	assert.Equal(t, 130, child.ProcessState.ExitCode())
	saved, err := filepath.Glob(filepath.Join(dir, "checkpoint-*"))
	require.NoError(t, err)
	assert.NotEmpty(t, saved)
}

// A job system signals the launcher and the process, and the launcher passes the signal on.
func TestTheSameSignalAgainIsOneRequest(t *testing.T) {
	code, stderr, r := signalled(t, "leaves slowly", syscall.SIGTERM, syscall.SIGTERM, syscall.SIGTERM)
	assert.Equal(t, 143, code, stderr)
	assert.Equal(t, "terminated", r.Kind)
	require.NotNil(t, r.Update, stderr)
	assert.Equal(t, fmt.Sprint("checkpoint-", *r.Update), filepath.Base(r.Checkpoint))
}

func TestASecondSignalLeavesAtOnce(t *testing.T) {
	code, stderr, r := signalled(t, "holds", syscall.SIGTERM, syscall.SIGINT)
	assert.Equal(t, 130, code, stderr)
	assert.Contains(t, r.Error, "received SIGTERM, then received SIGINT: left at once")
}

func TestWhatHoldsAProcessIsNamed(t *testing.T) {
	code, stderr, r := signalled(t, "holds", syscall.SIGTERM)
	assert.Equal(t, 143, code, stderr)
	assert.Contains(t, r.Error, "not left within 500ms")
	assert.Regexp(t, `held by .*run_test\.neverReturns at \S+run_test\.go:\d+ \[select \(no cases\)\]`, r.Error)
	assert.Regexp(t, `run_test\.neverEnds at \S+run_test\.go:\d+ \[sleep\]`, r.Error)
}

// A run that is finished when the signal arrives counts as finished. If the disk is full when the
// run is to be saved, the job system must know that.
func TestWhatTheFunctionReturnsAfterASignalCounts(t *testing.T) {
	code, stderr, r := signalled(t, "finishes though", syscall.SIGTERM)
	assert.Equal(t, 0, code, stderr)
	assert.Equal(t, "ok", r.Kind)
	code, stderr, r = signalled(t, "fails to save", syscall.SIGTERM)
	assert.Equal(t, int(run.Storage), code, stderr)
	assert.Equal(t, "storage", r.Kind)
}

// nohup starts programs with SIGHUP ignored.
func TestAnIgnoredSignalStaysIgnored(t *testing.T) {
	child := exec.Command("nohup", os.Args[0])
	child.Env = append(os.Environ(), programVariable+"=runs", folderVariable+"="+t.TempDir())
	var stderr bytes.Buffer
	child.Stderr = &stderr
	stdout, err := child.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, child.Start())
	_, err = bufio.NewReader(stdout).ReadString('\n')
	require.NoError(t, err)
	require.NoError(t, child.Process.Signal(syscall.SIGHUP))
	time.Sleep(200 * time.Millisecond)
	require.NoError(t, child.Process.Signal(syscall.SIGTERM))
	require.Error(t, child.Wait())
	assert.Equal(t, 143, child.ProcessState.ExitCode(), stderr.String())
	assert.NotContains(t, stderr.String(), "SIGHUP")
}
