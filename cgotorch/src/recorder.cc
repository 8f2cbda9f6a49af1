// CUDA graphs without CUDA, for tests: what a CPU computes between begin and end is recorded, and replayed as a GPU would, call
// by call, into the same memory, with every number of the host as it was. So whoever captures too much or too little, or bakes a
// number in that changes, gets other bits here too; who reads a number back is refused. Like a capture, one leaves nothing behind
// until it is replayed.
// defines: recorder
#include "guard.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <torch/library.h>

#include <map>

namespace ct {

namespace {

// Below autograd and autocast: what reaches it is what a GPU would be given. Nothing of libtorch's uses it.
constexpr auto KEY = c10::DispatchKey::Fake;

struct Call {
  c10::OperatorHandle op;
  std::vector<c10::IValue> arguments, results;
};

struct Recording {
  std::vector<Call> calls;
  std::map<c10::StorageImpl *, std::pair<c10::Storage, std::vector<char>>> before; // of memory that was there, what it held
  std::map<c10::StorageImpl *, bool> made;                                         // by a call
  at::Tensor generator;

  static at::Generator &draws() { return const_cast<at::Generator &>(at::detail::getDefaultCPUGenerator()); }

  void begin() {
    generator = draws().get_state();
    c10::impl::tls_set_dispatch_key_included(KEY, true);
  }
  void end() {
    c10::impl::tls_set_dispatch_key_included(KEY, false);
    for (auto &[impl, kept] : before)
      if (impl->nbytes() == kept.second.size()) memcpy(impl->mutable_data(), kept.second.data(), kept.second.size());
    draws().set_state(generator);
    before.clear(), made.clear();
  }
  void reads(const at::Tensor &t) {
    if (!t.defined() || !t.has_storage() || made.count(t.storage().unsafeGetStorageImpl())) return;
    auto *impl = t.storage().unsafeGetStorageImpl();
    auto *bytes = static_cast<const char *>(impl->data());
    before.try_emplace(impl, t.storage(), std::vector<char>(bytes, bytes + impl->nbytes()));
  }
  void makes(const at::Tensor &t) {
    if (t.defined() && t.has_storage() && !before.count(t.storage().unsafeGetStorageImpl()))
      made[t.storage().unsafeGetStorageImpl()] = true;
  }
};

Recording *recording; // the one that has begun

template <class F> void each_tensor(const c10::IValue &v, F &&f) {
  if (v.isTensor()) f(v.toTensor());
  if (v.isTensorList())
    for (const at::Tensor &t : v.toTensorVector()) f(t);
  if (v.isOptionalTensorList())
    for (const auto &t : v.toOptionalTensorVector())
      if (t) f(*t);
}

void record(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *stack) {
  c10::impl::ExcludeDispatchKeyGuard inside(KEY);
  TORCH_CHECK_NOT_IMPLEMENTED(!op.hasTag(at::Tag::data_dependent_output) && !op.hasTag(at::Tag::dynamic_output_shape),
                              "operation not permitted when stream is capturing: ", op.schema().name(), " reads numbers back");
  const auto taken = torch::jit::last(*stack, op.schema().arguments().size()).vec();
  for (const auto &v : taken) each_tensor(v, [](const at::Tensor &t) { recording->reads(t); });
  op.callBoxed(stack);
  auto given = torch::jit::last(*stack, op.schema().returns().size()).vec();
  for (const auto &v : given) each_tensor(v, [](const at::Tensor &t) { recording->makes(t); });
  recording->calls.push_back({op, taken, std::move(given)});
}

void renew(const at::Tensor &old, const at::Tensor &now) {
  if (old.defined() && now.defined() && !(old.has_storage() && old.storage().is_alias_of(now.storage()))) old.copy_(now);
}

void play(const Call &call) {
  torch::jit::Stack stack(call.arguments);
  call.op.callBoxed(&stack);
  for (size_t i = 0; i < call.results.size(); i++) {
    if (call.op.schema().returns()[i].alias_info()) continue; // a view, or what was changed in place
    std::vector<at::Tensor> old, now;
    each_tensor(call.results[i], [&](const at::Tensor &t) { old.push_back(t); });
    each_tensor(stack[i], [&](const at::Tensor &t) { now.push_back(t); });
    for (size_t j = 0; j < old.size(); j++) renew(old[j], now[j]);
  }
}

Recording &recording_of(void *graph) { return *static_cast<Recording *>(graph); }

ct_code new_graph(int32_t, void **graph) {
  return guard([&] {
    static torch::Library fallback(torch::Library::IMPL, "_", KEY, __FILE__, __LINE__);
    static const bool once = (fallback.fallback(torch::CppFunction::makeFromBoxedFunction<&record>()), true);
    (void)once;
    *graph = new Recording;
  });
}
ct_code register_generator(void *, ct_generator) { return scope_slot; } // a CPU's needs no help
ct_code begin_capture(void *graph, const ct_pool *) {
  return guard([&] {
    TORCH_CHECK(!recording, "a graph is being captured already");
    TORCH_CHECK(recording_of(graph).calls.empty(), "this graph was captured; reset it first");
    recording_of(graph).begin();
    recording = &recording_of(graph);
  });
}
ct_code end_capture(void *graph, int32_t failed) {
  return guard([&] {
    TORCH_CHECK(recording == &recording_of(graph), "this graph is not being captured");
    recording = nullptr;
    recording_of(graph).end();
    if (failed) recording_of(graph).calls.clear();
  });
}
ct_code replay(void *graph) {
  return guard([&] {
    TORCH_CHECK(!recording_of(graph).calls.empty(), "there is nothing to replay: the graph was not captured");
    at::AutoDispatchBelowADInplaceOrView below;
    for (const auto &call : recording_of(graph).calls) play(call);
  });
}
ct_code pool(void *graph, ct_pool *out) {
  return guard([&] { *out = {reinterpret_cast<uint64_t>(graph), 0}; });
}
ct_code reset(void *graph) {
  return guard([&] { recording_of(graph).calls.clear(); });
}
void free_graph(void *graph) { delete static_cast<Recording *>(graph); }

int32_t sync_mode;
ct_code set_sync_debug_mode(int32_t mode) {
  sync_mode = mode;
  return scope_slot;
}
ct_code sync_debug_mode(int32_t *mode) {
  *mode = sync_mode;
  return scope_slot;
}

} // namespace

ct_code new_pretended_nccl(void *store, int32_t rank, int32_t world, int64_t timeout_ms, int32_t device, void **backend); // group.cc

// No ABI is told, since it is a part of the shim.
extern const ct_cuda recorder = {
    "",   sizeof(ct_cuda), new_graph,  register_generator,  begin_capture,   end_capture,        replay,
    pool, reset,           free_graph, set_sync_debug_mode, sync_debug_mode, new_pretended_nccl,
};

} // namespace ct
