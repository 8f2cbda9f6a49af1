// Default generators of a thread's own: libcgotorch_generators-<ABI>.so, a library of its own.
//
// An operator that is given no generator asks libtorch for the default one, which is the same for all threads. Many take none at all:
// dropout, attention. libtorch exports the functions that answer, and what is loaded globally before libtorch is found first: these two,
// which answer with the generator of the calling thread where it has one, and ask libtorch's where it has none.
#define _GNU_SOURCE
#include "generators.h"

#include <dlfcn.h>
#include <stdlib.h>

static __thread __attribute__((tls_model("initial-exec"))) const ct_own_generators *own;

const ct_own_generators *ct_generators_swap(const ct_own_generators *next) {
  const ct_own_generators *former = own;
  own = next;
  return former;
}

// libtorch's function. The library has been loaded, since it is what asks.
static void *of(const char *library, const char *name) {
  void *open = dlopen(library, RTLD_LAZY | RTLD_NOLOAD);
  void *function = open ? dlsym(open, name) : 0;
  if (!function) abort(); // it is this function that was asked for
  return function;
}

#define CPU "_ZN2at6detail22getDefaultCPUGeneratorEv"
typedef const void *cpu_generator(void);
const void *ct_cpu_generator(void) __asm__(CPU);
const void *ct_cpu_generator(void) {
  static cpu_generator *libtorchs;
  if (own && own->cpu) return own->cpu;
  cpu_generator *f = __atomic_load_n(&libtorchs, __ATOMIC_RELAXED);
  if (!f) __atomic_store_n(&libtorchs, f = of("libtorch_cpu.so", CPU), __ATOMIC_RELAXED);
  return f();
}

#define CUDA "_ZN2at4cuda6detail23getDefaultCUDAGeneratorEa"
typedef const void *cuda_generator(signed char device);
const void *ct_cuda_generator(signed char device) __asm__(CUDA);
const void *ct_cuda_generator(signed char device) {
  static cuda_generator *libtorchs;
  if (own && device >= 0 && device < CT_MOST_GPUS && own->cuda[device]) return own->cuda[device];
  cuda_generator *f = __atomic_load_n(&libtorchs, __ATOMIC_RELAXED);
  if (!f) __atomic_store_n(&libtorchs, f = of("libtorch_cuda.so", CUDA), __ATOMIC_RELAXED);
  const void *shared = f(device);
  if (own && device == -1) // the current device, which libtorch knows: its generators stay where they are
    for (int i = 0; i < CT_MOST_GPUS; i++)
      if (own->cuda[i] && f((signed char)i) == shared) return own->cuda[i];
  return shared;
}
