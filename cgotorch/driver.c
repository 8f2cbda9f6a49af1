#include "driver.h"

#include <dlfcn.h>
#include <string.h>

// The driver's functions have no header here: its interface has been stable since CUDA 4.
typedef int32_t (*init_function)(uint32_t);
typedef int32_t (*int_function)(int32_t *);
typedef int32_t (*get_function)(int32_t *, int32_t);
typedef int32_t (*name_function)(char *, int32_t, int32_t);
typedef int32_t (*memory_function)(size_t *, int32_t);
typedef int32_t (*attribute_function)(int32_t *, int32_t, int32_t);

enum { MULTIPROCESSORS = 16, MAJOR = 75, MINOR = 76 }; // CUdevice_attribute

int32_t ct_driver_version(const char *path, int32_t *version) {
  void *driver = dlopen(path, RTLD_NOW | RTLD_GLOBAL); // the CUDA runtime finds it by its name then, wherever it lies
  if (!driver) return CT_DRIVER_MISSING;
  int_function get = (int_function)dlsym(driver, "cuDriverGetVersion");
  return get ? get(version) : CT_DRIVER_STRANGE;
}

int32_t ct_driver_gpus(const char *path, int32_t *count) {
  void *driver = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  if (!driver) return CT_DRIVER_MISSING;
  init_function init = (init_function)dlsym(driver, "cuInit");
  int_function get = (int_function)dlsym(driver, "cuDeviceGetCount");
  if (!init || !get) return CT_DRIVER_STRANGE;
  int32_t code = init(0);
  return code ? code : get(count);
}

int32_t ct_driver_gpu(const char *path, int32_t index, ct_gpu *out) {
  int32_t count = 0, device = 0, code = ct_driver_gpus(path, &count);
  if (code) return code;
  void *driver = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
  get_function get = (get_function)dlsym(driver, "cuDeviceGet");
  name_function name = (name_function)dlsym(driver, "cuDeviceGetName");
  memory_function memory = (memory_function)dlsym(driver, "cuDeviceTotalMem_v2");
  attribute_function attribute = (attribute_function)dlsym(driver, "cuDeviceGetAttribute");
  if (!get || !name || !memory || !attribute) return CT_DRIVER_STRANGE;
  ct_gpu gpu;
  memset(&gpu, 0, sizeof gpu);
  size_t bytes = 0;
  if ((code = get(&device, index)) || (code = name(gpu.name, sizeof gpu.name - 1, device)) || (code = memory(&bytes, device)) ||
      (code = attribute(&gpu.major, MAJOR, device)) || (code = attribute(&gpu.minor, MINOR, device)) ||
      (code = attribute(&gpu.multiprocessors, MULTIPROCESSORS, device)))
    return code;
  gpu.memory = (int64_t)bytes;
  *out = gpu;
  return 0;
}
