// What an operator costs in C++: prints a line "name<TAB>nanoseconds" for each case of main.go, under the same names.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace {

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// measure prints the least time of seven rounds of about 5 ms.
template <class F> void measure(const char *name, F &&f) {
  int64_t n = 1;
  for (;; n *= 2) {
    auto start = seconds();
    for (int64_t i = 0; i < n; i++) f();
    if (seconds() - start > 5e-3) break;
  }
  double least = 1e9;
  for (int round = 0; round < 7; round++) {
    auto start = seconds();
    for (int64_t i = 0; i < n; i++) f();
    least = std::min(least, (seconds() - start) / n);
  }
  printf("%s\t%.1f\n", name, least * 1e9);
}

void without_gradients() {
  at::NoGradGuard guard;
  auto x = at::randn(16), y = at::randn(16), m = at::randn({8, 32}), w = at::randn({32, 32}), b = at::randn(32), large = at::randn(65536);
  auto i = at::arange(8, at::kLong), image = at::randn({1, 3, 8, 8}), filters = at::randn({4, 3, 3, 3}), gain = at::ones(32),
       shift = at::zeros(32);
  auto mean = at::zeros(32), var = at::ones(32), logits = at::randn({8, 10}), square = at::randn({8, 8}), acc = at::zeros(16);
  std::vector<at::Tensor> list(20);
  for (auto &t : list) t = at::randn(16);

  measure("add", [&] { return at::add(x, y); });
  measure("mul by a number", [&] { return at::mul(x, 2.0); });
  measure("relu", [&] { return at::relu(x); });
  measure("exp", [&] { return at::exp(x); });
  measure("add, 65536", [&] { return at::add(large, large); });
  measure("sum", [&] { return at::sum(x); });
  measure("mean of rows", [&] { return at::mean(m, 1); });
  measure("argmax of rows", [&] { return at::argmax(m, 1); });
  measure("select a row", [&] { return m.select(0, 3); });
  measure("index_select", [&] { return at::index_select(m, 0, i); });
  measure("gather", [&] { return at::gather(m, 1, i.view({8, 1})); });
  measure("view", [&] { return m.view({4, 64}); });
  measure("transpose", [&] { return m.transpose(0, 1); });
  measure("cat of 2", [&] { return at::cat({m, m}); });
  measure("mm 8x8", [&] { return at::mm(square, square); });
  measure("linear 8x32x32", [&] { return at::linear(m, w, b); });
  measure("conv2d 3x8x8, 4 filters", [&] { return at::conv2d(image, filters, {}, 1, 1); });
  measure("layer_norm", [&] { return at::layer_norm(m, {32}, gain, shift, 1e-5); });
  measure("batch_norm", [&] { return at::batch_norm(m, gain, shift, mean, var, true, 0.1, 1e-5, true); });
  measure("softmax", [&] { return at::softmax(m, 1); });
  measure("cross_entropy", [&] { return at::cross_entropy_loss(logits, i); });
  measure("zeros", [&] { return at::zeros(16); });
  measure("randn", [&] { return at::randn(16); });
  measure("add_", [&] { return acc.add_(y); });
  measure("zero_", [&] { return acc.zero_(); });
  measure("_foreach_mul_, 20 tensors", [&] { at::_foreach_mul_(list, 0.99); });
  auto op = c10::Dispatcher::singleton().findSchemaOrThrow("aten::add", "Tensor");
  measure("add by name", [&] {
    torch::jit::Stack stack{x, y, 1};
    op.callBoxed(&stack);
    return stack[0].toTensor();
  });
}

void with_gradients() {
  auto x = at::randn({8, 32}), y = at::randn({8, 1});
  auto w1 = at::randn({32, 32}).requires_grad_(), b1 = at::zeros(32).requires_grad_(), w2 = at::randn({1, 32}).requires_grad_(),
       b2 = at::zeros(1).requires_grad_();
  measure("MLP of 2 layers", [&] {
    for (auto *p : {&w1, &b1, &w2, &b2}) p->mutable_grad() = at::Tensor();
    at::mse_loss(at::linear(at::relu(at::linear(x, w1, b1)), w2, b2), y).backward();
  });
}

} // namespace

int main() {
  without_gradients();
  with_gradients();
}
