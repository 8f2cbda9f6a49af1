package torch

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gotrainer/gotrainer/cgotorch"
)

// Threads that share an operator wait for each other at its end. Active waiting, OpenMP's word for
// going round in a loop, is the quickest while every thread has a CPU to itself, and ruinous when
// another program wants that CPU: then the thread that is waited for does not run, since the one
// that waits does. Passive waiting is going to sleep. Nobody can know beforehand which is right, so
// the policy is decided when libtorch is loaded, and again while the process computes.

// WaitPolicy says how the threads within an operator wait for each other.
type WaitPolicy struct {
	Passive bool   // they sleep; otherwise they spin in a loop first, libgomp's default
	Fixed   bool   // it no longer changes
	Reason  string // "the machine is busy", "OMP_WAIT_POLICY is set"
	Changes int    // how often it has changed since libtorch was loaded

	// Slice is the time a thread may compute before a thread of another process gets its turn, if
	// it requested one from the kernel; 0 means as long as the kernel likes. Passive threads
	// request short slices, which Linux 6.12 and later grant.
	Slice time.Duration

	// Wanted is the number of threads set by [SetThreads] while [AdaptThreads] makes operators use
	// fewer; 0 if they use as many as were set.
	Wanted int
}

// String returns a description such as "active: the CPUs are this process's own".
func (w WaitPolicy) String() string {
	policy := "active: " + w.Reason
	if w.Passive {
		policy = "passive: " + w.Reason
	}
	if w.Slice > 0 {
		policy += fmt.Sprintf("; slices of the CPU of %v", w.Slice)
	}
	if w.Wanted > 0 {
		policy += fmt.Sprintf("; fewer threads than the %d wanted", w.Wanted)
	}
	return policy
}

const (
	lookEvery = 250 * time.Millisecond
	shortLook = 100 * time.Millisecond
	never     = int64(1<<63 - 1)
)

// waiting is the policy of the process.
var waiting struct {
	sync.Mutex
	judge  waitJudge
	policy WaitPolicy
	former usage // of the last look
	looks  int
	wanted int  // threads
	adapts bool // see AdaptThreads
}

// nextLook is when the policy is decided again, as sinceLoading counts.
var nextLook atomic.Int64

func init() { nextLook.Store(never) }

var loading = time.Now()

func sinceLoading() int64 { return int64(time.Since(loading)) }

// Waiting loads libtorch and returns how the threads within an operator currently wait for each
// other: see [Load].
func Waiting() WaitPolicy {
	load("Waiting")
	waiting.Lock()
	defer waiting.Unlock()
	return waiting.policy
}

// startWaiting decides for the first time; before is what the CPUs had done before libtorch was
// loaded.
func startWaiting(before usage, measured bool) {
	waiting.Lock()
	defer waiting.Unlock()
	waiting.wanted = cgotorch.Threads()
	calmMonitor(waiting.wanted > 1)
	fix := func(passive bool, reason string) {
		waiting.policy = WaitPolicy{Passive: passive, Fixed: true, Reason: reason}
		lookSoon()
	}
	for _, name := range []string{"OMP_WAIT_POLICY", "GOMP_SPINCOUNT"} {
		if value := os.Getenv(name); value != "" {
			fix(name == "OMP_WAIT_POLICY" && (value == "passive" || value == "PASSIVE"), name+" is "+value)
			return
		}
	}
	after, ok := readUsage()
	if !ok || !measured {
		fix(false, "libgomp's default; there is no way to decide on this system")
		return
	}
	waiting.policy.Reason = waitDefault
	waiting.former = before
	decideWaiting(after)
}

// AdaptThreadsVariable is the environment variable that has the effect of [AdaptThreads] when set
// to 1.
const AdaptThreadsVariable = "GOTRAINER_ADAPT_THREADS"

// AdaptThreads makes operators use fewer threads than set by [SetThreads] while other processes
// use the CPUs: as many as there are free CPUs, but at least half. Otherwise, a thread that waits
// for its CPU keeps all others of its operator waiting. It is off by default, because a different
// number of threads changes the order in which numbers are added up, so that the last bits depend
// on what else the machine is doing. Under [Reproducible], and if the policy of [Waiting] is
// fixed, it returns an error.
func AdaptThreads() error {
	if err := Load(); err != nil {
		return err
	}
	if err := allowAdapting("AdaptThreads"); err != nil {
		return err
	}
	return nil
}

func allowAdapting(op string) *Error {
	if n := reproducible.threads; n > 0 {
		return invalid(op, "the number of threads is part of reproducible numbers, %d; choose one of the two", n)
	}
	waiting.Lock()
	defer waiting.Unlock()
	if waiting.policy.Fixed {
		return invalid(op, "how threads wait is fixed, so the CPUs are not watched: %s", waiting.policy.Reason)
	}
	waiting.adapts = true
	return nil
}

// restartWaiting is called when the number of threads has changed.
func restartWaiting(threads int) {
	waiting.Lock()
	defer waiting.Unlock()
	waiting.wanted = threads
	if waiting.policy.Reason == "" {
		return // libtorch is being loaded
	}
	lookNow()
}

// reconsiderWaiting decides again if it is time. It is called when a scope ends: a training step
// is one at least.
func reconsiderWaiting() {
	next := nextLook.Load()
	if next == never || sinceLoading() < next || !nextLook.CompareAndSwap(next, never) {
		return
	}
	waiting.Lock()
	defer waiting.Unlock()
	lookNow()
}

// lookNow keeps the monitor calm, and decides again unless the policy is fixed. The lock is held.
func lookNow() {
	calmMonitor(waiting.wanted > 1)
	if waiting.policy.Fixed {
		lookSoon()
	} else if now, ok := readUsage(); ok {
		decideWaiting(now)
	}
}

// lookSoon sets when to look again, if there is more than one thread. The lock is held.
func lookSoon() {
	if waiting.wanted == 1 {
		nextLook.Store(never) // until SetThreads
	} else {
		nextLook.Store(sinceLoading() + int64(lookEvery))
	}
}

// decideWaiting looks at what has happened since the last look. The lock is held.
func decideWaiting(now usage) {
	waiting.looks++
	threads := waiting.wanted
	lookSoon()
	load := now.since(waiting.former)
	passive, reason := waiting.judge.decide(load, threads, runtime.GOMAXPROCS(0))
	if !load.short() {
		waiting.former = now
	}
	team := 0
	if passive {
		// libgomp then counts more threads than CPUs.
		team = max(2, now.cpus-threads+2)
	}
	if !cgotorch.HoldTeam(team) {
		waiting.policy.Fixed, waiting.policy.Reason = true, "libgomp's default; no thread could be made to change it"
		waiting.policy.Passive = false
		nextLook.Store(never)
		return
	}
	if passive != waiting.policy.Passive {
		waiting.policy.Changes++
		waiting.policy.Slice = 0
		if passive && askForSlices(shortSlice) {
			waiting.policy.Slice = shortSlice
		} else if !passive {
			askForSlices(0)
		}
	}
	waiting.policy.Passive, waiting.policy.Reason = passive, reason
	if waiting.adapts && !load.short() {
		adaptThreads(threadsBeside(load, threads, passive))
	}
}

// adaptThreads has operators use so many threads. The lock is held.
func adaptThreads(threads int) {
	if threads != cgotorch.Threads() {
		cgotorch.SetThreads(threads)
	}
	waiting.policy.Wanted = 0
	if threads < waiting.wanted {
		waiting.policy.Wanted = waiting.wanted
	}
}

// threadsBeside is how many threads of the wanted ones suit CPUs that other processes use, too.
// Half of them stay: were it fewer, the others would take what is left, until one thread is.
func threadsBeside(l cpuLoad, wanted int, passive bool) int {
	if !passive {
		return wanted
	}
	return min(wanted, max((wanted+1)/2, l.cpus-int(math.Round(l.others))))
}

const waitDefault = "the CPUs are this process's own"

// usage is what the CPUs that the process may use have done since they were started.
type usage struct {
	cpus      int           // that the process may use
	at        time.Duration // of the look
	busy      time.Duration // of those CPUs together
	own       time.Duration // CPU time of the process
	thread    int           // that looks
	ofThread  time.Duration // CPU time of that thread
	preempted int64         // how often a thread of the process lost its CPU
}

// load is how the CPUs were used between two looks.
type cpuLoad struct {
	cpus      int
	elapsed   time.Duration
	others    float64 // CPUs that other processes used
	share     float64 // of the time that the calling thread computed; negative: it is not known
	preempted float64 // times a second that a thread of this process lost its CPU
}

func (u usage) since(former usage) cpuLoad {
	l := cpuLoad{cpus: u.cpus, elapsed: u.at - former.at, share: -1}
	if l.elapsed <= 0 {
		l.elapsed = 1
	}
	per := func(d time.Duration) float64 { return float64(d) / float64(l.elapsed) }
	l.others = max(0, per(u.busy-former.busy)-per(u.own-former.own))
	l.preempted = float64(u.preempted-former.preempted) / l.elapsed.Seconds()
	if u.thread == former.thread {
		l.share = per(u.ofThread - former.ofThread)
	}
	return l
}

// waitJudge decides how threads wait.
type waitJudge struct {
	passive  bool
	reason   string
	held     time.Duration // how long the policy has been as it is
	quiet    time.Duration // how long the CPUs have been quiet, while it is passive
	patience time.Duration // how long they have to be before it is active again; zero: shortQuiet
}

// Thresholds. A look is a quarter of a second, in which the kernel counts CPU time in hundredths.
const (
	busyOthers  = 0.3 // CPUs too few, for threads that wait actively
	quietOthers = 0.15
	lowShare    = 0.7 // of the time that a thread computes that is kept from its CPU ...
	preemptions = 20  // ... so often in a second

	shortQuiet = time.Second
	longQuiet  = 2 * time.Minute
)

// short reports whether hundredths of a second say nothing of other processes in that time.
func (l cpuLoad) short() bool { return l.elapsed < shortLook }

// decide says how so many threads wait, when the scheduler of Go uses procs CPUs at most: those
// that the quota of the process's control group allows, or that GOMAXPROCS says.
func (j *waitJudge) decide(l cpuLoad, threads, procs int) (passive bool, reason string) {
	if !l.short() {
		j.held += l.elapsed
	}
	missing := l.others + float64(threads) - float64(l.cpus)
	switch {
	case threads == 1:
		j.become(false, "there is one thread")
	case procs < threads:
		j.become(true, fmt.Sprintf("GOMAXPROCS, or the quota of the control group, is %d", procs))
	case l.short():
		if !j.passive {
			j.reason = waitDefault
		}
	case !j.passive && missing > busyOthers:
		j.become(true, "other processes use the CPUs")
	case !j.passive && l.share >= 0 && l.share < lowShare && l.preempted > preemptions:
		j.become(true, "threads are kept from their CPUs")
	case !j.passive:
		j.reason = waitDefault
	case missing > quietOthers:
		j.quiet = 0
	default:
		if j.quiet += l.elapsed; j.quiet >= max(j.patience, shortQuiet) {
			j.become(false, waitDefault)
		}
	}
	return j.passive, j.reason
}

// become changes the policy. Each active time that was short doubles the patience with the next
// quiet one.
func (j *waitJudge) become(passive bool, reason string) {
	if passive && !j.passive {
		if j.patience > 0 && j.held < 5*max(j.patience, shortQuiet) {
			j.patience = min(2*j.patience, longQuiet)
		} else {
			j.patience = shortQuiet
		}
	}
	if passive != j.passive {
		j.held, j.quiet = 0, 0
	}
	j.passive, j.reason = passive, reason
}
