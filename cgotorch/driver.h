// What the NVIDIA driver says of itself, asked before libtorch's CUDA libraries are loaded and without them.
#pragma once
#include <stdint.h>

typedef struct {
  char name[128];
  int32_t major, minor; // compute capability
  int32_t multiprocessors;
  int64_t memory; // bytes
} ct_gpu;

// Each returns 0, a CUresult, or one of these.
enum { CT_DRIVER_MISSING = -1, CT_DRIVER_STRANGE = -2 }; // it cannot be opened; it lacks a function of CUDA 4

int32_t ct_driver_version(const char *path, int32_t *version); // 13000: it serves CUDA 13.0; starts nothing
int32_t ct_driver_gpus(const char *path, int32_t *count);      // those that CUDA_VISIBLE_DEVICES leaves
int32_t ct_driver_gpu(const char *path, int32_t index, ct_gpu *out);
