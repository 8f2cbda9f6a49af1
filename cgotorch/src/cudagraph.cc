// CUDA graphs, and the switch that makes calls which wait an error: libcgotorch_cuda, the only part that needs CUDA's headers.
// It is loaded beside libtorch_cuda, whose symbols it finds there, and is linked with neither that nor libcgotorch.
// defines: ct_get_cuda
#include "../ct.h"
#include "../zz_abi.h"

#include <ATen/core/CachingHostAllocator.h>
#include <ATen/core/Generator.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <map>
#include <mutex>
#include <vector>

namespace {

const ct_core *core; // whose error records the caller frees

template <class F> ct_code guard(F &&f) noexcept {
  try {
    f();
    return 0;
  } catch (...) {
    return core->caught();
  }
}

struct Graph {
  c10::DeviceIndex device;
  at::cuda::CUDAGraph graph;
  std::vector<at::Generator> generators;
  bool broken = false; // a generator is half registered, and the destructor would end the process for it

  // During a capture: where its memory comes from, and what is put back after it.
  c10::MempoolId_t pool;
  c10::DeviceIndex former_device = 0;
  c10::Stream former = c10::Stream(c10::Stream::DEFAULT, c10::Device(c10::kCUDA, 0));
  std::vector<at::Generator> before; // a state that has begun a capture which failed serves no draw any more

  explicit Graph(c10::DeviceIndex d) : device(d) {}

  void leave() {
    c10::cuda::setCurrentCUDAStream(c10::cuda::CUDAStream(former));
    c10::cuda::set_device(former_device);
    before.clear();
  }

  // Ends a capture that has failed. CUDAGraph leaves the allocators as they were meanwhile: they would go on asking it, even freed,
  // whose memory is asked for, and keep what other streams have used.
  void abandon() {
    try {
      c10::cuda::CUDACachingAllocator::endAllocateToPool(device, pool); // fails if it has ended
      c10::cuda::CUDACachingAllocator::releasePool(device, pool);
    } catch (...) {
    }
    try {
      at::getHostAllocator(at::kCUDA)->end_allocate_to_pool(pool);
      at::getHostAllocator(at::kCUDA)->release_pool(pool);
    } catch (...) {
    }
    for (size_t i = 0; i < before.size(); i++) {
      std::lock_guard<std::mutex> lock(generators[i].mutex());
      generators[i].graphsafe_set_state(before[i]);
    }
    leave();
  }
};

// The stream of all captures on a GPU, as in torch.cuda.graph: libraries keep a workspace for each stream that they have seen.
c10::cuda::CUDAStream capture_stream(c10::DeviceIndex device) {
  static std::mutex mutex;
  static std::map<c10::DeviceIndex, c10::cuda::CUDAStream> streams;
  std::lock_guard<std::mutex> lock(mutex);
  auto found = streams.find(device);
  if (found == streams.end()) found = streams.emplace(device, c10::cuda::getStreamFromPool(false, device)).first;
  return found->second;
}

Graph &of(void *graph) { return *static_cast<Graph *>(graph); }

ct_code new_graph(int32_t index, void **graph) {
  return guard([&] { *graph = new Graph(static_cast<c10::DeviceIndex>(index)); });
}

ct_code register_generator(void *graph, ct_generator g) {
  return guard([&] {
    const auto &generator = *static_cast<at::Generator *>(g);
    c10::cuda::CUDAGuard on(of(graph).device); // where the tensors of its seed and offset are made
    try {
      of(graph).graph.register_generator_state(generator);
    } catch (...) {
      of(graph).broken = true;
      throw;
    }
    of(graph).generators.push_back(generator);
  });
}

// torch.cuda.graph.__enter__. Other threads may do meanwhile what they like (thread local), such as pin memory for the next batch.
ct_code begin_capture(void *graph, const ct_pool *pool) {
  return guard([&] {
    auto &g = of(graph);
    g.former_device = c10::cuda::current_device();
    c10::cuda::set_device(g.device);
    g.former = c10::cuda::getCurrentCUDAStream(g.device);
    g.pool = pool->first || pool->second ? c10::MempoolId_t(pool->first, pool->second) : at::cuda::graph_pool_handle();
    try {
      c10::cuda::device_synchronize();
      c10::cuda::CUDACachingAllocator::emptyCache();
      for (auto &generator : g.generators) {
        std::lock_guard<std::mutex> lock(generator.mutex());
        g.before.push_back(generator.clone());
      }
      c10::cuda::setCurrentCUDAStream(capture_stream(g.device));
      g.graph.capture_begin(g.pool, cudaStreamCaptureModeThreadLocal);
    } catch (...) {
      g.abandon();
      throw;
    }
  });
}

ct_code end_capture(void *graph, int32_t failed) {
  return guard([&] {
    auto &g = of(graph);
    try {
      g.graph.capture_end();
    } catch (...) {
      g.abandon();
      if (!failed) throw; // else the caller knows a better reason
      return;
    }
    g.leave();
    if (failed) g.graph.reset();
  });
}

ct_code replay(void *graph) {
  return guard([&] { of(graph).graph.replay(); });
}

ct_code pool(void *graph, ct_pool *out) {
  return guard([&] {
    const auto id = of(graph).graph.pool();
    *out = {id.first, id.second};
  });
}

ct_code reset(void *graph) {
  return guard([&] {
    of(graph).graph.reset();
    of(graph).generators.clear();
  });
}

void free_graph(void *graph) {
  if (!core->device_failed() && !of(graph).broken)
    delete static_cast<Graph *>(graph); // else left to the end of the process, as tensors are
}

ct_code set_sync_debug_mode(int32_t mode) {
  return guard([&] { c10::cuda::warning_state().set_sync_debug_mode(static_cast<c10::cuda::SyncDebugMode>(mode)); });
}
ct_code sync_debug_mode(int32_t *mode) {
  return guard([&] { *mode = static_cast<int32_t>(c10::cuda::warning_state().get_sync_debug_mode()); });
}

} // namespace

// Of nccl.cc, which is compiled where nccl.h is.
#ifdef CT_NCCL
namespace ct {
extern const ct_core *nccl_core;
ct_code new_nccl(void *store, int32_t rank, int32_t world, int64_t timeout_ms, int32_t device, void **backend);
} // namespace ct
#else
namespace ct {
static const ct_core *nccl_core;
static constexpr ct_new_backend new_nccl = nullptr;
} // namespace ct
#endif

static const ct_cuda table = {
    CT_ABI, sizeof(ct_cuda), new_graph,  register_generator,  begin_capture,   end_capture,  replay,
    pool,   reset,           free_graph, set_sync_debug_mode, sync_debug_mode, ct::new_nccl,
};

extern "C" __attribute__((visibility("default"))) const ct_cuda *ct_get_cuda(const ct_core *shim) {
  core = ct::nccl_core = shim;
  return &table;
}
