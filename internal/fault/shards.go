package main

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/gotrainer/gotrainer/dist/shard"
	"github.com/gotrainer/gotrainer/dist/tcpstore"
	"github.com/gotrainer/gotrainer/run"
	"github.com/gotrainer/gotrainer/trainer"
)

// The index and the files of a sharded checkpoint contain a random ID.
var checkpointID = regexp.MustCompile(`"id": ?"[A-Z2-7]{26}"`)

// party is a group of victims that train one sharded model together: a short run that saves after
// every update. One of them may be disturbed.
type party struct {
	world, rank int // rank is the victim whose calls are traced
}

func (y party) String() string { return fmt.Sprintf("rank %d of %d", y.rank, y.world) }

func (y party) plan(dir string) plan {
	return plan{Model: "bert", Dir: dir, Resume: trainer.Latest, Samples: 4 * y.world, Batch: 2, Accumulate: 1, Epochs: 2,
		Save: 1, Log: 1, Keep: 2, Sharding: shard.FullShard, OnThread: true}
}

// run runs all of them to the end. decide, if not nil, is called for each system call of the traced
// rank.
func (y party) run(p plan, dir string, decide func(systemCall) verdict) (endings []ending, err error) {
	store, err := tcpstore.Listen("127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	defer func() { _ = store.Close() }() // its processes have ended
	host, port, _ := strings.Cut(store.Addr().String(), ":")
	all := make([]*process, y.world)
	for rank := range all {
		mine := p
		mine.Gate = decide != nil && rank == y.rank
		if all[rank], err = newProcess(mine, dir, fmt.Sprint("RANK=", rank), fmt.Sprint("LOCAL_RANK=", rank),
			fmt.Sprint("WORLD_SIZE=", y.world), "MASTER_ADDR="+host, "MASTER_PORT="+port,
			"TORCHELASTIC_USE_AGENT_STORE=True"); err != nil {
			return nil, err
		}
	}
	for rank, v := range all {
		if rank == y.rank && decide != nil {
			continue
		}
		if err := v.start(); err != nil {
			return nil, err
		}
	}
	endings = make([]ending, y.world)
	if decide != nil {
		status, err := traced(all[y.rank], p.Dir, decide)
		if err != nil {
			return nil, err
		}
		endings[y.rank] = all[y.rank].ending(codeOf(status))
	}
	for rank, v := range all {
		if rank != y.rank || decide == nil {
			endings[rank] = v.wait()
		}
	}
	return endings, nil
}

// bitsOf returns what a successful run has left, with the outcome of each rank.
func (y party) bitsOf(p plan, endings []ending) (map[string]string, error) {
	var all map[string]string
	for rank, e := range endings {
		if e.code != 0 {
			return nil, fmt.Errorf("%d of %d ended with code %d: %s", rank, y.world, e.code, e.complaint)
		}
		one, err := bits(e, p.Dir)
		if err != nil {
			return nil, err
		}
		if all == nil {
			all = one
		}
		all[fmt.Sprintf("outcome 0 of rank %d", rank)] = one["outcome 0"]
	}
	for name, text := range all {
		all[name] = checkpointID.ReplaceAllString(text, "")
	}
	return all, nil
}

// shardedSaves kills one of two or three ranks at its system calls, or lets them fail for lack of
// space. If that rank ends, the others must end with the exit code for a lost process and name it;
// after a restart, all must end as if undisturbed.
func shardedSaves(b *bench) error {
	type attempt struct {
		party
		want map[string]string
		call systemCall
		full bool
	}
	var attempts []attempt
	total, full := 0, 0
	for _, y := range []party{{2, 0}, {2, 1}, {3, 2}} {
		p := y.plan(b.folder())
		var calls, needRoom []systemCall
		endings, err := y.run(p, b.dir, func(c systemCall) verdict {
			calls = append(calls, c)
			if slices.Contains([]string{"write", "openat", "fsync", "ftruncate"}, c.name) {
				needRoom = append(needRoom, c)
			}
			return verdict{}
		})
		if err != nil {
			return err
		}
		want, err := y.bitsOf(p, endings)
		if err != nil {
			return fmt.Errorf("undisturbed, %v: %w", y, err)
		}
		total += len(calls)
		for _, i := range b.spread(len(calls), b.either(len(calls), 3)) {
			attempts = append(attempts, attempt{y, want, calls[i], false})
		}
		for _, i := range b.spread(len(needRoom), b.either(len(needRoom), 2)) {
			attempts = append(attempts, attempt{y, want, needRoom[i], true})
			full++
		}
	}
	b.random.Shuffle(len(attempts), func(i, k int) { attempts[i], attempts[k] = attempts[k], attempts[i] })
	var continued atomic.Int64
	done := b.each(len(attempts), func(i int) {
		a := attempts[i]
		v := verdict{kill: true}
		if a.full {
			v = verdict{errno: syscall.ENOSPC}
		}
		if a.disturb(b, a.want, a.call, v) && a.full {
			continued.Add(1)
		}
	})
	if done < len(attempts) {
		return nil // the program is to end
	}
	b.count("one of 2 and of 3 ranks killed at %d of %d calls about the folder", len(attempts)-full, total)
	b.count("its disk full at %d, after which the run continued by itself %d times", full, continued.Load())
	return nil
}

// disturb treats one call as the verdict says, and then runs again undisturbed. It reports whether
// the disturbed run finished.
func (y party) disturb(b *bench, want map[string]string, call systemCall, v verdict) (finished bool) {
	what := fmt.Sprintf("%v killed at %v", y, call)
	if v.errno != 0 {
		what = fmt.Sprintf("%v, disk full at %v", y, call)
	}
	p := y.plan(b.folder())
	defer func() { _ = os.RemoveAll(p.Dir) }()
	done := false
	endings, err := y.run(p, b.dir, func(c systemCall) verdict {
		if done || c.number < call.number || c.name != call.name {
			return verdict{}
		}
		done = true
		return v
	})
	if err != nil {
		b.fail("%s: %v", what, err)
		return false
	}
	finished = true
	for rank, e := range endings {
		code := run.Code(e.code)
		finished = finished && e.code == 0
		switch {
		case v.kill && rank == y.rank && e.code == -1, e.code == 0:
		case rank != y.rank && code == run.Distributed && strings.Contains(e.complaint, fmt.Sprint("rank ", y.rank)):
		case !v.kill && code == run.Storage:
		default:
			b.fail("%s: rank %d ended with code %d: %s", what, rank, e.code, e.complaint)
		}
	}
	again, err := y.run(p, b.dir, nil)
	if err != nil {
		b.fail("%s: %v", what, err)
		return finished
	}
	got, err := y.bitsOf(p, again)
	if err != nil {
		b.fail("%s: started again: %v", what, err)
	} else if diff := difference(place(want), place(got)); diff != "" {
		b.fail("%s: started again it ends otherwise: %s", what, diff)
	}
	return finished
}
