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
// this variable in which folder its run is. It says on its standard output when a step begins, and
// what the run has left when it has ended.
const (
	killDir = "PYTORCH_ACCELERATED_TEST_KILL"
	begun   = "step"
)

// saySteps tells that a step begins.
type saySteps struct{}

func (saySteps) OnTrainStepStart(*pa.Run) error {
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
	tr, ema, err := long(dir, train{ResumeFrom: newestState(dir)}, states, saySteps{})
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

// runUntil runs a process and kills it so long after one of its steps has begun; outcome is what it
// says at its end, empty if it has been killed.
func runUntil(t *testing.T, dir string, step int, kill time.Duration) (outcome string) {
	t.Helper()
	c := exec.CommandContext(t.Context(), os.Args[0])
	c.Env = append(os.Environ(), killDir+"="+dir)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, c.Start())
	for lines := bufio.NewScanner(out); lines.Scan(); outcome = lines.Text() {
		if lines.Text() != begun {
			continue
		}
		if step--; step == 0 {
			time.Sleep(kill)
			_ = c.Process.Kill()
		}
	}
	err = c.Wait()
	if err != nil && c.ProcessState.ExitCode() < 0 {
		return ""
	}
	require.NoError(t, err, "%s\n%s", outcome, &stderr)
	return outcome
}

// A run that is killed at any instant, again and again, ends as one that was let alone: a state is
// whole or not there.
func TestKilledRunsContinue(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts processes")
	}
	want := runUntil(t, t.TempDir(), 0, 0)
	random := rand.New(rand.NewPCG(1, uint64(os.Getpid())))
	kills := 0
	for range 2 {
		dir := t.TempDir()
		for tries := 0; ; tries++ {
			step := 1 + random.IntN(9)
			if tries == 8 {
				step = 0 // it is let alone
			}
			outcome := runUntil(t, dir, step, time.Duration(random.Int64N(int64(20*time.Millisecond))))
			if outcome != "" {
				assert.Equal(t, want, outcome)
				break
			}
			kills++
		}
	}
	assert.Positive(t, kills, "no process was killed")
	t.Logf("%d processes were killed", kills)
}
