// Generators: the default one of each device, and one's own.
#include "guard.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>

#include <mutex>

namespace ct {

static at::Generator &of(ct_generator g) { return *static_cast<at::Generator *>(g); }

ct_code manual_seed(uint64_t seed) {
  return guard([&] { at::manual_seed(seed); });
}

ct_code new_generator(int32_t device, uint64_t seed, ct_generator *out) {
  return guard([&] {
    auto d = device_of(device);
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

} // namespace ct
