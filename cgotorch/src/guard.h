// What every file of the shim shares: the guard that keeps C++ exceptions in, and the conversions between the
// plain C types of ct.h and ATen's. defines: ct::guard, ct::get, ct::give, ...
#pragma once
#include "../ct.h"
#include "generators.h"

#include <ATen/ScalarOps.h>
#include <ATen/core/Generator.h>
#include <ATen/core/List.h>
#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>
#include <c10/core/Scalar.h>
#include <c10/core/ScalarType.h>
#include <c10/core/SymIntArrayRef.h>
#include <c10/util/Exception.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

// A handle is the TensorImpl itself, so that an array of handles is an at::TensorList without a copy.
static_assert(sizeof(at::Tensor) == sizeof(ct_tensor));

namespace ct {

// The scope in which results of this thread are registered; initial-exec: one load instead of a call.
extern __attribute__((tls_model("initial-exec"))) thread_local int64_t scope_slot;

extern thread_local bool answering; // between next_request and answer; no backward pass may start then

const ct_own_generators *swap_generators(const ct_own_generators *own); // of the calling thread; NULL: libtorch's own

ct_code caught() noexcept; // call inside catch (...): makes the error record

int32_t device_failed(); // a GPU's context is broken; no call of CUDA may follow
void mend_device();      // for tests

// How often the number of threads within an operator was set, and of which of these this thread knows: OpenMP and MKL
// keep the number for each thread, and Go moves a goroutine between threads.
extern std::atomic<int32_t> threads_set;
extern __attribute__((tls_model("initial-exec"))) thread_local int32_t threads_known;
void take_threads(); // the number as it was set last, for this thread
inline void know_threads() {
  if (threads_known != threads_set.load(std::memory_order_relaxed)) take_threads();
}

// guard runs f; it is the one place where exceptions end.
template <class F> inline ct_code guard(F &&f) noexcept {
  try {
    know_threads();
    f();
    return scope_slot;
  } catch (...) {
    return caught();
  }
}

inline const at::Tensor &get(const ct_tensor &t) { return reinterpret_cast<const at::Tensor &>(t); }
inline at::Tensor &get_mutable(const ct_tensor &t) { return const_cast<at::Tensor &>(get(t)); }
inline std::optional<at::Tensor> get_optional(const ct_tensor &t) {
  if (t) return get(t);
  return std::nullopt;
}
inline at::TensorList get_list(const ct_tensor *items, int64_t count) {
  return {reinterpret_cast<const at::Tensor *>(items), static_cast<size_t>(count)};
}
inline std::vector<at::Tensor> get_vector(const ct_tensor *items, int64_t count) { return get_list(items, count).vec(); }
inline c10::List<std::optional<at::Tensor>> get_optional_list(const ct_tensor *items, int64_t count) {
  c10::List<std::optional<at::Tensor>> list;
  list.reserve(count);
  for (int64_t i = 0; i < count; i++) list.push_back(get_optional(items[i]));
  return list;
}

inline ct_tensor give(at::Tensor &&t) { return t.defined() ? t.unsafeReleaseTensorImpl() : nullptr; }
inline ct_tensor give(const at::Tensor &t) { return give(at::Tensor(t)); }
inline void give_list(std::vector<at::Tensor> &&list, ct_tensor_list *out) {
  auto *items = static_cast<ct_tensor *>(malloc(sizeof(ct_tensor) * (list.size() + 1)));
  if (!items) throw std::bad_alloc();
  for (size_t i = 0; i < list.size(); i++) items[i] = give(std::move(list[i]));
  *out = {items, static_cast<int64_t>(list.size())};
}

inline std::optional<int64_t> get(ct_optional_int v) { return v.present ? std::optional<int64_t>(v.value) : std::nullopt; }
inline std::optional<c10::SymInt> get_sym(ct_optional_int v) { return v.present ? std::optional<c10::SymInt>(v.value) : std::nullopt; }
inline std::optional<double> get(ct_optional_double v) { return v.present ? std::optional<double>(v.value) : std::nullopt; }
inline std::optional<bool> get_bool(int32_t v) { return v >= 0 ? std::optional<bool>(v != 0) : std::nullopt; }

inline double as_double(int64_t bits) {
  double d;
  memcpy(&d, &bits, sizeof d);
  return d;
}
inline int64_t as_bits(double d) {
  int64_t bits;
  memcpy(&bits, &d, sizeof bits);
  return bits;
}
inline at::Scalar get(ct_scalar s) {
  if (s.kind == CT_SCALAR_INT) return at::Scalar(s.bits);
  if (s.kind == CT_SCALAR_BOOL) return at::Scalar(s.bits != 0);
  return at::Scalar(as_double(s.bits));
}
// A number where an operator wants a tensor, as Python passes it: it takes no part in the result's dtype but by its category.
inline at::Tensor get_number(ct_scalar s) { return at::native::wrapped_scalar_tensor(get(s)); }
inline std::optional<at::Scalar> get_optional(ct_scalar s) { return s.kind ? std::optional<at::Scalar>(get(s)) : std::nullopt; }
inline ct_scalar give(const at::Scalar &s) {
  if (s.isFloatingPoint()) return {as_bits(s.toDouble()), CT_SCALAR_DOUBLE};
  if (s.isBoolean()) return {s.toBool(), CT_SCALAR_BOOL};
  TORCH_CHECK(!s.isComplex(), "a complex number cannot be read as a real one");
  return {s.toLong(), CT_SCALAR_INT};
}

inline at::IntArrayRef get_ints(const int64_t *p, int64_t n) { return {p, static_cast<size_t>(n)}; }
inline c10::SymIntArrayRef get_sym_ints(const int64_t *p, int64_t n) { return c10::fromIntArrayRefSlow(get_ints(p, n)); }
inline at::OptionalIntArrayRef get_optional_ints(const int64_t *p, int64_t n) { // n < 0: None
  if (n < 0) return {};
  return get_ints(p, n);
}
inline at::OptionalSymIntArrayRef get_optional_sym_ints(const int64_t *p, int64_t n) {
  if (n < 0) return {};
  return get_sym_ints(p, n);
}
inline std::optional<at::ScalarType> get_dtype(int32_t v) { return v >= 0 ? std::optional(static_cast<at::ScalarType>(v)) : std::nullopt; }
inline std::optional<at::MemoryFormat> get_memory_format(int32_t v) {
  return v >= 0 ? std::optional(static_cast<at::MemoryFormat>(v)) : std::nullopt;
}
inline at::Device device_of(int32_t v) { return at::Device(static_cast<at::DeviceType>(v >> 8), static_cast<int8_t>(v & 0xff)); }
inline int32_t code_of(at::Device d) { return static_cast<int32_t>(d.type()) << 8 | (d.index() & 0xff); }
inline std::optional<at::Device> get_device(int32_t v) { return v >= 0 ? std::optional(device_of(v)) : std::nullopt; }
inline std::optional<std::string_view> get_optional_string(const char *p, int64_t n) {
  return n > 0 ? std::optional(std::string_view(p, n)) : std::nullopt;
}
inline std::optional<at::Generator> get_generator(ct_generator g) {
  if (g) return *static_cast<at::Generator *>(g);
  return std::nullopt;
}

} // namespace ct
