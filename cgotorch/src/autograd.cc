// Backward passes, gradients, and the grad and inference modes of a thread.
#include "guard.h"

#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

namespace ct {

static torch::autograd::variable_list list_of(const ct_tensor *items, int64_t count) {
  auto l = get_list(items, count);
  return {l.begin(), l.end()};
}

ct_code backward(const ct_tensor *tensors, int64_t count, const ct_tensor *gradients, int32_t retain_graph, int32_t create_graph) {
  return guard([&] {
    torch::autograd::backward(list_of(tensors, count), gradients ? list_of(gradients, count) : torch::autograd::variable_list{},
                              retain_graph != 0, create_graph != 0);
  });
}

ct_code grad_of(const ct_tensor *outputs, int64_t count, const ct_tensor *gradients, const ct_tensor *inputs, int64_t inputs_count,
                int32_t retain_graph, int32_t create_graph, int32_t allow_unused, ct_tensor *out) {
  return guard([&] {
    auto r = torch::autograd::grad(list_of(outputs, count), list_of(inputs, inputs_count),
                                   gradients ? list_of(gradients, count) : torch::autograd::variable_list{}, retain_graph != 0,
                                   create_graph != 0, allow_unused != 0);
    for (int64_t i = 0; i < inputs_count; i++) out[i] = give(std::move(r[i]));
  });
}

ct_code set_requires_grad(ct_tensor t, int32_t on) {
  return guard([&] { get_mutable(t).set_requires_grad(on != 0); });
}

ct_code grads(const ct_tensor *tensors, int64_t count, ct_tensor *out) {
  return guard([&] {
    for (int64_t i = 0; i < count; i++) out[i] = give(get(tensors[i]).grad());
  });
}

ct_code set_grad(ct_tensor t, ct_tensor grad) {
  return guard([&] { get_mutable(t).mutable_grad() = grad ? get(grad) : at::Tensor(); });
}

ct_code zero_grad(const ct_tensor *tensors, int64_t count, int32_t set_to_none) {
  return guard([&] {
    c10::AutoGradMode off(false);
    for (int64_t i = 0; i < count; i++) {
      auto &g = get_mutable(tensors[i]).mutable_grad();
      if (!g.defined()) continue;
      if (set_to_none) {
        g = at::Tensor();
      } else {
        g = g.detach();
        g.zero_();
      }
    }
  });
}

int32_t swap_grad_mode(int32_t on) {
  bool former = c10::GradMode::is_enabled();
  c10::GradMode::set_enabled(on != 0);
  return former;
}

void *enter_inference() { return new c10::InferenceMode(true); }
void leave_inference(void *guard) { delete static_cast<c10::InferenceMode *>(guard); }
int32_t inference_enabled() { return c10::InferenceMode::is_enabled(); }

ct_code grad_name(ct_tensor t, char **text) {
  return guard([&] {
    auto node = get(t).grad_fn();
    *text = node ? strdup(node->name().c_str()) : nullptr;
    if (node && !*text) throw std::bad_alloc();
  });
}

} // namespace ct
