// Process-wide settings, and the table through which Go reaches everything else.
#include "guard.h"

#include "../zz_abi.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/version.h>

extern const ct_ops ct_ops_table;

namespace ct {

#define CT_DECLARE(name) extern std::remove_pointer_t<decltype(ct_core::name)> name
CT_DECLARE(free_error);
CT_DECLARE(free_buffer);
CT_DECLARE(free_tensors);
CT_DECLARE(retain);
CT_DECLARE(use_count);
CT_DECLARE(swap_scope);
CT_DECLARE(tune_malloc);
CT_DECLARE(empty_cache);
CT_DECLARE(info);
CT_DECLARE(places);
CT_DECLARE(from_bytes);
CT_DECLARE(to_bytes);
CT_DECLARE(memory);
CT_DECLARE(set_data_);
CT_DECLARE(backward);
CT_DECLARE(grad_of);
CT_DECLARE(set_requires_grad);
CT_DECLARE(grads);
CT_DECLARE(set_grad);
CT_DECLARE(set_grads);
CT_DECLARE(zero_grad);
CT_DECLARE(swap_grad_mode);
CT_DECLARE(enter_inference);
CT_DECLARE(leave_inference);
CT_DECLARE(inference_enabled);
CT_DECLARE(grad_name);
CT_DECLARE(retain_grad);
CT_DECLARE(retains_grad);
CT_DECLARE(add_hook);
CT_DECLARE(hook_results);
CT_DECLARE(free_hook);
CT_DECLARE(swap_anomaly);
CT_DECLARE(defer);
CT_DECLARE(add_after_gradient);
CT_DECLARE(remove_after_gradient);
CT_DECLARE(dead_nodes);
CT_DECLARE(start_backward);
CT_DECLARE(next_request);
CT_DECLARE(answer);
CT_DECLARE(finish_backward);
CT_DECLARE(start_profiler);
CT_DECLARE(stop_profiler);
CT_DECLARE(enter_autocast);
CT_DECLARE(leave_autocast);
CT_DECLARE(manual_seed);
CT_DECLARE(new_generator);
CT_DECLARE(default_generator);
CT_DECLARE(free_generator);
CT_DECLARE(generator_seed);
CT_DECLARE(generator_state);
CT_DECLARE(set_generator_state);
CT_DECLARE(has_own_generators);
CT_DECLARE(enter_generators);
CT_DECLARE(leave_generators);
CT_DECLARE(tune_bernoulli);
CT_DECLARE(vector_bernoulli);
CT_DECLARE(clip_grad_norm);
CT_DECLARE(clip_grad_value);
CT_DECLARE(fused_adam);
CT_DECLARE(fused_adagrad);
CT_DECLARE(fused_sgd);
CT_DECLARE(new_group);
CT_DECLARE(abort_group);
CT_DECLARE(shutdown_group);
CT_DECLARE(free_group);
CT_DECLARE(broadcast_coalesced);
CT_DECLARE(start_all_reduce);
CT_DECLARE(wait_work);
CT_DECLARE(free_work);
CT_DECLARE(exchange);
CT_DECLARE(new_reducer);
CT_DECLARE(reducer_before_forward);
CT_DECLARE(reducer_before_backward);
CT_DECLARE(reducer_after_backward);
CT_DECLARE(free_reducer);
CT_DECLARE(find_operator);
CT_DECLARE(call);
CT_DECLARE(schema_of);
CT_DECLARE(cuda_memory);
CT_DECLARE(cuda_memory_info);
CT_DECLARE(cuda_reset_peak);
CT_DECLARE(cuda_synchronize);
CT_DECLARE(cuda_swap_device);
CT_DECLARE(cuda_new_stream);
CT_DECLARE(cuda_current_stream);
CT_DECLARE(cuda_swap_stream);
CT_DECLARE(cuda_stream_ready);
CT_DECLARE(cuda_synchronize_stream);
CT_DECLARE(cuda_record_stream);
CT_DECLARE(cuda_new_event);
CT_DECLARE(cuda_record_event);
CT_DECLARE(cuda_wait_event);
CT_DECLARE(cuda_event_ready);
CT_DECLARE(cuda_synchronize_event);
CT_DECLARE(cuda_elapsed);
CT_DECLARE(cuda_free_event);
CT_DECLARE(cuda_versions);
CT_DECLARE(set_context);
CT_DECLARE(context);
CT_DECLARE(float32_precision);
CT_DECLARE(set_float32_precision_of);
CT_DECLARE(device_failed);
CT_DECLARE(throw_for_test);
CT_DECLARE(pretended_nccl);
extern const ct_cuda recorder;
#undef CT_DECLARE

std::atomic<int32_t> threads_set;
thread_local int32_t threads_known;
void take_threads() {
  threads_known = threads_set.load();
  at::init_num_threads();
}

static void set_threads(int32_t n) {
  at::set_num_threads(n);
  threads_known = ++threads_set;
}
static int32_t threads() {
  know_threads();
  return at::get_num_threads();
}
static int32_t cuda_devices() {
  try {
    return at::hasCUDA() ? static_cast<int32_t>(at::getNumGPUs()) : 0;
  } catch (...) {
    return 0;
  }
}
static ct_code set_deterministic(int32_t on, int32_t warn_only) {
  return guard([&] { at::globalContext().setDeterministicAlgorithms(on != 0, warn_only != 0); });
}
static ct_code set_float32_precision(const char *precision, int64_t length) {
  return guard([&] { at::globalContext().setFloat32MatmulPrecision(std::string(precision, length)); });
}
static const char *cpu_capability() {
  static const std::string name = at::get_cpu_capability();
  return name.c_str();
}
static const ct_core core = {
    CT_ABI,
    sizeof(ct_core),
    TORCH_VERSION,
    &ct_ops_table,
    free_error,
    free_buffer,
    free_tensors,
    retain,
    use_count,
    swap_scope,
    tune_malloc,
    empty_cache,
    [] { return caught(); },
    info,
    places,
    from_bytes,
    to_bytes,
    memory,
    set_data_,
    backward,
    grad_of,
    set_requires_grad,
    grads,
    set_grad,
    set_grads,
    zero_grad,
    swap_grad_mode,
    enter_inference,
    leave_inference,
    inference_enabled,
    grad_name,
    retain_grad,
    retains_grad,
    add_hook,
    hook_results,
    free_hook,
    swap_anomaly,
    defer,
    add_after_gradient,
    remove_after_gradient,
    dead_nodes,
    start_backward,
    next_request,
    answer,
    finish_backward,
    start_profiler,
    stop_profiler,
    enter_autocast,
    leave_autocast,
    manual_seed,
    new_generator,
    default_generator,
    free_generator,
    generator_seed,
    generator_state,
    set_generator_state,
    has_own_generators,
    enter_generators,
    leave_generators,
    tune_bernoulli,
    vector_bernoulli,
    clip_grad_norm,
    clip_grad_value,
    fused_adam,
    fused_adagrad,
    fused_sgd,
    new_group,
    abort_group,
    shutdown_group,
    free_group,
    broadcast_coalesced,
    start_all_reduce,
    wait_work,
    free_work,
    exchange,
    new_reducer,
    reducer_before_forward,
    reducer_before_backward,
    reducer_after_backward,
    free_reducer,
    find_operator,
    call,
    schema_of,
    set_threads,
    threads,
    cuda_devices,
    set_deterministic,
    set_float32_precision,
    cpu_capability,
    cuda_memory,
    cuda_memory_info,
    cuda_reset_peak,
    cuda_synchronize,
    cuda_swap_device,
    cuda_new_stream,
    cuda_current_stream,
    cuda_swap_stream,
    cuda_stream_ready,
    cuda_synchronize_stream,
    cuda_record_stream,
    cuda_new_event,
    cuda_record_event,
    cuda_wait_event,
    cuda_event_ready,
    cuda_synchronize_event,
    cuda_elapsed,
    cuda_free_event,
    cuda_versions,
    set_context,
    context,
    float32_precision,
    set_float32_precision_of,
    device_failed,
    throw_for_test,
    &recorder,
    pretended_nccl,
};

} // namespace ct

extern "C" __attribute__((visibility("default"))) const ct_core *ct_get(void) { return &ct::core; }
