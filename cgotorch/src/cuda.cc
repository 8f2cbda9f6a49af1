// A GPU's memory, streams, events and switches. No header of CUDA's is needed: at::Context, at::accelerator and the device
// guard reach whatever libtorch_cuda has registered, so that the shim of a CPU build serves a GPU too.
#include "guard.h"

#include <ATen/Context.h>
#include <ATen/DeviceAccelerator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Event.h>
#include <c10/core/Stream.h>
#include <c10/core/impl/VirtualGuardImpl.h>

namespace ct {

static c10::DeviceAllocator &allocator() {
  at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
  return *c10::getDeviceAllocator(c10::DeviceType::CUDA);
}
static c10::DeviceIndex number(int32_t index) { return static_cast<c10::DeviceIndex>(index); }
static c10::impl::VirtualGuardImpl device_guard() { return c10::impl::VirtualGuardImpl(c10::DeviceType::CUDA); }

ct_code cuda_memory(int32_t index, ct_cuda_memory *out) {
  return guard([&] {
    const auto s = allocator().getDeviceStats(number(index));
    const auto now = [](const auto &stat) { return stat[0].current; }; // 0: of all pools
    const auto peak = [](const auto &stat) { return stat[0].peak; };
    *out = {now(s.allocated_bytes), peak(s.allocated_bytes), now(s.active_bytes),     peak(s.active_bytes), now(s.reserved_bytes),
            peak(s.reserved_bytes), now(s.requested_bytes),  peak(s.requested_bytes), s.num_alloc_retries,  s.num_ooms,
            s.num_device_alloc};
  });
}
ct_code cuda_memory_info(int32_t index, int64_t *free, int64_t *total) {
  return guard([&] {
    const auto [f, t] = allocator().getMemoryInfo(number(index));
    *free = static_cast<int64_t>(f), *total = static_cast<int64_t>(t);
  });
}
ct_code cuda_reset_peak(int32_t index) {
  return guard([&] { allocator().resetPeakStats(number(index)); });
}
ct_code cuda_synchronize(int32_t index) {
  return guard([&] { device_guard().synchronizeDevice(number(index)); });
}
ct_code cuda_swap_device(int32_t index, int32_t *former) {
  return guard([&] { *former = device_guard().exchangeDevice({c10::DeviceType::CUDA, number(index)}).index(); });
}

static c10::Stream get(const ct_stream *s) {
  return c10::Stream::unpack3(s->id, static_cast<c10::DeviceIndex>(s->device), static_cast<c10::DeviceType>(s->type));
}
static ct_stream give(c10::Stream s) {
  const auto p = s.pack3();
  return {p.stream_id, p.device_index, static_cast<int64_t>(p.device_type)};
}
ct_code cuda_new_stream(int32_t index, int32_t high_priority, ct_stream *out) {
  return guard([&] {
    at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
    *out = give(device_guard().getStreamFromGlobalPool({c10::DeviceType::CUDA, number(index)}, high_priority != 0));
  });
}
ct_code cuda_current_stream(int32_t index, ct_stream *out) {
  return guard([&] { *out = give(device_guard().getStream({c10::DeviceType::CUDA, number(index)})); });
}
ct_code cuda_swap_stream(const ct_stream *stream, ct_stream *former) {
  return guard([&] { *former = give(device_guard().exchangeStream(get(stream))); });
}
ct_code cuda_stream_ready(const ct_stream *stream, int32_t *ready) {
  return guard([&] { *ready = get(stream).query(); });
}
ct_code cuda_synchronize_stream(const ct_stream *stream) {
  return guard([&] { get(stream).synchronize(); });
}
ct_code cuda_record_stream(ct_tensor t, const ct_stream *stream) {
  return guard([&] { get(t).record_stream(get(stream)); });
}

static c10::Event &get_event(void *event) { return *static_cast<c10::Event *>(event); }
ct_code cuda_new_event(int32_t timing, void **event) {
  return guard([&] {
    const auto flag = timing ? c10::EventFlag::BACKEND_DEFAULT : c10::EventFlag::PYTORCH_DEFAULT;
    *event = new c10::Event(c10::DeviceType::CUDA, flag);
  });
}
ct_code cuda_record_event(void *event, const ct_stream *stream) {
  return guard([&] { get_event(event).record(get(stream)); });
}
ct_code cuda_wait_event(void *event, const ct_stream *stream) {
  return guard([&] { get_event(event).block(get(stream)); });
}
ct_code cuda_event_ready(void *event, int32_t *ready) {
  return guard([&] { *ready = get_event(event).query(); });
}
ct_code cuda_synchronize_event(void *event) {
  return guard([&] { get_event(event).synchronize(); });
}
ct_code cuda_elapsed(void *from, void *to, double *milliseconds) {
  return guard([&] { *milliseconds = get_event(from).elapsedTime(get_event(to)); });
}
void cuda_free_event(void *event) {
  if (!device_failed()) delete static_cast<c10::Event *>(event); // else left to the end of the process, see free_tensors
}

ct_code cuda_versions(int64_t *cudart, int64_t *cudnn) {
  return guard([&] {
    *cudart = at::Context::versionCUDART();
    *cudnn = at::Context::hasCuDNN() ? at::Context::versionRuntimeCuDNN() : 0;
  });
}
ct_code set_context(int32_t what, int32_t value) {
  return guard([&] {
    auto &c = at::globalContext();
    const bool on = value != 0;
    switch (what) {
    case CT_CUDNN_ENABLED: return c.setUserEnabledCuDNN(on);
    case CT_CUDNN_BENCHMARK: return c.setBenchmarkCuDNN(on);
    case CT_CUDNN_BENCHMARK_LIMIT: return c.setBenchmarkLimitCuDNN(value);
    case CT_CUDNN_DETERMINISTIC: return c.setDeterministicCuDNN(on);
    case CT_CUDNN_TF32: return c.setAllowTF32CuDNN(on);
    case CT_CUBLAS_TF32: return c.setAllowTF32CuBLAS(on);
    case CT_FLASH_ATTENTION: return c.setSDPUseFlash(on);
    case CT_EFFICIENT_ATTENTION: return c.setSDPUseMemEfficient(on);
    case CT_MATH_ATTENTION: return c.setSDPUseMath(on);
    case CT_CUDNN_ATTENTION: return c.setSDPUseCuDNN(on);
    }
    TORCH_CHECK(false, "there is no setting number ", what);
  });
}
static int32_t context_of(int32_t what) {
  const auto &c = at::globalContext();
  switch (what) {
  case CT_CUDNN_ENABLED: return c.userEnabledCuDNN();
  case CT_CUDNN_BENCHMARK: return c.benchmarkCuDNN();
  case CT_CUDNN_BENCHMARK_LIMIT: return c.benchmarkLimitCuDNN();
  case CT_CUDNN_DETERMINISTIC: return c.deterministicCuDNN();
  case CT_CUDNN_TF32: return c.allowTF32CuDNN();
  case CT_CUBLAS_TF32: return c.allowTF32CuBLAS();
  case CT_FLASH_ATTENTION: return c.userEnabledFlashSDP();
  case CT_EFFICIENT_ATTENTION: return c.userEnabledMemEfficientSDP();
  case CT_MATH_ATTENTION: return c.userEnabledMathSDP();
  case CT_CUDNN_ATTENTION: return c.userEnabledCuDNNSDP();
  }
  TORCH_CHECK(false, "there is no setting number ", what);
}
ct_code context(int32_t what, int32_t *value) {
  return guard([&] { *value = context_of(what); });
}
ct_code float32_precision(const char *backend, const char *op, const char **precision) {
  return guard([&] {
    switch (at::globalContext().float32Precision(at::str2backend(backend), at::str2op(op))) {
    case at::Float32Precision::IEEE: *precision = "ieee"; break;
    case at::Float32Precision::TF32: *precision = "tf32"; break;
    case at::Float32Precision::BF16: *precision = "bf16"; break;
    case at::Float32Precision::NONE: *precision = "none"; break;
    }
  });
}
ct_code set_float32_precision_of(const char *backend, const char *op, const char *precision) {
  return guard([&] { at::globalContext().setFloat32Precision(at::str2backend(backend), at::str2op(op), at::str2precision(precision)); });
}

} // namespace ct
