package trainer_test

import (
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/gotrainer/gotrainer/trainer"
	"github.com/gotrainer/gotrainer/trainer/trainertest"
)

// Threads that libtorch keeps for the thread of a save would make those of the training sleep.
func TestTheThreadOfAnAsyncSaveEndsWithIt(t *testing.T) {
	var mu sync.Mutex
	var threads []int
	step := &trainertest.Step{Write: func() error {
		mu.Lock()
		defer mu.Unlock()
		threads = append(threads, unix.Gettid())
		return nil
	}}
	_, err := asyncRun(t, step, trainer.Options{OutputDir: t.TempDir(), AsyncSave: true}, nil)
	require.NoError(t, err)
	require.Len(t, threads, 3)
	for _, thread := range threads {
		assert.Eventually(t, func() bool {
			_, err := os.Stat(fmt.Sprint("/proc/self/task/", thread))
			return os.IsNotExist(err)
		}, 10*time.Second, time.Millisecond)
	}
}
