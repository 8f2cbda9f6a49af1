package main

import (
	"errors"
	"os"
	"os/exec"
	"regexp"
	"sync/atomic"
	"syscall"

	"github.com/gotrainer/gotrainer/run"
)

// folder starts a second process in the folder of a running one, which it must not disturb.
func folder(b *bench) error {
	want, _, err := b.whole(small("crnn", b.folder()))
	if err != nil {
		return err
	}
	n := b.either(50, 5)
	var refused atomic.Int32
	b.each(n, func(int) {
		p := small("crnn", b.folder())
		p.Phase, p.Pause = "forward", phaseLength
		first, err := newProcess(p, b.dir)
		if err == nil {
			err = first.start()
		}
		if err == nil {
			err = first.waitFor(saidPhase) // the run has locked the folder
		}
		if err != nil {
			b.fail("%v", err)
			return
		}
		second, err := runPlan(p, b.dir)
		if err != nil || second.code != int(run.Locked) {
			b.fail("the second process ended with code %d, %v; want %d: %s", second.code, err, run.Locked,
				second.complaint)
		} else {
			refused.Add(1)
		}
		e := first.wait()
		left, err := bits(e, p.Dir)
		if diff := difference(want, left); err != nil || e.code != 0 || diff != "" {
			b.fail("the first process ended with code %d, %v %s: %s", e.code, err, diff, e.complaint)
		}
	})
	b.count("%d of %d second processes refused with code %d, the first ones unharmed", refused.Load(), n, run.Locked)
	return nil
}

// disk fills the disk in the middle of a run and later makes room again: a real disk of 1 MB if
// mounting is permitted, and a simulated one on which every call concerning the run's folder fails.
func disk(b *bench) error {
	base := small("crnn", b.folder())
	base.Epochs = 4
	want, unharmed, err := b.whole(base)
	if err != nil {
		return err
	}
	p := base
	p.Dir, p.Disk, p.FullAt, p.EmptyAt = b.folder(), 4<<20, 3, 9
	e, err := runPlan(p, b.dir)
	switch {
	case errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) || errors.Is(err, syscall.ENOSPC) ||
		errors.Is(err, syscall.EUSERS) || e.code == int(run.Training) && mountRefused.MatchString(e.complaint):
		b.count("no small disk, since this system lets no program mount one")
	case err != nil:
		return err
	case e.code != 0 || len(e.outcomes) != 1 || sameOutcome(e, unharmed) != nil ||
		!fullWarned.MatchString(e.outcomes[0]):
		b.fail("on a disk that was full from update 3 to 9 it ended with code %d: %v %s", e.code, e.outcomes,
			e.complaint)
	default:
		b.count("a tmpfs of 4 MB full from update 3 to 9: warned, saved later, the same bits")
	}
	return refusedDisk(b, base, want)
}

var (
	fullWarned   = regexp.MustCompile("no space left on device")
	mountRefused = regexp.MustCompile("mounting a small disk: ")
)

func sameOutcome(a, b ending) error {
	x, errX := bits(ending{outcomes: a.outcomes}, "")
	y, errY := bits(ending{outcomes: b.outcomes}, "")
	if diff := difference(x, y); diff != "" {
		return errors.Join(errX, errY, errors.New(diff))
	}
	return errors.Join(errX, errY)
}

// refusedDisk makes every call that needs space fail during a part of the run.
func refusedDisk(b *bench, base plan, want map[string]string) error {
	base.Gate = true
	runs := b.either(40, 4)
	survived, all := 0, 0
	for range runs {
		p := base
		p.Dir = b.folder()
		from := 100 + b.random.IntN(700)
		to := from + 50 + b.random.IntN(300)
		v, err := newProcess(p, b.dir)
		if err != nil {
			return err
		}
		refused := 0
		status, err := traced(v, p.Dir, func(c systemCall) verdict {
			if c.number < from || c.number > to || !needsRoom[c.name] {
				return verdict{}
			}
			refused++
			return verdict{errno: syscall.ENOSPC}
		})
		if err != nil {
			return err
		}
		e := v.ending(codeOf(status))
		left, err := bits(e, p.Dir)
		if diff := difference(want, left); err != nil || e.code != 0 || diff != "" {
			b.fail("no room from call %d to %d (%d refused): code %d, %v %s: %s", from, to, refused, e.code, err, diff,
				e.complaint)
			continue
		}
		survived++
		all += refused
		_ = os.RemoveAll(p.Dir)
	}
	b.count("%d of %d runs of which %d calls found no room, dozens in a row, continued with the same bits", survived,
		runs, all)
	return nil
}

var needsRoom = map[string]bool{"write": true, "pwrite64": true, "mkdirat": true, "fsync": true}

// test runs a test of the module that covers a promise completely, and counts its cases.
func (b *bench) test(pkg, name, what string) error {
	cmd := exec.CommandContext(b.ctx, "go", "test", pkg, "-count=1", "-v", "-run", "^"+name+"$")
	out, err := cmd.CombinedOutput()
	cases := passed.FindAllString(string(out), -1)
	if err != nil || len(cases) == 0 {
		b.fail("go test %s -run %s: %v, %d passed:\n%s", pkg, name, err, len(cases), out[max(0, len(out)-4000):])
		return nil
	}
	b.count("%s: %d cases of %s", what, len(cases), name)
	return nil
}

var passed = regexp.MustCompile(`(?m)^ *--- PASS: `)
