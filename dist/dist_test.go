package dist_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/internal/ranktest"
)

// together runs f as each of world ranks, in goroutines of this process, and returns their errors.
func together(t *testing.T, world int, change func(*dist.Options), f func(ctx context.Context,
	g *dist.Group) error) []error {
	t.Helper()
	return ranktest.Together(t, world, func(o *dist.Options) {
		o.Timeout = 30 * time.Second
		if change != nil {
			change(o)
		}
	}, f)
}

func all(t *testing.T, errs []error) {
	t.Helper()
	for rank, err := range errs {
		if err != nil {
			t.Errorf("rank %d: %v", rank, err)
		}
	}
}

func TestSumsAreTakenInTheOrderOfTheRanksAndAreTheSameEverywhere(t *testing.T) {
	for _, world := range []int{1, 2, 3, 5} {
		for _, n := range []int{0, 1, 7, 8192, 8193, 100_003} {
			t.Run(fmt.Sprintf("%d numbers on %d processes", n, world), func(t *testing.T) {
				parts := make([][]float64, world)
				want := make([]float64, n)
				for rank := range parts {
					r := rand.New(rand.NewPCG(uint64(rank), uint64(n)))
					parts[rank] = make([]float64, n)
					for i := range n {
						parts[rank][i] = r.NormFloat64() * math.Pow(10, float64(r.IntN(9)))
						if rank == 0 {
							want[i] = parts[0][i]
						} else {
							want[i] += parts[rank][i]
						}
					}
				}
				all(t, together(t, world, nil, func(ctx context.Context, g *dist.Group) error {
					mine := slices.Clone(parts[g.Rank()])
					if err := dist.AllReduce(ctx, g, mine, dist.Sum); err != nil {
						return err
					}
					for i := range mine {
						if math.Float64bits(mine[i]) != math.Float64bits(want[i]) {
							return fmt.Errorf("element %d is %v, want %v", i, mine[i], want[i])
						}
					}
					return nil
				}))
			})
		}
	}
}

func TestEveryReductionOfEveryType(t *testing.T) {
	all(t, together(t, 3, nil, func(ctx context.Context, g *dist.Group) error {
		x := float64(g.Rank() + 1) // 1, 2, 3
		nan := x
		if g.Rank() == 1 {
			nan = math.NaN()
		}
		for _, c := range []struct {
			op   dist.Op
			want []float64
		}{{dist.Sum, []float64{6, -6, 0.75}}, {dist.Mean, []float64{2, -2, 0.25}}, {dist.Max, []float64{3, -1, 0.375}},
			{dist.Min, []float64{1, -3, 0.125}}, {dist.Product, []float64{6, -6, 6. / 512}}} {
			v := []float64{x, -x, x / 8, nan}
			if err := dist.AllReduce(ctx, g, v, c.op); err != nil {
				return err
			}
			if !slices.Equal(v[:3], c.want) || !math.IsNaN(v[3]) {
				return fmt.Errorf("%s: %v, want %v and nan", c.op, v, c.want)
			}
			if c.op == dist.Mean {
				continue
			}
			whole := []int64{int64(x) << 20, -int64(x)} // the product is the largest: 6 << 60, which fits
			if err := dist.AllReduce(ctx, g, whole, c.op); err != nil {
				return err
			}
			shift := 20
			if c.op == dist.Product {
				shift = 60
			}
			if whole[0] != int64(c.want[0])<<shift || whole[1] != int64(c.want[1]) {
				return fmt.Errorf("%s of whole numbers: %d", c.op, whole)
			}
		}
		return nil
	}))
}

func TestBroadcastGatherAndBarrier(t *testing.T) {
	all(t, together(t, 3, nil, func(ctx context.Context, g *dist.Group) error {
		data := bytes.Repeat([]byte{byte(g.Rank())}, 100_000)
		if err := g.Broadcast(ctx, data, 2); err != nil {
			return err
		}
		if data[0] != 2 || data[99_999] != 2 {
			return fmt.Errorf("the broadcast left %d", data[0])
		}
		got, err := g.AllGather(ctx, bytes.Repeat([]byte{byte(g.Rank())}, g.Rank()))
		if err != nil {
			return err
		}
		if want := "[[] [1] [2 2]]"; fmt.Sprint(got) != want {
			return fmt.Errorf("AllGather gave %v, want %s", got, want)
		}
		return g.Barrier(ctx)
	}))
}

func TestManyBroadcastsMayRunAhead(t *testing.T) {
	all(t, together(t, 2, nil, func(ctx context.Context, g *dist.Group) error {
		for i := range 200 {
			b := []byte{byte(i)}
			if g.Rank() == 1 {
				b[0] = 0
			}
			if err := g.Broadcast(ctx, b, 0); err != nil || b[0] != byte(i) {
				return fmt.Errorf("broadcast %d gave %d: %w", i, b[0], err)
			}
		}
		return nil
	}))
}

func TestAGroupOfOneNeedsNoNetwork(t *testing.T) {
	alone, err := dist.Init(t.Context(), dist.Options{Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	for _, g := range []*dist.Group{nil, alone} {
		v := []float64{3}
		err := errors.Join(dist.AllReduce(t.Context(), g, v, dist.Mean), g.Barrier(t.Context()),
			g.Broadcast(t.Context(), []byte{1}, 0), g.Close())
		if err != nil || v[0] != 3 || g.World() != 1 || g.Rank() != 0 || !g.Main() {
			t.Errorf("%v, %v", v, err)
		}
	}
}

func TestWrongArgumentsLeaveTheGroupAsItWas(t *testing.T) {
	all(t, together(t, 2, nil, func(ctx context.Context, g *dist.Group) error {
		gone, cancel := context.WithCancel(ctx)
		cancel()
		for what, err := range map[string]error{
			"an unknown op":      dist.AllReduce(ctx, g, make([]float64, 4), 0),
			"an op of a message": dist.AllReduce(ctx, g, make([]float64, 4), dist.Product+1),
			"a mean of integers": dist.AllReduce(ctx, g, make([]int64, 4), dist.Mean),
			"a root too high":    g.Broadcast(ctx, nil, 2),
			"a cancelled call":   g.Barrier(gone),
		} {
			if err == nil {
				return fmt.Errorf("%s was accepted", what)
			}
		}
		return g.Barrier(ctx)
	}))
}

func TestDifferentCallsEndWithAnErrorOnAll(t *testing.T) {
	for _, c := range []struct {
		name  string
		calls [2]func(ctx context.Context, g *dist.Group) error
	}{
		{"another call", [2]func(context.Context, *dist.Group) error{
			func(ctx context.Context, g *dist.Group) error { return g.Barrier(ctx) },
			func(ctx context.Context, g *dist.Group) error { return g.Broadcast(ctx, []byte{1}, 1) },
		}},
		{"another length", [2]func(context.Context, *dist.Group) error{
			func(ctx context.Context, g *dist.Group) error {
				return dist.AllReduce(ctx, g, make([]float64, 20_000), dist.Sum)
			},
			func(ctx context.Context, g *dist.Group) error {
				return dist.AllReduce(ctx, g, make([]float64, 20_001), dist.Sum)
			},
		}},
		{"another type", [2]func(context.Context, *dist.Group) error{
			func(ctx context.Context, g *dist.Group) error {
				return dist.AllReduce(ctx, g, make([]float64, 4), dist.Sum)
			},
			func(ctx context.Context, g *dist.Group) error {
				return dist.AllReduce(ctx, g, make([]int64, 4), dist.Sum)
			},
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			for rank, err := range together(t, 2, nil, func(ctx context.Context, g *dist.Group) error {
				if err := c.calls[g.Rank()](ctx, g); err != nil {
					return err
				}
				return g.Barrier(ctx) // the process that broadcast learns of it here
			}) {
				if !errors.Is(err, dist.ErrMismatch) {
					t.Errorf("rank %d: %v; want ErrMismatch", rank, err)
				}
			}
		})
	}
}

func TestACancelledCallEndsTheOthersToo(t *testing.T) {
	errs := together(t, 3, nil, func(ctx context.Context, g *dist.Group) error {
		switch g.Rank() {
		case 0:
			impatient, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			defer cancel()
			return g.Barrier(impatient)
		case 1:
			return g.Barrier(ctx)
		}
		<-g.Done() // this call comes too late
		return g.Barrier(ctx)
	})
	if !errors.Is(errs[0], context.DeadlineExceeded) {
		t.Errorf("rank 0: %v", errs[0])
	}
	for _, rank := range []int{1, 2} {
		if e, ok := errors.AsType[*dist.Error](errs[rank]); !ok || e.Peer != 0 || !strings.Contains(e.Error(),
			"deadline exceeded (reported by rank") {
			t.Errorf("rank %d: %v; want that rank 0 gave up", rank, errs[rank])
		}
	}
}

func TestASlowRankIsNamedWhenTheTimeoutIsOver(t *testing.T) {
	errs := together(t, 2, func(o *dist.Options) { o.Timeout = 100 * time.Millisecond }, func(ctx context.Context,
		g *dist.Group) error {
		if g.Rank() == 1 {
			<-g.Done()
		}
		return g.Barrier(ctx)
	})
	e, ok := errors.AsType[*dist.Error](errs[0])
	if !ok || !errors.Is(e, dist.ErrTimeout) || e.Peer != 1 {
		t.Errorf("rank 0: %v; want a timeout that names rank 1", errs[0])
	}
	if !errors.Is(errs[1], dist.ErrTimeout) {
		t.Errorf("rank 1: %v; want the timeout", errs[1])
	}
}

func TestOneWhoHasLeftIsNamed(t *testing.T) {
	errs := together(t, 3, nil, func(ctx context.Context, g *dist.Group) error {
		if g.Rank() == 2 {
			return nil // together then calls Close
		}
		return g.Barrier(ctx)
	})
	for _, rank := range []int{0, 1} {
		if e, ok := errors.AsType[*dist.Error](errs[rank]); !ok || !errors.Is(e, dist.ErrPeerLeft) || e.Peer != 2 {
			t.Errorf("rank %d: %v; want that rank 2 has left", rank, errs[rank])
		}
	}
}

// When a call, Err or Close has returned a failure, the process may exit: the others have the
// reason by then. Otherwise they would blame the process that disappeared without a message.
func TestWhoSeesAFailureMayExitAtOnce(t *testing.T) {
	for what, see := range map[string]func(ctx context.Context, g *dist.Group){
		"after a call": func(ctx context.Context, g *dist.Group) { _ = g.Barrier(ctx) },
		"after Err":    func(_ context.Context, g *dist.Group) { _ = g.Err() },
		"after Close":  func(_ context.Context, g *dist.Group) { _ = g.Close() },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			held, killed := make(chan struct{}), make(chan struct{})
			errs := together(t, 3, nil, func(ctx context.Context, g *dist.Group) error {
				if err := g.Barrier(ctx); err != nil {
					return err
				}
				switch g.Rank() {
				case 0:
					release := g.HoldWrites()
					close(held)
					for !g.Failing() {
						time.Sleep(time.Millisecond)
					}
					seen := make(chan struct{})
					go func() {
						see(ctx, g)
						close(seen)
					}()
					var early bool
					select {
					case <-seen:
						early = true
					case <-time.After(20 * time.Millisecond):
					}
					release()
					if <-seen; early {
						return errors.New("it returned before the others were told")
					}
					return nil
				case 1:
					<-held
					g.Kill()
					close(killed)
					return nil
				}
				<-killed
				return g.Barrier(ctx)
			})
			all(t, errs[:2])
			e, ok := errors.AsType[*dist.Error](errs[2])
			if !ok || e.Peer != 1 || !errors.Is(e, dist.ErrPeerLost) {
				t.Errorf("rank 2: %v; want that the connection of rank 1 is gone", errs[2])
			}
		})
	}
}

func TestJoiningFailsWithTheReason(t *testing.T) {
	t.Run("another world size", func(t *testing.T) {
		for rank, err := range together(t, 2,
			func(o *dist.Options) { o.World += o.Rank; o.JoinTimeout = 5 * time.Second }, none) {
			if err == nil || !strings.Contains(err.Error(), "WORLD_SIZE") {
				t.Errorf("rank %d: %v", rank, err)
			}
		}
	})
	t.Run("two of the same rank", func(t *testing.T) {
		ranks := make(chan int, 3)
		ranks <- 0
		ranks <- 1
		ranks <- 1
		found := 0
		for _, err := range together(t, 3, func(o *dist.Options) {
			o.Rank, o.World, o.JoinTimeout = <-ranks, 2, 2*time.Second
		}, none) {
			if err != nil && (strings.Contains(err.Error(), "another process there says that it is rank 1") ||
				strings.Contains(err.Error(), "or of another process of rank 1")) {
				found++
			}
		}
		if found < 1 {
			t.Errorf("%d processes got this error, want 1", found)
		}
	})
	t.Run("two of rank 0", func(t *testing.T) {
		errs := together(t, 2, func(o *dist.Options) { o.Rank, o.JoinTimeout = 0, 2*time.Second }, none)
		found := 0
		for _, err := range errs {
			if err != nil && strings.Contains(err.Error(), "another process there says that it is rank 0") {
				found++
			}
		}
		if found != 1 {
			t.Errorf("%d processes got this error, want the one that came first: %v", found, errs)
		}
	})
	t.Run("one that never comes", func(t *testing.T) {
		errs := together(t, 2, func(o *dist.Options) { o.World = 4; o.JoinTimeout = 2 * time.Second }, none)
		for rank, err := range errs {
			if err == nil || !strings.Contains(err.Error(), "no sign of 2, 3") || !strings.Contains(err.Error(),
				"JoinTimeout") {
				t.Errorf("rank %d: %v", rank, err)
			}
		}
	})
	t.Run("port taken", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		_, err = dist.Init(t.Context(), dist.Options{World: 2, Address: l.Addr().String()})
		if err == nil || !strings.Contains(err.Error(), "choose another MASTER_PORT") {
			t.Error(err)
		}
	})
	t.Run("what listens is no store", func(t *testing.T) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				_, _ = c.Write([]byte("SSH-2.0-OpenSSH"))
			}
		}()
		_, err = dist.Init(t.Context(), dist.Options{World: 2, Rank: 1, Address: l.Addr().String(),
			JoinTimeout: time.Second})
		if err == nil || !strings.Contains(err.Error(), "no TCPStore") {
			t.Error(err)
		}
	})
}

func TestRankZeroOpensTheStore(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_ = l.Close()
	for range 2 { // the second time, the port is free again
		all(t, together(t, 3, func(o *dist.Options) { o.Address, o.Store = address, false }, func(ctx context.Context,
			g *dist.Group) error {
			return g.Barrier(ctx)
		}))
	}
}

func none(context.Context, *dist.Group) error { return nil }
