// Autocast of the calling thread, entered and left as torch.autocast does.
#include "guard.h"

#include <ATen/autocast_mode.h>
#include <ATen/ops/gru_ops.h>
#include <ATen/ops/lstm_ops.h>
#include <torch/library.h>

namespace ct {

// saved packs what leave_autocast restores: enabled | cache << 1 | dtype << 8.
ct_code enter_autocast(int32_t device_type, int32_t enabled, int32_t dtype, int32_t cache, int64_t *saved) {
  return guard([&] {
    auto device = static_cast<at::DeviceType>(device_type);
    *saved = static_cast<int64_t>(at::autocast::is_autocast_enabled(device)) |
             static_cast<int64_t>(at::autocast::is_autocast_cache_enabled()) << 1 |
             static_cast<int64_t>(at::autocast::get_autocast_dtype(device)) << 8;
    at::autocast::set_autocast_enabled(device, enabled != 0);
    at::autocast::set_autocast_dtype(device, static_cast<at::ScalarType>(dtype));
    at::autocast::set_autocast_cache_enabled(cache != 0);
    at::autocast::increment_nesting();
  });
}

ct_code leave_autocast(int32_t device_type, int64_t saved) {
  return guard([&] {
    auto device = static_cast<at::DeviceType>(device_type);
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device, saved & 1);
    at::autocast::set_autocast_dtype(device, static_cast<at::ScalarType>(saved >> 8));
    at::autocast::set_autocast_cache_enabled(saved & 2);
  });
}

// PyTorch's cache of cast weights is one for all threads, and a thread that leaves autocast empties
// it. A recurrent layer that libtorch computes step by step casts its weights at each step, so
// another thread's end in between gives it a second copy, whose gradients are added in float32
// instead of the lower precision: other last bits, by chance. Casting them before the first step
// makes one copy, the one that the cache would hold. What it would not hold is left alone: an LSTM's
// projections too, the last of each group of weights, which are used transposed.
static std::vector<at::Tensor> cast_once(at::TensorList weights, size_t group_with_projection = 0) {
  std::vector<at::Tensor> cast = weights.vec();
  if (!at::autocast::is_autocast_cache_enabled()) return cast;
  at::ScalarType lower = at::autocast::get_autocast_dtype(at::kCPU);
  for (size_t i = 0; i < cast.size(); i++) {
    at::Tensor &w = cast[i];
    bool projection = group_with_projection != 0 && (i + 1) % group_with_projection == 0;
    bool cached = w.scalar_type() == at::kFloat && w.requires_grad() && w.is_leaf() && !w.is_view();
    if (cached && !projection) w = at::autocast::cached_cast(lower, w, at::kCPU);
  }
  return cast;
}

static constexpr c10::DispatchKeySet below_autocast(c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::AutocastCPU);

static std::tuple<at::Tensor, at::Tensor, at::Tensor> lstm(c10::DispatchKeySet keys, const at::Tensor &input, at::TensorList states,
                                                           at::TensorList weights, bool has_biases, int64_t layers, double dropout,
                                                           bool train, bool bidirectional, bool batch_first) {
  bool projected = states.size() == 2 && states[0].size(-1) != states[1].size(-1);
  return at::_ops::lstm_input::redispatch(keys & below_autocast, input, states, cast_once(weights, projected ? (has_biases ? 5 : 3) : 0),
                                          has_biases, layers, dropout, train, bidirectional, batch_first);
}

static std::tuple<at::Tensor, at::Tensor> gru(c10::DispatchKeySet keys, const at::Tensor &input, const at::Tensor &state,
                                              at::TensorList weights, bool has_biases, int64_t layers, double dropout, bool train,
                                              bool bidirectional, bool batch_first) {
  return at::_ops::gru_input::redispatch(keys & below_autocast, input, state, cast_once(weights), has_biases, layers, dropout, train,
                                         bidirectional, batch_first);
}

TORCH_LIBRARY_IMPL(aten, AutocastCPU, library) {
  library.impl("lstm.input", TORCH_FN(lstm));
  library.impl("gru.input", TORCH_FN(gru));
}

} // namespace ct
