package dist_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/dist/tcpstore"
)

// As with torchrun's restarts, the store survives several starts whose processes ended at any
// point.
func TestAGroupMeetsInAStoreWithTheRemainsOfOthers(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		store, err := tcpstore.Listen("127.0.0.1:0")
		require.NoError(t, err)
		defer func() { _ = store.Close() }()
		starts := rapid.IntRange(1, 3).Draw(rt, "starts that fail")
		for start := range starts + 1 {
			world := rapid.IntRange(2, 4).Draw(rt, "world") // an elastic run may change it
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			var ranks sync.WaitGroup
			errs := make([]error, world)
			for rank := range world {
				mine, end := context.WithCancel(ctx)
				comes := time.Duration(rapid.IntRange(0, 15).Draw(rt, "comes")) * time.Millisecond
				if start < starts { // let it fail at some point
					goes := time.Duration(rapid.IntRange(0, 20).Draw(rt, "goes")) * time.Millisecond
					defer time.AfterFunc(goes, end).Stop()
				}
				ranks.Go(func() {
					defer end()
					time.Sleep(comes)
					g, err := dist.Init(mine, dist.Options{Rank: rank, World: world,
						Address: store.Addr().String(), Store: true})
					if err == nil && start == starts {
						sum := []int64{int64(rank)}
						if err = dist.AllReduce(ctx, g, sum, dist.Sum); err == nil &&
							sum[0] != int64(world*(world-1)/2) {
							err = fmt.Errorf("the ranks sum to %d", sum[0])
						}
					}
					_ = g.Close()
					errs[rank] = err
				})
			}
			ranks.Wait()
			cancel()
			if start == starts {
				require.NoError(t, errors.Join(errs...), "of %d", world)
			}
		}
	})
}

// freePort returns a port of this machine that was free a moment ago.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	_, port, _ := net.SplitHostPort(l.Addr().String())
	return port
}

// outside returns an address of this machine that is not loopback.
func outside(t *testing.T, six bool) string {
	t.Helper()
	all, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && (n.IP.To4() == nil) == six {
			return n.IP.String()
		}
	}
	t.Skip("this machine has no such address except loopback")
	return ""
}

// joinAt has processes join a group, each with its own address for rank 0.
func joinAt(t *testing.T, change func(o *dist.Options), hosts ...string) []*dist.Group {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	port := freePort(t)
	groups := make([]*dist.Group, len(hosts))
	errs := make([]error, len(hosts))
	var ranks sync.WaitGroup
	for rank, host := range hosts {
		ranks.Go(func() {
			o := dist.Options{Rank: rank, World: len(hosts), Address: net.JoinHostPort(host, port)}
			if change != nil {
				change(&o)
			}
			groups[rank], errs[rank] = dist.Init(ctx, o)
		})
	}
	ranks.Wait()
	for rank, err := range errs {
		require.NoError(t, err, "rank %d", rank)
		t.Cleanup(func() { _ = groups[rank].Close() })
	}
	return groups
}

func TestMachinesMeetThoughTheMasterCallsItselfLocalhost(t *testing.T) {
	other := outside(t, false)
	groups := joinAt(t, nil, "localhost", other) // as in old PyTorchJobs
	assert.False(t, net.ParseIP(groups[1].AddressOf(0)).IsUnspecified())
	joinAt(t, nil, "127.0.1.1", other, "127.0.0.1")
}

func TestProcessesMeetByIPv6Alone(t *testing.T) {
	if _, err := net.Listen("tcp", "[::1]:0"); err != nil {
		t.Skip("this machine has no IPv6:", err)
	}
	joinAt(t, func(o *dist.Options) { o.LocalWorld = 2 }, "::1", "::1")
	other := outside(t, true)
	groups := joinAt(t, nil, "::1", other)
	assert.NotContains(t, groups[0].Address(), ".", "an address of IPv6")
}

func TestTheInterfaceOfGlooIsTakenByTheConnectionsInGoToo(t *testing.T) {
	want := outside(t, false)
	all, err := net.Interfaces()
	require.NoError(t, err)
	name := ""
	for _, i := range all {
		addresses, _ := i.Addrs()
		for _, a := range addresses {
			if n, ok := a.(*net.IPNet); ok && n.IP.String() == want {
				name = i.Name
			}
		}
	}
	environment := func(value string) func(o *dist.Options) {
		return func(o *dist.Options) {
			o.Getenv = func(name string) string { return map[string]string{"GLOO_SOCKET_IFNAME": value}[name] }
		}
	}
	for _, g := range joinAt(t, environment(name+",lo"), "127.0.0.1", "127.0.0.1") {
		assert.Equal(t, want, g.Address(), "rank %d", g.Rank())
	}
	o := dist.Options{World: 2, Address: "127.0.0.1:" + freePort(t)}
	environment("nowhere7")(&o)
	_, err = dist.Init(t.Context(), o)
	assert.ErrorContains(t, err, `GLOO_SOCKET_IFNAME names the network interface "nowhere7", and this machine has `)
}

func TestALocalGroupIsNotShownToOtherMachines(t *testing.T) {
	port, other := freePort(t), outside(t, false)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := dist.Init(ctx, dist.Options{World: 2, LocalWorld: 2, Address: "127.0.0.1:" + port})
		ended <- err
	}()
	store, err := tcpstore.Dial(t.Context(), "127.0.0.1:"+port)
	require.NoError(t, err)
	_ = store.Close()
	if conn, err := net.Dial("tcp", net.JoinHostPort(other, port)); err == nil {
		_ = conn.Close()
		t.Errorf("the store answers at %s", other)
	}
	cancel()
	assert.Error(t, <-ended)
}

func TestAnotherWorldSizeIsToldToAll(t *testing.T) {
	for _, worlds := range [][]int{{2, 3, 3}, {3, 3, 2}, {3, 2, 3}} { // by rank
		var next atomic.Int64
		errs := together(t, 3, func(o *dist.Options) {
			o.Rank = int(next.Add(1)) - 1
			o.World = worlds[o.Rank]
			o.JoinTimeout = 20 * time.Second
			if o.Rank >= o.World {
				o.Rank = 1 // resolved would reject a rank beyond the process's own world
			}
		}, none)
		told := 0
		for _, err := range errs {
			if err != nil && strings.Contains(err.Error(), "WORLD_SIZE must be the same for all") {
				told++
			}
		}
		assert.GreaterOrEqual(t, told, 2, "%v: %v", worlds, errs)
	}
}

// While a group is joining, port scanners write garbage to its ports, and other clients connect and
// send nothing.
func TestStrangersKeepNobodyFromJoining(t *testing.T) {
	idle := 1000
	if testing.Short() {
		idle = 100
	}
	port := freePort(t)
	address := "127.0.0.1:" + port
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	results := make(chan error, 3)
	join := func(rank int) {
		g, err := dist.Init(ctx, dist.Options{Rank: rank, World: 3, Address: address})
		if err == nil {
			err = g.Barrier(ctx)
		}
		_ = g.Close()
		results <- err
	}
	go join(0)
	go join(1)
	ports := []string{address, waitForAddress(ctx, t, address)}
	for _, port := range ports {
		for _, nonsense := range []string{"GET / HTTP/1.1\r\n\r\n", "SSH-2.0-OpenSSH\r\n", "\x00\xce\xf7\x85\x3c\xff",
			"\x00\xce\xf7\x85\x3c\x01\xff\xff\xff\xff\xff\xff\xff\xff", strings.Repeat("\xff", 100)} {
			conn, err := net.Dial("tcp", port)
			require.NoError(t, err)
			_, _ = conn.Write([]byte(nonsense))
			_ = conn.Close()
		}
		for range idle {
			conn, err := net.Dial("tcp", port)
			require.NoError(t, err)
			defer func() { _ = conn.Close() }()
		}
	}
	go join(2)
	for range 3 {
		require.NoError(t, <-results)
	}
}

// waitForAddress returns where rank 1 of the round listens.
func waitForAddress(ctx context.Context, t *testing.T, address string) string {
	t.Helper()
	store, err := tcpstore.Dial(ctx, address)
	require.NoError(t, err)
	defer func() { _ = store.Close() }()
	text, err := store.Get(ctx, "gotrainer///round")
	require.NoError(t, err)
	var round struct{ Nonce string }
	require.NoError(t, json.Unmarshal(text, &round))
	text, err = store.Get(ctx, "gotrainer///"+round.Nonce+"/rank/1")
	require.NoError(t, err)
	var member struct{ Addresses []string }
	require.NoError(t, json.Unmarshal(text, &member))
	return member.Addresses[0]
}

// The roster lists a process that does not answer.
func TestProcessesThatCannotReachEachOtherSaySo(t *testing.T) {
	store, err := tcpstore.Listen("127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = store.Close() }()
	c, err := tcpstore.Dial(t.Context(), store.Addr().String())
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	nowhere := "127.0.0.1:1" // no other program gets this port while the test runs
	require.NoError(t, c.Set(ctx, "gotrainer///round", []byte(`{"nonce": "N", "world": 3}`)))
	errs := make([]chan error, 3)
	var members []string
	for rank := 1; rank < 3; rank++ {
		errs[rank] = make(chan error, 1)
		go func() {
			_, err := dist.Init(ctx, dist.Options{Rank: rank, World: 3, Address: store.Addr().String(), Store: true})
			errs[rank] <- err
		}()
		text, err := c.Get(ctx, fmt.Sprint("gotrainer///N/rank/", rank))
		require.NoError(t, err)
		members = append(members, string(text))
	}
	require.NoError(t, c.Set(ctx, "gotrainer///N/roster", fmt.Appendf(nil,
		`{"members": [{"id": "0", "world": 3, "addresses": [%q]}, %s]}`, nowhere, strings.Join(members, ","))))
	for rank := 1; rank < 3; rank++ {
		err := <-errs[rank]
		assert.ErrorContains(t, err, "all have come, but there is no connection with 0", "rank %d", rank)
		assert.ErrorContains(t, err, "connection refused", "rank %d", rank)
	}
}

// Rank 0 of an earlier start publishes its failure after a process of the next start has entered
// its round.
func TestARosterThatFailedIsForThoseWhoHadCome(t *testing.T) {
	server, err := tcpstore.Listen("127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = server.Close() }()
	address := server.Addr().String()
	c, err := tcpstore.Dial(t.Context(), address)
	require.NoError(t, err)
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	require.NoError(t, c.Set(ctx, "gotrainer///round", []byte(`{"nonce": "N", "world": 2}`)))
	join := func(rank int) chan error {
		ended := make(chan error, 1)
		go func() {
			g, err := dist.Init(ctx, dist.Options{Rank: rank, World: 2, Address: address, Store: true})
			_ = g.Close()
			ended <- err
		}()
		return ended
	}
	second := join(1)
	_, err = c.Get(ctx, "gotrainer///N/rank/1")
	require.NoError(t, err)
	require.NoError(t, c.Set(ctx, "gotrainer///N/roster", []byte(`{"error": "killed", "members": [{"id": "another"}]}`)))
	require.NoError(t, <-join(0))
	require.NoError(t, <-second)

	require.NoError(t, c.Set(ctx, "gotrainer///round", []byte(`{"nonce": "M", "world": 2}`)))
	second = join(1)
	text, err := c.Get(ctx, "gotrainer///M/rank/1")
	require.NoError(t, err)
	require.NoError(t, c.Set(ctx, "gotrainer///M/roster", fmt.Appendf(nil, `{"error": "killed", "members": [%s]}`, text)))
	assert.ErrorContains(t, <-second, "killed (reported by rank 0)")
}

// Groups form repeatedly at the same address, while the store of the previous group is closing.
func TestGroupsMeetOneAfterTheOtherAtOneAddress(t *testing.T) {
	address := net.JoinHostPort("127.0.0.1", freePort(t))
	var ranks sync.WaitGroup
	for rank := range 3 {
		ranks.Go(func() {
			for range 30 {
				g, err := dist.Init(t.Context(), dist.Options{Rank: rank, World: 3, Address: address})
				if !assert.NoError(t, err, "rank %d", rank) {
					return
				}
				assert.NoError(t, g.Close())
			}
		})
	}
	ranks.Wait()
}
