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

// The runs in this file are separate processes, which are killed. They execute this test binary;
// the variable says in which folder to run. A process prints a line when a step begins, and its
// result at the end.
const (
	killDir = "PYTORCH_ACCELERATED_TEST_KILL"
	begun   = "step"
)

// saySteps prints a line when a step begins.
type saySteps struct{}

func (saySteps) OnTrainStepStart(*pa.Run) error {
	fmt.Println(begun)
	return nil
}

// newestState returns the state with the most batches in a folder, or "" if there is none.
func newestState(dir string) string {
	most, newest := 0, ""
	states, _ := filepath.Glob(filepath.Join(dir, "step_*")) // the pattern is valid
	for _, state := range states {
		if n, err := strconv.Atoi(strings.TrimPrefix(filepath.Base(state), "step_")); err == nil && n > most {
			most, newest = n, state
		}
	}
	return newest
}

// runToBeKilled is the main function of such a process: it starts or resumes the run.
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
		_, _ = fmt.Fprint(sum, name, left[name]) // writing to a hash never fails
	}
	fmt.Println(tr.Updates(), sum.Sum64())
	return 0
}

// runUntil runs a process and kills it a given time after a step has begun. outcome is what it
// prints at its end, or empty if it was killed.
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

// A run that is killed again and again, at any instant, ends like an undisturbed one: a state is
// complete or does not exist.
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
				step = 0 // let it finish
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
