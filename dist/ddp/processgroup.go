package ddp

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gotrainer/gotrainer/dist"
	"github.com/gotrainer/gotrainer/torch"
)

// registry holds libtorch's process group for each open [dist.Group].
var registry struct {
	groups     sync.Map // *dist.Group to *joined
	registered atomic.Int64

	// How long, in nanoseconds, a call may wait after a process has left: its data may still be in
	// transit.
	afterLeaving atomic.Int64
}

// gpus returns the number of GPUs that libtorch sees; tests replace it.
var gpus = torch.CUDADevices

func init() { registry.afterLeaving.Store(int64(10 * time.Second)) }

// joinTimeout is how long gloo may take to connect processes that are all running.
const joinTimeout = time.Minute

// ProcessGroup returns libtorch's process group of g, for its differentiable collectives and for
// operators that take a group by name. All processes must call it. It ends with g; do not close
// it. A group of one process has none, which is an error.
func ProcessGroup(ctx context.Context, g *dist.Group) (*torch.ProcessGroup, error) {
	if g.World() == 1 {
		return nil, errors.New("ddp: a group of one process has no process group")
	}
	j, err := processGroup(ctx, g)
	if err != nil {
		return nil, err
	}
	return j.ProcessGroup, nil
}

// joined is the process group of libtorch that belongs to a [dist.Group].
type joined struct {
	*torch.ProcessGroup
	compareFirst bool // call only when all processes are known to make the same call
}

// processGroup returns libtorch's process group for g. All processes create it together, at the
// first call; it is aborted when g ends.
func processGroup(ctx context.Context, g *dist.Group) (*joined, error) {
	if found, ok := registry.groups.Load(g); ok {
		return found.(*joined), nil
	}
	if err := g.Err(); err != nil {
		return nil, err
	}
	p, err := join(ctx, g)
	if err != nil {
		return nil, fmt.Errorf("ddp: rank %d of %d cannot join the processes' gloo group: %w", g.Rank(), g.World(), err)
	}
	registry.groups.Store(g, p)
	go watch(g, p.ProcessGroup)
	return p, nil
}

// watch aborts p when g ends, and when a process has left and calls still wait for it.
func watch(g *dist.Group, p *torch.ProcessGroup) {
	select {
	case <-g.Left():
		select {
		case <-time.After(time.Duration(registry.afterLeaving.Load())):
			p.Abort(dist.ErrPeerLeft.Error())
			<-g.Done()
		case <-g.Done():
		}
	case <-g.Done():
	}
	registry.groups.Delete(g)
	if errors.Is(g.Err(), dist.ErrClosed) {
		_ = torch.Try(p.Shutdown) // work under way on the GPU is shared with the others; an error changes nothing
	}
	p.Abort(g.Err().Error())
	p.Close()
}

// deviceOf returns the GPU that NCCL uses for a process: the one of its local rank, as programs
// started by torchrun select it, or the only one that the launcher makes visible. Without NCCL it
// returns the CPU, for gloo alone.
func deviceOf(localRank, gpus int, nccl bool) torch.Device {
	switch {
	case !nccl || gpus == 0:
		return torch.CPU
	case localRank < gpus:
		return torch.CUDA(localRank)
	case gpus == 1:
		return torch.CUDA(0)
	}
	return torch.CPU
}

// engine describes the backends, so that the processes can compare them: if they differ, gloo would
// only report that nobody answers.
func engine(o *torch.ProcessGroupOptions) string {
	text := "joining gloo"
	if o.Device.IsCUDA() {
		text += " with NCCL"
	}
	if o.Checked {
		text += ", every collective checked"
	}
	return text
}

func join(ctx context.Context, g *dist.Group) (*joined, error) {
	o := torch.ProcessGroupOptions{
		Rank: g.Rank(), World: g.World(), Name: "gotrainer", Address: g.Address(),
		Registered: fmt.Sprintf("gotrainer %d of %d, %d", g.Rank(), g.World(), registry.registered.Add(1)),
		Join:       joinTimeout, Timeout: g.Timeout(), Checked: g.Checked(), Fake: g.Fake(),
	}
	if o.Fake {
		p, err := torch.NewProcessGroup(o)
		return &joined{ProcessGroup: p}, err
	}
	o.Device = deviceOf(g.LocalRank(), gpus(), torch.NCCLAvailable())
	if err := g.Agree(ctx, engine(&o)); err != nil {
		return nil, err
	}
	// as in torch.distributed, except that only the first of a list is used
	o.Interface, _, _ = strings.Cut(os.Getenv("GLOO_SOCKET_IFNAME"), ",")
	port := make([]byte, 8)
	var listenErr error
	if g.Main() {
		o.Listener, listenErr = listen(g.Address())
		if listenErr == nil {
			binary.LittleEndian.PutUint64(port, uint64(o.Listener.Addr().(*net.TCPAddr).Port))
		}
	}
	if err := g.Broadcast(ctx, port, 0); err != nil {
		return nil, err
	}
	switch n := binary.LittleEndian.Uint64(port); {
	case listenErr != nil:
		return nil, listenErr
	case n == 0:
		return nil, errors.New("rank 0 cannot listen for the others; its error says why")
	default:
		o.Store = net.JoinHostPort(g.AddressOf(0), strconv.FormatUint(n, 10))
	}
	type result struct {
		p   *torch.ProcessGroup
		err error
	}
	results := make(chan result, 1)
	go func() { // g notices at once if a process is lost meanwhile; gloo only after its timeout
		p, err := torch.NewProcessGroup(o)
		results <- result{p, err}
	}()
	select {
	case r := <-results:
		if r.err != nil {
			return nil, g.Fail("joining gloo", r.err)
		}
		// Compare first if every collective is checked, because libtorch would report a difference
		// in its own words, and with NCCL, which defines no behaviour for calls that differ.
		return &joined{r.p, o.Checked || o.Device.IsCUDA()}, nil
	case <-g.Done():
		return nil, g.Err()
	case <-ctx.Done():
		return nil, g.Fail("joining gloo", context.Cause(ctx))
	}
}

// listen opens the port of the store. With a loopback address it is not reachable from other
// machines.
func listen(address string) (*net.TCPListener, error) {
	if ip := net.ParseIP(address); ip == nil || !ip.IsLoopback() {
		address = ""
	}
	l, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		return nil, err
	}
	return l.(*net.TCPListener), nil
}

// Collective runs f, a call of libtorch's engine, without recording history. name appears in
// errors and is shown to the other processes. During the call, all processes compare the names. If
// they differ, all calls fail with [dist.ErrMismatch], and the contents of the tensors are
// undefined. An error in f ends the group. If g has only one process, f is not called.
func Collective(ctx context.Context, g *dist.Group, name string, f func(p *torch.ProcessGroup)) error {
	if g.World() == 1 {
		return ctx.Err()
	}
	j, err := processGroup(ctx, g)
	if err != nil {
		return err
	}
	agreed, err := j.announce(ctx, g, name, nil)
	if err != nil {
		return err
	}
	err = runCall(ctx, g, j.ProcessGroup, name, f)
	return cmp.Or(agreed(), err)
}

// announce tells the other processes what this one does next, and calls start, if not nil. The
// results may be used once agreed has returned nil: then all processes have made the same call.
//
// The process group moves tensors before that, since the comparison takes as long as reducing a
// small tensor does. This is safe even if the calls differ:
//   - Data of one call never end up in another: gloo's messages carry a hash of the operation and
//     of its sizes (class Gloo in cgotorch/src/group.cc), and are not received if it differs.
//   - Nobody waits forever for such a message: a call is announced before it begins, so rank 0
//     learns of both calls, whatever their tensors wait for. It fails the group, which aborts the
//     operations in flight.
//   - Nobody uses wrong results: names distinguish calls that look the same to gloo, such as those
//     of shapes [2, 3] and [3, 2], so they return an error even if gloo has summed them.
//   - Calls from several goroutines are announced in the order in which they begin, because start
//     runs while the lock for announcements is held.
func (j *joined) announce(ctx context.Context, g *dist.Group, name string, start func()) (agreed func() error,
	err error) {
	if !j.compareFirst {
		return g.StartAgree(ctx, name, start)
	}
	if err := g.Agree(ctx, name); err != nil {
		return nil, err
	}
	if start != nil {
		start()
	}
	return func() error { return nil }, nil
}

// runCall runs f; an error fails the group.
func runCall(ctx context.Context, g *dist.Group, p *torch.ProcessGroup, name string,
	f func(p *torch.ProcessGroup)) error {
	if err := attempt(ctx, p, func() { f(p) }); err != nil {
		return g.Fail(name, err)
	}
	return nil
}

// attempt runs f, whose calls of p are aborted when ctx ends, and returns its error or the cause of
// ctx.
func attempt(ctx context.Context, p *torch.ProcessGroup, f func()) error {
	stop := context.AfterFunc(ctx, func() { p.Abort(context.Cause(ctx).Error()) })
	defer stop()
	err := torch.Try(func() { torch.NoGrad(f) })
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}
