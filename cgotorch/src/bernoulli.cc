// Dropout masks: bernoulli_ on a CPU, the same zeros and ones as libtorch's and the same generator after it, in a seventh of the time.
//
// libtorch 2.11 takes two numbers from the Mersenne Twister for each element, one after the other: 6 to 7 ns, a tenth of an update
// of a small BERT. The twist and all that follows are the same few instructions for every number, so here eight are made at a time.
// The kernel takes the place of libtorch's in the stub that bernoulli_ calls: autograd, checks and generators stay libtorch's. It hands
// back what it is not made for, and everything where libtorch's draws another stream (Intel's MKL, in other builds).
#ifdef __x86_64__
#define HAVE_AVX2_CPU_DEFINITION // as libtorch is built: the stub has a kernel for each
#define HAVE_AVX512_CPU_DEFINITION
#endif
#include "guard.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/native/UnaryOps.h>
#include <ATen/ops/empty.h>

#include <cmath>
#include <mutex>
#ifdef __x86_64__
#include <immintrin.h>
#endif

namespace ct {

#ifdef __x86_64__
#define EIGHT __attribute__((target("avx2")))

constexpr int N = at::MERSENNE_STATE_N, M = at::MERSENNE_STATE_M;
constexpr uint64_t MANTISSA = (1ULL << 53) - 1; // of the 64 bits of two numbers those that make a double in [0, 1)

static uint32_t twist(uint32_t u, uint32_t v) { return (((u & at::UMASK) | (v & at::LMASK)) >> 1) ^ (v & 1 ? at::MATRIX_A : 0); }

static inline EIGHT __m256i load(const void *p) { return _mm256_loadu_si256(static_cast<const __m256i *>(p)); }
static inline EIGHT void store(void *p, __m256i x) { _mm256_storeu_si256(static_cast<__m256i *>(p), x); }
static inline EIGHT __m256i all(uint32_t x) { return _mm256_set1_epi32(static_cast<int>(x)); }

// The next values of p[0] to p[7]: those far away, twisted with p[0] to p[8].
static inline EIGHT void twist_eight(uint32_t *p, const uint32_t *far) {
  __m256i v = load(p + 1);
  __m256i mixed = _mm256_or_si256(_mm256_and_si256(load(p), all(at::UMASK)), _mm256_and_si256(v, all(at::LMASK)));
  __m256i odd = _mm256_and_si256(_mm256_sub_epi32(all(0), _mm256_and_si256(v, all(1))), all(at::MATRIX_A));
  store(p, _mm256_xor_si256(load(far), _mm256_xor_si256(_mm256_srli_epi32(mixed, 1), odd)));
}

// The next state. Each value needs its neighbour's old one, and the value M places on: an old one, or N - M places back a new one.
static EIGHT void next_state(uint32_t *s) {
  int i = 0;
  for (; i + 8 <= N - M; i += 8) twist_eight(s + i, s + i + M);
  for (; i < N - M; i++) s[i] = s[i + M] ^ twist(s[i], s[i + 1]);
  for (; i + 8 <= N - 1; i += 8) twist_eight(s + i, s + i + M - N);
  for (; i < N - 1; i++) s[i] = s[i + M - N] ^ twist(s[i], s[i + 1]);
  s[N - 1] = s[M - 1] ^ twist(s[N - 1], s[0]);
}

// Numbers from values of the state. Up to 7 more than count are read and written.
static EIGHT void temper(uint32_t *numbers, const uint32_t *s, int count) {
  for (int i = 0; i < count; i += 8) {
    __m256i y = load(s + i);
    y = _mm256_xor_si256(y, _mm256_srli_epi32(y, 11));
    y = _mm256_xor_si256(y, _mm256_and_si256(_mm256_slli_epi32(y, 7), all(0x9d2c5680)));
    y = _mm256_xor_si256(y, _mm256_and_si256(_mm256_slli_epi32(y, 15), all(0xefc60000)));
    store(numbers + i, _mm256_xor_si256(y, _mm256_srli_epi32(y, 18)));
  }
}

// Of four doubles, each in two numbers, which are below the threshold: all bits of a lane.
static inline EIGHT __m256i below(const uint32_t *numbers, __m256i threshold) {
  __m256i x = _mm256_shuffle_epi32(load(numbers), _MM_SHUFFLE(2, 3, 0, 1)); // the first number is the high half
  return _mm256_cmpgt_epi64(threshold, _mm256_and_si256(x, _mm256_set1_epi64x(MANTISSA)));
}

// count elements from twice as many numbers.
template <class T> static EIGHT void compare(T *out, const uint32_t *numbers, int64_t count, uint64_t threshold) {
  const __m256i t = _mm256_set1_epi64x(static_cast<int64_t>(threshold));
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    __m256i a = below(numbers + 2 * i, t), b = below(numbers + 2 * i + 8, t);
    if constexpr (std::is_same_v<T, float>) {
      __m256 halves = _mm256_shuffle_ps(_mm256_castsi256_ps(a), _mm256_castsi256_ps(b), _MM_SHUFFLE(2, 0, 2, 0));
      __m256i inOrder = _mm256_permute4x64_epi64(_mm256_castps_si256(halves), _MM_SHUFFLE(3, 1, 2, 0));
      store(out + i, _mm256_and_si256(inOrder, _mm256_castps_si256(_mm256_set1_ps(1))));
    } else {
      int bits = _mm256_movemask_pd(_mm256_castsi256_pd(a)) | _mm256_movemask_pd(_mm256_castsi256_pd(b)) << 4;
      for (int k = 0; k < 8; k++) out[i + k] = static_cast<T>(static_cast<float>(bits >> k & 1));
    }
  }
  for (; i < count; i++) {
    uint64_t x = (static_cast<uint64_t>(numbers[2 * i]) << 32 | numbers[2 * i + 1]) & MANTISSA;
    out[i] = static_cast<T>(x < threshold ? 1.F : 0.F);
  }
}

// Draws count elements and leaves the engine as libtorch's loop does: left is 1 where the state is used up, else N + 1 - next.
template <class T> static void draw(T *out, int64_t count, double p, at::mt19937_data_pod &engine) {
  const auto threshold = static_cast<uint64_t>(std::ceil(std::ldexp(p, 53))); // x * 2^-53 < p, in integers
  uint32_t values[N + 8], numbers[1 + N + 8];
  std::copy(engine.state_.begin(), engine.state_.end(), values);
  std::fill(values + N, values + N + 8, 0);
  int next = static_cast<int>(engine.next_), over = 0; // over: a number is left, since a state began with the second of two
  if (engine.left_ == 1) next = N;
  while (count > 0) {
    if (next == N) {
      next_state(values);
      next = 0;
    }
    int take = static_cast<int>(std::min<int64_t>(N - next, 2 * count - over));
    temper(numbers + over, values + next, take);
    next += take;
    take += over;
    compare(out, numbers, take / 2, threshold);
    out += take / 2, count -= take / 2, over = take % 2;
    numbers[0] = numbers[take - 1];
  }
  std::copy(values, values + N, engine.state_.begin());
  engine.next_ = static_cast<uint32_t>(next);
  engine.left_ = N + 1 - next;
}

using Stub = at::native::bernoulli_scalar_stub_DECLARE_DISPATCH_type;
static std::atomic<int64_t> calls; // that drew here

constexpr int64_t FEWEST = 64; // elements; the engine is copied out and in again, which is slower for fewer

static bool can(const at::TensorBase &self, double p) {
  auto type = self.scalar_type();
  return self.numel() >= FEWEST && p >= 0 && p <= 1 && self.is_non_overlapping_and_dense() &&
         (type == at::kFloat || type == at::kDouble || type == at::kBFloat16 || type == at::kHalf || type == at::kBool);
}

// The kernel in place of libtorch's, which is *former.
template <Stub::FnPtr *former> static void kernel(const at::TensorBase &self, double p, std::optional<at::Generator> generator) {
  static const bool serial = [] { // whether libtorch's takes two numbers for each element
    auto g = at::detail::createCPUGenerator(0);
    (*former)(at::detail::empty_cpu({3}, at::kFloat), 0.5, g);
    return at::check_generator<at::CPUGeneratorImpl>(g)->engine().data().next_ == 6;
  }();
  if (!serial || !can(self, p)) return (*former)(self, p, generator);
  auto *g = at::get_generator_or_default<at::CPUGeneratorImpl>(generator, at::detail::getDefaultCPUGenerator());
  {
    std::lock_guard<std::mutex> lock(g->mutex_);
    auto engine = g->engine();
    auto data = engine.data();
    if (data.left_ == 1 || data.left_ + static_cast<int>(data.next_) == N + 1) { // set_state takes any two numbers
      switch (self.scalar_type()) {
      case at::kFloat: draw(self.mutable_data_ptr<float>(), self.numel(), p, data); break;
      case at::kDouble: draw(self.mutable_data_ptr<double>(), self.numel(), p, data); break;
      case at::kBFloat16: draw(self.mutable_data_ptr<at::BFloat16>(), self.numel(), p, data); break;
      case at::kHalf: draw(self.mutable_data_ptr<at::Half>(), self.numel(), p, data); break;
      default: draw(self.mutable_data_ptr<bool>(), self.numel(), p, data);
      }
      engine.set_data(data);
      g->set_engine(engine);
      calls.fetch_add(1, std::memory_order_relaxed);
      return;
    }
  }
  (*former)(self, p, generator);
}

static Stub::FnPtr basic, avx2, avx512;

// Before the first draw, at which libtorch chooses one of the three for good.
void tune_bernoulli() {
  if (basic || !__builtin_cpu_supports("avx2")) return;
  basic = std::exchange(Stub::DEFAULT, kernel<&basic>);
  if ((avx2 = Stub::AVX2)) Stub::AVX2 = kernel<&avx2>;
  if ((avx512 = Stub::AVX512)) Stub::AVX512 = kernel<&avx512>;
}

// Whether a draw comes here.
int32_t vector_bernoulli() {
  static const bool drew = [] {
    try {
      auto before = calls.load();
      at::empty({FEWEST}, at::kFloat).bernoulli_(0.5, at::detail::createCPUGenerator(0));
      return calls.load() != before;
    } catch (...) {
      return false;
    }
  }();
  return drew;
}
#else
void tune_bernoulli() {}
int32_t vector_bernoulli() { return 0; }
#endif

} // namespace ct
