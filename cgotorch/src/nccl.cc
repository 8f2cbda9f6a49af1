// NCCL for the tensors of a GPU: the part of libcgotorch_cuda that needs nccl.h, too.
// defines: ct::new_nccl

// nccl.h and ATen include these and use nothing of them here; they would need the headers of one more wheel.
#define __CUDA_FP16_H__
#define __CUDA_BF16_H__
#define __CUDA_FP8_H__
#define USE_C10D_NCCL
#include "../ct.h"

#include <c10/cuda/CUDAGuard.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

namespace ct {

const ct_core *nccl_core; // whose error records the caller frees

ct_code new_nccl(void *store, int32_t rank, int32_t world, int64_t timeout_ms, int32_t device, void **backend) {
  try {
    // Before anything else of NCCL: what it makes without being told of a GPU belongs to the current one.
    c10::cuda::CUDAGuard on(static_cast<c10::DeviceIndex>(device));
    auto o = c10d::ProcessGroupNCCL::Options::create(false);
    o->timeout = std::chrono::milliseconds(timeout_ms);
    auto &s = *static_cast<c10::intrusive_ptr<c10d::Store> *>(store);
    auto group = c10::make_intrusive<c10d::ProcessGroupNCCL>(s, rank, world, o);
    group->setBoundDeviceId(c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(device)));
    *backend = new c10::intrusive_ptr<c10d::Backend>(group);
    return 0;
  } catch (...) {
    return nccl_core->caught();
  }
}

} // namespace ct
