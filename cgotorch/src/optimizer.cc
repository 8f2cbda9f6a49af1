// The parts of a training step that are naturally one call over all parameters. Each gives the bits of its
// PyTorch original on the same machine; the comments name the original.
#include "guard.h"

#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_clamp_max.h>
#include <ATen/ops/_foreach_clamp_min.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/add.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/linalg_vector_norm.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/reciprocal.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <c10/core/GradMode.h>

namespace ct {

using Tensors = std::vector<at::Tensor>;

static Tensors grads_of(const ct_tensor *params, int64_t count) {
  Tensors grads;
  grads.reserve(count);
  for (int64_t i = 0; i < count; i++)
    if (const auto &g = get(params[i]).grad(); g.defined()) grads.push_back(g);
  return grads;
}

// torch.nn.utils.clip_grad_norm_: total = norm of the gradients' norms; with scale set, gradients are multiplied by
// min(max_norm / (total + 1e-6), 1). The factor stays a tensor, so nothing waits for the device.
ct_code clip_grad_norm(const ct_tensor *params, int64_t count, double max_norm, double norm_type, int32_t scale, ct_tensor *total) {
  return guard([&] {
    c10::AutoGradMode off(false);
    auto grads = grads_of(params, count);
    if (grads.empty()) {
      *total = give(at::zeros({}));
      return;
    }
    auto norm = at::linalg_vector_norm(at::stack(at::_foreach_norm(grads, norm_type)), norm_type);
    if (scale) {
      auto factor = at::clamp(at::mul(at::reciprocal(at::add(norm, 1e-6)), max_norm), std::nullopt, at::Scalar(1.0));
      at::_foreach_mul_(grads, factor);
    }
    *total = give(std::move(norm));
  });
}

// torch.nn.utils.clip_grad_value_
ct_code clip_grad_value(const ct_tensor *params, int64_t count, double value) {
  return guard([&] {
    c10::AutoGradMode off(false);
    auto grads = grads_of(params, count);
    if (grads.empty()) return;
    at::_foreach_clamp_min_(grads, at::Scalar(-value));
    at::_foreach_clamp_max_(grads, at::Scalar(value));
  });
}

static std::optional<at::Tensor> found_inf(const ct_optimizer_options *o) {
  return o->found_inf ? std::optional<at::Tensor>(get(o->found_inf)) : std::nullopt;
}

// torch.optim.adam.adam / adamw.adamw with fused=True
ct_code fused_adam(const ct_tensor *params, const ct_tensor *exp_avgs, const ct_tensor *exp_avg_sqs, const ct_tensor *max_exp_avg_sqs,
                   const ct_tensor *steps, int64_t count, const ct_optimizer_options *o) {
  return guard([&] {
    c10::AutoGradMode off(false);
    Tensors p, g, m, v, x, s;
    for (int64_t i = 0; i < count; i++) {
      const auto &grad = get(params[i]).grad();
      if (!grad.defined()) continue;
      p.push_back(get(params[i])), g.push_back(grad), m.push_back(get(exp_avgs[i])), v.push_back(get(exp_avg_sqs[i])),
          s.push_back(get(steps[i]));
      if (o->amsgrad) x.push_back(get(max_exp_avg_sqs[i]));
    }
    if (p.empty()) return;
    at::_foreach_add_(s, at::Scalar(1));
    auto kernel = o->decoupled ? static_cast<decltype(&at::_ops::_fused_adamw_::call)>(at::_ops::_fused_adamw_::call)
                               : static_cast<decltype(&at::_ops::_fused_adamw_::call)>(at::_ops::_fused_adam_::call);
    kernel(p, g, m, v, x, s, o->lr, o->beta1, o->beta2, o->weight_decay, o->eps, o->amsgrad != 0, o->maximize != 0, std::nullopt,
           found_inf(o));
    if (o->found_inf) at::_foreach_sub_(s, Tensors(s.size(), get(o->found_inf))); // an update that was left out does not count
  });
}

// torch.optim.sgd.sgd with fused=True
ct_code fused_sgd(const ct_tensor *params, const ct_tensor *momentum_buffers, int64_t count, int32_t first_step,
                  const ct_optimizer_options *o) {
  return guard([&] {
    c10::AutoGradMode off(false);
    Tensors p, g, b;
    for (int64_t i = 0; i < count; i++) {
      const auto &grad = get(params[i]).grad();
      if (!grad.defined()) continue;
      p.push_back(get(params[i])), g.push_back(grad);
      if (o->momentum != 0) b.push_back(get(momentum_buffers[i]));
    }
    if (p.empty()) return;
    at::_ops::_fused_sgd_::call(p, g, b, o->weight_decay, o->momentum, o->lr, o->dampening, o->nesterov != 0, o->maximize != 0,
                                first_step != 0, std::nullopt, found_inf(o));
  });
}

} // namespace ct
