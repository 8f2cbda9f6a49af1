// Command fault disturbs training runs and checks that they end with the same bits as an
// undisturbed one.
//
//	go run ./internal/fault                 # make fault
//	go run ./internal/fault -long           # make fault LONG=1
//	go run ./internal/fault -only kills -seed 7
//
// Each entry of its table starts victims: processes of this program, written as a user would
// (victim.go), that train small models with dropout in bf16, with accumulation, a shuffled data
// set, loaders, evaluations, early stopping and checkpoints. They are killed at random instants and
// at each system call that concerns the run's folder, have those calls fail, receive signals, and
// find damaged files and full disks. A run that is started again must then end with the same
// weights, optimizer, generator, log and files as an undisturbed one.
//
// The exit status is 1 if an entry failed. A failure says how to repeat it.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

func init() { runtime.LockOSThread() } // a traced victim stays on the first thread

func main() {
	if text := os.Getenv(victimVariable); text != "" {
		victim(text)
	}
	runtime.UnlockOSThread()
	long := flag.Bool("long", false, "the long form: hours where the short one takes minutes")
	only := flag.String("only", "", "the lines to run, with commas between them; empty: all of the form")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano())%1e9, "decides all random choices")
	jobs := flag.Int("jobs", runtime.NumCPU(), "victims at the same time")
	keep := flag.Bool("keep", false, "keep the folders of the runs")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := drive(ctx, *long, *only, *seed, max(1, *jobs), *keep); err != nil {
		fmt.Fprintln(os.Stderr, "fault:", err)
		os.Exit(1)
	}
}

// entry is an entry of the table.
type entry struct {
	name, promise string
	drive         func(b *bench) error
}

var entries = []entry{
	{name: "resume", promise: "a run resumed from any update of two epochs has the same bits", drive: resume},
	{name: "kills", promise: "kill -9 at random instants", drive: kills},
	{name: "calls", promise: "kill -9 at the system calls of a whole run", drive: killedCalls},
	{name: "faults", promise: "a system call of a run that fails", drive: refusedCalls},
	{name: "shards", promise: "kill -9 and a full disk at the calls of one of several ranks that save together",
		drive: shardedSaves},
	{name: "damage", promise: "damaged files are named, older checkpoints used", drive: damage},
	{name: "signals", promise: "INT, TERM, HUP, USR1 in each phase save and leave", drive: signals},
	{name: "folder", promise: "two processes in one folder", drive: folder},
	{name: "disk", promise: "a disk that fills and empties again", drive: disk},
	{name: "soak", promise: "memory, goroutines, files and tensors stay", drive: soak},
	{name: "trainers", promise: "16 trainers in one process have the bits of lone ones", drive: trainers},
}

func drive(ctx context.Context, long bool, only string, seed uint64, jobs int, keep bool) error {
	for name := range strings.SplitSeq(only, ",") {
		if name != "" && !known(name) {
			return fmt.Errorf("-only: there is no line %q", name)
		}
	}
	dir, err := os.MkdirTemp("", "gotrainer-fault-")
	if err != nil {
		return err
	}
	if !keep {
		defer os.RemoveAll(dir)
	}
	fmt.Printf("the seed is %d; folders are in %s\n", seed, dir)
	began := time.Now()
	var failed []string
	for _, e := range entries {
		if only != "" && !strings.Contains(","+only+",", ","+e.name+",") {
			continue
		}
		b := &bench{ctx: ctx, long: long, jobs: jobs, dir: filepath.Join(dir, e.name),
			random: rand.New(rand.NewPCG(seed, uint64(len(e.name))))}
		start := time.Now()
		err := os.Mkdir(b.dir, 0o777)
		if err == nil {
			err = e.drive(b)
		}
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			b.fail("%v", err)
		}
		verdict := "ok"
		if len(b.failures) > 0 {
			verdict = fmt.Sprintf("%d FAILED", len(b.failures))
			failed = append(failed, e.name)
		}
		fmt.Printf("%-9s %-9s %5.0f s  %s: %s\n", e.name, verdict, time.Since(start).Seconds(), e.promise,
			strings.Join(b.counts, "; "))
		for _, f := range b.failures[:min(20, len(b.failures))] {
			fmt.Printf("    FAILED: %s\n", strings.ReplaceAll(strings.TrimSpace(f), "\n", "\n        "))
		}
		if len(b.failures) > 0 {
			fmt.Printf("    again: go run ./internal/fault -only %s -seed %d%s -keep\n", e.name, seed, ifLong(long))
		}
		if ctx.Err() != nil {
			break
		}
		if !keep {
			_ = os.RemoveAll(b.dir) // the rest is removed with the parent folder
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("failed: %s", strings.Join(failed, ", "))
	}
	fmt.Printf("nothing was lost, in %.0f s\n", time.Since(began).Seconds())
	return nil
}

func ifLong(long bool) string {
	if long {
		return " -long"
	}
	return ""
}

func known(name string) bool {
	for _, e := range entries {
		if e.name == name {
			return true
		}
	}
	return false
}

// bench is the environment of a table entry. Its methods may be called by several goroutines.
type bench struct {
	ctx      context.Context
	long     bool
	jobs     int
	dir      string
	random   *rand.Rand // used by one goroutine
	counts   []string
	mu       sync.Mutex
	failures []string
	folders  int
}

func (b *bench) fail(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures = append(b.failures, fmt.Sprintf(format, args...))
}

func (b *bench) failed() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.failures)
}

// count adds to what is printed about the entry.
func (b *bench) count(format string, args ...any) {
	b.counts = append(b.counts, fmt.Sprintf(format, args...))
}

// either returns the first number with -long, and the second otherwise.
func (b *bench) either(long, short int) int {
	if b.long {
		return long
	}
	return short
}

// folder returns a new folder for a run.
func (b *bench) folder() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.folders++
	return filepath.Join(b.dir, fmt.Sprint("run-", b.folders))
}

// each calls f for 0 to n-1, several at a time, until the program is to end. It returns the number
// of calls, and prints its progress every minute: with -long, an entry may take an hour.
func (b *bench) each(n int, f func(i int)) (done int) {
	slots := make(chan struct{}, b.jobs)
	var all sync.WaitGroup
	told := time.Now()
	for i := range n {
		if time.Since(told) >= time.Minute {
			told = time.Now()
			fmt.Printf("    %s: %d of %d, %d failed\n", filepath.Base(b.dir), done, n, b.failed())
		}
		if b.ctx.Err() != nil {
			break
		}
		done++
		slots <- struct{}{}
		all.Go(func() {
			defer func() { <-slots }()
			f(i)
		})
	}
	all.Wait()
	return done
}

// whole runs a plan undisturbed, which must succeed, and returns its bits.
func (b *bench) whole(p plan) (map[string]string, ending, error) {
	e, err := runPlan(p, b.dir)
	if err != nil {
		return nil, e, err
	}
	if e.code != 0 || len(e.outcomes) == 0 {
		return nil, e, fmt.Errorf("an undisturbed run ended with code %d: %s", e.code, e.complaint)
	}
	left, err := bits(e, p.Dir)
	return left, e, err
}

// same runs a plan until it ends and compares the result; what says how the run was disturbed.
func (b *bench) same(p plan, want map[string]string, what string) bool {
	got, _, err := b.whole(p)
	if err != nil {
		b.fail("%s: started again: %v", what, err)
		return false
	}
	if diff := difference(want, got); diff != "" {
		b.fail("%s: started again it ends otherwise: %s", what, diff)
		return false
	}
	return true
}
