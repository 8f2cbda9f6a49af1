package ddp

import (
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

// made holds the process group of libtorch that belongs to each [dist.Group] that is open.
var made struct {
	groups     sync.Map // *dist.Group to *torch.ProcessGroup
	registered atomic.Int64

	// how long, in nanoseconds, a call may go on when a process has left that may have finished it
	afterLeaving atomic.Int64
}

// gpus is how many libtorch sees; tests have others.
var gpus = torch.CUDADevices

func init() { made.afterLeaving.Store(int64(10 * time.Second)) }

// joinTimeout is how long gloo may take to connect processes that are all there.
const joinTimeout = time.Minute

// ProcessGroup returns the process group of libtorch that belongs to g, for its differentiable
// collectives and for operators that take a group by its name. All processes call it. It ends with g;
// nobody closes it. A group of one process has none, which is an error.
func ProcessGroup(ctx context.Context, g *dist.Group) (*torch.ProcessGroup, error) {
	if g.World() == 1 {
		return nil, errors.New("ddp: a group of one process has no process group")
	}
	return processGroup(ctx, g)
}

// processGroup returns the process group of libtorch that belongs to g. All processes make it
// together, at the first call; it is aborted when g ends.
func processGroup(ctx context.Context, g *dist.Group) (*torch.ProcessGroup, error) {
	if found, ok := made.groups.Load(g); ok {
		return found.(*torch.ProcessGroup), nil
	}
	p, err := join(ctx, g)
	if err != nil {
		return nil, fmt.Errorf("ddp: rank %d of %d cannot join the processes' gloo group: %w", g.Rank(), g.World(), err)
	}
	made.groups.Store(g, p)
	go watch(g, p)
	return p, nil
}

// watch ends the process group with g, and the calls that wait for a process that has left.
func watch(g *dist.Group, p *torch.ProcessGroup) {
	select {
	case <-g.Left():
		select {
		case <-time.After(time.Duration(made.afterLeaving.Load())):
			p.Abort(dist.ErrPeerLeft.Error())
			<-g.Done()
		case <-g.Done():
		}
	case <-g.Done():
	}
	made.groups.Delete(g)
	if errors.Is(g.Err(), dist.ErrClosed) {
		_ = torch.Try(p.Shutdown) // what the GPU has under way is the others' too; its failure ends nothing more
	}
	p.Abort(g.Err().Error())
	p.Close()
}

// deviceOf is the GPU whose tensors NCCL moves for a process: that of its local rank, as torchrun's
// programs set it first of all, or the only one that the launcher lets it see. The CPU: gloo is alone.
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

// engine says what moves tensors, for the other processes to compare: where they differ, gloo would
// only find that nobody answers.
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

func join(ctx context.Context, g *dist.Group) (*torch.ProcessGroup, error) {
	o := torch.ProcessGroupOptions{
		Rank: g.Rank(), World: g.World(), Name: "gotrainer", Address: g.Address(),
		Registered: fmt.Sprintf("gotrainer %d of %d, %d", g.Rank(), g.World(), made.registered.Add(1)),
		Join:       joinTimeout, Timeout: g.Timeout(), Checked: g.Checked(), Fake: g.Fake(),
	}
	if o.Fake {
		return torch.NewProcessGroup(o)
	}
	o.Device = deviceOf(g.LocalRank(), gpus(), torch.NCCLAvailable())
	if err := g.Agree(ctx, engine(&o)); err != nil {
		return nil, err
	}
	// as torch.distributed reads it, whose list has one entry here
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
	joined := make(chan result, 1)
	go func() { // a process that is lost meanwhile is noticed by g, and by gloo after its timeout only
		p, err := torch.NewProcessGroup(o)
		joined <- result{p, err}
	}()
	select {
	case r := <-joined:
		if r.err != nil {
			return nil, g.Fail("joining gloo", r.err)
		}
		return r.p, nil
	case <-g.Done():
		return nil, g.Err()
	case <-ctx.Done():
		return nil, g.Fail("joining gloo", context.Cause(ctx))
	}
}

// listen opens the port of the store. What is meant for this machine alone is not shown to others.
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

// Collective runs a call of libtorch's engine, without a history, under the name that errors and the
// other processes see. Before it, all processes compare the names: gloo would mix up calls that
// differ. An error in f ends the group. f is not called where g is of one process.
func Collective(ctx context.Context, g *dist.Group, name string, f func(p *torch.ProcessGroup)) error {
	if g.World() == 1 {
		return ctx.Err()
	}
	p, err := processGroup(ctx, g)
	if err != nil {
		return err
	}
	if err := g.Agree(ctx, name); err != nil {
		return err
	}
	return running(ctx, g, p, name, f)
}

// running runs a call that the others make too.
func running(ctx context.Context, g *dist.Group, p *torch.ProcessGroup, name string,
	f func(p *torch.ProcessGroup)) error {
	stop := context.AfterFunc(ctx, func() { p.Abort(context.Cause(ctx).Error()) })
	defer stop()
	if err := torch.Try(func() { torch.NoGrad(func() { f(p) }) }); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return g.Fail(name, err)
	}
	return nil
}

// wait has the tensor of a collective that was started.
func wait(t torch.Tensor) torch.Tensor { return torch.Call("_c10d_functional::wait_tensor", t)[0] }
