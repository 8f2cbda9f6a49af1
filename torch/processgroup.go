package torch

import (
	"cmp"
	"net"
	"os"
	"runtime"
	"sync"
	"time"
	"unsafe"

	"github.com/gotrainer/gotrainer/cgotorch"
)

// ProcessGroupOptions say how a process joins a [ProcessGroup].
type ProcessGroupOptions struct {
	Rank, World int

	// Store is the address at which the processes find each other, "host:port", where port is free
	// on the machine of rank 0. Rank 0 passes the Listener of that address, which the group takes
	// over.
	Store    string
	Listener *net.TCPListener

	// Name distinguishes groups with the same Store. It is the same in all processes.
	Name string

	// Registered is the name under which operators such as those of _c10d_functional find the
	// group in this process. If empty, it is Name.
	Registered string

	// Address is the address under which the other processes reach this machine. Interface is a
	// network interface such as "eth0" and takes precedence (GLOO_SOCKET_IFNAME).
	Address, Interface string

	Join    time.Duration // how long to wait for the other processes
	Timeout time.Duration // how long a collective may take

	// Device is this process's GPU, which no other process may have. NCCL handles the GPU's
	// tensors, and gloo those of the CPU. Not measured: see docs/gpu.md. The zero value, the CPU,
	// means gloo alone.
	Device Device

	// Checked compares operator, shapes and dtypes over the processes before every collective, so
	// that a mismatch is an error that names the ranks instead of a hang
	// (TORCH_DISTRIBUTED_DEBUG=DETAIL). It costs one exchange per collective, and a process that
	// hangs keeps the others waiting until Timeout. It must be the same in all processes.
	Checked bool

	// Fake makes a group whose other processes do not exist, whatever World is (PyTorch's backend
	// "fake"). Each collective returns at once, as if all processes had the tensors of this one: a
	// sum is World times its value. Nothing listens, and Store is not needed. Send and Recv fail.
	Fake bool
}

// ProcessGroup is a group of c10d, libtorch's engine for distributed training. Its backend is
// gloo, with NCCL for the tensors of a GPU. Programs normally use package dist/ddp; a group made
// by hand is for operators that find it by name:
//
//	torch.Call("_c10d_functional::wait_tensor", torch.Call("_c10d_functional::all_reduce_", t, "sum", g.Name())[0])
//
// All processes must make the same calls in the same order, except that [ProcessGroup.Send] and
// [ProcessGroup.Recv] concern only two of them. AllReduce, AllGather, ReduceScatter and AllToAll
// are differentiable. These calls do not check that the processes do the same, and their errors
// name an address rather than a process; the calls of dist/ddp do both.
type ProcessGroup struct {
	name  string
	world int

	mu       sync.RWMutex // held for reading while the handle is used and during a whole backward pass
	handle   unsafe.Pointer
	reducers sync.Map // *Reducer to struct{}: those that have not been closed
}

// NewProcessGroup joins a group and returns when all processes have joined.
func NewProcessGroup(o ProcessGroupOptions) (*ProcessGroup, error) {
	if err := Load(); err != nil {
		return nil, err
	}
	const op = "NewProcessGroup"
	c, err := o.resolved(op)
	if err != nil {
		return nil, err
	}
	if o.Listener != nil {
		if c.Listener, err = takeOver(o.Listener); err != nil {
			return nil, invalid(op, "the listener of the store cannot be handed over: %v", err)
		}
	}
	g := &ProcessGroup{name: c.Registered, world: o.World}
	var handle unsafe.Pointer
	if code := cgotorch.NewGroup(c, &handle); code < 0 {
		return nil, Try(func() { fail(op, code) })
	}
	g.handle = handle
	return g, nil
}

func (o *ProcessGroupOptions) resolved(op string) (c cgotorch.GroupOptions, err error) {
	c = cgotorch.GroupOptions{
		Listener: -1, Name: o.Name, Registered: cmp.Or(o.Registered, o.Name), Address: o.Address, Interface: o.Interface,
		Rank: o.Rank, World: o.World, Join: o.Join, Timeout: o.Timeout, Checked: o.Checked, Fake: o.Fake,
	}
	if o.World < 1 || o.Rank < 0 || o.Rank >= o.World || (o.Rank == 0 && !o.Fake) != (o.Listener != nil) {
		return c, invalid(op, "rank %d of %d, with a listener: %v; want 0 <= rank < world, and a listener for rank 0 "+
			"alone", o.Rank, o.World, o.Listener != nil)
	}
	if o.Fake && (o.Checked || o.Device.IsCUDA()) {
		return c, invalid(op, "a fake group has no others to compare with and no connections; leave Checked and Device "+
			"out")
	}
	if o.Device.IsCUDA() {
		if !cgotorch.HasNCCL() {
			return c, Errorf(op, ErrNotSupported, "NCCL is in libcgotorch_cuda, which is not there or was built without "+
				"nccl.h: make setup CUDA=1, or gotrainer install --cuda, builds it")
		}
		c.NCCL, c.Device = true, o.Device.Index()
	}
	if o.Fake {
		return c, nil
	}
	// libtorch 2.11 opens the key and the certificate, but then sends values unencrypted (seen with
	// strace), even to a peer whose certificate is of another authority.
	if transport := os.Getenv("GLOO_DEVICE_TRANSPORT"); transport == "TCP_TLS" {
		return c, Errorf(op, ErrNotSupported, "GLOO_DEVICE_TRANSPORT is TCP_TLS, and gloo in libtorch %s does not encrypt "+
			"with it: values travel unencrypted, to peers of any certificate. Unset it, and join the machines by a network "+
			"that is private, such as WireGuard or a VPN", cgotorch.Wanted)
	}
	host, text, err := net.SplitHostPort(o.Store)
	if err != nil {
		return c, invalid(op, "the store is at %q; want host:port: %v", o.Store, err)
	}
	if c.Port, err = net.LookupPort("tcp", text); err != nil {
		return c, invalid(op, "the store is at %q; want a number as its port", o.Store)
	}
	c.Host = host
	return c, nil
}

// NCCLAvailable reports whether [ProcessGroupOptions].Device can be a GPU:
// torch.distributed.is_nccl_available.
func NCCLAvailable() bool { return Load() == nil && cgotorch.HasNCCL() }

// Name returns the name under which operators find the group.
func (g *ProcessGroup) Name() string { return g.name }

// World returns the number of processes.
func (g *ProcessGroup) World() int { return g.world }

// use runs f with the handle, which stays valid meanwhile.
func (g *ProcessGroup) use(op string, f func(handle unsafe.Pointer)) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.handle == nil {
		panic(invalid(op, "the process group %s is closed", g.name))
	}
	f(g.handle)
}

// Abort ends every call that waits in the group, in any goroutine, and refuses all later ones,
// with the given reason.
func (g *ProcessGroup) Abort(reason string) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	if g.handle != nil {
		cgotorch.AbortGroup(g.handle, reason)
	}
}

// Shutdown waits for the GPU's collectives that are under way and closes the group's connections,
// as torch.distributed.destroy_process_group does. Without [ProcessGroupOptions].Device it does
// nothing. Close the group afterwards.
func (g *ProcessGroup) Shutdown() {
	const op = "Shutdown"
	g.use(op, func(handle unsafe.Pointer) {
		if code := cgotorch.ShutdownGroup(handle); code < 0 {
			fail(op, code)
		}
	})
}

// Close frees the group and its reducers. No call may be waiting in it.
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

// Broadcast copies the values of the tensors of process root to the tensors of all others.
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

// Send sends the values of t, which must be contiguous and on the CPU, to process to, which
// receives them with Recv: torch.distributed.send.
func (g *ProcessGroup) Send(t Tensor, to int) { g.exchange("Send", t, to, true) }

// Recv fills t with what process from sends, which must be of the same number of bytes:
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

// ReducerOptions are the options of torch.nn.parallel.DistributedDataParallel.
type ReducerOptions struct {
	// FirstBucketBytes and BucketBytes are roughly how much is reduced at a time; zero means 1 MiB
	// and 25 MiB. A bucket is reduced while the backward pass computes the next one.
	FirstBucketBytes, BucketBytes int64

	FindUnused  bool // some parameters may not take part in a pass
	BucketView  bool // gradients are views of the buckets, which takes less memory
	StaticGraph bool // all passes use the same parameters, in the same order

	// Compress is the dtype in which gradients are sent, Float16 or BFloat16. Zero means the
	// gradients' own dtype.
	Compress DType

	// Sparse says for each parameter whether its gradients are sparse, as those of embeddings can
	// be (expect_sparse_gradient). Nil means no parameters.
	Sparse []bool
}

// Reducer averages gradients over the processes of a group while a backward pass computes them.
type Reducer struct {
	group  *ProcessGroup
	params *List // the reducer also keeps references to them
	handle unsafe.Pointer
}

// NewReducer makes a reducer for trainable parameters, which must have the same names in all
// processes.
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
	if o.Sparse != nil && len(o.Sparse) != len(params) {
		panic(invalid(op, "there are %d parameters, and ReducerOptions.Sparse is about %d", len(params), len(o.Sparse)))
	}
	ts, names := make([]Tensor, len(params)), make([]string, len(params))
	sparse := make([]int8, len(params))
	for i, p := range params {
		ts[i], names[i] = p.Tensor, p.Name
		if o.Sparse != nil && o.Sparse[i] {
			sparse[i] = 1
		}
	}
	r := &Reducer{group: g, params: NewList(ts...)}
	g.use(op, func(handle unsafe.Pointer) {
		var reducer unsafe.Pointer
		r.params.run(op, cgotorch.NewReducer(handle, r.params.raw, names, cgotorch.ReducerOptions{
			FirstBucketBytes: o.FirstBucketBytes, BucketBytes: o.BucketBytes, FindUnused: o.FindUnused,
			BucketView: o.BucketView, StaticGraph: o.StaticGraph, Compressed: o.Compress.code(),
			Sparse: sparse,
		}, &reducer))
		r.handle = reducer
		g.reducers.Store(r, struct{}{})
	})
	return r
}

// BeforeForward must be called before a forward pass whose gradients are to be averaged.
func (r *Reducer) BeforeForward() {
	const op = "Reducer.BeforeForward"
	r.group.use(op, func(unsafe.Pointer) { r.params.run(op, cgotorch.ReducerBeforeForward(r.open(op))) })
}

// ReduceBackward runs a backward pass from losses in which the reducers, all of one group, average
// gradients. With FindUnused, the losses are searched for the parameters that take part. Other
// backward passes do not average gradients.
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

// Close detaches the reducer from its parameters. Closing its group does so too.
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
