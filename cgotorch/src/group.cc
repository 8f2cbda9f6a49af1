// Process groups of c10d (gloo), and the reducer of DistributedDataParallel. Collectives need nothing of their own here: the
// operators of _c10d_functional take a group by its name.
#define USE_C10D_GLOO
#include "fakegroup.h"
#include "gloo/gloo.h"
#include "guard.h"

#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/HashStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupWrapper.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/csrc/distributed/c10d/comm.hpp>
#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <ATen/Context.h>
#include <c10/core/GradMode.h>
#include <c10/util/env.h>

#include <torch/library.h>

#include <csignal>
#include <limits>
#include <mutex>
#include <set>

namespace ct {

using c10::intrusive_ptr;
using std::chrono::milliseconds;

namespace {

// A work that can be ended from outside. gloo's own cannot: where another process hangs, they end by their timeout.
class Pending : public c10d::Work {
public:
  using Ended = std::function<void(Pending *)>;

  Pending(int rank, c10d::OpType type, intrusive_ptr<c10d::Work> inner, std::function<void()> after, Ended ended)
      : Work(rank, type), inner_(std::move(inner)), after_(std::move(after)), ended_(std::move(ended)),
        future_(c10::make_intrusive<c10::ivalue::Future>(inner_->getFuture()->elementType(), inner_->getFuture()->devices())) {}

  void watch() {
    inner_->getFuture()->addCallback([self = intrusive_ptr<Pending>::reclaim_copy(this)](
                                         c10::ivalue::Future &f) { self->end(f.hasError() ? f.exception_ptr() : nullptr, &f); },
                                     false);
  }
  void end(std::exception_ptr error, c10::ivalue::Future *result = nullptr) {
    if (over_.test_and_set()) return;
    try {
      if (!error && after_) after_();
    } catch (...) {
      error = std::current_exception();
    }
    ended_(this); // before those who wait hear of it: they may close the group, which then has nothing under way
    if (error)
      future_->setError(error);
    else
      future_->markCompleted(result->value(), result->storages());
    finish(error);
  }
  // Waits until it is over, with or without success, or for so long.
  bool over_within(std::chrono::microseconds limit) {
    std::unique_lock lock(mutex_);
    return cv_.wait_for(lock, limit, [this] { return completed_; });
  }
  void synchronize() override { inner_->synchronize(); }
  intrusive_ptr<c10::ivalue::Future> getFuture() override { return future_; }

private:
  intrusive_ptr<c10d::Work> inner_;
  std::function<void()> after_; // of a work that succeeds, before those who wait hear of it
  Ended ended_;
  intrusive_ptr<c10::ivalue::Future> future_;
  std::atomic_flag over_;
};

// gloo whose messages of a collective have a tag that says what it is. gloo pairs messages by their tags, which c10d counts from 0, and
// believes the sender how long they are: of a sum of 3 numbers here and of 4 there the first would return as if nothing had happened, or
// a process would be ended by std::terminate, in the thread that reads. Processes whose calls differ have different tags instead, so
// neither takes a byte of the other: both wait until they are aborted. By that a collective may be started before it is known that all
// make the same.
class Gloo : public c10d::ProcessGroupGloo {
public:
  using ProcessGroupGloo::ProcessGroupGloo;

  // Starts a collective by f. 24 bits of its tag are of the signature, and differ but once in 16 million; then gloo does what it does
  // without. The others count collectives: gloo sends what is expected only, so that no more than its threads are under way.
  template <class F> c10::intrusive_ptr<c10d::Work> start(uint32_t signature, F &&f) {
    constexpr int bits = 24;
    std::lock_guard lock(starting_);
    collectiveCounter_ = started_ << bits | ((signature ^ signature >> bits) & ((1U << bits) - 1));
    auto work = f();
    started_++; // what is refused here was never begun
    return work;
  }

private:
  std::mutex starting_;
  uint32_t started_ = 0;
};

// What gloo needs to be the same on all processes of a collective.
class Signature {
public:
  explicit Signature(c10d::OpType type) { add(static_cast<uint64_t>(type)); }

  Signature &add(uint64_t n) { // FNV-1a, a byte at a time
    for (int i = 0; i < 64; i += 8) hash_ = (hash_ ^ (n >> i & 0xff)) * 16777619U;
    return *this;
  }
  Signature &add(const at::Tensor &t) { return add(static_cast<uint64_t>(t.scalar_type())).add(static_cast<uint64_t>(t.numel())); }
  Signature &add(const Tensors &ts) {
    for (auto &t : ts) add(t);
    return *this;
  }
  Signature &add(const c10d::ReduceOp &op) { return add(static_cast<uint64_t>(op.op_)); }
  uint32_t hash() const { return hash_; }

private:
  uint32_t hash_ = 2166136261U;
};

// gloo whose works end when the group is aborted, with the reason that was given.
class Abortable : public c10d::Backend {
public:
  explicit Abortable(intrusive_ptr<c10d::Backend> inner)
      : Backend(inner->getRank(), inner->getSize()), gloo_(dynamic_cast<Gloo *>(inner.get())), inner_(std::move(inner)) {}

  const std::string getBackendName() const override { return inner_->getBackendName(); }
  intrusive_ptr<Options> getBackendOptions() override { return inner_->getBackendOptions(); }

#define FORWARD(TYPE, NAME, DECLARATION, SIGNED, ...)                                                                                      \
  intrusive_ptr<c10d::Work> NAME DECLARATION override {                                                                                    \
    return start(c10d::OpType::TYPE, Signature(c10d::OpType::TYPE) SIGNED, [&] { return inner_->NAME(__VA_ARGS__); });                     \
  }
  FORWARD(BROADCAST, broadcast, (Tensors & t, const c10d::BroadcastOptions &o), .add(t).add(static_cast<uint64_t>(o.rootRank)), t, o)
  intrusive_ptr<c10d::Work> allreduce(Tensors &t, const c10d::AllreduceOptions &o) override { return allreduce(t, o, 0); }
  FORWARD(ALLREDUCE_COALESCED, allreduce_coalesced, (Tensors & t, const c10d::AllreduceCoalescedOptions &o), .add(t).add(o.reduceOp), t, o)
  FORWARD(ALLGATHER, allgather, (std::vector<Tensors> & to, Tensors &from, const c10d::AllgatherOptions &o), .add(from), to, from, o)
  FORWARD(_ALLGATHER_BASE, _allgather_base, (at::Tensor & to, at::Tensor &from, const c10d::AllgatherOptions &o), .add(from), to, from, o)
  FORWARD(ALLTOALL_BASE, alltoall_base, // whose parts may differ in length
          (at::Tensor &to, at::Tensor &from, std::vector<int64_t> &outputs, std::vector<int64_t> &inputs, const c10d::AllToAllOptions &o),
          .add(static_cast<uint64_t>(from.scalar_type())), to, from, outputs, inputs, o)
#undef FORWARD

  // label is of what else the processes must have in common.
  intrusive_ptr<Pending> allreduce(Tensors &t, const c10d::AllreduceOptions &o, uint32_t label) {
    return start(c10d::OpType::ALLREDUCE, Signature(c10d::OpType::ALLREDUCE).add(t).add(o.reduceOp).add(uint64_t{label}),
                 [&] { return inner_->allreduce(t, o); });
  }

  // What checks collectives knows no list of them, and gathers are made of one tensor each.
  intrusive_ptr<c10d::Work> allgather_into_tensor_coalesced(Tensors &to, Tensors &from, const c10d::AllgatherOptions &o) override {
    if (to.size() == 1) return _allgather_base(to[0], from[0], o);
    return start(c10d::OpType::COALESCED, Signature(c10d::OpType::COALESCED).add(from),
                 [&] { return inner_->allgather_into_tensor_coalesced(to, from, o); });
  }

  // As gloo does it, by a sum of everything, of which each process keeps its part; but gloo's work for it has no future.
  intrusive_ptr<c10d::Work> reduce_scatter_tensor_coalesced(Tensors &to, Tensors &from, const c10d::ReduceScatterOptions &o) override {
    Tensors sums;
    for (auto &t : from) sums.push_back(t.clone(at::MemoryFormat::Contiguous));
    c10d::AllreduceCoalescedOptions all;
    all.reduceOp = o.reduceOp;
    all.timeout = o.timeout;
    return start(
        c10d::OpType::COALESCED, Signature(c10d::OpType::_REDUCE_SCATTER_BASE).add(sums).add(o.reduceOp),
        [&] { return inner_->allreduce_coalesced(sums, all); },
        [sums, to, rank = getRank(), size = getSize()] {
          for (size_t i = 0; i < to.size(); i++) to[i].copy_(sums[i].view({size, -1})[rank].view_as(to[i]));
        });
  }
  intrusive_ptr<c10d::Work> _reduce_scatter_base(at::Tensor &to, at::Tensor &from, const c10d::ReduceScatterOptions &o) override {
    Tensors tos{to}, froms{from};
    return reduce_scatter_tensor_coalesced(tos, froms, o);
  }

  // Sends t to a process, or receives it, and returns when that is done. Such a work of gloo's can be ended by itself.
  void exchange(at::Tensor t, int peer, bool sends) {
    Tensors list{std::move(t)};
    intrusive_ptr<c10d::Work> work;
    {
      std::lock_guard lock(mutex_);
      if (!reason_.empty()) std::rethrow_exception(failure());
      work = sends ? inner_->send(list, peer, 0) : inner_->recv(list, peer, 0);
      between_.insert(work);
    }
    std::exception_ptr error;
    bool done = false;
    try {
      done = work->wait();
    } catch (...) {
      error = std::current_exception();
    }
    std::lock_guard lock(mutex_);
    between_.erase(work);
    if (done) return;
    if (!reason_.empty()) std::rethrow_exception(failure());
    if (error) std::rethrow_exception(error);
    throw std::runtime_error("the work was ended");
  }

  // Ends all works, and those to come.
  void abort(const std::string &reason) {
    std::set<intrusive_ptr<Pending>> pending;
    {
      std::lock_guard lock(mutex_);
      if (reason_.empty()) reason_ = reason;
      pending.swap(pending_);
      for (auto &work : between_) work->abort();
    }
    if (!pending.empty()) hold();
    for (auto &work : pending) work->end(failure());
  }

  // Whether a work was under way when all were ended: gloo may hold it, and its threads, until its timeout.
  bool held() const { return held_; }

private:
  // Keeps this and what it wraps for good. The destructor of gloo waits for its threads, and whoever is in a call may be the last to
  // let go of it.
  void hold() {
    if (!held_.exchange(true)) (void)intrusive_ptr<Abortable>::reclaim_copy(this).release();
  }

  std::exception_ptr failure() { return std::make_exception_ptr(std::runtime_error(reason_)); }

  template <class F>
  intrusive_ptr<Pending> start(c10d::OpType type, const Signature &signature, F &&f, std::function<void()> after = nullptr) {
    {
      std::lock_guard lock(mutex_);
      if (!reason_.empty()) std::rethrow_exception(failure());
    }
    auto inner = gloo_ ? gloo_->start(signature.hash(), f) : f(); // without the lock: what checks collectives waits for the others here
    auto work = c10::make_intrusive<Pending>(getRank(), type, std::move(inner), std::move(after), [this](Pending *ended) {
      std::lock_guard erase(mutex_);
      std::erase_if(pending_, [ended](auto &w) { return w.get() == ended; });
    });
    {
      std::lock_guard lock(mutex_);
      if (!reason_.empty()) {
        hold();
        std::rethrow_exception(failure());
      }
      pending_.insert(work);
    }
    work->watch();
    return work;
  }

  std::mutex mutex_;
  std::string reason_;
  std::set<intrusive_ptr<Pending>> pending_;
  std::set<intrusive_ptr<c10d::Work>> between_; // of two processes
  std::atomic_bool held_ = false;
  Gloo *gloo_;                         // null: the inner one checks collectives itself, or is fake
  intrusive_ptr<c10d::Backend> inner_; // the last: it is destroyed first, and with it the threads that end works
};

// Sends gradients in a smaller dtype: fp16_compress_hook and bf16_compress_hook of Python's DistributedDataParallel.
class Compressed : public c10d::CppCommHookInterface<intrusive_ptr<c10d::ProcessGroup>> {
public:
  Compressed(intrusive_ptr<c10d::ProcessGroup> group, at::ScalarType dtype) : CppCommHookInterface(std::move(group)), dtype_(dtype) {}

  intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket &bucket) override {
    Tensors sent{bucket.getBuffer().to(dtype_).div_(state_->getSize())};
    return state_->allreduce(sent)->getFuture()->then(
        [sent, whole = bucket.getBuffer()](c10::ivalue::Future &) {
          whole.copy_(sent[0]);
          return c10::IValue(whole);
        },
        c10::TensorType::get());
  }

private:
  at::ScalarType dtype_;
};

struct Group {
  std::string name;
  intrusive_ptr<Abortable> backend;
  intrusive_ptr<c10d::Backend> device; // of a GPU's tensors; null: none of its own
  std::atomic_bool shut = false;       // and it has been closed
  intrusive_ptr<c10d::ProcessGroup> group;
};

Group *group_of(void *group) { return static_cast<Group *>(group); }

// Without a logger a reducer fails when other parameters than in the pass before are unused.
struct Reduction {
  std::shared_ptr<c10d::Reducer> reducer;
  std::shared_ptr<c10d::Logger> logger;
  bool delayed; // of a static graph the first pass is reduced at its end
};

c10d::Reducer *reducer_of(void *reducer) { return static_cast<Reduction *>(reducer)->reducer.get(); }

// A constructor that another version of libtorch has changed stops the build here, with a line that says what it is about.
static_assert(
    std::is_constructible_v<c10d::Reducer, Tensors, std::vector<std::vector<size_t>>, intrusive_ptr<c10d::ProcessGroup>, std::vector<bool>,
                            int64_t, bool, bool, std::unordered_map<size_t, std::string>, int64_t, bool, bool, std::vector<int64_t>>,
    "c10d::Reducer is not that of libtorch 2.11");

} // namespace

// libtorch's flight recorder keeps the last collectives, for Python's tools to print. It reads and writes the list of groups
// before it takes its lock, so that two groups of one process, each used by a thread of its own, are a race that ends in SIGSEGV
// (FlightRecorderDetail.hpp, record). It stays off unless the environment asks for it. That is said while this library is loaded:
// later, other threads of libtorch may be reading the environment, which setenv moves.
[[maybe_unused]] static const bool no_flight_recorder = [] {
  if (!c10::utils::has_env("TORCH_NCCL_TRACE_BUFFER_SIZE")) c10::utils::set_env("TORCH_FR_BUFFER_SIZE", "0", false);
  return true;
}();

namespace {

intrusive_ptr<c10d::Store> store_of(const ct_group_options *o) {
  if (o->fake) return c10::make_intrusive<c10d::HashStore>();
  c10d::TCPStoreOptions s;
  s.port = static_cast<uint16_t>(o->port);
  s.isServer = o->listener >= 0;
  if (s.isServer) s.masterListenFd = o->listener;
  s.waitWorkers = false;
  s.timeout = milliseconds(o->join_ms);
  return c10::make_intrusive<c10d::PrefixStore>(o->name, c10::make_intrusive<c10d::TCPStore>(o->host, s));
}

intrusive_ptr<c10d::Backend> gloo_of(const ct_group_options *o, const intrusive_ptr<c10d::Store> &store, const char *prefix) {
  auto options = c10d::ProcessGroupGloo::Options::create(milliseconds(o->join_ms));
  options->devices.push_back(*o->interface ? c10d::ProcessGroupGloo::createDeviceForInterface(o->interface)
                                           : c10d::ProcessGroupGloo::createDeviceForHostname(o->address));
  auto gloo = c10::make_intrusive<Gloo>(c10::make_intrusive<c10d::PrefixStore>(prefix, store), o->rank, o->world, options);
  gloo->setTimeout(milliseconds(o->timeout_ms));
  return gloo;
}

intrusive_ptr<c10d::Backend> backend_of(const ct_group_options *o, const intrusive_ptr<c10d::Store> &store) {
  if (o->fake) return c10::make_intrusive<Fake>(o->rank, o->world);
  auto gloo = gloo_of(o, store, "gloo");
  if (!o->checked) return gloo;
  return c10::make_intrusive<c10d::ProcessGroupWrapper>(gloo, gloo_of(o, store, "checks"));
}

// Threads that are made meanwhile do not get SIGPIPE: gloo writes to connections that another process may have closed and expects an
// error, as Python's processes get, which ignore the signal. In a thread that is not Go's it would end the process.
class NoBrokenPipes {
public:
  NoBrokenPipes() {
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, &before_);
  }
  ~NoBrokenPipes() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  NoBrokenPipes(const NoBrokenPipes &) = delete;
  NoBrokenPipes &operator=(const NoBrokenPipes &) = delete;

private:
  sigset_t before_;
};

} // namespace

ct_code new_group(const ct_group_options *o, void **out) {
  ct_code failed = 0; // of the GPU's backend, with its reason
  auto code = guard([&] {
    NoBrokenPipes threads;
    auto store = store_of(o);
    auto g = std::make_unique<Group>();
    g->name = o->registered;
    g->backend = c10::make_intrusive<Abortable>(backend_of(o, store));
    g->group = c10::make_intrusive<c10d::ProcessGroup>(store, o->rank, o->world);
    g->group->setBackend(at::kCPU, c10d::ProcessGroup::GLOO, g->backend);
    g->group->setDefaultBackend(c10d::ProcessGroup::GLOO);
    if (o->new_backend) {
      intrusive_ptr<c10d::Store> own = c10::make_intrusive<c10d::PrefixStore>("device", store);
      void *made = nullptr;
      failed = o->new_backend(&own, o->rank, o->world, o->timeout_ms, o->device, &made);
      if (failed < 0) return;
      std::unique_ptr<intrusive_ptr<c10d::Backend>> device(static_cast<intrusive_ptr<c10d::Backend> *>(made));
      g->device = *device;
      g->group->setBackend(at::kCUDA, c10d::ProcessGroup::NCCL, g->device);
      g->device->setBoundDeviceId(c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(o->device))); // which setBackend takes away
      g->group->setDefaultBackend(c10d::ProcessGroup::NCCL);
    } else if (at::hasCUDA()) {
      g->group->setBackend(at::kCUDA, c10d::ProcessGroup::GLOO, g->backend);
    }
    g->group->setGroupName(g->name);
    c10d::register_process_group(g->name, g->group);
    *out = g.release();
  });
  return failed < 0 ? failed : code;
}

void abort_group(void *group, const char *reason, int64_t length) {
  auto *g = group_of(group);
  g->backend->abort({reason, static_cast<size_t>(length)});
  auto aborted = guard([&] {
    if (g->device && !g->shut) g->device->abort();
  });
  (void)aborted; // the reason is the caller's
}

ct_code shutdown_group(void *group) {
  return guard([&] {
    auto *g = group_of(group);
    if (g->device && !g->shut.exchange(true)) g->device->shutdown();
  });
}

void free_group(void *group) {
  auto *g = group_of(group);
  c10d::unregister_process_group(g->name);
  if (!g->backend->held()) delete g; // else its destructor would wait for gloo's threads
}

ct_code broadcast_coalesced(void *group, const ct_tensor *tensors, int64_t count, int32_t root) {
  return guard([&] {
    c10::AutoGradMode no_grad(false);
    Tensors list;
    for (auto &t : get_list(tensors, count)) list.push_back(t.detach());
    c10d::broadcast_coalesced(group_of(group)->group, list, 250 << 20, root); // DistributedDataParallel's broadcast_bucket_size
  });
}

ct_code start_all_reduce(void *group, ct_tensor t, int32_t op, uint32_t label, void **work) {
  return guard([&] {
    Tensors list{get(t).detach()};
    c10d::AllreduceOptions o;
    o.reduceOp = static_cast<c10d::ReduceOp::RedOpType>(op);
    *work = group_of(group)->backend->allreduce(list, o, label).release();
  });
}

ct_code wait_work(void *work, int64_t microseconds, int32_t *done) {
  return guard([&] {
    auto w = intrusive_ptr<Pending>::reclaim_copy(static_cast<Pending *>(work));
    *done = microseconds < 0 || w->over_within(std::chrono::microseconds(microseconds));
    if (*done) w->wait();
  });
}

void free_work(void *work) { intrusive_ptr<Pending>::reclaim(static_cast<Pending *>(work)); }

ct_code exchange(void *group, ct_tensor t, int32_t peer, int32_t sends) {
  return guard([&] { group_of(group)->backend->exchange(get(t).detach(), peer, sends != 0); });
}

ct_code new_reducer(void *group, const ct_tensor *params, int64_t count, const char *const *names, const int8_t *sparse,
                    const ct_reducer_options *o, void **out) {
  return guard([&] {
    auto list = get_vector(params, count);
    std::vector<bool> is_sparse(count, false);
    for (int64_t i = 0; sparse && i < count; i++) is_sparse[i] = sparse[i] != 0;
    // As Python does: one bucket until the first pass has shown in which order gradients come, unless it may not have all of them.
    std::vector<size_t> limits{std::numeric_limits<size_t>::max()};
    if (o->find_unused && !o->static_graph) limits = {static_cast<size_t>(o->first_bucket_bytes), static_cast<size_t>(o->bucket_bytes)};
    auto buckets = std::get<0>(c10d::compute_bucket_assignment_by_size(list, limits, is_sparse));
    std::reverse(buckets.begin(), buckets.end());
    std::unordered_map<size_t, std::string> named;
    for (int64_t i = 0; i < count; i++) named[i] = names[i];
    auto reducer = std::make_shared<c10d::Reducer>(std::move(list), std::move(buckets), group_of(group)->group, std::move(is_sparse),
                                                   o->bucket_bytes, o->find_unused != 0, o->bucket_view != 0, std::move(named),
                                                   o->first_bucket_bytes, false, false, std::vector<int64_t>{});
    if (o->static_graph) reducer->set_static_graph();
    if (o->compressed >= 0)
      reducer->register_comm_hook(std::make_unique<Compressed>(group_of(group)->group, static_cast<at::ScalarType>(o->compressed)));
    auto logger = std::make_shared<c10d::Logger>(reducer);
    reducer->set_logger(logger);
    *out = new Reduction{std::move(reducer), std::move(logger), o->static_graph != 0};
  });
}

ct_code reducer_before_forward(void *reducer) {
  return guard([&] {
    auto *r = reducer_of(reducer);
    r->prepare_for_forward();
    r->rebuild_buckets();
  });
}

// Drops the warning of a search that has found nothing: to look is our default, not the user's choice.
struct NothingUnused : c10::WarningHandler {
  void process(const c10::Warning &w) override {
    if (w.msg().find("did not find any unused parameters") == std::string::npos) c10::WarningHandler::process(w);
  }
};

ct_code reducer_before_backward(void *reducer, const ct_tensor *outputs, int64_t count) {
  return guard([&] {
    NothingUnused handler;
    c10::WarningUtils::WarningHandlerGuard warnings(&handler);
    reducer_of(reducer)->prepare_for_backward(get_vector(outputs, count));
  });
}

ct_code reducer_after_backward(void *reducer) {
  return guard([&] {
    if (std::exchange(static_cast<Reduction *>(reducer)->delayed, false)) reducer_of(reducer)->delay_all_reduce();
  });
}

void free_reducer(void *reducer) {
  auto freed = guard([&] { delete static_cast<Reduction *>(reducer); }); // the destructor may throw
  (void)freed;
}

namespace {

std::atomic<int64_t> pretended_device = -1, pretended_aborts, pretended_shutdowns;

// Stands in for NCCL in tests.
class PretendedNCCL : public Fake {
public:
  using Fake::Fake;
  void abort() override { pretended_aborts++; }
  void shutdown() override { pretended_shutdowns++; }
};

} // namespace

ct_code new_pretended_nccl(void *store, int32_t rank, int32_t world, int64_t timeout_ms, int32_t device, void **backend) {
  return guard([&] {
    auto &s = *static_cast<intrusive_ptr<c10d::Store> *>(store);
    TORCH_CHECK(timeout_ms > 0, "a GPU's collectives need a timeout");
    s->set(std::to_string(rank), std::string("is here")); // which NCCL's processes do, too
    pretended_device = device, pretended_aborts = 0, pretended_shutdowns = 0;
    *backend = new intrusive_ptr<c10d::Backend>(c10::make_intrusive<PretendedNCCL>(rank, world));
  });
}

void pretended_nccl(int64_t *device, int64_t *aborted, int64_t *shut_down) {
  *device = pretended_device, *aborted = pretended_aborts, *shut_down = pretended_shutdowns;
}

} // namespace ct

// What waits for a collective is the same tensor: gradients pass by it. Without this libtorch warns that they might not.
TORCH_LIBRARY_IMPL(_c10d_functional, Autograd, m) { m.impl("wait_tensor", torch::CppFunction::makeFallthrough()); }
