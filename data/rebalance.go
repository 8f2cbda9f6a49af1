package data

import (
	"cmp"
	"fmt"
	"slices"
)

// Batcher is implemented by an [Order] that divides an epoch into batches itself: PyTorch's
// batch_sampler. LoaderOptions.BatchSize and DropLast then have no effect.
type Batcher interface {
	// Batches returns the indices of each batch of the epoch for the process of the shard.
	Batches(epoch, n int, s Shard) [][]int

	// CountBatches returns the number of these batches, which is the same in every epoch.
	CountBatches(n int, s Shard) int
}

// BatchRebalance makes batches of unequal size and about equal cost: few long samples, or many
// short ones. The number of samples per update is BatchSize times Accumulate times the number of
// processes, as usual; only how they are divided among micro-batches and processes depends on their
// lengths. It is BatchRebalanceSampler of Hugging Face's Trainer (train_sampling_strategy
// "batch_rebalance").
//
// A batch of b samples, padded to the length l of the longest, costs b*l + 0.001*b*l*l. The second
// term is that of attention.
type BatchRebalance struct {
	Lengths    []int // length of each sample; there must be as many as samples
	BatchSize  int   // average number of samples in a batch; required
	Accumulate int   // batches per update; zero: 1. It must equal that of the trainer.
	// Seed is the seed of the permutation to start from, which is that of [Shuffled]; zero: 42,
	// which transformers uses whatever seed and data_seed are.
	Seed     uint64
	DropLast bool // leave out the samples at the end of an epoch that are too few for an update
}

// Check refuses a data set whose number of samples differs from the number of lengths.
func (r BatchRebalance) Check(n int) error {
	switch {
	case len(r.Lengths) != n:
		return fmt.Errorf("data: BatchRebalance has %d lengths for a data set of %d samples", len(r.Lengths), n)
	case r.BatchSize < 1:
		return fmt.Errorf("data: BatchRebalance.BatchSize is %d; it must be at least 1", r.BatchSize)
	case r.Accumulate < 0:
		return fmt.Errorf("data: BatchRebalance.Accumulate is %d; it must be at least 1, or 0 for 1", r.Accumulate)
	}
	return nil
}

// Count returns the number of samples that a single process sees in an epoch.
func (r BatchRebalance) Count(n int) int {
	if r.Check(n) != nil {
		return n
	}
	size, groups := r.samples(1), max(1, r.Accumulate)
	rest := n % size
	if r.DropLast || rest == 0 {
		return n - rest
	}
	return n - rest + max(rest, groups) // if there are fewer than batches, some are repeated
}

// CountBatches implements [Batcher].
func (r BatchRebalance) CountBatches(n int, s Shard) int {
	if r.Check(n) != nil {
		return 0
	}
	size := r.samples(max(1, s.WorldSize))
	updates := n / size
	if n%size > 0 && !r.DropLast {
		updates++
	}
	return updates * max(1, r.Accumulate)
}

// Indices returns the samples of the epoch, batch after batch, as a single process sees them; nil
// if Check refuses n.
func (r BatchRebalance) Indices(epoch, n int) []int {
	return slices.Concat(r.Batches(epoch, n, Shard{})...)
}

// Batches implements [Batcher]; nil if Check refuses n.
func (r BatchRebalance) Batches(epoch, n int, s Shard) [][]int {
	if r.Check(n) != nil {
		return nil
	}
	seed := r.Seed
	if seed == 0 {
		seed = 42
	}
	order := Shuffled{Seed: seed}.Indices(epoch, n)
	world, slots := max(1, s.WorldSize), max(1, r.Accumulate)
	size := r.samples(world)
	var batches [][]int
	for begin := 0; begin < n; begin += size {
		samples := slices.Clone(order[begin:min(begin+size, n)])
		if len(samples) < size && r.DropLast {
			break
		}
		for i := 0; len(samples) < world*slots; i++ { // every process gets a sample for every batch
			samples = append(samples, order[i%n])
		}
		groups := r.balance(samples, size, world, slots)
		for slot := range slots { // first, each process gets one of the costliest groups, and so on
			batches = append(batches, groups[slot*world+s.Rank])
		}
	}
	return batches
}

// samples returns the number of samples per update.
func (r BatchRebalance) samples(world int) int { return r.BatchSize * max(1, r.Accumulate) * world }

// balance divides samples into one group for each batch of each process, and returns the groups
// from the costliest to the cheapest.
func (r BatchRebalance) balance(samples []int, size, world, slots int) [][]int {
	slices.SortStableFunc(samples, func(a, b int) int { return cmp.Compare(r.Lengths[b], r.Lengths[a]) })
	d := &division{samples: samples, lengths: r.Lengths, world: world, counts: make([]int, world*slots),
		frozen: make([]bool, world*slots)}
	for i := range d.counts {
		d.counts[i] = len(samples) / len(d.counts)
		if i < len(samples)%len(d.counts) {
			d.counts[i]++
		}
	}
	d.counts = d.search(max(30*len(d.counts), size))
	costs := d.costs()
	groups, at := make([][]int, len(d.counts)), 0
	for i, count := range d.counts {
		groups[i] = samples[at : at+count : at+count]
		at += count
	}
	ordered := make([][]int, len(groups))
	for k, i := range byCost(costs) {
		ordered[k] = groups[i]
	}
	return ordered
}

// division is a division of samples, sorted from the longest, into consecutive groups.
type division struct {
	samples []int
	lengths []int // of all samples of the data set
	world   int   // groups that are trained on at the same time
	counts  []int // number of samples in each group
	frozen  []bool
}

// search moves one sample at a time from the costliest group to the cheapest, and returns the
// counts with the smallest spread of costs that it finds.
func (d *division) search(limit int) []int {
	best := slices.Clone(d.counts)
	spread, any := 0.0, false
	seen := map[string]bool{}
	for range limit {
		key := fmt.Sprint(d.counts)
		if seen[key] {
			break
		}
		seen[key] = true
		costs := d.costs()
		high, low := d.extremes(costs)
		if high < 0 || high == low && d.active() <= 1 {
			break
		}
		if now := costs[high] - costs[low]; !any || now < spread {
			spread, any = now, true
			best = slices.Clone(d.counts)
		}
		if costs[high] == costs[low] {
			break
		}
		if d.counts[high] > 1 {
			d.counts[high]--
			d.counts[low]++
			continue
		}
		d.freeze(costs, high)
	}
	return best
}

// active returns the number of groups that are not frozen.
func (d *division) active() int {
	n := 0
	for _, f := range d.frozen {
		if !f {
			n++
		}
	}
	return n
}

// extremes returns the costliest and the cheapest of the groups that are not frozen, the first of
// equals; -1 if all are frozen.
func (d *division) extremes(costs []float64) (high, low int) {
	high, low = -1, -1
	for i, c := range costs {
		switch {
		case d.frozen[i]:
		case high < 0:
			high, low = i, i
		case c > costs[high]:
			high = i
		case c < costs[low]:
			low = i
		}
	}
	return high, low
}

// freeze excludes the groups that are trained on at the same time as pivot from the search, since
// pivot has a single sample and cannot become cheaper. First, each of them takes samples from the
// cheapest other groups as long as it does not become costlier than pivot.
func (d *division) freeze(costs []float64, pivot int) {
	ranking := byCost(costs)
	begin := slices.Index(ranking, pivot) / d.world * d.world
	members := slices.Sorted(slices.Values(ranking[begin : begin+d.world]))
	limit := costs[pivot]
	for _, i := range members {
		for !d.frozen[i] && i != pivot {
			first := 0
			for _, count := range d.counts[:i] {
				first += count
			}
			if cost(d.counts[i]+1, d.lengths[d.samples[first]]) > limit {
				break
			}
			donor, now := -1, d.costs()
			for k := range d.counts {
				if !d.frozen[k] && !slices.Contains(members, k) && d.counts[k] > 1 &&
					(donor < 0 || now[k] < now[donor]) {
					donor = k
				}
			}
			if donor < 0 {
				break
			}
			d.counts[i]++
			d.counts[donor]--
		}
	}
	for _, i := range members {
		d.frozen[i] = true
	}
}

// costs returns the cost of each group.
func (d *division) costs() []float64 {
	costs, at := make([]float64, len(d.counts)), 0
	for i, count := range d.counts {
		costs[i] = cost(count, d.lengths[d.samples[at]])
		at += count
	}
	return costs
}

func cost(samples, longest int) float64 {
	b, l := float64(samples), float64(longest)
	return b*l + float64(0.001*b*l*l) // no fused multiply-add: Python has none
}

// byCost returns the indices of the groups from the costliest to the cheapest; equals keep their
// order.
func byCost(costs []float64) []int {
	order := Sequential{}.Indices(0, len(costs))
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(costs[b], costs[a]) })
	return order
}
