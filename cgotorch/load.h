// The Go side's view of the shim: the tables that load.c fills, and one inline call for each of their entries.
#pragma once
#include "ct.h"
#include "zz_abi.h"

extern const ct_core *ct_shim;
extern const ct_ops *ct_operators;
extern const ct_cuda *ct_graphs; // NULL: no libcgotorch_cuda was loaded

// ct_load opens the preload libraries (globally) and then the shim. It returns NULL, or a message to free.
char *ct_load(const char *path, const char *const *preload, int preload_count);
// ct_load_graphs opens libcgotorch_cuda, after ct_load with libtorch_cuda. It returns NULL, or a message to free.
char *ct_load_graphs(const char *path);
// ct_symbol finds a function of the shim's library or of one that it needs; NULL: there is none.
void *ct_symbol(const char *name);
// ct_hold_team: see HoldTeam in waiting.go.
int32_t ct_hold_team(int32_t threads);

#include "zz_call.h"

static inline const char *ct_text(const ct_error *e) { return e->text; }
static inline void ct_free_error(ct_error *e) { ct_shim->free_error(e); }
static inline void ct_free_buffer(void *p) { ct_shim->free_buffer(p); }
static inline void ct_free_tensors(const ct_tensor *p, int64_t n) { ct_shim->free_tensors(p, n); }
static inline void ct_retain(ct_tensor t) { ct_shim->retain(t); }
static inline int64_t ct_use_count(ct_tensor t) { return ct_shim->use_count(t); }
static inline int64_t ct_swap_scope(int64_t slot) { return ct_shim->swap_scope(slot); }
static inline void ct_tune_malloc(void) { ct_shim->tune_malloc(); }
static inline void ct_tune_bernoulli(void) { ct_shim->tune_bernoulli(); }
static inline int32_t ct_vector_bernoulli(void) { return ct_shim->vector_bernoulli(); }
static inline ct_code ct_empty_cache(void) { return ct_shim->empty_cache(); }
static inline void ct_get_info(ct_tensor t, ct_info *out) { ct_shim->info(t, out); }
static inline void ct_places(const ct_tensor *t, int64_t n, int64_t *out) { ct_shim->places(t, n, out); }
static inline ct_code ct_from_bytes(const void *data, int64_t bytes, const int64_t *sizes, int64_t dims, int32_t dtype, int32_t pinned,
                                    ct_tensor *out) {
  return ct_shim->from_bytes(data, bytes, sizes, dims, dtype, pinned, out);
}
static inline ct_code ct_to_bytes(ct_tensor t, void *data, int64_t bytes) { return ct_shim->to_bytes(t, data, bytes); }
static inline void *ct_memory(ct_tensor t, int32_t write) { return ct_shim->memory(t, write); }
static inline ct_code ct_set_data_(ct_tensor t, ct_tensor value) { return ct_shim->set_data_(t, value); }
static inline ct_code ct_backward(const ct_tensor *t, int64_t n, const ct_tensor *g, int32_t retain, int32_t create) {
  return ct_shim->backward(t, n, g, retain, create);
}
static inline ct_code ct_grad_of(const ct_tensor *outputs, int64_t n, const ct_tensor *gradients, const ct_tensor *inputs, int64_t m,
                                 int32_t retain, int32_t create, int32_t allow_unused, ct_tensor *out) {
  return ct_shim->grad_of(outputs, n, gradients, inputs, m, retain, create, allow_unused, out);
}
static inline ct_code ct_set_requires_grad(ct_tensor t, int32_t on) { return ct_shim->set_requires_grad(t, on); }
static inline ct_code ct_grads(const ct_tensor *t, int64_t n, ct_tensor *out) { return ct_shim->grads(t, n, out); }
static inline ct_code ct_set_grad(ct_tensor t, ct_tensor g) { return ct_shim->set_grad(t, g); }
static inline ct_code ct_set_grads(const ct_tensor *t, const ct_tensor *g, int64_t n) { return ct_shim->set_grads(t, g, n); }
static inline ct_code ct_zero_grad(const ct_tensor *t, int64_t n, int32_t none) { return ct_shim->zero_grad(t, n, none); }
static inline int32_t ct_swap_grad_mode(int32_t on) { return ct_shim->swap_grad_mode(on); }
static inline void *ct_enter_inference(void) { return ct_shim->enter_inference(); }
static inline void ct_leave_inference(void *guard) { ct_shim->leave_inference(guard); }
static inline int32_t ct_inference_enabled(void) { return ct_shim->inference_enabled(); }
static inline ct_code ct_grad_name(ct_tensor t, char **text) { return ct_shim->grad_name(t, text); }
static inline ct_code ct_retain_grad(ct_tensor t) { return ct_shim->retain_grad(t); }
static inline int32_t ct_retains_grad(ct_tensor t) { return ct_shim->retains_grad(t); }
static inline ct_code ct_add_hook(ct_tensor t, const ct_hook_options *o, void **hook) { return ct_shim->add_hook(t, o, hook); }
static inline ct_code ct_hook_results(void *hook, int32_t take_norms, ct_tensor *norms, ct_tensor *gradient) {
  return ct_shim->hook_results(hook, take_norms, norms, gradient);
}
static inline void ct_free_hook(void *hook, int32_t remove) { ct_shim->free_hook(hook, remove); }
static inline void ct_swap_anomaly(int32_t *on, int32_t *check_nan) { ct_shim->swap_anomaly(on, check_nan); }
static inline ct_code ct_defer(int64_t node, int32_t kind, const ct_tensor *inputs, int64_t n, const ct_tensor *outputs, int64_t m,
                               ct_tensor *results) {
  return ct_shim->defer(node, kind, inputs, n, outputs, m, results);
}
static inline ct_code ct_add_after_gradient(ct_tensor t, int64_t node) { return ct_shim->add_after_gradient(t, node); }
static inline ct_code ct_remove_after_gradient(ct_tensor t, int64_t node) { return ct_shim->remove_after_gradient(t, node); }
static inline int64_t ct_dead_nodes(int64_t *nodes, int64_t capacity) { return ct_shim->dead_nodes(nodes, capacity); }
static inline ct_code ct_start_backward(const ct_tensor *outputs, int64_t n, const ct_tensor *gradients, const ct_tensor *inputs, int64_t m,
                                        int32_t retain, int32_t create, int32_t allow_unused, void **session) {
  return ct_shim->start_backward(outputs, n, gradients, inputs, m, retain, create, allow_unused, session);
}
static inline ct_code ct_next_request(void *session, ct_request *out) { return ct_shim->next_request(session, out); }
static inline void ct_answer(void *session, const ct_tensor *t, int64_t n, const char *failure, int64_t length) {
  ct_shim->answer(session, t, n, failure, length);
}
static inline ct_code ct_finish_backward(void *session, ct_tensor *out) { return ct_shim->finish_backward(session, out); }
static inline ct_code ct_start_profiler(int32_t shapes, int32_t memory) { return ct_shim->start_profiler(shapes, memory); }
static inline ct_code ct_stop_profiler(const char *path, int64_t length) { return ct_shim->stop_profiler(path, length); }
static inline ct_code ct_enter_autocast(int32_t device, int32_t enabled, int32_t dtype, int32_t cache, int64_t *saved) {
  return ct_shim->enter_autocast(device, enabled, dtype, cache, saved);
}
static inline ct_code ct_leave_autocast(int32_t device, int64_t saved) { return ct_shim->leave_autocast(device, saved); }
static inline ct_code ct_manual_seed(uint64_t seed) { return ct_shim->manual_seed(seed); }
static inline ct_code ct_new_generator(int32_t device, uint64_t seed, ct_generator *out) {
  return ct_shim->new_generator(device, seed, out);
}
static inline int32_t ct_has_own_generators(void) { return ct_shim->has_own_generators(); }
static inline ct_code ct_enter_generators(const ct_generator *generators, int64_t count, void **entered) {
  return ct_shim->enter_generators(generators, count, entered);
}
static inline void ct_leave_generators(void *entered) { ct_shim->leave_generators(entered); }
static inline ct_code ct_default_generator(int32_t device, ct_generator *out) { return ct_shim->default_generator(device, out); }
static inline void ct_free_generator(ct_generator g) { ct_shim->free_generator(g); }
static inline ct_code ct_generator_seed(ct_generator g, uint64_t seed) { return ct_shim->generator_seed(g, seed); }
static inline ct_code ct_generator_state(ct_generator g, ct_tensor *out) { return ct_shim->generator_state(g, out); }
static inline ct_code ct_set_generator_state(ct_generator g, ct_tensor state) { return ct_shim->set_generator_state(g, state); }
static inline ct_code ct_clip_grad_norm(const ct_tensor *p, int64_t n, double max_norm, double norm_type, int32_t scale, ct_tensor *total) {
  return ct_shim->clip_grad_norm(p, n, max_norm, norm_type, scale, total);
}
static inline ct_code ct_clip_grad_value(const ct_tensor *p, int64_t n, double value) { return ct_shim->clip_grad_value(p, n, value); }
static inline ct_code ct_fused_adam(const ct_tensor *p, const ct_tensor *m, const ct_tensor *v, const ct_tensor *x, const ct_tensor *s,
                                    int64_t n, const ct_optimizer_options *o) {
  return ct_shim->fused_adam(p, m, v, x, s, n, o);
}
static inline ct_code ct_fused_adagrad(const ct_tensor *p, const ct_tensor *sums, const ct_tensor *s, int64_t n,
                                       const ct_optimizer_options *o) {
  return ct_shim->fused_adagrad(p, sums, s, n, o);
}
static inline ct_code ct_fused_sgd(const ct_tensor *p, const ct_tensor *b, int64_t n, int32_t first, const ct_optimizer_options *o) {
  return ct_shim->fused_sgd(p, b, n, first, o);
}
static inline ct_code ct_new_group(const ct_group_options *o, void **group) { return ct_shim->new_group(o, group); }
static inline void ct_abort_group(void *group, const char *reason, int64_t n) { ct_shim->abort_group(group, reason, n); }
static inline ct_code ct_shutdown_group(void *group) { return ct_shim->shutdown_group(group); }
static inline void ct_free_group(void *group) { ct_shim->free_group(group); }
static inline ct_code ct_broadcast_coalesced(void *group, const ct_tensor *t, int64_t n, int32_t root) {
  return ct_shim->broadcast_coalesced(group, t, n, root);
}
static inline ct_code ct_start_all_reduce(void *group, ct_tensor t, int32_t op, uint32_t label, void **work) {
  return ct_shim->start_all_reduce(group, t, op, label, work);
}
static inline ct_code ct_wait_work(void *work, int64_t microseconds, int32_t *done) { return ct_shim->wait_work(work, microseconds, done); }
static inline void ct_free_work(void *work) { ct_shim->free_work(work); }
static inline ct_code ct_exchange(void *group, ct_tensor t, int32_t peer, int32_t sends) {
  return ct_shim->exchange(group, t, peer, sends);
}
static inline ct_code ct_new_reducer(void *group, const ct_tensor *p, int64_t n, const char *const *names, const int8_t *sparse,
                                     const ct_reducer_options *o, void **reducer) {
  return ct_shim->new_reducer(group, p, n, names, sparse, o, reducer);
}
static inline ct_code ct_reducer_before_forward(void *reducer) { return ct_shim->reducer_before_forward(reducer); }
static inline ct_code ct_reducer_before_backward(void *reducer, const ct_tensor *t, int64_t n) {
  return ct_shim->reducer_before_backward(reducer, t, n);
}
static inline ct_code ct_reducer_after_backward(void *reducer) { return ct_shim->reducer_after_backward(reducer); }
static inline void ct_free_reducer(void *reducer) { ct_shim->free_reducer(reducer); }
static inline ct_code ct_find_operator(const char *name, int64_t n, const char *overload, int64_t m, int64_t *handle) {
  return ct_shim->find_operator(name, n, overload, m, handle);
}
static inline ct_code ct_call(int64_t handle, const ct_value *args, int64_t n, ct_value *results, int64_t capacity, int64_t *count) {
  return ct_shim->call(handle, args, n, results, capacity, count);
}
static inline ct_code ct_schema_of(int64_t handle, char **text) { return ct_shim->schema_of(handle, text); }
static inline void ct_set_threads(int32_t n) { ct_shim->set_threads(n); }
static inline int32_t ct_threads(void) { return ct_shim->threads(); }
static inline int32_t ct_cuda_devices(void) { return ct_shim->cuda_devices(); }
static inline ct_code ct_set_deterministic(int32_t on, int32_t warn_only) { return ct_shim->set_deterministic(on, warn_only); }
static inline ct_code ct_set_float32_precision(const char *p, int64_t n) { return ct_shim->set_float32_precision(p, n); }
static inline const char *ct_cpu_capability(void) { return ct_shim->cpu_capability(); }
static inline ct_code ct_cuda_get_memory(int32_t index, ct_cuda_memory *out) { return ct_shim->cuda_memory(index, out); }
static inline ct_code ct_cuda_memory_info(int32_t index, int64_t *free, int64_t *total) {
  return ct_shim->cuda_memory_info(index, free, total);
}
static inline ct_code ct_cuda_reset_peak(int32_t index) { return ct_shim->cuda_reset_peak(index); }
static inline ct_code ct_cuda_synchronize(int32_t index) { return ct_shim->cuda_synchronize(index); }
static inline ct_code ct_cuda_swap_device(int32_t index, int32_t *former) { return ct_shim->cuda_swap_device(index, former); }
static inline ct_code ct_cuda_new_stream(int32_t index, int32_t high, ct_stream *out) { return ct_shim->cuda_new_stream(index, high, out); }
static inline ct_code ct_cuda_current_stream(int32_t index, ct_stream *out) { return ct_shim->cuda_current_stream(index, out); }
static inline ct_code ct_cuda_swap_stream(const ct_stream *s, ct_stream *former) { return ct_shim->cuda_swap_stream(s, former); }
static inline ct_code ct_cuda_stream_ready(const ct_stream *s, int32_t *ready) { return ct_shim->cuda_stream_ready(s, ready); }
static inline ct_code ct_cuda_synchronize_stream(const ct_stream *s) { return ct_shim->cuda_synchronize_stream(s); }
static inline ct_code ct_cuda_record_stream(ct_tensor t, const ct_stream *s) { return ct_shim->cuda_record_stream(t, s); }
static inline ct_code ct_cuda_new_event(int32_t timing, void **event) { return ct_shim->cuda_new_event(timing, event); }
static inline ct_code ct_cuda_record_event(void *event, const ct_stream *s) { return ct_shim->cuda_record_event(event, s); }
static inline ct_code ct_cuda_wait_event(void *event, const ct_stream *s) { return ct_shim->cuda_wait_event(event, s); }
static inline ct_code ct_cuda_event_ready(void *event, int32_t *ready) { return ct_shim->cuda_event_ready(event, ready); }
static inline ct_code ct_cuda_synchronize_event(void *event) { return ct_shim->cuda_synchronize_event(event); }
static inline ct_code ct_cuda_elapsed(void *from, void *to, double *ms) { return ct_shim->cuda_elapsed(from, to, ms); }
static inline void ct_cuda_free_event(void *event) { ct_shim->cuda_free_event(event); }
static inline ct_code ct_cuda_versions(int64_t *cudart, int64_t *cudnn) { return ct_shim->cuda_versions(cudart, cudnn); }
static inline ct_code ct_set_context(int32_t what, int32_t value) { return ct_shim->set_context(what, value); }
static inline ct_code ct_context(int32_t what, int32_t *value) { return ct_shim->context(what, value); }
static inline ct_code ct_float32_precision(const char *backend, const char *op, const char **precision) {
  return ct_shim->float32_precision(backend, op, precision);
}
static inline ct_code ct_set_float32_precision_of(const char *backend, const char *op, const char *precision) {
  return ct_shim->set_float32_precision_of(backend, op, precision);
}
static inline int32_t ct_has_graphs(void) { return ct_graphs != NULL; }
static inline ct_new_backend ct_new_nccl(void) { return ct_graphs ? ct_graphs->new_nccl : NULL; }
static inline void ct_pretended_nccl(int64_t *device, int64_t *aborted, int64_t *down) { ct_shim->pretended_nccl(device, aborted, down); }
// For tests: a CPU's recorder in place of what was loaded, or that again.
void ct_pretend_graphs(int32_t on);
void ct_free_graph(void *graph, int32_t recorded);
static inline ct_code ct_new_graph(int32_t index, void **graph) { return ct_graphs->new_graph(index, graph); }
static inline ct_code ct_register_generator(void *graph, ct_generator g) { return ct_graphs->register_generator(graph, g); }
static inline ct_code ct_begin_capture(void *graph, const ct_pool *pool) { return ct_graphs->begin_capture(graph, pool); }
static inline ct_code ct_end_capture(void *graph, int32_t failed) { return ct_graphs->end_capture(graph, failed); }
static inline ct_code ct_replay_graph(void *graph) { return ct_graphs->replay(graph); }
static inline ct_code ct_graph_pool(void *graph, ct_pool *out) { return ct_graphs->pool(graph, out); }
static inline ct_code ct_reset_graph(void *graph) { return ct_graphs->reset(graph); }
static inline ct_code ct_set_sync_debug_mode(int32_t mode) { return ct_graphs->set_sync_debug_mode(mode); }
static inline ct_code ct_sync_debug_mode(int32_t *mode) { return ct_graphs->sync_debug_mode(mode); }
static inline int32_t ct_device_failed(void) { return ct_shim->device_failed(); }
static inline ct_code ct_throw_for_test(int32_t kind) { return ct_shim->throw_for_test(kind); }
static inline const char *ct_torch_version(void) { return ct_shim->torch_version; }
