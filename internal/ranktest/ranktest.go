// Package ranktest starts the ranks of a distributed run as separate processes: copies of the test
// binary, started as torchrun does.
package ranktest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/gotrainer/gotrainer/dist/tcpstore"
)

// Process is the result of a rank.
type Process struct {
	Output string // standard output and standard error
	Code   int    // exit code; negative: ended by a signal
}

// Decode decodes the JSON that the process printed last, after output of libraries.
func (p Process) Decode(v any) error {
	begin := max(0, strings.IndexAny(p.Output, "[{"))
	return json.Unmarshal([]byte(p.Output[begin:]), v)
}

// Run starts a number of ranks, with env ("NAME=value") in addition to torchrun's variables, and
// waits until all have ended. Ranks that still run after limit are killed. TestMain must recognise
// from env what such a process is to do.
func Run(t testing.TB, world int, limit time.Duration, env ...string) []Process {
	t.Helper()
	store, err := tcpstore.Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	host, port, _ := strings.Cut(store.Addr().String(), ":")
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	commands, outputs := make([]*exec.Cmd, world), make([]bytes.Buffer, world)
	for rank := range commands {
		c := exec.CommandContext(ctx, os.Args[0])
		c.Env = append(os.Environ(), fmt.Sprint("RANK=", rank), fmt.Sprint("LOCAL_RANK=", rank),
			fmt.Sprint("WORLD_SIZE=", world),
			"MASTER_ADDR="+host, "MASTER_PORT="+port, "TORCHELASTIC_USE_AGENT_STORE=True")
		c.Env = append(c.Env, env...)
		c.Stdout, c.Stderr = &outputs[rank], &outputs[rank]
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		commands[rank] = c
	}
	processes := make([]Process, world)
	for rank, c := range commands {
		err := c.Wait()
		if _, exited := errors.AsType[*exec.ExitError](err); err != nil && !exited {
			t.Fatal(err)
		}
		processes[rank] = Process{outputs[rank].String(), c.ProcessState.ExitCode()}
	}
	return processes
}
