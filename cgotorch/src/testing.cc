// Faults on demand, for the tests of the boundary: the exceptions that libtorch throws, by themselves, in an operator
// and in a backward pass.
#include "guard.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

namespace ct {

static void raise(int64_t kind) {
  const c10::SourceLocation here = {__func__, __FILE__, static_cast<uint32_t>(__LINE__)};
  switch (kind) {
  case 0: throw 42;
  case 1: throw std::bad_alloc();
  case 2: TORCH_CHECK(false, "a plain check failed");
  case 3: TORCH_CHECK_INDEX(false, "an index is out of range");
  case 4: throw std::runtime_error("a standard exception");
  case 5: TORCH_CHECK_TYPE(false, "a type is wrong");
  case 6: TORCH_CHECK_VALUE(false, "a value is not allowed");
  case 7: TORCH_CHECK_NOT_IMPLEMENTED(false, "there is no such kernel");
  case 8: TORCH_CHECK_WITH(OutOfMemoryError, false, "the device has no memory left");
  case 9: TORCH_INTERNAL_ASSERT(false, "an internal assertion failed");
  // As a GPU's libraries fail; the numbers are those of cudaError_t.
  case 10: throw c10::AcceleratorError(here, 700, "CUDA error: an illegal memory access was encountered");
  case 11: throw c10::AcceleratorError(here, 710, "CUDA error: device-side assert triggered");
  case 12: throw c10::AcceleratorError(here, 2, "CUDA error: out of memory");
  case 13: throw c10::AcceleratorError(here, 101, "CUDA error: invalid device ordinal");
  case 14: throw c10::AcceleratorError(here, 209, "CUDA error: no kernel image is available for execution on the device");
  case 15: throw c10::AcceleratorError(here, 999, "CUDA error: unknown error");
  case 16: TORCH_CHECK(false, "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`");
  case 17: TORCH_CHECK(false, "CUDA error: CUBLAS_STATUS_NOT_INITIALIZED when calling `cublasCreate(handle)`");
  case 18: TORCH_CHECK(false, "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm(...)`");
  case 19: TORCH_CHECK(false, "cuDNN error: CUDNN_STATUS_ALLOC_FAILED");
  case 20: TORCH_CHECK(false, "cuDNN error: CUDNN_STATUS_NOT_SUPPORTED. This error may appear if you passed in a non-contiguous input.");
  case 21: TORCH_CHECK(false, "cuDNN error: CUDNN_STATUS_EXECUTION_FAILED");
  case 22: TORCH_CHECK(false, "cusolver error: CUSOLVER_STATUS_ALLOC_FAILED, when calling `cusolverDnCreate(handle)`");
  case 23: TORCH_CHECK(false, "CUDA driver error: out of memory");
  case 24: TORCH_CHECK(false, "CUDA driver error: an illegal memory access was encountered");
  case 25: throw std::runtime_error("CUDA error: unspecified launch failure");
  case 26: throw std::runtime_error("CUDA out of memory. Tried to allocate 2.00 GiB.");
  case 27: TORCH_CHECK(false, "cuDNN error: CUDNN_STATUS_BAD_PARAM");
  }
}

ct_code throw_for_test(int32_t kind) {
  if (kind == CT_MEND) {
    mend_device();
    return scope_slot;
  }
  return guard([&] { raise(kind); });
}

struct Raise : torch::autograd::Function<Raise> {
  static at::Tensor forward(torch::autograd::AutogradContext *ctx, const at::Tensor &t, int64_t kind) {
    ctx->saved_data["kind"] = kind;
    return t.clone();
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext *ctx, const torch::autograd::variable_list &gradients) {
    raise(ctx->saved_data["kind"].toInt());
    return {gradients[0], at::Tensor()};
  }
};

// An operator that fails: at once, or with backward in the pass that reaches it.
static at::Tensor throw_operator(const at::Tensor &t, int64_t kind, bool backward) {
  if (backward) return Raise::apply(t, kind);
  raise(kind);
  return t.clone();
}

TORCH_LIBRARY_FRAGMENT(gotrainer, m) { m.def("throw_for_test(Tensor t, int kind, bool backward=False) -> Tensor", throw_operator); }

} // namespace ct
