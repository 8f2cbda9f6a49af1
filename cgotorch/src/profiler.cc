// The profiler: what ran on this thread and its backward passes, as a Chrome trace.
#include "guard.h"

#include <ATen/Context.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <set>

namespace ct {

namespace profiler = torch::autograd::profiler;

ct_code start_profiler(int32_t shapes, int32_t memory) {
  return guard([&] {
    TORCH_CHECK(!profiler::profilerEnabled(), "a profile is being taken already; profiles do not nest");
    std::set<profiler::ActivityType> activities{profiler::ActivityType::CPU};
    if (at::hasCUDA()) activities.insert(profiler::ActivityType::CUDA);
    profiler::ProfilerConfig config(profiler::ProfilerState::KINETO, shapes != 0, memory != 0);
    profiler::prepareProfiler(config, activities);
    profiler::enableProfiler(config, activities);
  });
}

ct_code stop_profiler(const char *path, int64_t length) {
  return guard([&] { profiler::disableProfiler()->save(std::string(path, length)); });
}

} // namespace ct
