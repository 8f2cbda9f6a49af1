// Nodes of the graph whose backward is written in Go: custom functions and checkpoints.
//
// C++ never calls Go. A backward pass that may meet such a node runs on a thread of its own, a Worker, while the thread that began it waits
// in next_request. At the node the pass stops and asks; next_request returns, Go computes and answers, and the pass goes on. A leaf whose
// gradient is complete asks in the same way. defines: Session, Deferred, AfterGradient, defer, add_after_gradient, remove_after_gradient,
// start_backward, next_request, answer, finish_backward
#include "guard.h"

#include <ATen/Parallel.h>
#include <ATen/SequenceNumber.h>
#include <ATen/ThreadLocalState.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/GradMode.h>
#include <c10/util/ThreadLocalDebugInfo.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/functions/utils.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/variable.h>

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace ct {

using torch::autograd::SavedVariable;
using torch::autograd::variable_list;

thread_local bool answering = false;

// Nodes run in the order of their sequence numbers, which each thread counts for itself. Threads that work on one graph in turns count on
// from each other, so that gradients are added in the order, and have the bits, of a single thread.
static void count_on(uint64_t from) {
  while (at::sequence_number::peek() < from) at::sequence_number::get_and_increment();
}

// Question is what a node asks; it lies on the stack of the thread that runs the node.
struct Question {
  int64_t node;
  bool grad_mode;
  variable_list inputs, outputs, gradients;
  variable_list answer;
  std::string failure;
  bool answered = false;
  uint64_t sequence = 0; // of the thread that asks, then of the one that answered
};

// Session is one backward pass. libtorch carries it to every thread that takes part in the pass, reentrant ones too.
struct Session : c10::DebugInfoBase {
  static constexpr auto kind = c10::DebugInfoKind::TEST_INFO_2; // libtorch has no kind for others; its own tests alone use this one
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Question *> questions;
  Question *asked = nullptr; // the one that Go works on
  bool over = false;
  std::exception_ptr error;
  variable_list results;
  uint64_t sequence = 0; // at the end of the pass

  void ask(Question &q) {
    q.sequence = at::sequence_number::peek();
    std::unique_lock<std::mutex> lock(mutex);
    questions.push_back(&q);
    changed.notify_all();
    changed.wait(lock, [&] { return q.answered; });
    count_on(q.sequence);
    TORCH_CHECK(q.failure.empty(), q.failure);
  }
};

// Worker is a thread that runs passes. Workers are kept: libtorch's own thread pools hang on them.
struct Worker {
  std::mutex mutex;
  std::condition_variable changed;
  std::function<void()> task;

  static void run(std::function<void()> task);
  void loop();
};
static std::mutex workers_mutex;
static std::vector<Worker *> idle_workers;

void Worker::run(std::function<void()> task) {
  Worker *worker = nullptr;
  {
    std::lock_guard<std::mutex> lock(workers_mutex);
    if (!idle_workers.empty()) {
      worker = idle_workers.back();
      idle_workers.pop_back();
    }
  }
  if (!worker) {
    worker = new Worker;
    std::thread([worker] { worker->loop(); }).detach();
  }
  std::lock_guard<std::mutex> lock(worker->mutex);
  worker->task = std::move(task);
  worker->changed.notify_one();
}

void Worker::loop() {
  for (;;) {
    std::function<void()> current;
    {
      std::unique_lock<std::mutex> lock(mutex);
      changed.wait(lock, [&] { return task != nullptr; });
      current.swap(task);
    }
    current();
    current = nullptr;
    std::lock_guard<std::mutex> lock(workers_mutex);
    idle_workers.push_back(this);
  }
}

static std::mutex dead_mutex;
static std::vector<int64_t> dead; // nodes that were destroyed and not yet told

// Deferred is a node whose backward is written in Go, which knows it by its number.
struct Deferred : torch::autograd::Node {
  const int64_t number;
  const int32_t kind;
  std::vector<SavedVariable> inputs, outputs;

  Deferred(int64_t number, int32_t kind, torch::autograd::edge_list &&edges) : Node(std::move(edges)), number(number), kind(kind) {}
  ~Deferred() override {
    std::lock_guard<std::mutex> lock(dead_mutex);
    dead.push_back(number);
  }
  std::string name() const override { return kind == CT_NODE_FUNCTION ? "FunctionBackward" : "CheckpointFunctionBackward"; }
  void release_variables() override {
    std::lock_guard<std::mutex> lock(mutex_);
    for (auto &v : inputs) v.reset_data();
    for (auto &v : outputs) v.reset_data();
  }

  variable_list apply(variable_list &&gradients) override {
    auto *session = static_cast<Session *>(c10::ThreadLocalDebugInfo::get(Session::kind));
    TORCH_CHECK(session, name(), " was reached by a backward pass that Go did not begin");
    Question q{number, c10::GradMode::is_enabled(), {}, {}, std::move(gradients), {}, {}, false, 0};
    {
      std::lock_guard<std::mutex> lock(mutex_);
      for (auto &v : inputs) q.inputs.push_back(v.unpack());
      for (auto &v : outputs) q.outputs.push_back(v.unpack(shared_from_this()));
    }
    if (kind == CT_NODE_CHECKPOINT) return recompute(*session, q);
    for (size_t i = 0; i < q.gradients.size(); i++)
      if (!q.gradients[i].defined() && q.outputs[i].defined()) q.gradients[i] = at::zeros_like(q.outputs[i]);
    session->ask(q);
    TORCH_CHECK(q.answer.size() == inputs.size(), "the backward of a Function returned ", q.answer.size(),
                " gradients, want one for each of its ", inputs.size(), " inputs");
    return std::move(q.answer);
  }

  // recompute lets Go run the checkpoint again, with history, and goes on through that: reentrant, as torch.utils.checkpoint does.
  variable_list recompute(Session &session, Question &q) {
    TORCH_CHECK(torch::autograd::Engine::get_default_engine().is_checkpoint_valid(),
                "Grad cannot pass a Checkpoint, which gives the gradients of all that it used; call Backward instead");
    TORCH_CHECK(!q.grad_mode, "a Checkpoint gives no gradients of gradients; leave CreateGraph unset or the Checkpoint out");
    auto gradients = std::move(q.gradients);
    q.gradients.clear();
    session.ask(q);
    size_t count = inputs.size();
    TORCH_CHECK(q.answer.size() == count + gradients.size(), "the function of a Checkpoint returned ", q.answer.size() - count,
                " tensors when it was computed again, and ", gradients.size(), " at first");
    variable_list roots, root_gradients;
    for (size_t i = 0; i < gradients.size(); i++) {
      auto &root = q.answer[count + i];
      if (!gradients[i].defined() || !root.defined() || !root.requires_grad()) continue;
      TORCH_CHECK(root.sizes() == gradients[i].sizes(), "the function of a Checkpoint returned result ", i, " with sizes ", root.sizes(),
                  " when it was computed again, and ", gradients[i].sizes(), " at first");
      roots.push_back(root);
      root_gradients.push_back(gradients[i]);
    }
    if (!roots.empty()) torch::autograd::backward(roots, root_gradients);
    variable_list out;
    for (size_t i = 0; i < count; i++) out.push_back(q.answer[i].defined() ? q.answer[i].grad() : at::Tensor());
    return out;
  }
};

// AfterGradient lets Go run code for a leaf as soon as a pass has added its gradient: Tensor.register_post_accumulate_grad_hook.
struct AfterGradient : torch::autograd::PostAccumulateGradHook {
  std::vector<int64_t> numbers; // of the code, in the order of registration

  ~AfterGradient() override {
    std::lock_guard<std::mutex> lock(dead_mutex);
    dead.insert(dead.end(), numbers.begin(), numbers.end());
  }
  void operator()(const torch::autograd::Variable &leaf) override {
    auto *session = static_cast<Session *>(c10::ThreadLocalDebugInfo::get(Session::kind));
    TORCH_CHECK(session, "a hook after the gradient was reached by a backward pass that Go did not begin");
    for (auto number : std::vector<int64_t>(numbers)) { // a copy: the code may remove its hook
      Question q{number, false, {leaf}, {}, {}, {}, {}, false, 0};
      session->ask(q);
    }
  }
};

static AfterGradient *after_gradient_of(const at::Tensor &leaf) {
  return dynamic_cast<AfterGradient *>(torch::autograd::impl::post_acc_grad_hooks(leaf).get());
}

ct_code add_after_gradient(ct_tensor t, int64_t number) {
  return guard([&] {
    auto &leaf = get(t);
    TORCH_CHECK(leaf.requires_grad(), "cannot register a hook on a tensor that doesn't require gradient");
    TORCH_CHECK(leaf.is_leaf(), "post accumulate grad hooks cannot be registered on non-leaf tensors");
    auto *hook = after_gradient_of(leaf);
    if (!hook) {
      auto fresh = std::make_unique<AfterGradient>();
      hook = fresh.get();
      torch::autograd::impl::set_post_acc_grad_hooks(leaf, std::move(fresh));
    }
    hook->numbers.push_back(number);
  });
}

ct_code remove_after_gradient(ct_tensor t, int64_t number) {
  return guard([&] {
    auto &leaf = get(t);
    auto *hook = leaf.is_leaf() ? after_gradient_of(leaf) : nullptr;
    if (!hook || !std::erase(hook->numbers, number)) return;
    {
      std::lock_guard<std::mutex> lock(dead_mutex);
      dead.push_back(number);
    }
    if (hook->numbers.empty()) torch::autograd::impl::set_post_acc_grad_hooks(leaf, nullptr);
  });
}

// list_with_undefined turns NULL entries into undefined tensors.
static variable_list list_with_undefined(const ct_tensor *items, int64_t count) {
  variable_list list(count);
  for (int64_t i = 0; i < count; i++)
    if (items[i]) list[i] = get(items[i]);
  return list;
}

ct_code defer(int64_t number, int32_t kind, const ct_tensor *items, int64_t count, const ct_tensor *outputs, int64_t outputs_count,
              ct_tensor *results) {
  return guard([&] {
    auto inputs = list_with_undefined(items, count);
    std::shared_ptr<Deferred> node(new Deferred(number, kind, torch::autograd::collect_next_edges(inputs)), torch::autograd::deleteNode);
    for (auto &v : inputs) node->inputs.emplace_back(v, false);
    variable_list made;
    for (auto &o : list_with_undefined(outputs, outputs_count)) {
      auto r = o.defined() ? o.tensor_data() : o;
      if (r.defined() && torch::autograd::isDifferentiableType(r.scalar_type()))
        torch::autograd::set_history(r, node);
      else
        node->add_input_metadata(torch::autograd::Node::undefined_input());
      if (kind == CT_NODE_FUNCTION) node->outputs.emplace_back(r, true);
      made.push_back(std::move(r));
    }
    for (int64_t i = 0; i < outputs_count; i++) results[i] = give(std::move(made[i]));
  });
}

int64_t dead_nodes(int64_t *nodes, int64_t capacity) {
  std::lock_guard<std::mutex> lock(dead_mutex);
  int64_t n = std::min<int64_t>(capacity, dead.size());
  std::copy(dead.end() - n, dead.end(), nodes);
  dead.resize(dead.size() - n);
  return n;
}

ct_code start_backward(const ct_tensor *outputs, int64_t count, const ct_tensor *gradients, const ct_tensor *inputs, int64_t inputs_count,
                       int32_t retain_graph, int32_t create_graph, int32_t allow_unused, void **out) {
  return guard([&] {
    TORCH_CHECK(!answering, "a backward pass cannot start inside the backward of a Function or inside a Checkpoint that is computed again");
    auto session = std::make_shared<Session>();
    auto roots = list_with_undefined(outputs, count), leaves = list_with_undefined(inputs, inputs_count);
    auto root_gradients = gradients ? list_with_undefined(gradients, count) : variable_list{};
    auto *generators = swap_generators(nullptr);
    swap_generators(generators);
    Worker::run([=, state = at::ThreadLocalState(), sequence = at::sequence_number::peek()]() mutable {
      swap_generators(generators);
      {
        know_threads();
        at::ThreadLocalStateGuard same(state);
        count_on(sequence);
        c10::DebugInfoGuard carried(Session::kind, session);
        try {
          if (leaves.empty())
            torch::autograd::backward(roots, root_gradients, retain_graph != 0, create_graph != 0);
          else
            session->results =
                torch::autograd::grad(roots, leaves, root_gradients, retain_graph != 0, create_graph != 0, allow_unused != 0);
        } catch (...) {
          session->error = std::current_exception();
        }
        roots.clear(); // the graph dies here, before Go is told that the pass is over
        root_gradients.clear();
        leaves.clear();
      }
      swap_generators(nullptr);
      std::lock_guard<std::mutex> lock(session->mutex);
      session->sequence = at::sequence_number::peek();
      session->over = true;
      session->changed.notify_all();
    });
    *out = new std::shared_ptr<Session>(std::move(session));
  });
}

static Session &session_of(void *session) { return **static_cast<std::shared_ptr<Session> *>(session); }

ct_code next_request(void *p, ct_request *out) {
  return guard([&] {
    auto &session = session_of(p);
    std::unique_lock<std::mutex> lock(session.mutex);
    session.changed.wait(lock, [&] { return session.over || !session.questions.empty(); });
    *out = ct_request{};
    if (session.questions.empty()) {
      count_on(session.sequence);
      return;
    }
    Question &q = *session.questions.front();
    session.questions.pop_front();
    count_on(q.sequence);
    session.asked = &q; // from here on even a failure is answered
    give_list(variable_list(q.inputs), &out->inputs);
    give_list(variable_list(q.outputs), &out->outputs);
    give_list(variable_list(q.gradients), &out->gradients);
    out->node = q.node;
    out->grad_mode = q.grad_mode;
    answering = true;
  });
}

void answer(void *p, const ct_tensor *tensors, int64_t count, const char *failure, int64_t failure_length) {
  auto &session = session_of(p);
  std::lock_guard<std::mutex> lock(session.mutex);
  session.asked->answer = list_with_undefined(tensors, count);
  session.asked->failure = std::string(failure, failure_length);
  session.asked->sequence = at::sequence_number::peek();
  session.asked->answered = true;
  session.asked = nullptr;
  answering = false;
  session.changed.notify_all();
}

ct_code finish_backward(void *p, ct_tensor *out) {
  std::unique_ptr<std::shared_ptr<Session>> owner(static_cast<std::shared_ptr<Session> *>(p));
  return guard([&] {
    auto &session = **owner;
    std::lock_guard<std::mutex> lock(session.mutex);
    if (session.error) std::rethrow_exception(session.error);
    for (size_t i = 0; i < session.results.size(); i++) out[i] = give(std::move(session.results[i]));
  });
}

} // namespace ct
