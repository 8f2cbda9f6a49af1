// Generators: the default one of each device, one's own, and those that a thread has in place of the default ones.
// defines: OwnGenerators, swap_generators, ...
#include "guard.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/ops/empty.h>

#include <dlfcn.h>

#include <mutex>

namespace ct {

static at::Generator &of(ct_generator g) { return *static_cast<at::Generator *>(g); }

ct_code manual_seed(uint64_t seed) {
  return guard([&] { at::manual_seed(seed); });
}

ct_code new_generator(int32_t device, uint64_t seed, ct_generator *out) {
  return guard([&] {
    auto d = device_of(device);
    if (!d.is_cpu()) at::globalContext().defaultGenerator(d); // refuses a GPU that is not there; the next call does not
    auto g = d.is_cpu() ? at::detail::createCPUGenerator()
                        : at::globalContext().getAcceleratorHooksInterface(d.type()).getNewGenerator(d.index());
    {
      std::lock_guard<std::mutex> lock(g.mutex());
      g.set_current_seed(seed);
    }
    *out = new at::Generator(std::move(g));
  });
}

ct_code default_generator(int32_t device, ct_generator *out) {
  return guard([&] { *out = new at::Generator(at::globalContext().defaultGenerator(device_of(device))); });
}

void free_generator(ct_generator g) { delete static_cast<at::Generator *>(g); }

ct_code generator_seed(ct_generator g, uint64_t seed) {
  return guard([&] {
    std::lock_guard<std::mutex> lock(of(g).mutex());
    of(g).set_current_seed(seed);
  });
}

ct_code generator_state(ct_generator g, ct_tensor *out) {
  return guard([&] {
    std::lock_guard<std::mutex> lock(of(g).mutex());
    *out = give(of(g).get_state());
  });
}

ct_code set_generator_state(ct_generator g, ct_tensor state) {
  return guard([&] {
    std::lock_guard<std::mutex> lock(of(g).mutex());
    of(g).set_state(get(state));
  });
}

// libcgotorch_generators' function; NULL where that library is not loaded.
static ct_swap_generators *swapper() {
  static auto *f = reinterpret_cast<ct_swap_generators *>(dlsym(RTLD_DEFAULT, "ct_generators_swap"));
  return f;
}

const ct_own_generators *swap_generators(const ct_own_generators *own) { return swapper() ? swapper()(own) : nullptr; }

// OwnGenerators are what enter_generators made, until leave_generators: a thread's generators over those it had before.
struct OwnGenerators {
  ct_own_generators table = {};
  std::vector<at::Generator> kept;
  const ct_own_generators *outer = nullptr;

  explicit OwnGenerators(at::ArrayRef<at::Generator> generators) : kept(generators.begin(), generators.end()) {
    outer = swap_generators(nullptr);
    if (outer) table = *outer;
    for (auto &g : kept) {
      if (g.device().is_cpu()) table.cpu = &g;
      if (g.device().is_cuda() && g.device().index() < CT_MOST_GPUS) table.cuda[g.device().index()] = &g;
    }
    swap_generators(&table);
  }
  OwnGenerators(const OwnGenerators &) = delete;
  OwnGenerators &operator=(const OwnGenerators &) = delete;
  ~OwnGenerators() { swap_generators(outer); }
};

// Whether libtorch's operators ask us: one draws, and one's own generator has moved.
int32_t has_own_generators() {
  static const bool asked = [] {
    if (!swapper()) return false;
    try {
      auto g = at::detail::createCPUGenerator(0);
      auto before = g.get_state();
      OwnGenerators own(g);
      at::empty({1}, at::kLong).random_();
      return !before.equal(g.get_state());
    } catch (...) {
      return false;
    }
  }();
  return asked;
}

ct_code enter_generators(const ct_generator *generators, int64_t count, void **entered) {
  return guard([&] {
    std::vector<at::Generator> list;
    for (int64_t i = 0; i < count; i++) list.push_back(of(generators[i]));
    *entered = new OwnGenerators(list);
  });
}

void leave_generators(void *entered) { delete static_cast<OwnGenerators *>(entered); }

} // namespace ct
