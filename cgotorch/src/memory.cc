// Lifetime: error records, references, the scope slot of a thread, settings of the allocator.
#include "guard.h"

#include <c10/core/CachingDeviceAllocator.h>
#include <c10/util/intrusive_ptr.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include <climits>

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

static int code_of_text(const char *text) { // the CPU allocator throws a plain c10::Error
  return strstr(text, "can't allocate memory") || strstr(text, "not enough memory") ? CT_ERR_OUT_OF_MEMORY : CT_ERR_INVALID;
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
  } catch (const c10::Error &e) {
    return record(code_of_text(e.what_without_backtrace()), e.what_without_backtrace());
  } catch (const std::bad_alloc &) {
    return record(CT_ERR_OUT_OF_MEMORY, "out of memory");
  } catch (const std::exception &e) {
    return record(code_of_text(e.what()), e.what());
  } catch (...) {
    return record(CT_ERR_INTERNAL, "a C++ exception of unknown type");
  }
}

void free_error(ct_error *e) {
  if (reinterpret_cast<char *>(e) != reserve) free(e);
}
void free_buffer(void *p) { free(p); }
void free_tensors(const ct_tensor *items, int64_t count) {
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
    if (auto *a = dynamic_cast<c10::DeviceAllocator *>(c10::GetAllocator(c10::DeviceType::CUDA))) a->emptyCache();
  });
}

} // namespace ct
