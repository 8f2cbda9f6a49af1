package launch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"sort"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/launch"
)

// TestMain is also the main function of the launched processes.
func TestMain(m *testing.M) {
	if os.Getenv("LAUNCH_TEST_GO") != "" {
		os.Exit(goes())
	}
	if role := os.Getenv("LAUNCH_TEST_ROLE"); role != "" {
		os.Exit(play(role))
	}
	os.Exit(m.Run())
}

func play(role string) int {
	ctx := context.Background()
	g, err := dist.Init(ctx, dist.Options{JoinTimeout: 30 * time.Second})
	if err != nil {
		fmt.Println(err)
		return 3
	}
	defer func() { _ = g.Close() }()
	got := make(chan os.Signal, 1)
	signal.Notify(got, syscall.SIGUSR1, syscall.SIGTERM)
	if err := g.Barrier(ctx); err != nil {
		return 3
	}
	switch role {
	case "meet":
		n := []int64{int64(g.Rank() + 1)}
		if err := dist.AllReduce(ctx, g, n, dist.Sum); err != nil {
			return 3
		}
		fmt.Printf("sum %d\nno end of line", n[0])
	case "restart": // rank 1 is killed in the first two starts
		switch os.Getenv("TORCHELASTIC_RESTART_COUNT") {
		case "0", "1":
			if g.Rank() == 1 {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			}
			_ = g.Barrier(ctx)
			return 3
		}
		fmt.Println("whole")
	case "fail":
		if g.Rank() == 1 {
			return 7
		}
		<-got
	case "stubborn":
		if g.Rank() == 1 {
			return 7
		}
		signal.Ignore(syscall.SIGTERM)
		select {}
	case "signal":
		fmt.Println("ready")
		fmt.Println(<-got)
	case "leave": // one process at once, the other with work left
		fmt.Println("ready")
		fmt.Println(<-got)
		if g.Rank() == 1 {
			return 138
		}
		select {
		case s := <-got:
			fmt.Println("cut off by", s)
		case <-time.After(300 * time.Millisecond):
			fmt.Println("saved")
		}
		return 138
	}
	return 0
}

// output collects what is written, and can wait until a line has appeared a number of times.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

func options(role string, n int, out *output) launch.Options {
	return launch.Options{
		Processes: n, Command: []string{os.Args[0]}, Env: []string{"LAUNCH_TEST_ROLE=" + role}, Stdout: out,
		Stderr:   out,
		Patience: 10 * time.Millisecond, Grace: 100 * time.Millisecond,
	}
}

func TestProcessesMeetAndTheirOutputHasTheirRank(t *testing.T) {
	var out output
	if err := launch.Run(t.Context(), options("meet", 3, &out)); err != nil {
		t.Fatal(err, out.String())
	}
	got := strings.Split(strings.TrimSpace(out.String()), "\n")
	sort.Strings(got)
	want := "[0] no end of line|[0] sum 6|[1] no end of line|[1] sum 6|[2] no end of line|[2] sum 6"
	if strings.Join(got, "|") != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestOneThatFailsEndsTheOthers(t *testing.T) {
	for _, role := range []string{"fail", "stubborn"} {
		t.Run(role, func(t *testing.T) {
			var out output
			err := launch.Run(t.Context(), options(role, 3, &out))
			e, ok := errors.AsType[*launch.Error](err)
			if !ok || e.Rank != 1 {
				t.Fatalf("%v, want that rank 1 has failed; %s", err, out.String())
			}
			if exit, ok := errors.AsType[*exec.ExitError](err); !ok || exit.ExitCode() != 7 {
				t.Errorf("%v, want its exit code 7", err)
			}
		})
	}
}

func TestAllAreStartedAgainAndMeetInTheSameStore(t *testing.T) {
	var out output
	o := options("restart", 3, &out)
	o.MaxRestarts = 2
	require.NoError(t, launch.Run(t.Context(), o), out.String())
	assert.Equal(t, 3, strings.Count(out.String(), "whole"), out.String())
	assert.Contains(t, out.String(), "all are started again, restart 2 of 2")

	o.MaxRestarts = 1
	err := launch.Run(t.Context(), o)
	e, ok := errors.AsType[*launch.Error](err)
	require.True(t, ok, "%v", err)
	assert.Contains(t, []int{137, 3}, e.ExitCode(), "128 and SIGKILL; or one that has lost it was faster: %v", err)
}

func TestExitCodesOfSignals(t *testing.T) {
	var out output
	for script, want := range map[string]int{"exit 7": 7, "kill -9 $$": 137, "kill -TERM $$": 143} {
		o := options("", 1, &out)
		o.Command = []string{"sh", "-c", script}
		err := launch.Run(t.Context(), o)
		e, ok := errors.AsType[*launch.Error](err)
		require.True(t, ok, "%s: %v", script, err)
		assert.Equal(t, want, e.ExitCode(), script)
	}
}

// start runs the launcher, and returns when all processes have reported that they are ready.
func start(ctx context.Context, t *testing.T, o launch.Options, out *output) (done chan error) {
	t.Helper()
	done = make(chan error, 1)
	go func() { done <- launch.Run(ctx, o) }()
	for strings.Count(out.String(), "ready") < o.Processes {
		select {
		case err := <-done:
			t.Fatal("it ended before all were ready:", err)
		case <-time.After(5 * time.Millisecond):
		}
	}
	return done
}

func TestNothingIsStartedAgainAfterASignal(t *testing.T) {
	var out output
	signals := make(chan os.Signal, 1)
	o := options("", 1, &out)
	o.Command, o.Signals, o.MaxRestarts = []string{"sh", "-c", "trap 'exit 138' USR1; echo ready; sleep 60 & wait"},
		signals, 3
	done := start(t.Context(), t, o, &out)
	signals <- syscall.SIGUSR1
	assert.ErrorContains(t, <-done, "exit status 138")
	assert.NotContains(t, out.String(), "started again")
}

func TestAGrandchildThatLivesOnIsNoFailure(t *testing.T) {
	var out output
	o := options("", 1, &out)
	o.Command = []string{"sh", "-c", "sleep 3 & echo done"}
	if err := launch.Run(t.Context(), o); err != nil || out.String() != "[0] done\n" {
		t.Errorf("%v, %q", err, out.String())
	}
}

func TestSignalsArePassedOn(t *testing.T) {
	var out output
	signals := make(chan os.Signal)
	o := options("signal", 2, &out)
	o.Signals, o.Grace = signals, time.Minute
	done := start(t.Context(), t, o, &out)
	signals <- syscall.SIGUSR1
	if err := <-done; err != nil || strings.Count(out.String(), syscall.SIGUSR1.String()) != 2 {
		t.Errorf("%v, %s", err, out.String())
	}
}

func TestProcessesLeaveInTheirOwnTimeAfterASignal(t *testing.T) {
	var out output
	signals := make(chan os.Signal)
	o := options("leave", 2, &out)
	o.Signals, o.Grace = signals, time.Minute
	done := start(t.Context(), t, o, &out)
	signals <- syscall.SIGUSR1
	assert.ErrorContains(t, <-done, "exit status 138")
	assert.Contains(t, out.String(), "[0] saved")
}

// A signal that also ends the context must be passed on only once: a second one would end the
// processes before they have saved.
func TestASignalAndTheEndOfTheContextAreOneRequest(t *testing.T) {
	for _, signalFirst := range []bool{true, false} {
		var out output
		ctx, cancel := context.WithCancel(t.Context())
		signals := make(chan os.Signal, 1)
		o := options("leave", 2, &out)
		o.Signals, o.Grace = signals, time.Minute
		done := start(ctx, t, o, &out)
		first, second := cancel, func() { signals <- syscall.SIGTERM }
		if signalFirst {
			first, second = second, first
		}
		first()
		for strings.Count(out.String(), "terminated") < 2 {
			time.Sleep(time.Millisecond)
		}
		second()
		assert.ErrorContains(t, <-done, "exit status 138")
		assert.Contains(t, out.String(), "[0] saved", "the signal first: %v", signalFirst)
		cancel()
	}
}

// A shell does not forward signals to the program that it waits for.
func TestSignalsReachTheProgramInAScript(t *testing.T) {
	var out output
	signals := make(chan os.Signal)
	o := options("signal", 2, &out)
	o.Command = []string{"sh", "-c", "trap : USR1; " + os.Args[0] + " & wait $! || wait $!"}
	o.Signals, o.Grace = signals, time.Minute
	done := start(t.Context(), t, o, &out)
	signals <- syscall.SIGUSR1
	require.NoError(t, <-done)
	assert.Equal(t, 2, strings.Count(out.String(), syscall.SIGUSR1.String()), out.String())
}

func TestTheEndOfTheContextEndsAll(t *testing.T) {
	var out output
	ctx, cancel := context.WithCancel(t.Context())
	o := options("signal", 2, &out)
	o.Grace = time.Minute
	done := start(ctx, t, o, &out)
	cancel()
	if err := <-done; err != nil || strings.Count(out.String(), syscall.SIGTERM.String()) != 2 {
		t.Errorf("%v, %s", err, out.String())
	}
}

func TestOptionsThatCannotBeAreRefused(t *testing.T) {
	for _, o := range []launch.Options{
		{Command: []string{"true"}}, {Processes: 1}, {Processes: 1, Command: []string{"true"}, Nodes: 2},
		{Processes: 1, Command: []string{"true"}, NodeRank: 1},
		{Processes: 1, Command: []string{"true"}, Master: "nowhere"}, {Processes: 1, Command: []string{"true"},
			Grace: -1}, {Processes: 2, Command: []string{"/does/not/exist"}},
	} {
		if err := launch.Run(t.Context(), o); err == nil {
			t.Errorf("%+v was accepted", o)
		}
	}
}
