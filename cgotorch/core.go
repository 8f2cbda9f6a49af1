package cgotorch

// #include "load.h"
// #cgo noescape ct_free_tensors
// #cgo nocallback ct_free_tensors
// #cgo noescape ct_retain
// #cgo nocallback ct_retain
// #cgo noescape ct_use_count
// #cgo nocallback ct_use_count
// #cgo noescape ct_swap_scope
// #cgo nocallback ct_swap_scope
// #cgo noescape ct_get_info
// #cgo nocallback ct_get_info
// #cgo noescape ct_from_bytes
// #cgo nocallback ct_from_bytes
// #cgo noescape ct_to_bytes
// #cgo nocallback ct_to_bytes
// #cgo noescape ct_memory
// #cgo nocallback ct_memory
// #cgo noescape ct_set_data_
// #cgo nocallback ct_set_data_
// #cgo noescape ct_backward
// #cgo nocallback ct_backward
// #cgo noescape ct_grad_of
// #cgo nocallback ct_grad_of
// #cgo noescape ct_set_requires_grad
// #cgo nocallback ct_set_requires_grad
// #cgo noescape ct_grads
// #cgo nocallback ct_grads
// #cgo noescape ct_set_grad
// #cgo nocallback ct_set_grad
// #cgo noescape ct_zero_grad
// #cgo nocallback ct_zero_grad
// #cgo noescape ct_swap_grad_mode
// #cgo nocallback ct_swap_grad_mode
// #cgo noescape ct_grad_name
// #cgo nocallback ct_grad_name
// #cgo noescape ct_enter_autocast
// #cgo nocallback ct_enter_autocast
// #cgo noescape ct_leave_autocast
// #cgo nocallback ct_leave_autocast
// #cgo noescape ct_clip_grad_norm
// #cgo nocallback ct_clip_grad_norm
// #cgo noescape ct_clip_grad_value
// #cgo nocallback ct_clip_grad_value
// #cgo noescape ct_fused_adam
// #cgo nocallback ct_fused_adam
// #cgo noescape ct_fused_adagrad
// #cgo nocallback ct_fused_adagrad
// #cgo noescape ct_fused_sgd
// #cgo nocallback ct_fused_sgd
// #cgo noescape ct_find_operator
// #cgo nocallback ct_find_operator
// #cgo noescape ct_call
// #cgo nocallback ct_call
// #cgo noescape ct_schema_of
// #cgo nocallback ct_schema_of
// #cgo noescape ct_new_generator
// #cgo nocallback ct_new_generator
// #cgo noescape ct_default_generator
// #cgo nocallback ct_default_generator
// #cgo noescape ct_enter_generators
// #cgo nocallback ct_enter_generators
// #cgo noescape ct_generator_state
// #cgo nocallback ct_generator_state
import "C"

import (
	"runtime"
	"unsafe"
)

// --- memory.cc

// FreeTensors releases one reference to each tensor; nil entries are allowed. Any thread may call
// it.
func FreeTensors(ts []Tensor) {
	if len(ts) > 0 {
		C.ct_free_tensors(handles(ts), C.int64_t(len(ts)))
	}
}

// FreeTensor releases one reference.
func FreeTensor(t Tensor) { C.ct_free_tensors(&t, 1) }

// Retain takes another reference.
func Retain(t Tensor) { C.ct_retain(t) }

// UseCount returns the number of references that Go and libtorch hold.
func UseCount(t Tensor) int64 { return int64(C.ct_use_count(t)) }

// SwapScope sets the scope slot of the calling thread and returns the previous one.
func SwapScope(slot int64) int64 { return int64(C.ct_swap_scope(C.int64_t(slot))) }

// TuneMalloc makes the C heap keep large blocks instead of returning them to the kernel.
func TuneMalloc() { C.ct_tune_malloc() }

// TuneBernoulli makes the CPU draw dropout masks with vector instructions if it has them. The masks
// are the same as libtorch's. It must be called before the first draw.
func TuneBernoulli() { C.ct_tune_bernoulli() }

// VectorBernoulli reports whether dropout masks are drawn with vector instructions.
func VectorBernoulli() bool { return C.ct_vector_bernoulli() != 0 }

// EmptyCache returns cached device memory to the device.
func EmptyCache() Code { return Code(C.ct_empty_cache()) }

// --- tensor.cc

// Info describes a tensor.
type Info struct {
	DType, Device int32
	Sizes         []int64 // a copy
	Strides       []int64 // a copy; nil for a sparse tensor
	Dims          int
	Numel, Bytes  int64
	Offset        int64
	RequiresGrad  bool
	IsLeaf        bool
	IsContiguous  bool
	IsStrided     bool
}

// GetInfo reads everything about t in one call.
func GetInfo(t Tensor) Info {
	var c C.ct_info
	C.ct_get_info(t, &c)
	info := facts(&c)
	info.Sizes = copyOf(c.sizes, c.dims)
	if c.is_strided != 0 {
		info.Strides = copyOf(c.strides, c.dims)
	}
	return info
}

// GetFacts is like GetInfo but without sizes and strides, so that it does not allocate.
func GetFacts(t Tensor) Info {
	var c C.ct_info
	C.ct_get_info(t, &c)
	return facts(&c)
}

// Sizes returns a copy of the sizes.
func Sizes(t Tensor) []int64 {
	var c C.ct_info
	C.ct_get_info(t, &c)
	return copyOf(c.sizes, c.dims)
}

// Size returns the size of dimension dim, which may be negative to count from the end. ok is false
// if there is no such dimension.
func Size(t Tensor, dim int64) (size int64, ok bool) {
	var c C.ct_info
	C.ct_get_info(t, &c)
	n := int64(c.dims)
	if dim < 0 {
		dim += n
	}
	if dim < 0 || dim >= n {
		return 0, false
	}
	return unsafe.Slice((*int64)(unsafe.Pointer(c.sizes)), n)[dim], true
}

func facts(c *C.ct_info) Info {
	return Info{
		DType: int32(c.dtype), Device: int32(c.device), Dims: int(c.dims), Numel: int64(c.numel), Bytes: int64(c.bytes),
		Offset:       int64(c.offset),
		RequiresGrad: c.requires_grad != 0, IsLeaf: c.is_leaf != 0, IsContiguous: c.is_contiguous != 0,
		IsStrided: c.is_strided != 0,
	}
}

func copyOf(p *C.int64_t, n C.int64_t) []int64 {
	return append(make([]int64, 0, n), unsafe.Slice((*int64)(unsafe.Pointer(p)), int(n))...)
}

// FromBytes makes a CPU tensor from a row-major copy of data.
func FromBytes(data []byte, sizes []int64, dtype int32, pinned bool, out *Tensor) Code {
	return Code(C.ct_from_bytes(unsafe.Pointer(unsafe.SliceData(data)), C.int64_t(len(data)), ints(sizes),
		C.int64_t(len(sizes)), C.int32_t(dtype), boolean(pinned), out))
}

// ToBytes copies t in row-major order into data, whose length must be the size of t in bytes.
func ToBytes(t Tensor, data []byte) Code {
	return Code(C.ct_to_bytes(t, unsafe.Pointer(unsafe.SliceData(data)), C.int64_t(len(data))))
}

// Memory returns the address of the elements of a contiguous CPU tensor, or nil for any other
// tensor. If write is true, the access counts as an in-place change of the tensor.
func Memory(t Tensor, write bool) unsafe.Pointer { return C.ct_memory(t, boolean(write)) }

// SetData_ makes t share the memory of value, keeping its identity for autograd and optimizers.
func SetData_(t, value Tensor) Code { return Code(C.ct_set_data_(t, value)) }

// --- autograd.cc

// Backward runs backward from ts; gradients may be nil for scalars.
func Backward(ts, gradients []Tensor, retainGraph, createGraph bool) Code {
	return Code(C.ct_backward(handles(ts), C.int64_t(len(ts)), handles(gradients), boolean(retainGraph),
		boolean(createGraph)))
}

// GradOf writes the gradients of outputs with respect to inputs to out.
func GradOf(outputs, gradients, inputs []Tensor, retainGraph, createGraph, allowUnused bool, out []Tensor) Code {
	return Code(C.ct_grad_of(handles(outputs), C.int64_t(len(outputs)), handles(gradients), handles(inputs),
		C.int64_t(len(inputs)),
		boolean(retainGraph), boolean(createGraph), boolean(allowUnused), handles(out)))
}

// SetRequiresGrad sets requires_grad of a leaf.
func SetRequiresGrad(t Tensor, on bool) Code { return Code(C.ct_set_requires_grad(t, boolean(on))) }

// Grads writes a new reference to the gradient of each tensor to out, or nil if there is none.
func Grads(ts, out []Tensor) Code {
	return Code(C.ct_grads(handles(ts), C.int64_t(len(ts)), handles(out)))
}

// SetGrad replaces the gradient of t; nil removes it.
func SetGrad(t, grad Tensor) Code { return Code(C.ct_set_grad(t, grad)) }

// ZeroGrad removes the gradients of ts, or sets them to zero.
func ZeroGrad(ts []Tensor, setToNone bool) Code {
	return Code(C.ct_zero_grad(handles(ts), C.int64_t(len(ts)), boolean(setToNone)))
}

// SwapGradMode sets the grad mode of the calling thread and returns the previous one.
func SwapGradMode(on bool) bool { return C.ct_swap_grad_mode(boolean(on)) != 0 }

// EnterInference turns inference mode on for the calling thread. LeaveInference must be called on
// the same thread; nested calls are undone in reverse order.
func EnterInference() unsafe.Pointer { return C.ct_enter_inference() }

// LeaveInference undoes EnterInference.
func LeaveInference(guard unsafe.Pointer) { C.ct_leave_inference(guard) }

// InferenceEnabled reports whether the calling thread is in inference mode.
func InferenceEnabled() bool { return C.ct_inference_enabled() != 0 }

// GradName returns the name of the node that computed t, such as "AddBackward0", or the empty
// string if t has no history.
func GradName(t Tensor) (string, Code) {
	var c *C.char
	code := Code(C.ct_grad_name(t, &c))
	if code < 0 || c == nil {
		return "", code
	}
	defer C.ct_free_buffer(unsafe.Pointer(c))
	return C.GoString(c), code
}

// --- autocast.cc

// EnterAutocast turns autocast on or off for the calling thread and sets saved for LeaveAutocast.
func EnterAutocast(deviceType int32, enabled bool, dtype int32, cache bool, saved *int64) Code {
	return Code(C.ct_enter_autocast(C.int32_t(deviceType), boolean(enabled), C.int32_t(dtype), boolean(cache),
		(*C.int64_t)(saved)))
}

// LeaveAutocast restores the state that EnterAutocast saved.
func LeaveAutocast(deviceType int32, saved int64) Code {
	return Code(C.ct_leave_autocast(C.int32_t(deviceType), C.int64_t(saved)))
}

// --- random.cc

// ManualSeed seeds the default generators of all devices.
func ManualSeed(seed uint64) Code { return Code(C.ct_manual_seed(C.uint64_t(seed))) }

// NewGenerator makes a generator that FreeGenerator frees.
func NewGenerator(device int32, seed uint64, out *Generator) Code {
	return Code(C.ct_new_generator(C.int32_t(device), C.uint64_t(seed), out))
}

// DefaultGenerator makes a handle to a device's default generator, which FreeGenerator frees.
func DefaultGenerator(device int32, out *Generator) Code {
	return Code(C.ct_default_generator(C.int32_t(device), out))
}

// FreeGenerator frees a handle.
func FreeGenerator(g Generator) { C.ct_free_generator(g) }

// HasOwnGenerators reports whether a thread can have its own default generators, which needs
// libcgotorch_generators.
func HasOwnGenerators() bool { return C.ct_has_own_generators() != 0 }

// EnterGenerators replaces the default generators of the calling thread, each on its generator's
// device, and sets entered for LeaveGenerators.
func EnterGenerators(generators []Generator, entered *unsafe.Pointer) Code {
	return Code(C.ct_enter_generators((*C.ct_generator)(unsafe.Pointer(unsafe.SliceData(generators))),
		C.int64_t(len(generators)), entered))
}

// LeaveGenerators restores the generators that EnterGenerators replaced.
func LeaveGenerators(entered unsafe.Pointer) { C.ct_leave_generators(entered) }

// GeneratorSeed seeds g.
func GeneratorSeed(g Generator, seed uint64) Code {
	return Code(C.ct_generator_seed(g, C.uint64_t(seed)))
}

// GeneratorState writes the state of g to out, as a uint8 tensor.
func GeneratorState(g Generator, out *Tensor) Code { return Code(C.ct_generator_state(g, out)) }

// SetGeneratorState restores the state of g.
func SetGeneratorState(g Generator, state Tensor) Code {
	return Code(C.ct_set_generator_state(g, state))
}

// --- optimizer.cc

// ClipGradNorm computes the total norm of the gradients of params and, with scale set, limits it to
// maxNorm.
func ClipGradNorm(params []Tensor, maxNorm, normType float64, scale bool, total *Tensor) Code {
	return Code(C.ct_clip_grad_norm(handles(params), C.int64_t(len(params)), C.double(maxNorm), C.double(normType),
		boolean(scale), total))
}

// ClipGradValue limits every element of the gradients of params to [-value, value].
func ClipGradValue(params []Tensor, value float64) Code {
	return Code(C.ct_clip_grad_value(handles(params), C.int64_t(len(params)), C.double(value)))
}

// OptimizerOptions are the settings of a fused optimizer step. Each kernel reads only its own
// settings.
type OptimizerOptions struct {
	LR, Beta1, Beta2, Eps, WeightDecay     float64
	Momentum, Dampening, LRDecay           float64
	AMSGrad, Maximize, Nesterov, Decoupled bool
	FoundInf                               Tensor // nil means none
}

func (o *OptimizerOptions) c() C.ct_optimizer_options {
	return C.ct_optimizer_options{
		lr: C.double(o.LR), beta1: C.double(o.Beta1), beta2: C.double(o.Beta2), eps: C.double(o.Eps),
		weight_decay: C.double(o.WeightDecay),
		momentum:     C.double(o.Momentum), dampening: C.double(o.Dampening),
		lr_decay: C.double(o.LRDecay), amsgrad: C.int8_t(boolean(o.AMSGrad)),
		maximize: C.int8_t(boolean(o.Maximize)),
		nesterov: C.int8_t(boolean(o.Nesterov)), decoupled: C.int8_t(boolean(o.Decoupled)),
		found_inf: C.ct_tensor(o.FoundInf),
	}
}

// FusedAdam makes one step of Adam, or of AdamW if o.Decoupled is set, for the params that have a
// gradient.
func FusedAdam(params, expAvgs, expAvgSqs, maxExpAvgSqs, steps []Tensor, o *OptimizerOptions) Code {
	c := o.c()
	return Code(C.ct_fused_adam(handles(params), handles(expAvgs), handles(expAvgSqs), handles(maxExpAvgSqs),
		handles(steps), C.int64_t(len(params)), &c))
}

// FusedAdagrad makes one step of Adagrad for the params that have a gradient.
func FusedAdagrad(params, sums, steps []Tensor, o *OptimizerOptions) Code {
	c := o.c()
	return Code(C.ct_fused_adagrad(handles(params), handles(sums), handles(steps), C.int64_t(len(params)), &c))
}

// FusedSGD makes one step of SGD for the params that have a gradient.
func FusedSGD(params, momentumBuffers []Tensor, firstStep bool, o *OptimizerOptions) Code {
	c := o.c()
	return Code(C.ct_fused_sgd(handles(params), handles(momentumBuffers), C.int64_t(len(params)), boolean(firstStep),
		&c))
}

// --- call.cc

// The kinds of a [Value].
const (
	None          = int64(C.CT_NONE)
	TensorValue   = int64(C.CT_TENSOR)
	IntValue      = int64(C.CT_INT)
	DoubleValue   = int64(C.CT_DOUBLE)
	BoolValue     = int64(C.CT_BOOL)
	StringValue   = int64(C.CT_STRING)
	IntsValue     = int64(C.CT_INTS)
	DoublesValue  = int64(C.CT_DOUBLES)
	TensorsValue  = int64(C.CT_TENSORS)
	BoolsValue    = int64(C.CT_BOOLS)
	DTypeValue    = int64(C.CT_DTYPE)
	DeviceValue   = int64(C.CT_DEVICE)
	GeneratorKind = int64(C.CT_GENERATOR)
)

// Value is a boxed argument or result. Pointer holds a tensor, a generator, or the first element of
// a list of Count.
type Value struct {
	Kind    int64
	Count   int64
	Number  int64
	Pointer unsafe.Pointer
}

// TakeInts returns a copy of a result that is a list of integers, and frees the list.
func (v *Value) TakeInts() []int64 {
	out := append([]int64(nil), unsafe.Slice((*int64)(v.Pointer), int(v.Count))...)
	C.ct_free_buffer(v.Pointer)
	return out
}

// TakeTensors returns the handles of a result that is a list of tensors, and frees the list.
func (v *Value) TakeTensors() []Tensor {
	return (&TensorList{v.Pointer, v.Count}).Take()
}

// FindOperator looks up an operator of the dispatcher.
func FindOperator(name, overload string, handle *int64) Code {
	return Code(C.ct_find_operator(text(name), C.int64_t(len(name)), text(overload), C.int64_t(len(overload)),
		(*C.int64_t)(handle)))
}

// Call calls an operator with boxed arguments; missing ones take the schema's defaults. Go memory
// that the arguments refer to is pinned during the call.
func Call(handle int64, args, results []Value, count *int64) Code {
	var pin runtime.Pinner
	for i := range args {
		if args[i].Count > 0 && args[i].Pointer != nil {
			pin.Pin(args[i].Pointer)
		}
	}
	code := Code(C.ct_call(C.int64_t(handle), (*C.ct_value)(unsafe.Pointer(unsafe.SliceData(args))),
		C.int64_t(len(args)),
		(*C.ct_value)(unsafe.Pointer(unsafe.SliceData(results))), C.int64_t(len(results)), (*C.int64_t)(count)))
	pin.Unpin()
	return code
}

// SchemaOf returns the text of an operator's schema.
func SchemaOf(handle int64) (string, Code) {
	var c *C.char
	code := Code(C.ct_schema_of(C.int64_t(handle), &c))
	if code < 0 {
		return "", code
	}
	defer C.ct_free_buffer(unsafe.Pointer(c))
	return C.GoString(c), code
}

// --- context.cc

// SetThreads sets the number of threads within one operator.
func SetThreads(n int) { C.ct_set_threads(C.int32_t(n)) }

// Threads returns the number of threads within one operator.
func Threads() int { return int(C.ct_threads()) }

// CUDADevices returns the number of usable CUDA devices.
func CUDADevices() int { return int(C.ct_cuda_devices()) }

// SetDeterministic makes libtorch refuse algorithms without reproducible results, or only warn
// about them.
func SetDeterministic(on, warnOnly bool) Code {
	return Code(C.ct_set_deterministic(boolean(on), boolean(warnOnly)))
}

// SetFloat32Precision is torch.set_float32_matmul_precision.
func SetFloat32Precision(precision string) Code {
	return Code(C.ct_set_float32_precision(text(precision), C.int64_t(len(precision))))
}

// CPUCapability names the instruction set that libtorch's kernels use.
func CPUCapability() string { return C.GoString(C.ct_cpu_capability()) }

// --- testing.cc

// Mend, passed to ThrowForTest, resets the state in which a device has failed.
const Mend = int(C.CT_MEND)

// ThrowForTest raises one kind of C++ exception inside the shim. The operator
// gotrainer::throw_for_test does so in the dispatcher, or in a backward pass.
func ThrowForTest(kind int) Code { return Code(C.ct_throw_for_test(C.int32_t(kind))) }
