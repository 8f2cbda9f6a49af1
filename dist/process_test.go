package dist_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/internal/leaks"
	"github.com/gotrainer/gotrainer/internal/ranktest"
)

// TestMain is also the main function of the processes that the tests start.
func TestMain(m *testing.M) {
	if os.Getenv("DIST_TEST_ROLE") != "" {
		if err := role(os.Getenv("DIST_TEST_ROLE")); err != nil {
			fmt.Println(err)
			os.Exit(3)
		}
		os.Exit(0)
	}
	os.Exit(leaks.Run(m))
}

func role(name string) error {
	ctx := context.Background()
	o := dist.Options{JoinTimeout: 30 * time.Second}
	if strings.HasPrefix(name, "stopped") {
		o.Timeout = 2 * time.Second
	}
	g, err := dist.Init(ctx, o)
	if err != nil {
		return err
	}
	defer func() { _ = g.Close() }()
	for i := 0; ; i++ {
		sum := []int64{int64(g.Rank())}
		if err := dist.AllReduce(ctx, g, sum, dist.Sum); err != nil {
			return err
		}
		if want := int64(g.World() * (g.World() - 1) / 2); sum[0] != want {
			return fmt.Errorf("the ranks sum to %d, want %d", sum[0], want)
		}
		switch {
		case name == "killed" && i == 5 && g.Rank() == 1:
			self, err := os.FindProcess(os.Getpid())
			if err != nil {
				return err
			}
			_ = self.Kill()
			select {}
		case name == fmt.Sprint("stopped ", g.Rank()) && i == 5:
			// SIGSTOP leaves a process that nobody else would end.
			if err := exec.Command("sh", "-c", fmt.Sprintf("sleep 6; kill -KILL %d", os.Getpid())).Start(); err != nil {
				return err
			}
			if err := syscall.Kill(os.Getpid(), syscall.SIGSTOP); err != nil {
				return err
			}
		case name == "finish" && i == 5:
			return nil
		}
	}
}

// start runs the ranks as processes, and returns the output and the exit code of each.
func start(t *testing.T, role string, world int, env ...string) (output []string, code []int) {
	t.Helper()
	for _, p := range ranktest.Run(t, world, time.Minute, append(env, "DIST_TEST_ROLE="+role)...) {
		output, code = append(output, p.Output), append(code, p.Code)
	}
	return output, code
}

func TestProcessesFindEachOther(t *testing.T) {
	output, code := start(t, "finish", 3)
	if fmt.Sprint(code) != "[0 0 0]" {
		t.Errorf("exit codes %v, want all 0: %q", code, output)
	}
}

func TestTheOthersNameTheOneThatWasKilled(t *testing.T) {
	output, code := start(t, "killed", 3)
	for _, rank := range []int{0, 2} {
		if code[rank] != 3 || !strings.Contains(output[rank], "rank 1: the connection is gone") ||
			!strings.Contains(output[rank], "AllReduce(sum, 1 int64), call") {
			t.Errorf("rank %d exited with %d and printed %q", rank, code[rank], output[rank])
		}
	}
	if code[1] == 0 || code[1] == 3 {
		t.Errorf("rank 1 should have been killed, but exited with %d: %q", code[1], output[1])
	}
}

// A stopped process keeps its connections, and its kernel still acknowledges data.
func TestTheOthersNameTheOneThatWasStopped(t *testing.T) {
	for stopped := range 2 {
		t.Run(fmt.Sprint("rank ", stopped), func(t *testing.T) {
			t.Parallel()
			output, code := start(t, fmt.Sprint("stopped ", stopped), 3)
			for rank := range 3 {
				want := fmt.Sprintf("rank %d: no answer within dist.Options.Timeout", stopped)
				if rank != stopped && (code[rank] != 3 || !strings.Contains(output[rank], want)) {
					t.Errorf("rank %d exited with %d and printed %q, want %q", rank, code[rank], output[rank], want)
				}
			}
		})
	}
}
