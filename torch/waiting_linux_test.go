package torch_test

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/gotrainer/gotrainer/cgotorch"
	"github.com/gotrainer/gotrainer/internal/testenv"
	"github.com/gotrainer/gotrainer/torch"
)

// The policy belongs to a process, so these tests examine child processes.
func TestWaitingChild(t *testing.T) {
	switch os.Getenv(childVariable) {
	case "":
		t.Skip("it runs in processes that the tests below start")
	case "policy":
		torch.SetThreads(2)
		fmt.Printf("POLICY: %s\n", torch.Waiting())
	case "looks":
		torch.SetThreads(1)
		assert.Equal(t, "active: there is one thread", torch.Waiting().String())
		looks := torch.Looks()
		time.Sleep(300 * time.Millisecond)
		torch.Scope(func() {})
		assert.Equal(t, looks, torch.Looks(), "no measurement while there is one thread")
		torch.SetThreads(2)
		looks++
		assert.Equal(t, looks, torch.Looks())
		assert.NotContains(t, torch.Waiting().Reason, "one thread")
		torch.LookSoon()
		torch.Scope(func() {})
		assert.Equal(t, looks+1, torch.Looks(), "the end of a scope measures")
	case "team":
		torch.SetThreads(2)
		torch.FixWaiting()
		runtime.LockOSThread()
		require.True(t, cgotorch.HoldTeam(runtime.NumCPU()+1))
		require.True(t, cgotorch.HoldTeam(runtime.NumCPU()+1), "the same size again")
		passive := spun(t)
		require.True(t, cgotorch.HoldTeam(0))
		active := spun(t)
		require.True(t, cgotorch.HoldTeam(2), "after the active team")
		require.True(t, cgotorch.HoldTeam(0))
		t.Logf("%v of CPU time while passive, %v while active", passive, active)
		assert.Less(t, passive, active/2)
	case "adapts":
		if err := torch.AdaptThreads(); err != nil {
			fmt.Printf("REFUSED: %v\n", err)
			return
		}
		torch.SetThreads(4)
		torch.AdaptBeside(4, 2)
		assert.Equal(t, 2, torch.Threads())
		assert.Equal(t, 4, torch.Waiting().Wanted)
		assert.Contains(t, torch.Waiting().String(), "fewer threads than the 4 wanted")
		other := make(chan int)
		go func() {
			runtime.LockOSThread()
			other <- torch.Threads()
		}()
		assert.Equal(t, 2, <-other, "on another thread")
		torch.AdaptBeside(4, 0)
		assert.Equal(t, 4, torch.Threads())
		assert.Zero(t, torch.Waiting().Wanted)
	case "slices":
		torch.FixWaiting() // on a busy machine, the process requests slices itself
		runtime.LockOSThread()
		torch.RequestSlices(0)
		kernels := slice(t)
		require.NotEqual(t, torch.ShortSlice, kernels)
		if !torch.RequestSlices(torch.ShortSlice) {
			fmt.Println("SKIP: this kernel gives no slices of a chosen length")
			return
		}
		assert.Equal(t, torch.ShortSlice, slice(t))
		inherited := make(chan time.Duration)
		go func() {
			runtime.LockOSThread() // so that this goroutine runs on another thread
			inherited <- slice(t)
		}()
		assert.Equal(t, torch.ShortSlice, <-inherited)
		torch.RequestSlices(0)
		assert.Equal(t, kernels, slice(t), "the kernel's default again")
	case "monitor":
		torch.SetThreads(1)
		require.Empty(t, batchThreads(t), "a single thread waits for no other")
		torch.SetThreads(2)
		monitor := onlyBatchThread(t)
		// The monitor wakes up at least every 10 ms while a goroutine computes; no other thread
		// does anything then.
		former := voluntarySwitches(t, monitor)
		for begin := time.Now(); voluntarySwitches(t, monitor) < former+3; {
			require.Less(t, time.Since(begin), 10*time.Second, "thread %d does not wake up", monitor)
		}
		runtime.LockOSThread()
		setPolicy(t, unix.Gettid(), unix.SCHED_BATCH) // as if the monitor had started this thread
		require.Equal(t, monitor, onlyBatchThread(t))
		torch.SetThreads(1)
		require.Empty(t, batchThreads(t))
	case "thread":
		require.NoError(t, torch.Load())
		thread := unix.Gettid()
		for range 2 * runtime.GOMAXPROCS(0) { // each of them needs a thread
			go func() {
				for {
					runtime.Gosched()
				}
			}()
		}
		for range 500 {
			time.Sleep(100 * time.Microsecond)
			require.Equal(t, thread, unix.Gettid())
		}
	}
}

// The process that starts a child may do so on a thread that its own monitor has started, whose
// policy the child inherits.
func init() {
	if os.Getenv(childVariable) == "monitor" {
		threads, _ := os.ReadDir("/proc/self/task")
		for _, thread := range threads {
			id, _ := strconv.Atoi(thread.Name())
			_ = unix.SchedSetAttr(id, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_NORMAL}, 0)
		}
	}
}

func setPolicy(t *testing.T, thread int, policy uint32) {
	attr, err := unix.SchedGetAttr(thread, 0)
	require.NoError(t, err)
	attr.Policy = policy
	require.NoError(t, unix.SchedSetAttr(thread, attr, 0))
}

// batchThreads returns the threads of this process with the policy SCHED_BATCH, which preempt no
// other thread.
func batchThreads(t *testing.T) (ids []int) {
	threads, err := os.ReadDir("/proc/self/task")
	require.NoError(t, err)
	for _, thread := range threads {
		id, err := strconv.Atoi(thread.Name())
		require.NoError(t, err)
		if attr, err := unix.SchedGetAttr(id, 0); err == nil && attr.Policy == unix.SCHED_BATCH {
			ids = append(ids, id)
		}
	}
	return ids
}

// onlyBatchThread waits until the monitor is the only thread with SCHED_BATCH: it may start a
// thread, which inherits its policy, at any moment.
func onlyBatchThread(t *testing.T) int {
	for begin := time.Now(); ; {
		torch.LookSoon()
		torch.Scope(func() {})
		ids := batchThreads(t)
		if len(ids) == 1 {
			return ids[0]
		}
		require.Less(t, time.Since(begin), 10*time.Second, "threads %v have SCHED_BATCH", ids)
	}
}

// voluntarySwitches returns how often the thread has gone to sleep.
func voluntarySwitches(t *testing.T, thread int) (n int) {
	status, err := os.ReadFile(fmt.Sprintf("/proc/self/task/%d/status", thread))
	require.NoError(t, err)
	for line := range strings.Lines(string(status)) {
		if count, ok := strings.CutPrefix(line, "voluntary_ctxt_switches:"); ok {
			n, err = strconv.Atoi(strings.TrimSpace(count))
			require.NoError(t, err)
		}
	}
	return n
}

// slice returns the slice of the calling thread.
func slice(t *testing.T) time.Duration {
	attr, err := unix.SchedGetAttr(0, 0)
	require.NoError(t, err)
	return time.Duration(attr.Runtime)
}

// spun returns the CPU time that the process uses in pauses between calls of an operator that two
// threads compute.
func spun(t *testing.T) time.Duration {
	x := torch.Ones(1 << 17)
	defer x.Free()
	now := func() time.Duration {
		var r unix.Rusage
		require.NoError(t, unix.Getrusage(unix.RUSAGE_SELF, &r))
		return time.Duration(r.Utime.Nano() + r.Stime.Nano())
	}
	begin := now()
	for range 30 {
		x.AddScalar_(1)
		time.Sleep(10 * time.Millisecond)
	}
	return now() - begin
}

// waitingChild runs TestWaitingChild in an environment whose only settings about waiting are those
// in env.
func waitingChild(t *testing.T, kind string, env ...string) string {
	t.Helper()
	testenv.RequireTorch(t)
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.v", "-test.run=^TestWaitingChild$")
	for _, e := range os.Environ() {
		switch name, _, _ := strings.Cut(e, "="); name {
		case "OMP_WAIT_POLICY", "GOMP_SPINCOUNT", "GOMAXPROCS", torch.ReproducibleVariable:
		default:
			child.Env = append(child.Env, e)
		}
	}
	child.Env = append(append(child.Env, childVariable+"="+kind), env...)
	out, err := child.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return string(out)
}

func TestAUsersWaitPolicyIsLeft(t *testing.T) {
	for env, want := range map[string]string{
		"OMP_WAIT_POLICY=passive": "passive: OMP_WAIT_POLICY is passive",
		"OMP_WAIT_POLICY=ACTIVE":  "active: OMP_WAIT_POLICY is ACTIVE",
		"GOMP_SPINCOUNT=50":       "active: GOMP_SPINCOUNT is 50",
	} {
		assert.Contains(t, waitingChild(t, "policy", env), "POLICY: "+want+"\n")
	}
}

func TestThreadsWaitPassivelyUnderAQuota(t *testing.T) {
	assert.Contains(t, waitingChild(t, "policy", "GOMAXPROCS=1"),
		"POLICY: passive: GOMAXPROCS, or the quota of the control group, is 1")
}

func TestOperatorsUseFewerThreadsBesideOtherProcesses(t *testing.T) {
	assert.NotContains(t, waitingChild(t, "adapts"), "REFUSED")
	assert.Contains(t, waitingChild(t, "adapts", "OMP_WAIT_POLICY=passive"),
		"how threads wait is fixed, so the CPUs are not watched: OMP_WAIT_POLICY is passive")
	if torch.HasAVX2() { // numbers cannot be reproducible without it
		assert.Contains(t, waitingChild(t, "adapts", torch.ReproducibleVariable+"=1"),
			"the number of threads is part of reproducible numbers, 1; choose one of the two")
	}
	assert.Contains(t, waitingChild(t, "adapts", torch.AdaptThreadsVariable+"=yes"),
		`torch: Load: GOTRAINER_ADAPT_THREADS is "yes": want 1 or 0`)
}

func TestPassiveThreadsAskForShortSlices(t *testing.T) {
	out := waitingChild(t, "slices")
	if _, reason, skipped := strings.Cut(out, "SKIP: "); skipped {
		t.Skip(reason)
	}
}

func TestTheMonitorOfGoTakesNoCPUFromAThread(t *testing.T) {
	testenv.SkipEmulated(t, "one of qemu's own threads would be taken for the monitor")
	waitingChild(t, "monitor")
}

func TestTheGoroutineThatLoadsStaysOnItsThread(t *testing.T) { waitingChild(t, "thread") }

func TestWhenTheWaitPolicyIsDecidedAgain(t *testing.T) { waitingChild(t, "looks") }

func TestATeamThatIsHeldMakesThreadsSleepAtOnce(t *testing.T) {
	if runtime.NumCPU() < 2 {
		t.Skip("one CPU: libgomp hardly spins")
	}
	out := waitingChild(t, "team")
	for line := range strings.Lines(out) {
		if strings.Contains(line, "CPU time") {
			t.Log(strings.TrimSpace(line))
		}
	}
}
