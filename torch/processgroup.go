package torch

import (
	"net"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"github.com/gotrainer/gotrainer/cgotorch"
)

// ProcessGroupOptions say how a process joins a [ProcessGroup].
type ProcessGroupOptions struct {
	Rank, World int

	// Store is where the processes find each other: "host:port", a free port of rank 0's machine.
	// Rank 0 gives the Listener of that address, which the group takes over.
	Store    string
	Listener *net.TCPListener

	// Name tells groups with one Store apart; it is the same for all processes.
	Name string

	// Registered is the name by which operators find the group in this process: those of
	// _c10d_functional take it. Empty: Name.
	Registered string

	// Address is that of this machine by which the others reach it; Interface, a network interface
	// such as "eth0", comes first (GLOO_SOCKET_IFNAME).
	Address, Interface string

	Join    time.Duration // how long to wait for the others
	Timeout time.Duration // of a collective
}

// ProcessGroup is a group of c10d, libtorch's engine of distributed training, with gloo as its
// backend. Package dist/ddp is what programs use; a group made by hand serves operators by its
// name:
//
//	torch.Call("_c10d_functional::wait_tensor", torch.Call("_c10d_functional::all_reduce_", t, "sum", g.Name())[0])
//
// All processes make the same calls in the same order; [ProcessGroup.Send] and [ProcessGroup.Recv]
// concern two of them. AllReduce, AllGather, ReduceScatter and AllToAll are differentiable. None of
// these calls compares what the processes do, and their errors name an address and no process:
// those of dist/ddp do both.
type ProcessGroup struct {
	name  string
	world int

	mu       sync.RWMutex // held to read while the handle is used, and for a whole backward pass
	handle   unsafe.Pointer
	reducers sync.Map // *Reducer to struct{}, those that are open
}

// NewProcessGroup joins a group, and returns when all processes have.
func NewProcessGroup(o ProcessGroupOptions) (*ProcessGroup, error) {
	if err := Load(); err != nil {
		return nil, err
	}
	const op = "NewProcessGroup"
	host, text, err := net.SplitHostPort(o.Store)
	if err != nil {
		return nil, invalid(op, "the store is at %q; want host:port: %v", o.Store, err)
	}
	port, err := net.LookupPort("tcp", text)
	if err != nil {
		return nil, invalid(op, "the store is at %q; want a number as its port", o.Store)
	}
	if o.World < 1 || o.Rank < 0 || o.Rank >= o.World || (o.Rank == 0) != (o.Listener != nil) {
		return nil,
			invalid(op, "rank %d of %d, with a listener: %v; want 0 <= rank < world, and a listener for rank 0 "+
				"alone", o.Rank, o.World, o.Listener != nil)
	}
	socket := -1
	if o.Listener != nil {
		if socket, err = takeOver(o.Listener); err != nil {
			return nil, invalid(op, "the listener of the store cannot be handed over: %v", err)
		}
	}
	g := &ProcessGroup{name: o.Registered, world: o.World}
	if g.name == "" {
		g.name = o.Name
	}
	var handle unsafe.Pointer
	code := cgotorch.NewGroup(cgotorch.GroupOptions{
		Host: host, Port: port, Listener: socket, Name: o.Name, Registered: g.name, Address: o.Address,
		Interface: o.Interface, Rank: o.Rank, World: o.World, Join: o.Join, Timeout: o.Timeout,
	}, &handle)
	if code < 0 {
		return nil, Try(func() { fail(op, code) })
	}
	g.handle = handle
	return g, nil
}

// Name is what operators call the group.
func (g *ProcessGroup) Name() string { return g.name }

// use runs f with the handle, which stays meanwhile.
func (g *ProcessGroup) use(op string, f func(handle unsafe.Pointer)) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.handle == nil {
		panic(invalid(op, "the process group %s is closed", g.name))
	}
	f(g.handle)
}

// Abort ends every call that waits in the group, in any goroutine, and refuses those to come, with
// the reason.
func (g *ProcessGroup) Abort(reason string) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.handle != nil {
		cgotorch.AbortGroup(g.handle, reason)
	}
}

// Close frees the group and its reducers, when no call waits in it.
func (g *ProcessGroup) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.handle != nil {
		g.reducers.Range(func(r, _ any) bool {
			r.(*Reducer).free()
			return true
		})
		cgotorch.FreeGroup(g.handle)
		g.handle = nil
	}
}

// Broadcast copies the values of the tensors of the process root to those of all others.
func (g *ProcessGroup) Broadcast(root int, ts ...Tensor) {
	const op = "Broadcast"
	list := required(op, ts)
	g.use(op, func(handle unsafe.Pointer) {
		if code := cgotorch.BroadcastCoalesced(handle, list, root); code < 0 {
			fail(op, code)
		}
	})
	runtime.KeepAlive(ts)
}

// Send sends the values of t, which is contiguous and on the CPU, to the process to, which receives
// them: torch.distributed.send.
func (g *ProcessGroup) Send(t Tensor, to int) { g.exchange("Send", t, to, true) }

// Recv fills t with what the process from sends, which must have as many bytes:
// torch.distributed.recv.
func (g *ProcessGroup) Recv(t Tensor, from int) { g.exchange("Recv", t, from, false) }

func (g *ProcessGroup) exchange(op string, t Tensor, peer int, sends bool) {
	g.use(op, func(handle unsafe.Pointer) {
		if code := cgotorch.Exchange(handle, t.ptr(op), peer, sends); code < 0 {
			fail(op, code, t)
		}
	})
	runtime.KeepAlive(t.h)
}

// ReducerOptions are those of torch.nn.parallel.DistributedDataParallel.
type ReducerOptions struct {
	// FirstBucketBytes and BucketBytes are about how much is reduced at a time; zero: 1 MiB and 25
	// MiB. A bucket is reduced while the backward pass computes the next one.
	FirstBucketBytes, BucketBytes int64

	FindUnused  bool // some parameters may take no part in a pass
	BucketView  bool // gradients are views of the buckets: less memory
	StaticGraph bool // all passes use the same parameters, in the same order

	// Compress is the dtype in which gradients are sent, Float16 or BFloat16; zero: theirs.
	Compress DType
}

// Reducer averages gradients over the processes of a group while a backward pass computes them.
type Reducer struct {
	group  *ProcessGroup
	params *List // of which the reducer keeps references too
	handle unsafe.Pointer
}

// NewReducer makes a reducer of parameters that are trained, with the same names on all processes.
func (g *ProcessGroup) NewReducer(params []Named, o ReducerOptions) *Reducer {
	const op = "NewReducer"
	if len(params) == 0 {
		panic(invalid(op, "there is no parameter"))
	}
	if o.FirstBucketBytes == 0 {
		o.FirstBucketBytes = 1 << 20
	}
	if o.BucketBytes == 0 {
		o.BucketBytes = 25 << 20
	}
	if o.Compress != 0 && o.Compress != Float16 && o.Compress != BFloat16 {
		panic(invalid(op, "gradients cannot be sent as %s; want Float16, BFloat16 or nothing", o.Compress))
	}
	ts, names := make([]Tensor, len(params)), make([]string, len(params))
	for i, p := range params {
		ts[i], names[i] = p.Tensor, p.Name
	}
	r := &Reducer{group: g, params: NewList(ts...)}
	g.use(op, func(handle unsafe.Pointer) {
		var reducer unsafe.Pointer
		r.params.run(op, cgotorch.NewReducer(handle, r.params.raw, names, cgotorch.ReducerOptions{
			FirstBucketBytes: o.FirstBucketBytes, BucketBytes: o.BucketBytes, FindUnused: o.FindUnused,
			BucketView: o.BucketView, StaticGraph: o.StaticGraph, Compressed: o.Compress.code(),
		}, &reducer))
		r.handle = reducer
		g.reducers.Store(r, struct{}{})
	})
	return r
}

// BeforeForward is called before a forward pass whose gradients are to be averaged.
func (r *Reducer) BeforeForward() {
	const op = "Reducer.BeforeForward"
	r.group.use(op, func(unsafe.Pointer) { r.params.run(op, cgotorch.ReducerBeforeForward(r.open(op))) })
}

// ReduceBackward runs a backward pass that begins at losses, in which the reducers, all of one
// group, average gradients. With FindUnused the losses are searched for the parameters that take
// part. Other backward passes leave gradients as they are.
func ReduceBackward(reducers []*Reducer, backward func(), losses ...Tensor) {
	const op = "ReduceBackward"
	if len(reducers) == 0 {
		panic(invalid(op, "there is no reducer"))
	}
	list := required(op, losses)
	reducers[0].group.use(op, func(unsafe.Pointer) {
		for _, r := range reducers {
			if code := cgotorch.ReducerBeforeBackward(r.open(op), list); code < 0 {
				fail(op, code, losses...)
			}
		}
		backward()
		for _, r := range reducers {
			r.params.run(op, cgotorch.ReducerAfterBackward(r.open(op)))
		}
	})
	runtime.KeepAlive(losses)
}

func (r *Reducer) open(op string) unsafe.Pointer {
	if r.handle == nil {
		panic(invalid(op, "the reducer is closed"))
	}
	return r.handle
}

// Close takes the reducer from its parameters. Closing its group does so too.
func (r *Reducer) Close() {
	r.group.mu.Lock()
	defer r.group.mu.Unlock()
	r.free()
}

func (r *Reducer) free() {
	r.group.reducers.Delete(r)
	if r.handle != nil {
		cgotorch.FreeReducer(r.handle)
		r.handle = nil
	}
}
