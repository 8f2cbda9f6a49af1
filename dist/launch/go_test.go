package launch_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/launch"
)

// goes is the main function of a program that calls Go twice; LAUNCH_TEST_GO says what the second
// call does.
func goes() int {
	ctx := context.Background()
	note := func(text string) {
		path := filepath.Join(os.Getenv("LAUNCH_TEST_DIR"), text)
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			panic(err)
		}
	}
	if err := launch.Go(ctx, 1, func(context.Context) error {
		note("alone" + os.Getenv("RANK"))
		return nil
	}); err != nil {
		fmt.Println(err)
		return 4
	}
	err := launch.Go(ctx, 2, func(ctx context.Context) error {
		g, err := dist.Init(ctx, dist.Options{JoinTimeout: 30 * time.Second})
		if err != nil {
			return err
		}
		defer func() { _ = g.Close() }()
		if err := g.Barrier(ctx); err != nil {
			return err
		}
		note(fmt.Sprintf("rank %d of %d", g.Rank(), g.World()))
		if os.Getenv("LAUNCH_TEST_GO") == "fail" {
			return fmt.Errorf("rank %d has failed", g.Rank())
		}
		if os.Getenv("LAUNCH_TEST_GO") == "panic" && g.Rank() == 1 {
			panic("oh")
		}
		if os.Getenv("LAUNCH_TEST_GO") == "wait" {
			<-ctx.Done()
			note(fmt.Sprintf("rank %d was told", g.Rank()))
		}
		return nil
	})
	note("after" + os.Getenv("RANK"))
	if err != nil {
		fmt.Println(strings.ReplaceAll(err.Error(), "\n", "; "))
		return 1
	}
	return 0
}

// TestGo runs this binary with the main function goes.
func TestGo(t *testing.T) {
	for role, want := range map[string]string{"well": "",
		"fail": "launch: rank 0: rank 0 has failed; launch: rank 1: " +
			"rank 1 has failed", "panic": "launch: rank 1: exit status 2"} {
		dir := t.TempDir()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		c := exec.CommandContext(ctx, os.Args[0], "-test.run=^$")
		c.Env = append(os.Environ(), "LAUNCH_TEST_GO="+role, "LAUNCH_TEST_DIR="+dir)
		out, err := c.Output()
		cancel()
		var exit *exec.ExitError
		assert.Equal(t, want != "", errors.As(err, &exit), "%s: %v\n%s", role, err, out)
		assert.Contains(t, string(out), want, role)
		var names []string
		entries, err := os.ReadDir(dir)
		require.NoError(t, err)
		for _, e := range entries {
			names = append(names, e.Name())
		}
		assert.Equal(t, []string{"after", "alone", "rank 0 of 2", "rank 1 of 2"}, names, role)
	}
}

// Only the program that has called Go gets the signal.
func TestGoPassesSignalsOn(t *testing.T) {
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM} {
		dir := t.TempDir()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		c := exec.CommandContext(ctx, os.Args[0], "-test.run=^$")
		c.Env = append(os.Environ(), "LAUNCH_TEST_GO=wait", "LAUNCH_TEST_DIR="+dir)
		var out output
		c.Stdout, c.Stderr = &out, &out
		require.NoError(t, c.Start())
		for rank := range 2 {
			path := filepath.Join(dir, fmt.Sprintf("rank %d of 2", rank))
			for _, err := os.Stat(path); err != nil && ctx.Err() == nil; _, err = os.Stat(path) {
				time.Sleep(5 * time.Millisecond)
			}
		}
		require.NoError(t, c.Process.Signal(s))
		require.NoError(t, c.Wait(), "%v: %s", s, out.String())
		cancel()
		for _, name := range []string{"rank 0 was told", "rank 1 was told", "after"} {
			assert.FileExists(t, filepath.Join(dir, name), "%v", s)
		}
	}
}

func TestGoRefusesWhatCannotBe(t *testing.T) {
	f := func(context.Context) error { return nil }
	assert.ErrorContains(t, launch.Go(t.Context(), 0, f), "at least 1")
	t.Setenv("RANK", "0")
	assert.ErrorContains(t, launch.Go(t.Context(), 2, f), "by a launcher already")
}

// ExampleGo trains with two processes from inside of a program.
func ExampleGo() {
	err := launch.Go(context.Background(), 2, func(ctx context.Context) error {
		group, err := dist.Init(ctx, dist.Options{})
		if err != nil {
			return err
		}
		defer func() { _ = group.Close() }()
		fmt.Println("process", group.Rank(), "of", group.World()) // trainer.Options{Group: group}
		return nil
	})
	if err != nil {
		fmt.Println(err)
	}
}
