package dist_test

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/gotrainer/gotrainer/dist"
)

func TestTheTreeOfSeveralMachines(t *testing.T) {
	assert.Equal(t, []int{0, 0, 0, 0}, dist.Parents("a", "a", "a", "a"))
	assert.Equal(t, []int{0, 0, 0, 2, 0, 4}, dist.Parents("a", "a", "b", "b", "c", "c"))
	assert.Equal(t, []int{0, 0, 0, 1, 2, 0}, dist.Parents("a", "b", "c", "b", "c", "a"), "ranks dealt out in turn")
	assert.Equal(t, []int{0, 0, 0}, dist.Parents("", "", ""), "names that are not known")
}

// onHosts sets the host name of each rank.
func onHosts(hosts ...string) func(o *dist.Options) {
	return func(o *dist.Options) { o.OnHost(hosts[o.Rank]) }
}

// inRanks is onHosts followed by also.
func inRanks(hosts []string, also func(o *dist.Options)) func(o *dist.Options) {
	on := onHosts(hosts...)
	return func(o *dist.Options) {
		on(o)
		if also != nil {
			also(o)
		}
	}
}

func TestEveryCallOverEveryTree(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		hosts := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "b", "c", ""}), 2, 9).Draw(rt, "hosts")
		calls := rapid.SliceOfN(rapid.IntRange(0, 3), 1, 12).Draw(rt, "calls")
		root := rapid.IntRange(0, len(hosts)-1).Draw(rt, "root")
		n := int64(len(hosts))
		all(t, together(t, len(hosts), inRanks(hosts, nil), func(ctx context.Context, g *dist.Group) error {
			for i, c := range calls {
				switch c {
				case 0:
					sum := []int64{int64(g.Rank()), 1}
					if err := dist.AllReduce(ctx, g, sum, dist.Sum); err != nil || sum[0] != n*(n-1)/2 || sum[1] != n {
						return fmt.Errorf("call %d: sum %d: %w", i, sum, err)
					}
				case 1:
					parts, err := g.AllGather(ctx, []byte(strconv.Itoa(g.Rank()*1000)))
					for rank, part := range parts {
						if string(part) != strconv.Itoa(rank*1000) {
							return fmt.Errorf("call %d: rank %d sent %q", i, rank, part)
						}
					}
					if err != nil {
						return err
					}
				case 2:
					b := []byte{byte(g.Rank())}
					if err := g.Broadcast(ctx, b, root); err != nil || int(b[0]) != root {
						return fmt.Errorf("call %d: broadcast %d: %w", i, b, err)
					}
				default:
					if err := g.Barrier(ctx); err != nil {
						return err
					}
				}
			}
			return nil
		}))
	})
}

// nine are the hosts of three machines with three processes each: 0, 3 and 6 are the first there.
var nine = []string{"a", "a", "a", "b", "b", "b", "c", "c", "c"}

// victims has one process in each kind of position in a tree of nine.
var victims = map[string]int{"the root": 0, "one beside the root": 2, "the first of a machine": 3, "a leaf": 8}

func TestTheOneThatDiesIsNamedInEveryPlaceOfTheTree(t *testing.T) {
	for what, victim := range victims {
		t.Run(what, func(t *testing.T) {
			errs := together(t, 9, inRanks(nine, nil), func(ctx context.Context, g *dist.Group) error {
				if err := g.Barrier(ctx); err != nil {
					return err
				}
				if g.Rank() == victim {
					g.Kill()
					return nil
				}
				return g.Barrier(ctx)
			})
			for rank, err := range errs {
				if rank != victim {
					var e *dist.Error
					require.ErrorAs(t, err, &e, "rank %d", rank)
					assert.Equal(t, victim, e.Peer, "rank %d: %v", rank, err)
					assert.ErrorIs(t, err, dist.ErrPeerLost, "rank %d", rank)
				}
			}
		})
	}
}

func TestTheOneThatLeavesIsNamedInEveryPlaceOfTheTree(t *testing.T) {
	for what, victim := range victims {
		t.Run(what, func(t *testing.T) {
			for rank, err := range together(t, 9, inRanks(nine, nil), func(ctx context.Context, g *dist.Group) error {
				if g.Rank() == victim {
					return nil // together then calls Close
				}
				if g.Rank()%2 == 0 { // some wait in the call when it leaves, some call later
					select {
					case <-g.Left():
					case <-g.Done():
					}
				}
				return g.Barrier(ctx)
			}) {
				if rank != victim {
					var e *dist.Error
					require.ErrorAs(t, err, &e, "rank %d", rank)
					assert.Equal(t, victim, e.Peer, "rank %d: %v", rank, err)
					assert.ErrorIs(t, err, dist.ErrPeerLeft, "rank %d", rank)
				}
			}
		})
	}
}

func TestTheOneThatHangsIsNamedInEveryPlaceOfTheTree(t *testing.T) {
	for what, victim := range victims {
		t.Run(what, func(t *testing.T) {
			patient := inRanks(nine, func(o *dist.Options) { o.Timeout = 300 * time.Millisecond })
			for rank, err := range together(t, 9, patient, func(ctx context.Context, g *dist.Group) error {
				if g.Rank() == victim {
					<-g.Done()
				}
				return g.Barrier(ctx)
			}) {
				assert.ErrorIs(t, err, dist.ErrTimeout, "rank %d", rank)
				var e *dist.Error
				require.ErrorAs(t, err, &e, "rank %d", rank)
				assert.Equal(t, victim, e.Peer, "rank %d: %v", rank, err)
			}
		})
	}
}

func TestTheOneThatMakesAnotherCallIsNamed(t *testing.T) {
	for what, victim := range victims {
		t.Run(what, func(t *testing.T) {
			var joined sync.WaitGroup
			joined.Add(9)
			for rank, err := range together(t, 9, inRanks(nine, nil), func(ctx context.Context, g *dist.Group) error {
				joined.Done()
				joined.Wait()
				if g.Rank() == victim {
					_, err := g.AllGather(ctx, nil)
					return err
				}
				return g.Agree(ctx, "Step(7)")
			}) {
				require.ErrorIs(t, err, dist.ErrMismatch, "rank %d", rank)
				if rank == victim {
					assert.ErrorContains(t, err, "AllGather(), call 2")
					assert.ErrorContains(t, err, "it is in Step(7), call 2")
				} else {
					assert.ErrorContains(t, err, fmt.Sprintf("rank %d: the processes make different calls: it is in "+
						"AllGather(), call 2", victim), "rank %d", rank)
				}
			}
		})
	}
}

func TestAnInterruptedOneIsNamedWithItsReason(t *testing.T) {
	for what, victim := range victims {
		t.Run(what, func(t *testing.T) {
			for rank, err := range together(t, 9, inRanks(nine, nil), func(ctx context.Context, g *dist.Group) error {
				if g.Rank() == victim {
					ctx, cancel := context.WithCancelCause(ctx)
					time.AfterFunc(30*time.Millisecond, func() { cancel(context.Canceled) })
					return g.Barrier(ctx)
				}
				if g.Rank() == (victim+1)%9 {
					<-g.Done() // so that the call cannot succeed first
				}
				return g.Barrier(ctx)
			}) {
				if rank == victim {
					assert.ErrorIs(t, err, context.Canceled)
					continue
				}
				assert.ErrorContains(t, err, fmt.Sprintf("rank %d: context canceled (reported by rank %d); last heard of in "+
					"Barrier(), call 2", victim, victim), "rank %d", rank)
			}
		})
	}
}

// Processes close their groups after the same last call while others still wait for its answer.
func TestLeavingAtAnyTimeHarmsNobody(t *testing.T) {
	for range 50 {
		all(t, together(t, 9, inRanks(nine, nil), func(ctx context.Context, g *dist.Group) error {
			for range 3 {
				if err := g.Barrier(ctx); err != nil {
					return err
				}
			}
			return nil
		}))
	}
}

func TestManyProcesses(t *testing.T) {
	const machines, each = 32, 8
	var hosts []string
	for machine := range machines {
		hosts = append(hosts, slices.Repeat([]string{fmt.Sprint("machine", machine)}, each)...)
	}
	var most atomic.Int64
	all(t, together(t, len(hosts), inRanks(hosts, nil), func(ctx context.Context, g *dist.Group) error {
		most.Store(max(most.Load(), int64(g.Connections())))
		numbers := []float64{float64(g.Rank())}
		if err := dist.AllReduce(ctx, g, numbers, dist.Max); err != nil || numbers[0] != machines*each-1 {
			return fmt.Errorf("%v: %w", numbers, err)
		}
		return nil
	}))
	assert.EqualValues(t, machines-1+each-1, most.Load(),
		"rank 0 has the others on its machine, and the first of each other machine")
}
