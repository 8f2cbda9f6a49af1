package ddp_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/ddp"
)

// A thread of gloo or of its store that writes to a process that is gone must get an error. A
// SIGPIPE would kill this process, because the thread does not belong to the Go runtime.
func TestThreadsOfAGroupGetNoBrokenPipes(t *testing.T) {
	all(t, together(t, 2, func(ctx context.Context, g *dist.Group) error {
		if err := ddp.AllReduce(ctx, g, dist.Sum, of(1, 3)); err != nil || g.Rank() != 0 {
			return err
		}
		names := map[string]int{} // of the threads that block SIGPIPE
		tasks, err := filepath.Glob("/proc/self/task/*")
		if err != nil {
			return err
		}
		for _, task := range tasks {
			name, err := os.ReadFile(task + "/comm")
			if err != nil {
				continue // the thread has ended
			}
			status, err := os.ReadFile(task + "/status")
			if err != nil {
				continue
			}
			_, rest, _ := strings.Cut(string(status), "SigBlk:\t")
			mask, _, _ := strings.Cut(rest, "\n")
			blocked, err := strconv.ParseUint(mask, 16, 64)
			if err != nil {
				return err
			}
			if blocked>>(syscall.SIGPIPE-1)&1 != 0 {
				names[strings.TrimSpace(string(name))]++
			}
		}
		store := names["pt_tcpstore_uv"]
		delete(names, "pt_tcpstore_uv")
		others := 0 // gloo's threads are named after the program
		for _, n := range names {
			others += n
		}
		if store < 1 || others < 4 { // for two ranks: listening and transport threads
			return fmt.Errorf("%d threads of stores and %d others block SIGPIPE (%v); want at least 1 and 4", store,
				others, names)
		}
		return nil
	}))
}
