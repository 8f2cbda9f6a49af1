// Operators that libtorch composes of others, as one node of autograd each: linear and cross_entropy_loss. The kernels that are
// called in the end are the same, and so are the bits. What is left out is what lies between: the view of the weight and its way
// back, and calls that only choose among others. In a small model that is a tenth of an update.
//
// libtorch's own composition is called for what these are not made for, and always with GOTRAINER_AUTOGRAD=native.
#include "guard.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/_log_softmax.h>
#include <ATen/ops/_log_softmax_backward_data.h>
#include <ATen/ops/addmm.h>
#include <ATen/ops/as_strided_cpu_dispatch.h>
#include <ATen/ops/cross_entropy_loss_native.h>
#include <ATen/ops/linear_native.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/nll_loss_backward.h>
#include <ATen/ops/nll_loss_forward.h>
#include <c10/core/GradMode.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/generated/Functions.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/library.h>

namespace ct {

using torch::autograd::SavedVariable, torch::autograd::variable_list;

// Node is what the nodes have in common. Within a backward pass whose gradients have no gradients in turn, operators are called
// below autograd.
struct Node : torch::autograd::Node {
  virtual variable_list gradients(const at::Tensor &grad) = 0;

  variable_list apply(variable_list &&grads) override {
    std::lock_guard<std::mutex> lock(mutex_);
    if (!grads[0].defined()) return variable_list(num_outputs());
    std::optional<at::AutoDispatchBelowADInplaceOrView> below;
    if (!c10::GradMode::is_enabled()) below.emplace();
    return gradients(grads[0]);
  }
};

template <class N, class... Inputs> static std::shared_ptr<N> node_of(const Inputs &...inputs) {
  std::shared_ptr<N> node(new N, torch::autograd::deleteNode);
  node->set_next_edges(torch::autograd::collect_next_edges(inputs...));
  return node;
}

// A matrix of floating-point numbers whose rows lie one behind the other, without a gradient in forward mode.
static bool plain(const at::Tensor &t) {
  return t.dim() == 2 && t.layout() == at::kStrided && t.stride(1) == 1 && t.stride(0) == t.size(1) &&
         at::isFloatingType(t.scalar_type()) && !t._fw_grad(0).defined();
}

// AddmmBackward0 and TBackward0: mm_mat1_backward and mm_mat2_backward of libtorch's FunctionsManual.cpp.
struct Linear : Node {
  SavedVariable input, weight;

  std::string name() const override { return "AddmmBackward0"; }

  variable_list gradients(const at::Tensor &grad) override {
    variable_list out(3);
    if (task_should_compute_output(0)) out[0] = grad; // the engine sums it up to the bias's shape
    if (task_should_compute_output(1)) out[1] = grad.mm(weight.unpack());
    if (task_should_compute_output(2)) out[2] = grad.t().mm(input.unpack());
    return out;
  }

  void release_variables() override {
    std::lock_guard<std::mutex> lock(mutex_);
    input.reset_data();
    weight.reset_data();
  }
};

static at::Tensor linear(const at::Tensor &input, const at::Tensor &weight, const std::optional<at::Tensor> &bias) {
  if (!c10::GradMode::is_enabled() || !bias || !bias->defined() || bias->dim() != 1 || bias->_fw_grad(0).defined() || !plain(input) ||
      !plain(weight) || input.numel() < 2 || !torch::autograd::compute_requires_grad(input, weight, *bias))
    return at::native::linear(input, weight, bias);
  // As addmm has them: the bias's gradient is complete before the weight's, which decides how DDP's Reducer lays out its buckets.
  auto node = node_of<Linear>(*bias, input, weight);
  if (node->should_compute_output(1)) node->weight = SavedVariable(weight, false);
  if (node->should_compute_output(2)) node->input = SavedVariable(input, false);
  at::Tensor output;
  {
    at::AutoDispatchBelowADInplaceOrView below;
    auto transposed = at::cpu::as_strided(weight, {weight.size(1), weight.size(0)}, {1, weight.size(1)}, weight.storage_offset());
    output = at::addmm(*bias, input, transposed);
  }
  torch::autograd::set_history(output, node);
  return output;
}

// NllLossBackward0 and LogSoftmaxBackward0.
struct CrossEntropy : Node {
  SavedVariable target;
  at::Tensor log_probabilities, total_weight; // nobody else has them, so nobody has changed them
  int64_t reduction, ignore_index;

  std::string name() const override { return "NllLossBackward0"; }

  variable_list gradients(const at::Tensor &grad) override {
    TORCH_CHECK(log_probabilities.defined(), torch::autograd::ERR_BACKWARD_TWICE);
    at::Tensor result = c10::GradMode::is_enabled() ? differentiable() : log_probabilities;
    auto of_log = at::nll_loss_backward(grad, result, target.unpack(), {}, reduction, ignore_index, total_weight);
    return {at::_log_softmax_backward_data(of_log, result, 1, result.scalar_type())};
  }

  // The probabilities' logarithms, with the node that libtorch would have given them.
  at::Tensor differentiable() {
    auto node = std::make_shared<torch::autograd::generated::LogSoftmaxBackward0>();
    node->add_next_edge(next_edge(0));
    node->dim = 1;
    node->self_scalar_type = log_probabilities.scalar_type();
    at::Tensor result = log_probabilities.detach();
    torch::autograd::set_history(result, node);
    node->result_ = SavedVariable(result, true);
    return result;
  }

  void release_variables() override {
    std::lock_guard<std::mutex> lock(mutex_);
    target.reset_data();
    log_probabilities.reset();
    total_weight.reset();
  }
};

static at::Tensor cross_entropy_loss(const at::Tensor &self, const at::Tensor &target, const std::optional<at::Tensor> &weight,
                                     int64_t reduction, c10::SymInt ignore_index, double label_smoothing) {
  if (!c10::GradMode::is_enabled() || !self.requires_grad() || !plain(self) || target.dim() != 1 || target.scalar_type() != at::kLong ||
      target.size(0) != self.size(0) || (weight && weight->defined()) || label_smoothing != 0 ||
      at::autocast::is_autocast_enabled(at::kCPU))
    return at::native::cross_entropy_loss_symint(self, target, weight, reduction, std::move(ignore_index), label_smoothing);
  auto node = node_of<CrossEntropy>(self);
  node->target = SavedVariable(target, false);
  node->reduction = reduction;
  node->ignore_index = ignore_index.expect_int();
  at::Tensor loss;
  {
    at::AutoDispatchBelowADInplaceOrView below;
    node->log_probabilities = at::_log_softmax(self, 1, false);
    std::tie(loss, node->total_weight) = at::nll_loss_forward(node->log_probabilities, target, {}, reduction, node->ignore_index);
  }
  torch::autograd::set_history(loss, node);
  return loss;
}

TORCH_LIBRARY_IMPL(aten, AutogradCPU, library) {
  const char *setting = std::getenv("GOTRAINER_AUTOGRAD");
  if (setting && std::string_view(setting) == "native") return;
  library.impl("linear", TORCH_FN(linear));
  library.impl("cross_entropy_loss", TORCH_FN(cross_entropy_loss));
}

} // namespace ct
