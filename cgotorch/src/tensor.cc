// What a tensor is, and its bytes in and out.
#include "guard.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/record_function.h>

namespace ct {

void info(ct_tensor p, ct_info *out) {
  const at::Tensor &t = get(p);
  *out = ct_info{};
  if (t.unsafeGetTensorImpl()->is_python_dispatch() || t.is_nested()) { // no sizes that an array could hold
    out->dtype = static_cast<int32_t>(t.scalar_type());
    out->device = code_of(t.device());
    return;
  }
  bool strided = t.layout() == at::kStrided;
  out->dtype = static_cast<int32_t>(t.scalar_type());
  out->device = code_of(t.device());
  out->dims = t.dim();
  out->sizes = t.sizes().data();
  out->strides = strided ? t.strides().data() : nullptr;
  out->numel = t.numel();
  out->bytes = t.numel() * static_cast<int64_t>(t.element_size());
  out->offset = strided && t.has_storage() ? t.storage_offset() : 0;
  out->requires_grad = t.requires_grad();
  out->is_leaf = t.is_leaf();
  out->is_contiguous = strided && t.is_contiguous();
  out->is_strided = strided;
}

void places(const ct_tensor *items, int64_t count, int64_t *out) {
  for (int64_t i = 0; i < count; i++) {
    const at::Tensor &t = get(items[i]);
    const void *place = t.has_storage() ? t.const_data_ptr() : t.unsafeGetTensorImpl();
    out[i] = (reinterpret_cast<int64_t>(place) & ~int64_t(1)) | t.requires_grad();
  }
}

ct_code from_bytes(const void *data, int64_t bytes, const int64_t *sizes, int64_t dims, int32_t dtype, int32_t pinned, ct_tensor *out) {
  return guard([&] {
    RECORD_FUNCTION("gotrainer::from_bytes", c10::ArrayRef<const c10::IValue>{}); // a profile shows what Go reads and writes
    auto t = at::empty(get_ints(sizes, dims), at::TensorOptions().dtype(static_cast<at::ScalarType>(dtype)).pinned_memory(pinned != 0));
    int64_t need = t.numel() * static_cast<int64_t>(t.element_size());
    TORCH_CHECK(need == bytes, "a tensor of shape ", t.sizes(), " and dtype ", t.scalar_type(), " has ", need, " bytes, but ", bytes,
                " were given");
    if (bytes) memcpy(t.mutable_data_ptr(), data, bytes);
    *out = give(std::move(t));
  });
}

ct_code to_bytes(ct_tensor p, void *data, int64_t bytes) {
  return guard([&] {
    RECORD_FUNCTION("gotrainer::to_bytes", c10::ArrayRef<const c10::IValue>{});
    auto t = get(p).detach().to(at::kCPU).contiguous();
    if (t.is_conj() || t.is_neg()) t = t.resolve_conj().resolve_neg();
    int64_t have = t.numel() * static_cast<int64_t>(t.element_size());
    TORCH_CHECK(have == bytes, "the tensor has ", have, " bytes, but room for ", bytes, " was given");
    if (bytes) memcpy(data, t.const_data_ptr(), bytes);
  });
}

void *memory(ct_tensor p, int32_t write) {
  const at::Tensor &t = get(p);
  if (t.unsafeGetTensorImpl()->is_python_dispatch() || t.is_nested() || t.layout() != at::kStrided || t.device() != at::kCPU ||
      !t.is_contiguous() || t.is_conj() || t.is_neg())
    return nullptr;
  try {
    if (!write) return const_cast<void *>(t.const_data_ptr());
    t.unsafeGetTensorImpl()->bump_version();
    return t.mutable_data_ptr();
  } catch (...) { // no memory behind it, or a tensor of inference, whose changes cannot be counted
    return nullptr;
  }
}

ct_code set_data_(ct_tensor t, ct_tensor value) {
  return guard([&] { get_mutable(t).set_data(get(value)); });
}

} // namespace ct
