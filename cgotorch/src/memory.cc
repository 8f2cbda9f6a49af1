// Lifetime: error records, references, the scope slot of a thread, settings of the allocator.
#include "guard.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/util/intrusive_ptr.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <algorithm>
#include <climits>
#include <initializer_list>

namespace ct {

thread_local int64_t scope_slot = 0;

// The record for when there is no memory even for a record; it is never freed.
alignas(ct_error) static char reserve[sizeof(ct_error) + 16];

static ct_code record(int code, const char *text) noexcept {
  size_t length = strlen(text);
  auto *e = static_cast<ct_error *>(malloc(sizeof(ct_error) + length + 1));
  if (!e) {
    e = reinterpret_cast<ct_error *>(reserve);
    text = "out of memory", length = strlen(text), code = CT_ERR_OUT_OF_MEMORY;
  }
  e->code = code;
  e->length = static_cast<int32_t>(length);
  memcpy(e->text, text, length + 1);
  return -reinterpret_cast<int64_t>(e);
}

// Once a kernel has failed its GPU's context is broken: every later call of CUDA fails with the same error, also those by
// which the caching allocator gives back memory that another stream has used, inside destructors that must not throw.
static std::atomic<int32_t> failed;
int32_t device_failed() { return failed.load(std::memory_order_relaxed); }
void mend_device() { failed = 0; }

static bool contains(const char *text, std::initializer_list<const char *> parts) {
  return std::any_of(parts.begin(), parts.end(), [&](const char *part) { return strstr(text, part); });
}

// What is thrown as a plain c10::Error: by the CPU's allocator; and of a GPU by libraries that take memory of their own, by
// the driver, and by what passes an error on as text. Those without memory are Accelerate's should_reduce_batch_size and
// their relatives. A library that cannot begin has mostly found no memory; so has a convolution for which cuDNN finds no
// engine: it has tried them, and forgets why each failed.
static int code_of_text(const char *text) {
  if (contains(text, {"can't allocate memory",
                      "not enough memory",
                      "CUDA out of memory",
                      "CUDA error: out of memory",
                      "CUDA driver error: out of memory",
                      "failure 2 'out of memory'",
                      "CUBLAS_STATUS_ALLOC_FAILED",
                      "CUBLAS_STATUS_NOT_INITIALIZED",
                      "CUDNN_STATUS_ALLOC_FAILED",
                      "CUDNN_STATUS_NOT_INITIALIZED",
                      "CUDNN_STATUS_INTERNAL_ERROR_DEVICE_ALLOCATION_FAILED",
                      "CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED",
                      "cuDNN error: CUDNN_STATUS_NOT_SUPPORTED.",
                      "was unable to find an engine to execute this computation",
                      "CUSOLVER_STATUS_ALLOC_FAILED",
                      "CUSOLVER_STATUS_NOT_INITIALIZED",
                      "CUSPARSE_STATUS_ALLOC_FAILED",
                      "CUSPARSE_STATUS_NOT_INITIALIZED",
                      "CUSPARSE_STATUS_INSUFFICIENT_RESOURCES",
                      "CUFFT_ALLOC_FAILED"}))
    return CT_ERR_OUT_OF_MEMORY;
  if (contains(text, {"CUBLAS_STATUS_EXECUTION_FAILED", "CUBLAS_STATUS_MAPPING_ERROR", "CUDNN_STATUS_EXECUTION_FAILED",
                      "CUSOLVER_STATUS_EXECUTION_FAILED", "CUSPARSE_STATUS_EXECUTION_FAILED", "CUFFT_EXEC_FAILED", "illegal memory access",
                      "device-side assert", "unspecified launch failure", "misaligned address", "an illegal instruction was encountered",
                      "uncorrectable ECC error", "uncorrectable NVLink error", "the launch timed out and was terminated",
                      "driver shutting down"}))
    return CT_ERR_DEVICE;
  if (contains(text, {"Found no NVIDIA driver", "The NVIDIA driver on your system is too old", "No CUDA GPUs are available",
                      "without ATen_cuda library", "_STATUS_ARCH_MISMATCH", "CUBLAS_STATUS_NOT_SUPPORTED", "CUDNN_STATUS_NOT_SUPPORTED",
                      "CUSPARSE_STATUS_NOT_SUPPORTED", "CUSOLVER_STATUS_MATRIX_TYPE_NOT_SUPPORTED", "CUFFT_NOT_SUPPORTED",
                      "CUFFT_NOT_IMPLEMENTED"}))
    return CT_ERR_NOT_SUPPORTED;
  if (contains(text, {"_STATUS_INTERNAL_ERROR", "CUFFT_INTERNAL_ERROR", "CUFFT_SETUP_FAILED", "NCCL Error", "NCCL error"}))
    return CT_ERR_INTERNAL;
  return CT_ERR_INVALID;
}

// Errors of the runtime, by cudaError_t. After those that are named here the context is whole; of any other nothing is
// certain, so it counts as broken.
static int code_of_runtime(const c10::AcceleratorError &e) {
  const int number = e.get_error_code();
  switch (number) {
  case 2: return CT_ERR_OUT_OF_MEMORY;
  case 1:   // invalid value
  case 9:   // invalid configuration of a kernel
  case 101: // no such device
  case 701: // more threads or registers than a kernel can have
    return CT_ERR_INVALID;
  case 34:  // the library is a stub
  case 35:  // the driver is too old
  case 46:  // another process has the GPU for itself
  case 98:  // no such kernel
  case 100: // no device
  case 209: // no kernel for this GPU
  case 222: // PTX that this driver cannot compile
  case 801: // not supported
  case 802: // the system is not ready: NVSwitch without its fabric manager
  case 803: // driver and runtime do not match
  case 804: // forward compatibility on another kind of GPU
    return CT_ERR_NOT_SUPPORTED;
  }
  if (number >= 900 && number <= 910) return CT_ERR_NOT_SUPPORTED; // what a graph cannot capture
  return CT_ERR_DEVICE;
}

static ct_code failure(int code, const char *text) noexcept {
  if (code == CT_ERR_DEVICE) failed = 1;
  return record(code, text);
}

ct_code caught() noexcept {
  try {
    throw;
  } catch (const c10::OutOfMemoryError &e) {
    return record(CT_ERR_OUT_OF_MEMORY, e.what_without_backtrace());
  } catch (const c10::IndexError &e) {
    return record(CT_ERR_INDEX, e.what_without_backtrace());
  } catch (const c10::TypeError &e) {
    return record(CT_ERR_TYPE, e.what_without_backtrace());
  } catch (const c10::ValueError &e) {
    return record(CT_ERR_VALUE, e.what_without_backtrace());
  } catch (const c10::NotImplementedError &e) {
    return record(CT_ERR_NOT_SUPPORTED, e.what_without_backtrace());
  } catch (const c10::AcceleratorError &e) {
    return failure(code_of_runtime(e), e.what_without_backtrace());
  } catch (const c10::Error &e) {
    return failure(code_of_text(e.what_without_backtrace()), e.what_without_backtrace());
  } catch (const std::bad_alloc &) {
    return record(CT_ERR_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception &e) {
    return failure(code_of_text(e.what()), e.what());
  } catch (...) {
    return record(CT_ERR_INTERNAL, "a C++ exception of unknown type");
  }
}

void free_error(ct_error *e) {
  if (reinterpret_cast<char *>(e) != reserve) free(e);
}
void free_buffer(void *p) { free(p); }
void free_tensors(const ct_tensor *items, int64_t count) {
  if (device_failed()) return; // what is freed now might throw where nothing may; all is left to the end of the process
  for (int64_t i = 0; i < count; i++)
    if (items[i]) c10::raw::intrusive_ptr::decref(static_cast<at::TensorImpl *>(items[i]));
}
void retain(ct_tensor t) {
  if (t) c10::raw::intrusive_ptr::incref(static_cast<at::TensorImpl *>(t));
}
int64_t use_count(ct_tensor t) { return t ? static_cast<int64_t>(get(t).use_count()) : 0; }
int64_t swap_scope(int64_t slot) {
  int64_t former = scope_slot;
  scope_slot = slot;
  return former;
}

// glibc returns every large block to the kernel and faults its pages in again at the next step, which costs a
// convolutional model up to a third of its time. One heap that is never trimmed costs nothing but its high-water mark.
void tune_malloc() {
#if defined(__GLIBC__)
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TRIM_THRESHOLD, INT_MAX);
  mallopt(M_TOP_PAD, 64 << 20);
#endif
}

ct_code empty_cache() {
  return guard([] {
    if (device_failed()) return; // there is nothing to give back to
    if (auto *a = dynamic_cast<c10::DeviceAllocator *>(c10::GetAllocator(c10::DeviceType::CUDA))) a->emptyCache();
  });
}

} // namespace ct
