package main

import (
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/gotrainer/gotrainer/run"
)

// traceable returns a short run whose system calls are counted: two accumulation windows, with a
// save after each.
func traceable(dir string) plan {
	p := small("crnn", dir)
	p.Samples, p.Batch, p.Epochs, p.Keep, p.Eval, p.Gate, p.OnThread = 8, 2, 2, 1, 1, true, true
	return p
}

// observed returns the system calls of an undisturbed run, and its bits.
func observed(b *bench) (calls []systemCall, want map[string]string, err error) {
	p := traceable(b.folder())
	v, err := newProcess(p, b.dir)
	if err != nil {
		return nil, nil, err
	}
	status, err := traced(v, p.Dir, func(c systemCall) verdict {
		calls = append(calls, c)
		return verdict{}
	})
	if err != nil {
		return nil, nil, err
	}
	e := v.ending(codeOf(status))
	if e.code != 0 {
		return nil, nil, fmt.Errorf("an undisturbed run ended with code %d: %s", e.code, e.complaint)
	}
	want, err = bits(e, p.Dir)
	return calls, want, err
}

func codeOf(status syscall.WaitStatus) int {
	if status.Signaled() {
		return -1
	}
	return status.ExitStatus()
}

// disturbed runs a victim, treating one of its calls as the verdict says. It returns how the run
// ended, and the plan to run it again undisturbed. With async, the calls of two goroutines come in
// any order, so the call is the first one of its name from this number on.
func disturbed(b *bench, call systemCall, async bool, v verdict) (p plan, e ending, err error) {
	p = traceable(b.folder())
	p.Async = async
	victim, err := newProcess(p, b.dir)
	if err != nil {
		return p, e, err
	}
	done := false
	status, err := traced(victim, p.Dir, func(c systemCall) verdict {
		if done || c.number < call.number || c.name != call.name {
			return verdict{}
		}
		done = true
		return v
	})
	if err != nil {
		return p, e, err
	}
	p.Gate = false
	return p, victim.ending(codeOf(status)), nil
}

// spread chooses at most a number of values from 0 to n-1, one at random from each of as many equal
// parts.
func (b *bench) spread(n, most int) []int {
	if n <= most {
		most = n
	}
	chosen := make([]int, most)
	for i := range chosen {
		from, to := i*n/most, (i+1)*n/most
		chosen[i] = from + b.random.IntN(to-from)
	}
	return chosen
}

// killedCalls kills a run at each of its system calls. Between two calls that concern the folder
// the disk does not change, so these are all cases.
func killedCalls(b *bench) error {
	calls, want, err := observed(b)
	if err != nil {
		return err
	}
	chosen := b.spread(len(calls), b.either(len(calls), 40))
	b.random.Shuffle(len(chosen), func(i, k int) { chosen[i], chosen[k] = chosen[k], chosen[i] })
	done := b.each(len(chosen), func(i int) {
		c := calls[chosen[i]]
		p, e, err := disturbed(b, c, i%2 == 1, verdict{kill: true})
		switch {
		case err != nil:
			b.fail("%v: %v", c, err)
			return
		case e.code != -1 && e.code != 0: // 0: its calls came in another order, and it finished first
			b.fail("killed at %v it ended with code %d: %s", c, e.code, e.complaint)
		}
		b.same(p, want, fmt.Sprint("killed at ", c))
		_ = os.RemoveAll(p.Dir)
	})
	b.count("killed at %d of %d calls about the folder, every other time with AsyncSave", done, len(calls))
	return nil
}

// faultTable lists which calls fail, and with which error.
var faultTable = []struct {
	errno syscall.Errno // 0: a write of half of the bytes
	name  string
	calls string
}{
	{syscall.ENOSPC, "ENOSPC", "write fsync openat mkdirat renameat ftruncate"},
	{syscall.EDQUOT, "EDQUOT", "write fsync openat mkdirat renameat ftruncate"},
	{syscall.EIO, "EIO", "write fsync openat mkdirat renameat unlinkat ftruncate"},
	{syscall.EROFS, "EROFS", "openat mkdirat renameat unlinkat"},
	{syscall.EACCES, "EACCES", "openat mkdirat renameat unlinkat"},
	{syscall.ENOMEM, "ENOMEM", "write fsync openat mkdirat renameat unlinkat ftruncate"},
	{0, "short write", "write"},
}

// refusedCalls makes each modifying system call fail in each of the ways in the table.
func refusedCalls(b *bench) error {
	calls, want, err := observed(b)
	if err != nil {
		return err
	}
	want = place(want)
	type attempt struct {
		call  systemCall
		fault int
	}
	var attempts []attempt
	for f, fault := range faultTable {
		var some []attempt
		for _, c := range calls {
			if slices.Contains(strings.Fields(fault.calls), strings.TrimSuffix(c.name, "2")) {
				some = append(some, attempt{c, f})
			}
		}
		for _, i := range b.spread(len(some), b.either(len(some), 7)) {
			attempts = append(attempts, some[i])
		}
	}
	b.random.Shuffle(len(attempts), func(i, k int) { attempts[i], attempts[k] = attempts[k], attempts[i] })
	var mu sync.Mutex
	continued := 0
	ended := map[string]int{}
	done := b.each(len(attempts), func(i int) {
		a := attempts[i]
		fault := faultTable[a.fault]
		what := fmt.Sprintf("%s at %v", fault.name, a.call)
		async := i%2 == 1
		if async {
			what += ", AsyncSave"
		}
		p, e, err := disturbed(b, a.call, async, verdict{errno: fault.errno, half: fault.errno == 0})
		if err != nil {
			b.fail("%s: %v", what, err)
			return
		}
		if e.code == 0 {
			left, err := bits(e, p.Dir)
			if err != nil {
				b.fail("%s: %v", what, err)
			} else if diff := difference(want, savedLater(want, left)); diff != "" {
				b.fail("%s: it continued and ended otherwise: %s", what, diff)
			}
		}
		mu.Lock()
		if e.code == 0 {
			continued++
		} else {
			ended[e.record.Kind]++
		}
		mu.Unlock()
		if problem := documented(e, fault.errno); problem != "" {
			b.fail("%s: %s: %s", what, problem, e.complaint)
		}
		if got, _, err := b.whole(p); err != nil {
			b.fail("%s: started again: %v", what, err)
		} else if diff := difference(want, place(got)); diff != "" {
			b.fail("%s: started again it ends otherwise: %s", what, diff)
		}
		_ = os.RemoveAll(p.Dir)
	})
	b.count("%d faults of %d kinds, every other one with AsyncSave: the run continued after %d, ended and was "+
		"continued after %d (%s)", done,
		len(faultTable), continued, done-continued, counts(ended))
	return nil
}

// A checkpoint that could not be written when it was due is written later, at the end of the run,
// and its state says so.
var placeOfSave = regexp.MustCompile(`(?s)"should_save": (true|false),|"position": {.*?"micro_batches"`)

// place removes the position in the loop at which a checkpoint was written.
func place(left map[string]string) map[string]string {
	for name, text := range left {
		if strings.HasSuffix(name, "_state.json") {
			left[name] = placeOfSave.ReplaceAllString(text, "")
		}
	}
	return left
}

// savedLater also removes old checkpoints that could not be deleted: the next process deletes them.
func savedLater(want, left map[string]string) map[string]string {
	maps.DeleteFunc(left, func(name, _ string) bool {
		_, wanted := want[name]
		return !wanted && (strings.HasPrefix(name, "checkpoint-") ||
			strings.HasPrefix(name, ".checkpoint-") && strings.Contains(name, ".dropped-"))
	})
	return place(left)
}

// documented checks the end of a run after a fault against the table of exit codes.
func documented(e ending, errno syscall.Errno) string {
	switch code := run.Code(e.code); {
	case code == run.OK, code == run.Storage:
		return ""
	case code == run.OutOfMemory && errno == syscall.ENOMEM:
		return ""
	default:
		return fmt.Sprintf("it ended with code %d (%s); want 0, 4, or 8 for want of memory", e.code, e.record.Kind)
	}
}

// counts formats how often each thing happened.
func counts(m map[string]int) string {
	var list []string
	for name, n := range m {
		list = append(list, fmt.Sprintf("%s %d", name, n))
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}
