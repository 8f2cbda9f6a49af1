package data

import (
	"fmt"
	"math"
)

// Shard is the part of every epoch that one of several processes sees: BatchSamplerShard of Hugging
// Face's Accelerate. The zero value is the whole epoch.
type Shard struct {
	Rank      int // rank of this process, from 0
	WorldSize int // number of processes; zero: 1

	// SplitBatches divides every batch among the processes, so that BatchSize is that of all
	// processes together and must be a multiple of WorldSize. Otherwise each process gets whole
	// batches in turn.
	SplitBatches bool

	// Uneven leaves the end of an epoch as it is: some processes see fewer batches or a smaller
	// one. Otherwise the samples at the beginning of the epoch fill up the end, so that every
	// process sees the same number of full batches (even_batches). With DropLast, or a single
	// process, nothing is filled up.
	Uneven bool

	// FullEnd fills up the end of a stream to full batches on all processes, like that of a data
	// set: IterableDatasetShard of Accelerate. Otherwise the samples left at the end of a stream
	// are divided evenly.
	FullEnd bool
}

func (s Shard) check(batchSize int) error {
	world := max(1, s.WorldSize)
	switch {
	case s.WorldSize < 0:
		return fmt.Errorf("data: Shard.WorldSize is %d; it must be at least 1", s.WorldSize)
	case s.Rank < 0 || s.Rank >= world:
		return fmt.Errorf("data: Shard.Rank is %d; it must be from 0 to %d, one less than WorldSize", s.Rank, world-1)
	case !s.SplitBatches && batchSize > math.MaxInt/world:
		return fmt.Errorf("data: LoaderOptions.BatchSize is %d, which is too large for %d processes "+
			"together", batchSize, world)
	case s.SplitBatches && batchSize%world != 0:
		return fmt.Errorf("data: a batch of %d samples cannot be split among %d processes; BatchSize must be a "+
			"multiple of Shard.WorldSize", batchSize, world)
	}
	return nil
}

// count returns the number of batches that this process sees in an epoch of that many samples.
func (s Shard) count(samples, size int, dropLast bool) int {
	full, world := samples/size, max(1, s.WorldSize)
	rest := 0 // a short batch at the end
	if samples%size > 0 && !dropLast {
		rest = 1
	}
	switch {
	case s.SplitBatches && s.Uneven && samples%size <= size/world*s.Rank:
		return full // its part of the short batch would be empty
	case s.SplitBatches:
		return full + rest
	case dropLast:
		return full / world
	case s.Uneven:
		return (full + rest - s.Rank + world - 1) / world
	default:
		return (full + rest + world - 1) / world
	}
}
