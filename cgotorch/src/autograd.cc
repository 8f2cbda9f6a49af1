// Backward passes, gradients, hooks, and the grad and inference modes of a thread.
#include "guard.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/stack.h>
#include <c10/core/GradMode.h>
#include <c10/core/InferenceMode.h>
#include <torch/csrc/autograd/anomaly_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>

#include <mutex>

namespace ct {

static void not_answering() {
  TORCH_CHECK(!answering, "a backward pass cannot start inside the backward of a Function or inside a Checkpoint that is computed again");
}

ct_code backward(const ct_tensor *tensors, int64_t count, const ct_tensor *gradients, int32_t retain_graph, int32_t create_graph) {
  return guard([&] {
    not_answering();
    torch::autograd::backward(get_vector(tensors, count), gradients ? get_vector(gradients, count) : torch::autograd::variable_list{},
                              retain_graph != 0, create_graph != 0);
  });
}

ct_code grad_of(const ct_tensor *outputs, int64_t count, const ct_tensor *gradients, const ct_tensor *inputs, int64_t inputs_count,
                int32_t retain_graph, int32_t create_graph, int32_t allow_unused, ct_tensor *out) {
  return guard([&] {
    not_answering();
    auto r = torch::autograd::grad(get_vector(outputs, count), get_vector(inputs, inputs_count),
                                   gradients ? get_vector(gradients, count) : torch::autograd::variable_list{}, retain_graph != 0,
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
ct_code set_grads(const ct_tensor *tensors, const ct_tensor *grads, int64_t count) {
  return guard([&] {
    for (int64_t i = 0; i < count; i++)
      TORCH_CHECK(!grads[i] || get(grads[i]).sizes() == get(tensors[i]).sizes(), "tensor ", i, " has the shape ", get(tensors[i]).sizes(),
                  " and its gradient ", get(grads[i]).sizes());
    for (int64_t i = 0; i < count; i++) get_mutable(tensors[i]).mutable_grad() = grads[i] ? get(grads[i]) : at::Tensor();
  });
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

ct_code retain_grad(ct_tensor t) {
  return guard([&] { get(t).retain_grad(); });
}

int32_t retains_grad(ct_tensor t) { return get(t).retains_grad(); }

// Hook is what a tensor's hook and the handle in Go share. A hook that is removed stays with its tensor and does nothing: libtorch finds
// hooks by their place in a list that an operation in place starts anew.
struct Hook {
  ct_hook_options options;
  std::mutex mutex;
  bool removed = false;
  bool recording = true; // until nobody can read what was recorded
  std::vector<at::Tensor> norms;
  at::Tensor gradient;

  at::Tensor operator()(at::Tensor g) {
    const auto &o = options;
    {
      std::lock_guard<std::mutex> lock(mutex);
      if (removed || !g.defined()) return {}; // the gradient stays as it is
      if (recording && o.record_norm) norms.push_back(at::linalg_vector_norm(g.detach(), 2));
      if (recording && o.record_gradient) gradient = g.detach().clone();
    }
    if (o.scaled) g = g * o.scale;
    if (o.clip_norm > 0) g = g * (o.clip_norm / (at::linalg_vector_norm(g, 2) + 1e-6)).clamp_max(1.0);
    if (o.clip_value > 0) g = g.clamp(-o.clip_value, o.clip_value);
    return g;
  }
};
using HookHandle = std::shared_ptr<Hook>;

ct_code add_hook(ct_tensor t, const ct_hook_options *o, void **out) {
  return guard([&] {
    auto hook = std::make_shared<Hook>();
    hook->options = *o;
    get(t).register_hook([hook](at::Tensor g) { return (*hook)(std::move(g)); });
    *out = new HookHandle(std::move(hook));
  });
}

ct_code hook_results(void *p, int32_t take_norms, ct_tensor *norms, ct_tensor *gradient) {
  return guard([&] {
    auto &hook = **static_cast<HookHandle *>(p);
    std::lock_guard<std::mutex> lock(hook.mutex);
    *norms = hook.norms.empty() || !take_norms ? nullptr : give(at::stack(hook.norms));
    *gradient = give(hook.gradient);
    if (take_norms) hook.norms.clear();
  });
}

void free_hook(void *p, int32_t remove) {
  auto *handle = static_cast<HookHandle *>(p);
  {
    auto &hook = **handle;
    std::lock_guard<std::mutex> lock(hook.mutex);
    hook.removed = remove != 0;
    hook.recording = false;
    hook.norms.clear();
    hook.gradient = at::Tensor();
  }
  delete handle;
}

void swap_anomaly(int32_t *on, int32_t *check_nan) {
  using torch::autograd::AnomalyMode;
  bool former_on = AnomalyMode::is_enabled(), former_check = AnomalyMode::should_check_nan();
  AnomalyMode::set_enabled(*on != 0, *check_nan != 0);
  *on = former_on;
  *check_nan = former_check;
}

} // namespace ct
