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

// The threads that compute an operator wait for each other at its end. Active waiting, OpenMP's
// term for spinning, is fastest while every thread has a CPU to itself, but very slow when another
// program uses one of the CPUs: the thread that the others wait for is not running, because a
// spinning thread occupies its CPU. Passive waiting means sleeping. Which one is better cannot be
// known in advance, so the policy is decided when libtorch is loaded, and again and again while the
// process computes.

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
	decider waitDecider
	policy  WaitPolicy
	former  usage // at the previous look
	looks   int
	wanted  int  // the number of threads that was set
	adapts  bool // see AdaptThreads
}

// nextLook is when the policy is decided again, on the clock of sinceLoading.
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

// startWaiting decides for the first time. before is the usage of the CPUs before libtorch was
// loaded.
func startWaiting(before usage, measured bool) {
	waiting.Lock()
	defer waiting.Unlock()
	waiting.wanted = cgotorch.Threads()
	setMonitorPolicy(waiting.wanted > 1)
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
		return // libtorch is still being loaded
	}
	lookNow()
}

// reconsiderWaiting decides again if it is time to. It is called at the end of every scope, of
// which a training step has at least one.
func reconsiderWaiting() {
	next := nextLook.Load()
	if next == never || sinceLoading() < next || !nextLook.CompareAndSwap(next, never) {
		return
	}
	waiting.Lock()
	defer waiting.Unlock()
	lookNow()
}

// lookNow updates the monitor's scheduling and decides again unless the policy is fixed. The lock
// must be held.
func lookNow() {
	setMonitorPolicy(waiting.wanted > 1)
	if waiting.policy.Fixed {
		lookSoon()
	} else if now, ok := readUsage(); ok {
		decideWaiting(now)
	}
}

// lookSoon schedules the next look if there is more than one thread. The lock must be held.
func lookSoon() {
	if waiting.wanted == 1 {
		nextLook.Store(never) // until SetThreads
	} else {
		nextLook.Store(sinceLoading() + int64(lookEvery))
	}
}

// decideWaiting decides the policy from the usage of the CPUs since the previous look. The lock
// must be held.
func decideWaiting(now usage) {
	waiting.looks++
	threads := waiting.wanted
	lookSoon()
	load := now.since(waiting.former)
	passive, reason := waiting.decider.decide(load, threads, runtime.GOMAXPROCS(0))
	if !load.short() {
		waiting.former = now
	}
	team := 0
	if passive {
		// Makes libgomp count more threads than CPUs, so that its threads sleep instead of
		// spinning.
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
		if passive && requestSlices(shortSlice) {
			waiting.policy.Slice = shortSlice
		} else if !passive {
			requestSlices(0)
		}
	}
	waiting.policy.Passive, waiting.policy.Reason = passive, reason
	if waiting.adapts && !load.short() {
		adaptThreads(threadsBeside(load, threads, passive))
	}
}

// adaptThreads sets the number of threads that operators use. The lock must be held.
func adaptThreads(threads int) {
	if threads != cgotorch.Threads() {
		cgotorch.SetThreads(threads)
	}
	waiting.policy.Wanted = 0
	if threads < waiting.wanted {
		waiting.policy.Wanted = waiting.wanted
	}
}

// threadsBeside returns how many of the wanted threads to use while other processes use some of the
// CPUs. At least half of them stay: otherwise the other processes would take over the freed CPUs,
// and so on until one thread is left.
func threadsBeside(l cpuLoad, wanted int, passive bool) int {
	if !passive {
		return wanted
	}
	return min(wanted, max((wanted+1)/2, l.cpus-int(math.Round(l.others))))
}

const waitDefault = "the CPUs are this process's own"

// usage is a measurement of the CPUs that the process may use. All times count since some fixed
// moment in the past.
type usage struct {
	cpus      int           // CPUs that the process may use
	at        time.Duration // time of the measurement
	busy      time.Duration // time that those CPUs were busy, in sum
	own       time.Duration // CPU time of the process
	thread    int           // id of the thread that measured
	ofThread  time.Duration // CPU time of that thread
	preempted int64         // how often a thread of the process lost its CPU
}

// cpuLoad is how the CPUs were used between two measurements.
type cpuLoad struct {
	cpus      int
	elapsed   time.Duration
	others    float64 // CPUs that other processes used, on average
	share     float64 // fraction of the time that the measuring thread was running; negative means unknown
	preempted float64 // how many times per second a thread of this process lost its CPU
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

// waitDecider decides how threads wait.
type waitDecider struct {
	passive  bool
	reason   string
	held     time.Duration // how long the current policy has been in effect
	quiet    time.Duration // while passive: how long the CPUs have been quiet
	patience time.Duration // how long they must be quiet before the policy becomes active again; zero means shortQuiet
}

// Thresholds. A look covers a quarter of a second, and the kernel measures CPU time in hundredths.
const (
	busyOthers  = 0.3 // actively waiting threads tolerate at most this many CPUs too few
	quietOthers = 0.15
	lowShare    = 0.7 // a thread is kept from its CPU if it runs for a smaller fraction of the time ...
	preemptions = 20  // ... and threads are preempted more often than this per second

	shortQuiet = time.Second
	longQuiet  = 2 * time.Minute
)

// short reports whether the time was too short to measure other processes, given that the kernel
// counts in hundredths of a second.
func (l cpuLoad) short() bool { return l.elapsed < shortLook }

// decide chooses how the given number of threads wait. procs is the number of CPUs that Go's
// scheduler uses at most, which follows from GOMAXPROCS or the CPU quota of the process's control
// group.
func (d *waitDecider) decide(l cpuLoad, threads, procs int) (passive bool, reason string) {
	if !l.short() {
		d.held += l.elapsed
	}
	missing := l.others + float64(threads) - float64(l.cpus)
	switch {
	case threads == 1:
		d.become(false, "there is one thread")
	case procs < threads:
		d.become(true, fmt.Sprintf("GOMAXPROCS, or the quota of the control group, is %d", procs))
	case l.short():
		if !d.passive {
			d.reason = waitDefault
		}
	case !d.passive && missing > busyOthers:
		d.become(true, "other processes use the CPUs")
	case !d.passive && l.share >= 0 && l.share < lowShare && l.preempted > preemptions:
		d.become(true, "threads are kept from their CPUs")
	case !d.passive:
		d.reason = waitDefault
	case missing > quietOthers:
		d.quiet = 0
	default:
		if d.quiet += l.elapsed; d.quiet >= max(d.patience, shortQuiet) {
			d.become(false, waitDefault)
		}
	}
	return d.passive, d.reason
}

// become changes the policy. If the policy was active only briefly before it becomes passive again,
// the patience doubles.
func (d *waitDecider) become(passive bool, reason string) {
	if passive && !d.passive {
		if d.patience > 0 && d.held < 5*max(d.patience, shortQuiet) {
			d.patience = min(2*d.patience, longQuiet)
		} else {
			d.patience = shortQuiet
		}
	}
	if passive != d.passive {
		d.held, d.quiet = 0, 0
	}
	d.passive, d.reason = passive, reason
}
