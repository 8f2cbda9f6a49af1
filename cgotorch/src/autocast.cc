// Autocast of the calling thread, entered and left as torch.autocast does.
#include "guard.h"

#include <ATen/autocast_mode.h>

namespace ct {

// saved packs what leave_autocast restores: enabled | cache << 1 | dtype << 8.
ct_code enter_autocast(int32_t device_type, int32_t enabled, int32_t dtype, int32_t cache, int64_t *saved) {
  return guard([&] {
    auto device = static_cast<at::DeviceType>(device_type);
    *saved = static_cast<int64_t>(at::autocast::is_autocast_enabled(device)) |
             static_cast<int64_t>(at::autocast::is_autocast_cache_enabled()) << 1 |
             static_cast<int64_t>(at::autocast::get_autocast_dtype(device)) << 8;
    at::autocast::set_autocast_enabled(device, enabled != 0);
    at::autocast::set_autocast_dtype(device, static_cast<at::ScalarType>(dtype));
    at::autocast::set_autocast_cache_enabled(cache != 0);
    at::autocast::increment_nesting();
  });
}

ct_code leave_autocast(int32_t device_type, int64_t saved) {
  return guard([&] {
    auto device = static_cast<at::DeviceType>(device_type);
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device, saved & 1);
    at::autocast::set_autocast_dtype(device, static_cast<at::ScalarType>(saved >> 8));
    at::autocast::set_autocast_cache_enabled(saved & 2);
  });
}

} // namespace ct
