// What libcgotorch_generators and libcgotorch share: the generators that a thread has in place of libtorch's default ones.
#pragma once

enum { CT_MOST_GPUS = 64 };

typedef struct {
  const void *cpu; // an at::Generator; NULL: libtorch's own
  const void *cuda[CT_MOST_GPUS];
} ct_own_generators;

// Sets those of the calling thread and returns the former ones; NULL: libtorch's own.
typedef const ct_own_generators *ct_swap_generators(const ct_own_generators *own);
