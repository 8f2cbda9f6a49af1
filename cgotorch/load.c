#include "load.h"

#include <dlfcn.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const ct_core *ct_shim;
const ct_ops *ct_operators;
const ct_cuda *ct_graphs;
static const ct_cuda *loaded_graphs;
static void *opened;

#if defined(__GLIBC__)
// Blocks of 64 MB or more have room only in glibc's main arena. A thread with an arena of its own would map such a
// block, and fault its pages in, at every step. This must run before there is a second thread.
static bool has(const char *variable, const char *part) {
  const char *value = getenv(variable);
  return value && *value && strstr(value, part);
}
__attribute__((constructor)) static void use_one_arena(void) {
  if (!has("MALLOC_ARENA_MAX", "") && !has("GLIBC_TUNABLES", "arena_max") && !has("GOTRAINER_MALLOC", "trim")) mallopt(M_ARENA_MAX, 1);
}
#endif

static char *message(const char *format, const char *a, const char *b) {
  size_t n = strlen(format) + strlen(a) + strlen(b) + 1;
  char *text = malloc(n);
  if (text) snprintf(text, n, format, a, b);
  return text;
}

char *ct_load(const char *path, const char *const *preload, int preload_count) {
  for (int i = 0; i < preload_count; i++)
    if (!dlopen(preload[i], RTLD_NOW | RTLD_GLOBAL)) return message("%s%s", dlerror(), "");
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) return message("%s%s", dlerror(), "");
  const ct_core *(*get)(void) = (const ct_core *(*)(void))dlsym(library, "ct_get");
  if (!get) return message("it is not a libcgotorch: %s%s", dlerror(), "");
  const ct_core *shim = get();
  if (strcmp(shim->abi, CT_ABI) != 0 || shim->size != (int64_t)sizeof(ct_core))
    return message("it was built from other sources (ABI %s, this program needs %s)", shim->abi, CT_ABI);
  ct_operators = shim->ops;
  ct_shim = shim;
  opened = library;
  return NULL;
}

char *ct_load_graphs(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) return message("%s%s", dlerror(), "");
  const ct_cuda *(*get)(const ct_core *) = (const ct_cuda *(*)(const ct_core *))dlsym(library, "ct_get_cuda");
  if (!get) return message("it is not a libcgotorch_cuda: %s%s", dlerror(), "");
  const ct_cuda *graphs = get(ct_shim);
  if (strcmp(graphs->abi, CT_ABI) != 0 || graphs->size != (int64_t)sizeof(ct_cuda))
    return message("it was built from other sources (ABI %s, this program needs %s)", graphs->abi, CT_ABI);
  ct_graphs = loaded_graphs = graphs;
  return NULL;
}

void ct_pretend_graphs(int32_t on) { ct_graphs = on ? ct_shim->recorder : loaded_graphs; }

void ct_free_graph(void *graph, int32_t recorded) { (recorded ? ct_shim->recorder : loaded_graphs)->free_graph(graph); }

void *ct_symbol(const char *name) { return opened ? dlsym(opened, name) : NULL; }
