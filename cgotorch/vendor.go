package cgotorch

/*
#include <stdint.h>

static inline int32_t ct_is_amd(void) {
#if defined(__x86_64__)
  __builtin_cpu_init();
  return __builtin_cpu_is("amd") != 0;
#else
  return 0;
#endif
}
*/
import "C"

// IsAMD reports whether the CPU is made by AMD. It does not load libtorch.
func IsAMD() bool { return C.ct_is_amd() != 0 }
