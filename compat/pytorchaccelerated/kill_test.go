package pytorchaccelerated_test

import (
	"bufio"
	"bytes"
	"fmt"
	"hash/fnv"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	pa "github.com/gotrainer/gotrainer/compat/pytorchaccelerated"
	"github.com/gotrainer/gotrainer/torch"
)

// The runs of this file are processes of their own, which are killed: this test binary, told by
// this variable in which folder its run is. It says on its standard output when training begins,
// and what the run has left when it has ended.
const (
	killDir = "PYTORCH_ACCELERATED_TEST_KILL"
	begun   = "begun"
)

// sayBegun tells that training begins.
type sayBegun struct{}

func (sayBegun) OnTrainingRunStart(*pa.Run) error {
	fmt.Println(begun)
	return nil
}

// newestState is the state of the most batches in a folder; empty: there is none.
func newestState(dir string) string {
	most, newest := 0, ""
	states, _ := filepath.Glob(filepath.Join(dir, "step_*")) // the pattern is a good one
	for _, state := range states {
		if n, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(state), "step_")); err == nil && n > most {
			most, newest = n, state
		}
	}
	return newest
}

// runToBeKilled is what a started process does: it begins the run, or continues it.
func runToBeKilled(dir string) int {
	torch.SetThreads(1)
	states := &pa.SaveTrainingState{SaveDir: dir, SaveEveryNSteps: 1, NotAtEnd: true, MaxCheckpoints: 2}
	tr, ema, err := long(dir, train{ResumeFrom: newestState(dir)}, states, sayBegun{})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	left, sum := ends(tr.Run, ema), fnv.New64()
	for _, name := range slices.Sorted(maps.Keys(left)) {
		_, _ = fmt.Fprint(sum, name, left[name]) // a hash takes everything
	}
	fmt.Println(tr.Updates(), sum.Sum64())
	return 0
}

// runUntil runs a process and kills it so long after training has begun; outcome is what it says at
// its end, empty if it has been killed.
func runUntil(t *testing.T, dir string, kill time.Duration) (outcome string, took time.Duration) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), killDir+"="+dir)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	var from time.Time
	for lines := bufio.NewScanner(out); lines.Scan(); outcome = lines.Text() {
		if lines.Text() == begun {
			from = time.Now()
			timer := time.AfterFunc(kill, func() { _ = c.Process.Kill() })
			defer timer.Stop()
		}
	}
	err = c.Wait()
	if err != nil && c.ProcessState.ExitCode() < 0 {
		return "", time.Since(from)
	}
	require.NoError(t, err, "%s\n%s", outcome, &stderr)
	return outcome, time.Since(from)
}

// A run that is killed at any instant, again and again, ends as one that was let alone: a state is
// whole or not there.
func TestKilledRunsContinue(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts processes")
	}
	want, took := runUntil(t, t.TempDir(), time.Hour)
	random := rand.New(rand.NewPCG(1, uint64(os.Getpid())))
	kills := 0
	for range 2 {
		dir := t.TempDir()
		for tries := 0; ; tries++ {
			kill := time.Duration(random.Int64N(int64(took)))
			if tries == 12 {
				kill = time.Hour
			}
			outcome, _ := runUntil(t, dir, kill)
			if outcome != "" {
				assert.Equal(t, want, outcome)
				break
			}
			kills++
		}
	}
	assert.Positive(t, kills, "no process was killed")
	t.Logf("%d processes were killed, in runs of %v", kills, took)
}
