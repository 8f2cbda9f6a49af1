// Faults on demand, for the tests: the exceptions that libtorch throws, by themselves, in an operator and in a backward
// pass; and any of them in place of any operator that a program calls.
#include "guard.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <memory>
#include <string>

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

// What the operators of a thread fail with, and when. Those that an operator calls in turn are not seen, those of a
// backward pass are: it runs under the settings of the thread that began it.
struct Fault {
  std::string type, text;
  int64_t number, after; // operators that succeed before
  bool once;
  int64_t calls;
};
static thread_local std::unique_ptr<Fault> fault;
static constexpr auto watcher = c10::DispatchKey::TESTING_ONLY_GenericMode; // libtorch uses it for nothing else

static void raise(const Fault &f) {
  const c10::SourceLocation here = {__func__, __FILE__, static_cast<uint32_t>(__LINE__)};
  if (f.type == "AcceleratorError") throw c10::AcceleratorError(here, static_cast<int32_t>(f.number), f.text);
  if (f.type == "OutOfMemoryError") throw c10::OutOfMemoryError(here, f.text);
  if (f.type == "NotImplementedError") throw c10::NotImplementedError(here, f.text);
  if (f.type == "runtime_error") throw std::runtime_error(f.text);
  throw c10::Error(here, f.text);
}
static void watch(const c10::OperatorHandle &op, torch::jit::Stack *stack) {
  c10::impl::ExcludeDispatchKeyGuard not_within(watcher);
  if (fault && op.schema().name().rfind("gotrainer::", 0) != 0) {
    const int64_t call = fault->calls++;
    if (fault->once ? call == fault->after : call >= fault->after) raise(*fault);
  }
  op.callBoxed(stack);
}
// From now on the operators of this thread are counted, and fail after so many.
static void fail_for_test(std::string type, int64_t number, std::string text, int64_t after, bool once) {
  static auto fallback = [] {
    auto library = std::make_unique<torch::Library>(torch::Library::IMPL, "_", watcher, __FILE__, __LINE__);
    library->fallback(torch::CppFunction::makeFromBoxedFunction<&watch>());
    return library;
  }();
  fault = std::make_unique<Fault>(Fault{std::move(type), std::move(text), number, after, once, 0});
  c10::impl::tls_set_dispatch_key_included(watcher, true);
}
// Ends that, and returns how many were called.
static int64_t calls_for_test() {
  c10::impl::tls_set_dispatch_key_included(watcher, false);
  const int64_t calls = fault ? fault->calls : 0;
  fault.reset();
  return calls;
}
// How many were called until now.
static int64_t count_for_test() { return fault ? fault->calls : 0; }

TORCH_LIBRARY_FRAGMENT(gotrainer, m) {
  m.def("throw_for_test(Tensor t, int kind, bool backward=False) -> Tensor", throw_operator);
  m.def("fail_for_test(str type, int number, str text, int after, bool once) -> ()", fail_for_test);
  m.def("count_for_test() -> int", count_for_test);
  m.def("calls_for_test() -> int", calls_for_test);
}

} // namespace ct
