// The parts of a training step that are naturally one call over all parameters. Each gives the bits of its
// PyTorch original on the same machine; the comments name the original.
#include "guard.h"

#include <ATen/native/ForeachUtils.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_clamp_max.h>
#include <ATen/ops/_foreach_clamp_min.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_norm.h>
#include <ATen/ops/_foreach_sub.h>
#include <ATen/ops/_fused_adagrad.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/add.h>
#include <ATen/ops/clamp.h>
#include <ATen/ops/empty_strided.h>
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

// The norms of the gradients, those of one dtype after those of another, as torch.nn.utils.get_total_norm has them.
static Tensors norms_of(const Tensors &grads, double norm_type) {
  auto same = [&](const at::Tensor &g) { return g.scalar_type() == grads[0].scalar_type(); };
  if (std::all_of(grads.begin(), grads.end(), same)) return at::_foreach_norm(grads, norm_type);
  Tensors norms;
  std::vector<std::optional<at::Tensor>> list(grads.begin(), grads.end());
  for (const auto &[key, group] : at::native::_group_tensors_by_first_tensors_device_and_dtype({list}, false)) {
    Tensors members;
    for (const auto &g : group.first[0]) members.push_back(*g);
    for (auto &norm : at::_foreach_norm(members, norm_type)) norms.push_back(std::move(norm));
  }
  return norms;
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
    auto norm = at::linalg_vector_norm(at::stack(norms_of(grads, norm_type)), norm_type);
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

// Whether two tensors have the same shape and the same order in memory.
static bool alike(const at::Tensor &a, const at::Tensor &b) {
  if (a.sizes() != b.sizes()) return false;
  for (int64_t d = 0; d < a.dim(); d++)
    if (a.size(d) != 1 && a.stride(d) != b.stride(d)) return false;
  return true;
}

// t in the order in which like lies in memory.
static at::Tensor ordered(const at::Tensor &t, const at::Tensor &like) {
  return at::empty_strided(like.sizes(), like.strides(), t.options()).copy_(t);
}

// The parameters that have a gradient, as the fused kernels want them: these run over memory and look at neither shapes
// nor strides, so a gradient or state in another order would meet other elements of its parameter.
class Fused {
public:
  Tensors params, grads;

  Fused(const ct_tensor *all, int64_t count) {
    params.reserve(count), grads.reserve(count), places_.reserve(count);
    for (int64_t i = 0; i < count; i++) {
      const auto &p = get(all[i]);
      const auto &g = p.grad();
      if (!g.defined()) continue;
      TORCH_CHECK(g.sizes() == p.sizes(), "parameter ", i, " has the shape ", p.sizes(), " and its gradient ", g.sizes());
      places_.push_back(i);
      params.push_back(p.is_non_overlapping_and_dense() ? p : p.contiguous()); // of a view with holes a copy, see finish
      if (!params.back().is_same(p)) views_.emplace_back(p, params.back());
      grads.push_back(alike(g, params.back()) ? g : ordered(g, params.back()));
    }
  }

  // The state of each; one in another order (the memory format was changed after it was made) is put in order for good.
  Tensors states(const char *name, const ct_tensor *all) {
    Tensors list;
    list.reserve(params.size());
    for (size_t k = 0; k < params.size(); k++) {
      auto &t = get_mutable(all[places_[k]]);
      TORCH_CHECK(t.sizes() == params[k].sizes(), "parameter ", places_[k], " has the shape ", params[k].sizes(), " and its ", name, " ",
                  t.sizes());
      if (!alike(t, params[k])) t.set_data(ordered(t, params[k]));
      list.push_back(t);
    }
    return list;
  }

  Tensors numbers(const ct_tensor *all) const {
    Tensors list;
    for (auto i : places_) list.push_back(get(all[i]));
    return list;
  }

  void finish() {
    for (auto &[view, dense] : views_) view.copy_(dense);
  }

private:
  std::vector<int64_t> places_;
  std::vector<std::pair<at::Tensor, at::Tensor>> views_;
};

// torch.optim.adam.adam / adamw.adamw with fused=True
ct_code fused_adam(const ct_tensor *params, const ct_tensor *exp_avgs, const ct_tensor *exp_avg_sqs, const ct_tensor *max_exp_avg_sqs,
                   const ct_tensor *steps, int64_t count, const ct_optimizer_options *o) {
  return guard([&] {
    c10::AutoGradMode off(false);
    Fused f(params, count);
    if (f.params.empty()) return;
    auto m = f.states("exp_avg", exp_avgs), v = f.states("exp_avg_sq", exp_avg_sqs), s = f.numbers(steps);
    auto x = o->amsgrad ? f.states("max_exp_avg_sq", max_exp_avg_sqs) : Tensors();
    at::_foreach_add_(s, at::Scalar(1));
    auto kernel = o->decoupled ? static_cast<decltype(&at::_ops::_fused_adamw_::call)>(at::_ops::_fused_adamw_::call)
                               : static_cast<decltype(&at::_ops::_fused_adamw_::call)>(at::_ops::_fused_adam_::call);
    kernel(f.params, f.grads, m, v, x, s, o->lr, o->beta1, o->beta2, o->weight_decay, o->eps, o->amsgrad != 0, o->maximize != 0,
           std::nullopt, found_inf(o));
    if (o->found_inf) at::_foreach_sub_(s, Tensors(s.size(), get(o->found_inf))); // an update that was left out does not count
    f.finish();
  });
}

// torch.optim.adagrad.adagrad with fused=True
ct_code fused_adagrad(const ct_tensor *params, const ct_tensor *sums, const ct_tensor *steps, int64_t count,
                      const ct_optimizer_options *o) {
  return guard([&] {
    c10::AutoGradMode off(false);
    Fused f(params, count);
    if (f.params.empty()) return;
    auto sum = f.states("sum", sums), s = f.numbers(steps);
    at::_foreach_add_(s, at::Scalar(1));
    at::_ops::_fused_adagrad_::call(f.params, f.grads, sum, s, o->lr, o->lr_decay, o->weight_decay, o->eps, o->maximize != 0, std::nullopt,
                                    found_inf(o));
    if (o->found_inf) at::_foreach_sub_(s, Tensors(s.size(), get(o->found_inf)));
    f.finish();
  });
}

// torch.optim.sgd.sgd with fused=True
ct_code fused_sgd(const ct_tensor *params, const ct_tensor *momentum_buffers, int64_t count, int32_t first_step,
                  const ct_optimizer_options *o) {
  return guard([&] {
    c10::AutoGradMode off(false);
    Fused f(params, count);
    if (f.params.empty()) return;
    auto b = o->momentum != 0 ? f.states("momentum_buffer", momentum_buffers) : Tensors();
    at::_ops::_fused_sgd_::call(f.params, f.grads, b, o->weight_decay, o->momentum, o->lr, o->dampening, o->nesterov != 0, o->maximize != 0,
                                first_step != 0, std::nullopt, found_inf(o));
    f.finish();
  });
}

} // namespace ct
