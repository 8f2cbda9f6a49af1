package data

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// upTo is a data set of the numbers below n in memory.
func upTo(n int) Slice[int] { return Slice[int](Sequential{}.Indices(0, n)) }

// In a synctest bubble time advances only while all goroutines are blocked, so only sleeping takes
// time.
func TestQuickBatchesAreMadeWhereTheyAreUsedAndSlowOnesAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := false
		l, err := NewLoader(upTo(400), func(s []int) ([]int, error) {
			if slow && s[0] >= 100 && s[0] < 200 {
				time.Sleep(quick)
			}
			return s, nil
		}, LoaderOptions{BatchSize: 2, Prefetch: 3})
		require.NoError(t, err)
		inLine := map[int]bool{} // by sample
		for batch, err := range l.Epoch(t.Context(), 0, 0) {
			require.NoError(t, err)
			inLine[batch[0]] = l.pace.inLine()
		}
		assert.False(t, inLine[0], "before anything is known")
		assert.True(t, inLine[2*(settled+4)], "what workers had made ahead is used up")
		assert.True(t, inLine[398])

		slow = true
		for batch, err := range l.Epoch(t.Context(), 1, 0) {
			require.NoError(t, err)
			inLine[batch[0]] = l.pace.inLine()
		}
		assert.True(t, inLine[98])
		assert.False(t, inLine[150], "slow ones are left to workers")
		assert.True(t, inLine[398], "and quick ones again")
	})
}

func TestEveryBatchComesOnceAndInOrderWhoeverMakesIt(t *testing.T) {
	for seed := range uint64(30) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			n, size, skip := random.IntN(200), 1+random.IntN(5), random.IntN(3)
			var slow [40]bool // blocks of samples
			for i := range slow {
				slow[i] = random.IntN(2) == 0
			}
			d := upTo(n)
			l, err := NewLoader(d, func(s []int) ([]int, error) {
				if slow[s[0]/10] {
					time.Sleep(quick)
				}
				return slices.Clone(s), nil
			}, LoaderOptions{BatchSize: size, Prefetch: random.IntN(4), ReuseSamples: seed%2 == 0})
			require.NoError(t, err)
			for epoch := range 3 {
				skip := min(skip, l.Len())
				got := []int{}
				for batch, err := range l.Epoch(t.Context(), epoch, skip) {
					require.NoError(t, err)
					got = append(got, batch...)
				}
				assert.Equal(t, []int(d[min(n, skip*size):]), got)
			}
		})
	}
}

func TestWorkersThatAreAskedForAreGiven(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for name, o := range map[string]LoaderOptions{
			"workers":         {BatchSize: 1, Workers: 2},
			"a sample's time": {BatchSize: 1, SampleTimeout: time.Second},
		} {
			l, err := NewLoader(upTo(50), func(s []int) ([]int, error) { return s, nil }, o)
			require.NoError(t, err)
			for _, err := range l.Epoch(t.Context(), 0, 0) {
				require.NoError(t, err)
				assert.False(t, l.pace.inLine(), name)
			}
		}
	})
}

func TestOnlySamplesInMemoryAreHadInLine(t *testing.T) {
	slice := upTo(6)
	part, err := Subset[int](slice, []int{1, 3})
	require.NoError(t, err)
	both, err := Concat[int](slice, Take[int](slice, 2))
	require.NoError(t, err)
	for _, d := range []Dataset[int]{slice, part, both, Reverse[int](both)} {
		assert.True(t, inMemory(d), "%T", d)
	}
	loaded := Func(3, func(i int) (int, error) { return i, nil })
	mixed, err := Concat[int](slice, loaded)
	require.NoError(t, err)
	type own struct{ Slice[int] } // may override At
	for _, d := range []Dataset[int]{loaded, mixed, Take[int](mixed, 1), own{slice},
		Map[int](slice, func(i int) (int, error) { return i, nil })} {
		assert.False(t, inMemory(d), "%T", d)
	}
}

// lined returns a loader that makes its batches in line from the first one on.
func lined(t *testing.T, collate func([]int) ([]int, error), o LoaderOptions) *Loader[int, []int] {
	t.Helper()
	l, err := NewLoader(upTo(40), collate, o)
	require.NoError(t, err)
	l.pace.score.Store(settled)
	l.pace.lined.Store(true)
	return l
}

func TestBatchesInLineFailAsThoseOfWorkersDo(t *testing.T) {
	broken := errors.New("broken")
	l := lined(t, func(s []int) ([]int, error) {
		switch {
		case s[0] == 8:
			return nil, broken
		case s[0] == 24:
			panic("a bug")
		}
		return s, nil
	}, LoaderOptions{BatchSize: 4})
	failsAt := func(skip int) (batches int, err error) {
		for _, err := range l.Epoch(t.Context(), 3, skip) {
			if err != nil {
				return batches, err
			}
			batches++
		}
		return batches, nil
	}
	n, err := failsAt(0)
	var bad *BatchError
	require.ErrorAs(t, err, &bad)
	assert.Equal(t, 2, n)
	assert.ErrorIs(t, err, broken)
	assert.Equal(t, BatchError{Epoch: 3, Batch: 2, Indices: []int{8, 9, 10, 11}, Err: bad.Err}, *bad)

	n, err = failsAt(3)
	var panicked *PanicError
	require.ErrorAs(t, err, &panicked)
	assert.Equal(t, 3, n)
	n, err = failsAt(7)
	assert.NoError(t, err)
	assert.Equal(t, 3, n)
}

func TestACancelledEpochInLineEndsWithItsReason(t *testing.T) {
	l := lined(t, func(s []int) ([]int, error) { return s, nil }, LoaderOptions{BatchSize: 4})
	reason := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var errs []error
	for batch, err := range l.Epoch(ctx, 0, 0) {
		if errs = append(errs, err); err == nil && batch[0] == 8 {
			cancel(reason)
		}
	}
	require.Len(t, errs, 4, "three batches and the end")
	assert.ErrorIs(t, errs[3], reason)
}

func TestSamplesAreUsedAgainOnlyIfThatIsAllowed(t *testing.T) {
	for _, reuse := range []bool{false, true} {
		for _, workers := range []int{0, 2} {
			var kept [][]int // slices that collate must not keep
			o := LoaderOptions{BatchSize: 4, ReuseSamples: reuse}
			l := lined(t, func(s []int) ([]int, error) { kept = append(kept, s); return slices.Clone(s), nil }, o)
			if workers > 0 {
				l.pace.never, l.options.Workers = true, 1
				l.pace.lined.Store(false)
			}
			want := 0
			for batch, err := range l.Epoch(t.Context(), 0, 0) {
				require.NoError(t, err)
				assert.Equal(t, want, batch[0], "a batch that was made is not changed")
				want += 4
			}
			for i, s := range kept {
				if reuse {
					assert.Equal(t, make([]int, 4), s, "nothing is held")
				} else {
					assert.Equal(t, 4*i, s[0])
				}
			}
		}
	}
}

func TestALoaderOfQuickBatchesAllocatesNothingForThem(t *testing.T) {
	var memory Buffers[int]
	l := lined(t, func(s []int) ([]int, error) {
		b := memory.Get(len(s))
		copy(b, s)
		return b, nil
	}, LoaderOptions{BatchSize: 1, ReuseSamples: true})
	l.pace.never = true // stays in line even on a busy machine
	batches := func(skip int) float64 {
		return testing.AllocsPerRun(20, func() {
			for b, err := range l.Epoch(t.Context(), 0, skip) {
				if err != nil {
					t.Fatal(err)
				}
				memory.Put(b)
			}
		})
	}
	few, many := batches(35), batches(0)
	assert.Equal(t, few, many, "for 5 batches and for 40")
}
