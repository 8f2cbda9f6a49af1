package cgotorch

// #include <stdlib.h>
// #include "load.h"
import "C"

import (
	"time"
	"unsafe"
)

// --- group.cc

// GroupOptions say how a process joins a gloo process group.
type GroupOptions struct {
	Host               string // of the store, on the machine of rank 0
	Port               int
	Listener           int    // rank 0: the socket of the store, which the store takes over; otherwise -1
	Name               string // of the group, the same for all processes
	Registered         string // name under which operators of this process find the group
	Address, Interface string // of this process; the interface takes precedence
	Rank, World        int
	Join, Timeout      time.Duration

	Checked bool // collectives are compared before each call: c10d's ProcessGroupWrapper
	Fake    bool // other processes do not exist; they are assumed to have the same tensors
	NCCL    bool // NCCL moves the tensors of the GPU Device; needs [HasNCCL]
	Device  int
}

// NewGroup joins a group and returns when all processes have joined.
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

// AbortGroup ends all pending calls of a group and refuses later ones, with the given reason. Any
// thread may call it.
func AbortGroup(group unsafe.Pointer, reason string) {
	text := C.CString(reason)
	defer C.free(unsafe.Pointer(text))
	C.ct_abort_group(group, text, C.int64_t(len(reason)))
}

// ShutdownGroup waits until the pending work of a group on a GPU is done, then closes its
// connections.
func ShutdownGroup(group unsafe.Pointer) Code { return Code(C.ct_shutdown_group(group)) }

// HasNCCL reports whether there is a libcgotorch_cuda that was built with nccl.h, or
// [PretendGraphs] was called.
func HasNCCL() bool { return C.ct_new_nccl() != nil }

// PretendedNCCL returns, under [PretendGraphs], the GPU that the last group was made for, and how
// often it was aborted and shut down.
func PretendedNCCL() (device, aborted, shutDown int64) {
	var d, a, s C.int64_t
	C.ct_pretended_nccl(&d, &a, &s)
	return int64(d), int64(a), int64(s)
}

// FreeGroup frees a group. No reducer may be using it.
func FreeGroup(group unsafe.Pointer) { C.ct_free_group(group) }

// BroadcastCoalesced copies the values of root's tensors to the other processes, in few messages.
func BroadcastCoalesced(group unsafe.Pointer, ts []Tensor, root int) Code {
	return Code(C.ct_broadcast_coalesced(group, handles(ts), C.int64_t(len(ts)), C.int32_t(root)))
}

// StartAllReduce starts an in-place reduction of t with a c10d::ReduceOp. Processes with different
// labels do not combine their values.
func StartAllReduce(group unsafe.Pointer, t Tensor, op int, label uint32, work *unsafe.Pointer) Code {
	return Code(C.ct_start_all_reduce(group, C.ct_tensor(t), C.int32_t(op), C.uint32_t(label), work))
}

// WaitWork waits for work that was started, at most for the given number of microseconds; a
// negative number means no limit. It fails if the work has failed.
func WaitWork(work unsafe.Pointer, microseconds int64) (done bool, code Code) {
	var d C.int32_t
	code = Code(C.ct_wait_work(work, C.int64_t(microseconds), &d))
	return d != 0, code
}

// FreeWork drops the handle of work, which continues nevertheless.
func FreeWork(work unsafe.Pointer) { C.ct_free_work(work) }

// Exchange sends a tensor to another process of the group or receives one from it, and returns when
// that is done.
func Exchange(group unsafe.Pointer, t Tensor, peer int, sends bool) Code {
	return Code(C.ct_exchange(group, C.ct_tensor(t), C.int32_t(peer), C.int32_t(boolean(sends))))
}

// ReducerOptions are options of DistributedDataParallel.
type ReducerOptions struct {
	FirstBucketBytes, BucketBytes       int64
	FindUnused, BucketView, StaticGraph bool
	Compressed                          int32  // dtype in which gradients are sent; -1 means their own
	Sparse                              []int8 // 1 for each parameter whose gradients are sparse; nil means none
}

// NewReducer makes a reducer of the gradients of params; names are the names of the parameters.
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

// ReducerBeforeBackward is called before the backward pass. If the reducer looks for unused
// parameters, it does so starting from outputs.
func ReducerBeforeBackward(reducer unsafe.Pointer, outputs []Tensor) Code {
	if len(outputs) == 0 {
		return Code(C.ct_reducer_before_backward(reducer, nil, 0))
	}
	return Code(C.ct_reducer_before_backward(reducer, handles(outputs), C.int64_t(len(outputs))))
}

// ReducerAfterBackward is called after the backward pass. For a static graph, it reduces the
// gradients of the first pass.
func ReducerAfterBackward(reducer unsafe.Pointer) Code {
	return Code(C.ct_reducer_after_backward(reducer))
}

// FreeReducer removes the reducer's hooks from its parameters and frees it.
func FreeReducer(reducer unsafe.Pointer) { C.ct_free_reducer(reducer) }
