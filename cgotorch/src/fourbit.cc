// Weights of four bits as numbers, for package nn/quantized on a CPU: gotrainer::unpack_4bit. Each byte holds two numbers, the first in
// its high half: places in a table of 16, times the largest size of their block of 64.
//
// libtorch's operators need a gather, a product and a conversion for that, each through memory. Here a block's 16 products are made
// first, in the type of the result, and its numbers are looked up among them by byte shuffles: the same numbers.
#include "guard.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace ct {

constexpr int64_t BLOCK = 64;

template <class T> static void some(T *out, const T *numbers, const uint8_t *packed, int64_t n) {
  for (int64_t i = 0; i < n; i++) out[i] = numbers[i % 2 ? packed[i / 2] & 15 : packed[i / 2] >> 4];
}

#ifdef __x86_64__
#define TARGET_AVX2 __attribute__((target("avx2")))

// Sixteen numbers of two bytes or of four at places that are bytes, by a shuffle for each byte of them.
static inline TARGET_AVX2 void look_up(uint16_t *out, const __m128i *planes, __m128i places) {
  __m128i low = _mm_shuffle_epi8(planes[0], places), high = _mm_shuffle_epi8(planes[1], places);
  _mm_storeu_si128(reinterpret_cast<__m128i *>(out), _mm_unpacklo_epi8(low, high));
  _mm_storeu_si128(reinterpret_cast<__m128i *>(out + 8), _mm_unpackhi_epi8(low, high));
}

static inline TARGET_AVX2 void look_up(uint32_t *out, const __m128i *planes, __m128i places) {
  __m128i b[4];
  for (int k = 0; k < 4; k++) b[k] = _mm_shuffle_epi8(planes[k], places);
  __m128i low[2] = {_mm_unpacklo_epi8(b[0], b[1]), _mm_unpackhi_epi8(b[0], b[1])};
  __m128i high[2] = {_mm_unpacklo_epi8(b[2], b[3]), _mm_unpackhi_epi8(b[2], b[3])};
  for (int k = 0; k < 2; k++) {
    _mm_storeu_si128(reinterpret_cast<__m128i *>(out + 8 * k), _mm_unpacklo_epi16(low[k], high[k]));
    _mm_storeu_si128(reinterpret_cast<__m128i *>(out + 8 * k + 4), _mm_unpackhi_epi16(low[k], high[k]));
  }
}

template <class U> static TARGET_AVX2 void block(U *out, const U *numbers, const uint8_t *packed) {
  alignas(16) uint8_t bytes[sizeof(U)][16];
  for (int i = 0; i < 16; i++)
    for (size_t k = 0; k < sizeof(U); k++) bytes[k][i] = static_cast<uint8_t>(numbers[i] >> (8 * k));
  __m128i planes[sizeof(U)];
  for (size_t k = 0; k < sizeof(U); k++) planes[k] = _mm_load_si128(reinterpret_cast<const __m128i *>(bytes[k]));
  const __m128i half = _mm_set1_epi8(15);
  for (int64_t i = 0; i < BLOCK; i += 32) {
    __m128i b = _mm_loadu_si128(reinterpret_cast<const __m128i *>(packed + i / 2));
    __m128i first = _mm_and_si128(_mm_srli_epi16(b, 4), half), second = _mm_and_si128(b, half);
    look_up(out + i, planes, _mm_unpacklo_epi8(first, second));
    look_up(out + i + 16, planes, _mm_unpackhi_epi8(first, second));
  }
}
#endif

template <class T> static void all(T *out, const uint8_t *packed, const float *largest, const float *code, int64_t n) {
#ifdef __x86_64__
  static const bool vectors = __builtin_cpu_supports("avx2");
#endif
  at::parallel_for(0, (n + BLOCK - 1) / BLOCK, 512, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; b++) {
      T numbers[16];
      for (int k = 0; k < 16; k++) numbers[k] = static_cast<T>(code[k] * largest[b]);
      const int64_t from = b * BLOCK, left = std::min(BLOCK, n - from);
#ifdef __x86_64__
      if (vectors && left == BLOCK) {
        using U = std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>;
        U bits[16];
        std::memcpy(bits, numbers, sizeof(bits));
        block(reinterpret_cast<U *>(out + from), bits, packed + from / 2);
        continue;
      }
#endif
      some(out + from, numbers, packed + from / 2, left);
    }
  });
}

static at::Tensor unpack(const at::Tensor &packed, const at::Tensor &largest, const at::Tensor &code, int64_t rows, int64_t columns,
                         at::ScalarType dtype) {
  TORCH_CHECK(rows > 0 && columns > 0 && packed.scalar_type() == at::kByte && packed.numel() == (rows * columns + 1) / 2,
              "unpack_4bit: want ", rows, " times ", columns, " numbers, two in a byte");
  TORCH_CHECK(largest.scalar_type() == at::kFloat && largest.numel() == (rows * columns + BLOCK - 1) / BLOCK,
              "unpack_4bit: want a largest size for each ", BLOCK, " numbers");
  TORCH_CHECK(code.scalar_type() == at::kFloat && code.numel() == 16, "unpack_4bit: want 16 numbers that bits stand for");
  auto bytes = packed.contiguous(), sizes = largest.contiguous(), table = code.contiguous();
  auto out = at::empty({rows, columns}, at::TensorOptions().dtype(dtype));
  auto fill = [&]<class T>(T *at) {
    all(at, bytes.const_data_ptr<uint8_t>(), sizes.const_data_ptr<float>(), table.const_data_ptr<float>(), rows * columns);
  };
  switch (dtype) {
  case at::kFloat: fill(out.mutable_data_ptr<float>()); break;
  case at::kBFloat16: fill(out.mutable_data_ptr<at::BFloat16>()); break;
  case at::kHalf: fill(out.mutable_data_ptr<at::Half>()); break;
  default: TORCH_CHECK(false, "unpack_4bit: want float32, bfloat16 or float16");
  }
  return out;
}

TORCH_LIBRARY_FRAGMENT(gotrainer, m) {
  m.def("unpack_4bit(Tensor packed, Tensor largest, Tensor code, int rows, int columns, ScalarType dtype) -> Tensor");
}

TORCH_LIBRARY_IMPL(gotrainer, CPU, m) { m.impl("unpack_4bit", TORCH_FN(unpack)); }

} // namespace ct
