// The C interface of libcgotorch, the shim between Go and libtorch. It is plain C: neither libtorch nor a C++
// compiler is needed to build against it. Go reaches it through the table of functions that ct_get returns.
//
// Rules, the same for every function here and in zz_ops.h:
//   - A ct_code is >= 0 on success and then names the calling thread's scope slot (0: no scope), in which Go
//     registers the results. It is < 0 on failure: minus the address of a ct_error that the caller frees.
//   - No C++ exception leaves, no pointer that was handed in is kept, results are written only on success.
//   - A ct_tensor owns one reference to an at::TensorImpl; NULL is an undefined tensor. Arguments are borrowed.
//   - ct_x_ (trailing underscore) changes its first argument; all others only read their arguments.
#pragma once
#include <stddef.h>
#include <stdint.h>
#ifdef __cplusplus
extern "C" {
#endif

typedef int64_t ct_code;
typedef void *ct_tensor;
typedef void *ct_generator;

enum {
  CT_ERR_INVALID = 1,
  CT_ERR_OUT_OF_MEMORY,
  CT_ERR_INDEX,
  CT_ERR_TYPE,
  CT_ERR_VALUE,
  CT_ERR_NOT_SUPPORTED,
  CT_ERR_INTERNAL,
  CT_ERR_DEVICE
};
enum { CT_MEND = -2 }; // of throw_for_test: forgets that a device has failed
typedef struct {
  int32_t code;
  int32_t length;
  char text[]; // libtorch's message without its C++ backtrace, NUL terminated
} ct_error;

typedef struct {
  int64_t value;
  int64_t present;
} ct_optional_int;
typedef struct {
  double value;
  int64_t present;
} ct_optional_double;
enum { CT_SCALAR_NONE, CT_SCALAR_INT, CT_SCALAR_DOUBLE, CT_SCALAR_BOOL };
typedef struct {
  int64_t bits; // the integer, or the bits of the double
  int64_t kind;
} ct_scalar;
typedef struct {
  ct_tensor *items; // free with free_buffer
  int64_t count;
} ct_tensor_list;

// A boxed argument or result: a tagged value, for operators without a typed binding.
enum {
  CT_NONE,
  CT_TENSOR,
  CT_INT,
  CT_DOUBLE,
  CT_BOOL,
  CT_STRING,
  CT_INTS,
  CT_DOUBLES,
  CT_TENSORS,
  CT_BOOLS,
  CT_DTYPE,
  CT_DEVICE,
  CT_GENERATOR
};
typedef struct {
  int64_t kind;
  int64_t count;  // of a list or string
  int64_t number; // CT_INT, CT_BOOL, CT_DTYPE, CT_DEVICE; the bits of a CT_DOUBLE
  void *pointer;  // a tensor, generator, string or list; lists in results are freed with free_buffer
} ct_value;

typedef struct {
  int32_t dtype;  // c10::ScalarType
  int32_t device; // type << 8 | (index & 0xff)
  int64_t dims;
  const int64_t *sizes;   // valid while the tensor lives and is not resized
  const int64_t *strides; // the same
  int64_t numel;
  int64_t bytes; // numel * element size
  int64_t offset;
  int8_t requires_grad, is_leaf, is_contiguous, is_strided;
} ct_info;

typedef struct {
  double lr, beta1, beta2, eps, weight_decay;
  double momentum, dampening; // SGD
  double lr_decay;            // Adagrad
  int8_t amsgrad, maximize, nesterov, decoupled;
  ct_tensor found_inf; // float32, without dimensions, on the device of the parameters: where it is 1 nothing changes; NULL: none
} ct_optimizer_options;

// What a hook does with each gradient that reaches its tensor, in this order; zero: nothing.
typedef struct {
  double scale, clip_norm, clip_value;
  int8_t scaled, record_norm, record_gradient;
} ct_hook_options;

// A node of the graph whose backward is written in Go.
enum { CT_NODE_FUNCTION = 1, CT_NODE_CHECKPOINT };
// What a backward pass asks of Go when it reaches such a node; all lists hold new references.
typedef struct {
  int64_t node; // 0: the pass is over
  int64_t grad_mode;
  ct_tensor_list inputs, outputs, gradients; // gradients: one for each output, NULL where there is none
} ct_request;

// Makes the backend of a GPU's tensors. store is a c10::intrusive_ptr<c10d::Store>; backend becomes a new
// c10::intrusive_ptr<c10d::Backend>, which the caller deletes.
typedef ct_code (*ct_new_backend)(void *store, int32_t rank, int32_t world, int64_t timeout_ms, int32_t device, void **backend);

// How a process joins a group of gloo.
typedef struct {
  const char *host; // where the store is, an address of rank 0's machine
  int32_t port;
  int32_t listener;       // rank 0: a socket that listens there, which the store takes over; others: -1
  const char *name;       // of the group, the same for all
  const char *registered; // by which operators of this process find it
  const char *address;    // of this machine, by which the others reach it; or
  const char *interface;  // its network interface; empty: address
  int32_t rank, world;
  int64_t join_ms, timeout_ms; // to connect; for a collective
  int8_t checked;              // collectives are compared before each: ProcessGroupWrapper
  int8_t fake;                 // there are no others: every collective is answered as if each had what this process has
  int32_t device;              // the GPU whose tensors new_backend's result moves
  ct_new_backend new_backend;  // NULL: gloo alone
} ct_group_options;

// Those of DistributedDataParallel.
typedef struct {
  int64_t first_bucket_bytes, bucket_bytes;
  int8_t find_unused, bucket_view, static_graph;
  int32_t compressed; // the dtype in which gradients are sent; -1: theirs
} ct_reducer_options;

// What the caching allocator of a GPU has given out, in bytes, and how often it had to ask again or gave up.
typedef struct {
  int64_t allocated, allocated_peak, active, active_peak, reserved, reserved_peak, requested, requested_peak;
  int64_t retries, out_of_memory, device_allocations;
} ct_cuda_memory;

// A c10::Stream. Nothing owns it: libtorch's pools do.
typedef struct {
  int64_t id, device, type;
} ct_stream;

// The switches of at::Context, torch.backends in Python.
enum {
  CT_CUDNN_ENABLED,
  CT_CUDNN_BENCHMARK,
  CT_CUDNN_BENCHMARK_LIMIT,
  CT_CUDNN_DETERMINISTIC,
  CT_CUDNN_TF32,
  CT_CUBLAS_TF32,
  CT_FLASH_ATTENTION,
  CT_EFFICIENT_ATTENTION,
  CT_MATH_ATTENTION,
  CT_CUDNN_ATTENTION
};

// Where the tensors of a graph's capture get their memory: MempoolId_t. Zero: a pool of its own.
typedef struct {
  uint64_t first, second;
} ct_pool;

// CUDA graphs, and what else needs CUDA's headers: libcgotorch_cuda, a library of its own. A graph belongs to one device.
typedef struct ct_cuda {
  const char *abi; // must equal CT_ABI
  int64_t size;    // sizeof(ct_cuda)
  ct_code (*new_graph)(int32_t index, void **graph);
  ct_code (*register_generator)(void *graph, ct_generator g); // before the capture; draws continue where it is at each replay
  ct_code (*begin_capture)(void *graph, const ct_pool *pool); // from here on this thread's calls are recorded, not executed
  ct_code (*end_capture)(void *graph, int32_t failed);        // on the thread that began; failed: what was recorded is dropped
  ct_code (*replay)(void *graph);                             // on the current stream; the host does not wait
  ct_code (*pool)(void *graph, ct_pool *out);                 // that it was captured with
  ct_code (*reset)(void *graph);                              // gives its memory back; it may be captured again
  void (*free_graph)(void *graph);
  ct_code (*set_sync_debug_mode)(int32_t mode); // of calls that wait for the device, 0: allowed, 1: warned of, 2: refused
  ct_code (*sync_debug_mode)(int32_t *mode);
  ct_new_backend new_nccl; // NULL: the library was built without nccl.h
} ct_cuda;

#include "zz_ops.h"

typedef struct ct_core {
  const char *abi; // must equal CT_ABI
  int64_t size;    // sizeof(ct_core)
  const char *torch_version;
  const ct_ops *ops;

  // memory.cc
  void (*free_error)(ct_error *);
  void (*free_buffer)(void *);
  void (*free_tensors)(const ct_tensor *items, int64_t count); // any thread, NULL entries allowed, cannot fail
  void (*retain)(ct_tensor t);                                 // one more reference
  int64_t (*use_count)(ct_tensor t);
  int64_t (*swap_scope)(int64_t slot); // sets this thread's scope slot, returns the former one
  void (*tune_malloc)(void);           // large blocks from the heap, never trimmed
  ct_code (*empty_cache)(void);
  ct_code (*caught)(void); // inside a C++ catch: the error record of the exception, for libcgotorch_cuda

  // tensor.cc
  void (*info)(ct_tensor t, ct_info *out);
  void (*places)(const ct_tensor *items, int64_t count, int64_t *out); // where the memory of each lies; odd: it requires a gradient
  ct_code (*from_bytes)(const void *data, int64_t bytes, const int64_t *sizes, int64_t dims, int32_t dtype, int32_t pinned, ct_tensor *out);
  ct_code (*to_bytes)(ct_tensor t, void *data, int64_t bytes); // row-major copy on the host
  void *(*memory)(ct_tensor t, int32_t write); // the bytes of a contiguous CPU tensor, to be changed or not; NULL: it is none
  ct_code (*set_data_)(ct_tensor t, ct_tensor value);

  // autograd.cc
  ct_code (*backward)(const ct_tensor *tensors, int64_t count, const ct_tensor *gradients, int32_t retain_graph, int32_t create_graph);
  ct_code (*grad_of)(const ct_tensor *outputs, int64_t count, const ct_tensor *gradients, const ct_tensor *inputs, int64_t inputs_count,
                     int32_t retain_graph, int32_t create_graph, int32_t allow_unused, ct_tensor *out);
  ct_code (*set_requires_grad)(ct_tensor t, int32_t on);
  ct_code (*grads)(const ct_tensor *tensors, int64_t count, ct_tensor *out); // NULL where there is none
  ct_code (*set_grad)(ct_tensor t, ct_tensor grad);
  ct_code (*set_grads)(const ct_tensor *tensors, const ct_tensor *grads, int64_t count); // NULL removes it
  ct_code (*zero_grad)(const ct_tensor *tensors, int64_t count, int32_t set_to_none);
  int32_t (*swap_grad_mode)(int32_t on);
  void *(*enter_inference)(void);
  void (*leave_inference)(void *guard);
  int32_t (*inference_enabled)(void);
  ct_code (*grad_name)(ct_tensor t, char **text); // "AddBackward0", NULL without a history; free with free_buffer

  ct_code (*retain_grad)(ct_tensor t);
  int32_t (*retains_grad)(ct_tensor t);
  ct_code (*add_hook)(ct_tensor t, const ct_hook_options *o, void **hook);
  ct_code (*hook_results)(void *hook, int32_t take_norms, ct_tensor *norms, ct_tensor *gradient); // take_norms: those since the last time
  void (*free_hook)(void *hook, int32_t remove);                                                  // remove: from its tensor too
  void (*swap_anomaly)(int32_t *on, int32_t *check_nan);                                          // process-wide

  // deferred.cc: one pass at a time for each session; all of its calls come from one thread
  ct_code (*defer)(int64_t node, int32_t kind, const ct_tensor *inputs, int64_t count, const ct_tensor *outputs, int64_t outputs_count,
                   ct_tensor *results);                        // outputs as results of the node
  ct_code (*add_after_gradient)(ct_tensor t, int64_t node);    // a pass asks Go when it has added to the gradient of the leaf t
  ct_code (*remove_after_gradient)(ct_tensor t, int64_t node); // nothing where there is none
  int64_t (*dead_nodes)(int64_t *nodes, int64_t capacity);     // those that no graph holds any more, each told once
  ct_code (*start_backward)(const ct_tensor *outputs, int64_t count, const ct_tensor *gradients, const ct_tensor *inputs,
                            int64_t inputs_count, int32_t retain_graph, int32_t create_graph, int32_t allow_unused, void **session);
  ct_code (*next_request)(void *session, ct_request *out);
  void (*answer)(void *session, const ct_tensor *tensors, int64_t count, const char *failure,
                 int64_t failure_length);                    // a failure ends the pass
  ct_code (*finish_backward)(void *session, ct_tensor *out); // frees the session; gradients of inputs; fails as the pass did

  // profiler.cc
  ct_code (*start_profiler)(int32_t shapes, int32_t memory);
  ct_code (*stop_profiler)(const char *path, int64_t length); // writes the Chrome trace

  // autocast.cc
  ct_code (*enter_autocast)(int32_t device_type, int32_t enabled, int32_t dtype, int32_t cache, int64_t *saved);
  ct_code (*leave_autocast)(int32_t device_type, int64_t saved);

  // random.cc
  ct_code (*manual_seed)(uint64_t seed);
  ct_code (*new_generator)(int32_t device, uint64_t seed, ct_generator *out);
  ct_code (*default_generator)(int32_t device, ct_generator *out);
  void (*free_generator)(ct_generator g);
  ct_code (*generator_seed)(ct_generator g, uint64_t seed);
  ct_code (*generator_state)(ct_generator g, ct_tensor *out);
  ct_code (*set_generator_state)(ct_generator g, ct_tensor state);
  int32_t (*has_own_generators)(void); // whether a thread can have its own
  // gives this thread generators in place of the default ones of their devices, until leave_generators
  ct_code (*enter_generators)(const ct_generator *generators, int64_t count, void **entered);
  void (*leave_generators)(void *entered);

  // bernoulli.cc
  void (*tune_bernoulli)(void);      // dropout masks by vector instructions; before the first draw, and once
  int32_t (*vector_bernoulli)(void); // whether they are

  // optimizer.cc: each one call over all parameters; those without a gradient are left out
  ct_code (*clip_grad_norm)(const ct_tensor *params, int64_t count, double max_norm, double norm_type, int32_t scale, ct_tensor *total);
  ct_code (*clip_grad_value)(const ct_tensor *params, int64_t count, double value);
  ct_code (*fused_adam)(const ct_tensor *params, const ct_tensor *exp_avgs, const ct_tensor *exp_avg_sqs, const ct_tensor *max_exp_avg_sqs,
                        const ct_tensor *steps, int64_t count, const ct_optimizer_options *o);
  ct_code (*fused_adagrad)(const ct_tensor *params, const ct_tensor *sums, const ct_tensor *steps, int64_t count,
                           const ct_optimizer_options *o);
  ct_code (*fused_sgd)(const ct_tensor *params, const ct_tensor *momentum_buffers, int64_t count, int32_t first_step,
                       const ct_optimizer_options *o);

  // group.cc
  ct_code (*new_group)(const ct_group_options *o, void **group);        // returns when all have joined
  void (*abort_group)(void *group, const char *reason, int64_t length); // ends what is waited for, on any thread
  ct_code (*shutdown_group)(void *group);                               // returns when what a GPU has under way in it is done
  void (*free_group)(void *group);
  ct_code (*broadcast_coalesced)(void *group, const ct_tensor *tensors, int64_t count, int32_t root);
  // Starts a reduction in place; op is a c10d::ReduceOp. Processes whose labels differ take nothing of each other.
  ct_code (*start_all_reduce)(void *group, ct_tensor t, int32_t op, uint32_t label, void **work);
  ct_code (*wait_work)(void *work, int64_t microseconds, int32_t *done); // fails as the work has; microseconds < 0: without a limit
  void (*free_work)(void *work);
  ct_code (*exchange)(void *group, ct_tensor t, int32_t peer, int32_t sends); // sends t to a process, or fills it with what that one sends
  ct_code (*new_reducer)(void *group, const ct_tensor *params, int64_t count, const char *const *names,
                         const int8_t *sparse, // for each, whether its gradients are; NULL: none
                         const ct_reducer_options *o, void **reducer);
  ct_code (*reducer_before_forward)(void *reducer);
  ct_code (*reducer_before_backward)(void *reducer, const ct_tensor *outputs, int64_t count); // outputs are searched for unused parameters
  ct_code (*reducer_after_backward)(void *reducer);
  void (*free_reducer)(void *reducer);

  // call.cc
  ct_code (*find_operator)(const char *name, int64_t name_length, const char *overload, int64_t overload_length, int64_t *handle);
  ct_code (*call)(int64_t handle, const ct_value *args, int64_t count, ct_value *results, int64_t capacity, int64_t *result_count);
  ct_code (*schema_of)(int64_t handle, char **text); // free with free_buffer

  // context.cc
  void (*set_threads)(int32_t n);
  int32_t (*threads)(void);
  int32_t (*cuda_devices)(void); // 0 without a CUDA build or device
  ct_code (*set_deterministic)(int32_t on, int32_t warn_only);
  ct_code (*set_float32_precision)(const char *precision, int64_t length);
  const char *(*cpu_capability)(void);

  // cuda.cc: needs no header of CUDA's; without a CUDA build or GPU all of it fails but the switches
  ct_code (*cuda_memory)(int32_t index, ct_cuda_memory *out);
  ct_code (*cuda_memory_info)(int32_t index, int64_t *free, int64_t *total);
  ct_code (*cuda_reset_peak)(int32_t index);
  ct_code (*cuda_synchronize)(int32_t index);
  ct_code (*cuda_swap_device)(int32_t index, int32_t *former); // of this thread
  ct_code (*cuda_new_stream)(int32_t index, int32_t high_priority, ct_stream *out);
  ct_code (*cuda_current_stream)(int32_t index, ct_stream *out);
  ct_code (*cuda_swap_stream)(const ct_stream *stream, ct_stream *former); // of this thread, on the stream's device
  ct_code (*cuda_stream_ready)(const ct_stream *stream, int32_t *ready);
  ct_code (*cuda_synchronize_stream)(const ct_stream *stream);
  ct_code (*cuda_record_stream)(ct_tensor t, const ct_stream *stream); // t's memory is in use until this point of the stream
  ct_code (*cuda_new_event)(int32_t timing, void **event);
  ct_code (*cuda_record_event)(void *event, const ct_stream *stream);
  ct_code (*cuda_wait_event)(void *event, const ct_stream *stream); // the stream waits, the host does not
  ct_code (*cuda_event_ready)(void *event, int32_t *ready);
  ct_code (*cuda_synchronize_event)(void *event);
  ct_code (*cuda_elapsed)(void *from, void *to, double *milliseconds);
  void (*cuda_free_event)(void *event);
  ct_code (*cuda_versions)(int64_t *cudart, int64_t *cudnn); // 13000; 91900, 0 without it
  ct_code (*set_context)(int32_t what, int32_t value);       // one of CT_CUDNN_ENABLED and the next
  ct_code (*context)(int32_t what, int32_t *value);
  ct_code (*float32_precision)(const char *backend, const char *op, const char **precision); // NUL terminated
  ct_code (*set_float32_precision_of)(const char *backend, const char *op, const char *precision);

  // memory.cc
  int32_t (*device_failed)(void); // a GPU has failed in this process: whatever lies there is lost

  // testing.cc
  ct_code (*throw_for_test)(int32_t kind); // raises one kind of C++ exception, for the tests of the boundary

  const ct_cuda *recorder; // recorder.cc: graphs on a CPU, for tests

  // group.cc: what became of the last backend that the recorder's new_nccl has made
  void (*pretended_nccl)(int64_t *device, int64_t *aborted, int64_t *shut_down);
} ct_core;

#ifdef __cplusplus
}
#endif
