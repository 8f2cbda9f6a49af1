package trainer

import (
	"cmp"
	"fmt"
	"maps"

	"github.com/gotrainer/gotrainer/data"
)

// Options.GlobalBatch: a run counts the batches of all processes together, so that it can continue
// on another number of processes.

// checkGlobalBatch refuses options that GlobalBatch determines, and options that count in other
// units.
func (o *Options) checkGlobalBatch() error {
	refuse := func(want string, args ...any) error { return wrong("GlobalBatch", o.GlobalBatch, want, args...) }
	switch {
	case o.GlobalBatch < 0:
		return refuse("a positive number of samples, or 0 for BatchSize times Accumulate times the processes")
	case o.GlobalBatch == 0:
		return nil
	case o.Accumulate != 0:
		return refuse("0, or Accumulate 0: it follows from GlobalBatch")
	case o.AutoFindBatchSize:
		return refuse("0, since AutoFindBatchSize changes BatchSize, which then may not divide it")
	case o.LimitBatches != 0:
		return refuse("0, since LimitBatches counts the batches of one process; MaxStepsPerEpoch counts updates")
	case o.Semantics.CountsBatches() || o.Semantics.CarriesWindows():
		return refuse("0, since Semantics %s counts micro-batches, not updates", o.Semantics.Name)
	}
	return nil
}

// resolveGlobalBatch derives Accumulate from GlobalBatch.
func (o *Options) resolveGlobalBatch() error {
	if o.GlobalBatch == 0 {
		return nil
	}
	atOnce := o.BatchSize * max(1, o.Process.World)
	if o.GlobalBatch%atOnce != 0 {
		return wrong("GlobalBatch", o.GlobalBatch, "a multiple of %d, since %d processes with BatchSize %d train on so "+
			"many samples at a time", atOnce, max(1, o.Process.World), o.BatchSize)
	}
	o.Accumulate = o.GlobalBatch / atOnce
	return nil
}

// wholeBatches is an order with whole global batches in every epoch, whatever the number of
// processes.
type wholeBatches struct {
	data.Order

	size     int
	dropLast bool
}

func (o wholeBatches) inner(n int) int {
	if c, ok := o.Order.(data.Counter); ok {
		return c.Count(n)
	}
	return n
}

// Count returns the number of samples that an epoch visits.
func (o wholeBatches) Count(n int) int {
	n = o.inner(n)
	if !o.dropLast {
		n += o.size - 1
	}
	return n / o.size * o.size
}

// Indices returns the indices of the order, followed by the first of them again to fill up the last
// batch.
func (o wholeBatches) Indices(epoch, n int) []int {
	indices := o.Order.Indices(epoch, n)
	want, has := o.Count(n), len(indices)
	if has == 0 {
		return nil // the loader refuses an empty epoch
	}
	for i := 0; len(indices) < want; i++ {
		indices = append(indices, indices[i%has])
	}
	return indices[:want]
}

// Check calls the Check of the order.
func (o wholeBatches) Check(n int) error {
	if c, ok := o.Order.(data.Checker); ok {
		return c.Check(n)
	}
	return nil
}

func (r *runner) orderOf(n int) data.Order {
	o := wholeBatches{cmp.Or[data.Order](r.o.Order, data.Shuffled{Seed: r.o.DataSeed}), r.o.GlobalBatch, r.o.DropLast}
	if o.size == 0 || o.inner(n)%o.size == 0 {
		return o.Order
	}
	return o
}

// regroup converts the state of a checkpoint with the same GlobalBatch to what this number of
// processes would have written. The checkpoint must have been made between two windows, which are
// whole global batches.
func (r *runner) regroup(from string, l loopState) (loopState, error) {
	then, now := l.Sizes, r.sizes()
	if now.GlobalBatch == 0 || then.GlobalBatch != now.GlobalBatch ||
		then.BatchSize == now.BatchSize && then.Accumulate == now.Accumulate {
		return l, nil
	}
	switch {
	case r.loop.plan.stream:
		return l, refusedResume(from, fmt.Sprintf("%s, and other processes deal a stream out in another way",
			r.otherProcesses(then)))
	case l.Position.Micro%then.Accumulate != 0:
		return l, refusedResume(from, fmt.Sprintf("%s, and it stands inside of a global batch", r.otherProcesses(then)))
	}
	if then.BatchSize*then.Accumulate != now.BatchSize*now.Accumulate && r.step.About().DrawsOrder {
		return l, refusedResume(from, fmt.Sprintf("%s, and Options.Order is drawn from random numbers that differ from "+
			"process to process there (engine.Step.GlobalPermutation, RandomSampler): take data.Shuffled",
			r.otherProcesses(then)))
	}
	r.note("%s: %s; the samples continue where they were; random numbers (dropout) begin again on another number of "+
		"processes", from, r.otherProcesses(then))
	l.Position.Micro = l.Position.Micro / then.Accumulate * now.Accumulate
	l.Sizes.BatchSize, l.Sizes.Accumulate = now.BatchSize, now.Accumulate
	if l.Configuration != nil {
		l.Configuration = maps.Clone(l.Configuration)
		l.Configuration["Processes"] = fmt.Sprint(r.o.Process.World)
	}
	return l, nil
}

func (r *runner) otherProcesses(then sizes) string {
	return fmt.Sprintf("BatchSize was %d with Accumulate %d and is %d with %d, on %d processes", then.BatchSize,
		then.Accumulate, r.o.BatchSize, r.o.Accumulate, r.o.Process.World)
}

// deriveRandom seeds the random numbers of a process when the checkpoint was written by another
// number of processes. The seed is splitmix64(splitmix64(splitmix64(Seed) + updates) + rank).
func (s *session) deriveRandom(updates int) error {
	seed := splitmix64(splitmix64(splitmix64(s.o.Seed)+uint64(updates)) + uint64(s.o.Process.Rank))
	return s.stepError("seed", s.step.Seed(seed, SeedOptions{KeepModel: true}))
}

// splitmix64 is the finalizer of Steele, Lea and Flood: nearby numbers become unrelated ones.
func splitmix64(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
