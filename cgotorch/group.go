package cgotorch

// #include <stdlib.h>
// #include "load.h"
import "C"

import (
	"time"
	"unsafe"
)

// --- group.cc

// GroupOptions say how a process joins a group of gloo.
type GroupOptions struct {
	Host               string // of the store, on rank 0's machine
	Port               int
	Listener           int    // rank 0: the socket of the store, which takes it over; others: -1
	Name               string // of the group, the same for all processes
	Registered         string // by which operators of this process find it
	Address, Interface string // of this process; the interface comes first
	Rank, World        int
	Join, Timeout      time.Duration

	Checked bool // collectives are compared before each: c10d's ProcessGroupWrapper
	Fake    bool // there are no others: all of them have what this process has
	NCCL    bool // moves the tensors of the GPU Device; [HasNCCL] must be true
	Device  int
}

// NewGroup returns when all processes have joined.
func NewGroup(o GroupOptions, group *unsafe.Pointer) Code {
	var texts [5]*C.char
	for i, text := range []string{o.Host, o.Name, o.Registered, o.Address, o.Interface} {
		texts[i] = C.CString(text)
		defer C.free(unsafe.Pointer(texts[i]))
	}
	c := C.ct_group_options{
		host: texts[0], port: C.int32_t(o.Port), listener: C.int32_t(o.Listener), name: texts[1],
		registered: texts[2], address: texts[3], _interface: texts[4],
		rank: C.int32_t(o.Rank), world: C.int32_t(o.World),
		join_ms: C.int64_t(o.Join.Milliseconds()), timeout_ms: C.int64_t(o.Timeout.Milliseconds()),
		checked: C.int8_t(boolean(o.Checked)), fake: C.int8_t(boolean(o.Fake)), device: C.int32_t(o.Device),
	}
	if o.NCCL {
		c.new_backend = C.ct_new_nccl()
	}
	return Code(C.ct_new_group(&c, group))
}

// AbortGroup ends all calls that wait in a group, and refuses those to come, with the reason. Any
// thread may call it.
func AbortGroup(group unsafe.Pointer, reason string) {
	text := C.CString(reason)
	defer C.free(unsafe.Pointer(text))
	C.ct_abort_group(group, text, C.int64_t(len(reason)))
}

// ShutdownGroup returns when what a GPU has under way in a group is done, and closes its connections.
func ShutdownGroup(group unsafe.Pointer) Code { return Code(C.ct_shutdown_group(group)) }

// HasNCCL tells whether there is a libcgotorch_cuda that was built with nccl.h, or [PretendGraphs]
// was called.
func HasNCCL() bool { return C.ct_new_nccl() != nil }

// PretendedNCCL tells, under [PretendGraphs], for which GPU the last group was made, and how often it
// was aborted and shut down.
func PretendedNCCL() (device, aborted, shutDown int64) {
	var d, a, s C.int64_t
	C.ct_pretended_nccl(&d, &a, &s)
	return int64(d), int64(a), int64(s)
}

// FreeGroup frees a group that no reducer uses any more.
func FreeGroup(group unsafe.Pointer) { C.ct_free_group(group) }

// BroadcastCoalesced copies the values of root's tensors to those of the others, in few messages.
func BroadcastCoalesced(group unsafe.Pointer, ts []Tensor, root int) Code {
	return Code(C.ct_broadcast_coalesced(group, handles(ts), C.int64_t(len(ts)), C.int32_t(root)))
}

// StartAllReduce starts a reduction of t in place by a c10d::ReduceOp. Processes whose labels differ
// take nothing of each other.
func StartAllReduce(group unsafe.Pointer, t Tensor, op int, label uint32, work *unsafe.Pointer) Code {
	return Code(C.ct_start_all_reduce(group, C.ct_tensor(t), C.int32_t(op), C.uint32_t(label), work))
}

// WaitWork waits for a work that was started, at most so many microseconds; negative: without a
// limit. It fails as the work has.
func WaitWork(work unsafe.Pointer, microseconds int64) (done bool, code Code) {
	var d C.int32_t
	code = Code(C.ct_wait_work(work, C.int64_t(microseconds), &d))
	return d != 0, code
}

// FreeWork forgets a work, which ends all the same.
func FreeWork(work unsafe.Pointer) { C.ct_free_work(work) }

// Exchange sends a tensor to another process of the group, or fills it with what that one sends, and
// returns when it is done.
func Exchange(group unsafe.Pointer, t Tensor, peer int, sends bool) Code {
	return Code(C.ct_exchange(group, C.ct_tensor(t), C.int32_t(peer), C.int32_t(boolean(sends))))
}

// ReducerOptions are those of DistributedDataParallel.
type ReducerOptions struct {
	FirstBucketBytes, BucketBytes       int64
	FindUnused, BucketView, StaticGraph bool
	Compressed                          int32  // dtype in which gradients are sent; -1: theirs
	Sparse                              []int8 // for each parameter 1, if its gradients are sparse; nil: none is
}

// NewReducer makes a reducer of the gradients of params, each with its name.
func NewReducer(group unsafe.Pointer, params []Tensor, names []string, o ReducerOptions, reducer *unsafe.Pointer) Code {
	list := make([]*C.char, len(names)+1)
	for i, name := range names {
		list[i] = C.CString(name)
		defer C.free(unsafe.Pointer(list[i]))
	}
	c := C.ct_reducer_options{
		first_bucket_bytes: C.int64_t(o.FirstBucketBytes), bucket_bytes: C.int64_t(o.BucketBytes),
		find_unused: C.int8_t(boolean(o.FindUnused)), bucket_view: C.int8_t(boolean(o.BucketView)),
		static_graph: C.int8_t(boolean(o.StaticGraph)), compressed: C.int32_t(o.Compressed),
	}
	return Code(C.ct_new_reducer(group, handles(params), C.int64_t(len(params)), &list[0],
		(*C.int8_t)(unsafe.SliceData(o.Sparse)), &c, reducer))
}

// ReducerBeforeForward is called before a forward pass whose gradients are reduced.
func ReducerBeforeForward(reducer unsafe.Pointer) Code {
	return Code(C.ct_reducer_before_forward(reducer))
}

// ReducerBeforeBackward is called before its backward pass. Where the reducer looks for unused
// parameters, it does so from outputs.
func ReducerBeforeBackward(reducer unsafe.Pointer, outputs []Tensor) Code {
	if len(outputs) == 0 {
		return Code(C.ct_reducer_before_backward(reducer, nil, 0))
	}
	return Code(C.ct_reducer_before_backward(reducer, handles(outputs), C.int64_t(len(outputs))))
}

// ReducerAfterBackward is called after it. It reduces the first pass of a static graph.
func ReducerAfterBackward(reducer unsafe.Pointer) Code {
	return Code(C.ct_reducer_after_backward(reducer))
}

// FreeReducer takes the reducer's hooks from its parameters.
func FreeReducer(reducer unsafe.Pointer) { C.ct_free_reducer(reducer) }
